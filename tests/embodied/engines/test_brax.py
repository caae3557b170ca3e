"""Brax's pipelines against MuJoCo on small models, and what the engine says of models that Brax cannot run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.engines import make_engine
from embodied.errors import EngineError
from embodied.task import Timing
from embodied.world import Control, Start, World
from tests.embodied.engines.toys import BALL

pytestmark = pytest.mark.timeout(280)

PENDULUM = """
<mujoco>
  <worldbody>
    <body name="rod" pos="0 0 2">
      <joint name="hinge" axis="0 1 0" damping=".1" armature=".05"/>
      <geom type="capsule" size=".05" fromto="0 0 0 0 0 -.5" mass="1" contype="0" conaffinity="0"/>
      <site name="tip" pos="0 0 -.5"/>
    </body>
  </worldbody>
  <actuator><position joint="hinge" kp="5" kv=".2"/></actuator>
  <sensor>
    <framepos name="tip" objtype="site" objname="tip"/>
    <jointpos name="angle" joint="hinge"/>
    <gyro name="gyro" site="tip"/>
    <jointactuatorfrc name="torque" joint="hinge"/>
  </sensor>
</mujoco>
"""
DROP = """
<mujoco>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body name="ball" pos="0 0 .15">
      <freejoint/>
      <geom size=".1" mass="2"/>
      <site name="skin" size=".11"/>
    </body>
  </worldbody>
  <sensor><touch name="touch" site="skin"/><framepos name="position" objtype="body" objname="ball"/></sensor>
</mujoco>
"""
PIPELINES = [pytest.param("positional", marks=pytest.mark.slow), "spring"]


class Scene:
    """A model as engines take it, without a task around it."""

    def __init__(self, xml: str, dt: float) -> None:
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.timing = Timing(dt, 1, 1.0)


def brax_world(scene: Any, pipeline: str, state: tuple[Any, Any], control: Control, steps: int) -> World:
    """The world after some physics steps of Brax."""
    engine: Any = make_engine("brax", scene, 1, pipeline=pipeline)
    qpos, qvel = (jnp.asarray(part, jnp.float32) for part in state)
    move = jax.jit(lambda physics: engine.step(physics, jax.tree.map(jnp.float32, control), steps))
    return engine.world(move(engine.start(Start(qpos, qvel, None, {}))))


def mujoco_world(scene: Any, state: tuple[Any, Any], control: Control, steps: int) -> World:
    """The same of C MuJoCo, without the axis of environments."""
    engine: Any = make_engine("mujoco", scene, 1)
    engine.reset(np.arange(1), Start(np.array([state[0]], float), np.array([state[1]], float), None, {}))
    engine.step(jax.tree.map(lambda leaf: np.asarray(leaf)[None], control), steps)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], engine.world())


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_spinning_pushed_ball_flies_as_in_mujoco(pipeline: str) -> None:
    scene, wrench = Scene(BALL, 0.002), np.zeros((2, 6))
    wrench[1] = [0.5, 0.3, 0.2, 0.05, 0.02, 0.03]
    quat = np.array([0.9, 0.1, 0.2, 0.3]) / np.linalg.norm([0.9, 0.1, 0.2, 0.3])
    state = [0, 0, 1, *quat], [1, 2, 3, 1, -2, 3]
    found = brax_world(scene, pipeline, state, Control(wrench=wrench), 24)
    expected = mujoco_world(scene, state, Control(wrench=wrench), 24)
    np.testing.assert_allclose(found.qpos, expected.qpos, atol=1e-4)
    np.testing.assert_allclose(found.qvel, expected.qvel, atol=2e-3)
    # `positional` takes velocities from positions: in single precision that is 0.03 m/s^2 of noise.
    np.testing.assert_allclose(found["accelerometer"], expected["accelerometer"], atol=0.06)
    np.testing.assert_allclose(found["rim_velocity"], expected["rim_velocity"], atol=5e-3)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_servo_moves_a_pendulum_as_in_mujoco(pipeline: str) -> None:
    """0.3 s at 1 ms: 0.02 rad, since joints give a little."""
    scene, state, control = Scene(PENDULUM, 0.001), ([0.5], [1.0]), Control(ctrl=np.array([-0.5]))
    found, expected = brax_world(scene, pipeline, state, control, 300), mujoco_world(scene, state, control, 300)
    assert abs(expected.qpos[0] - 0.5) > 0.3
    np.testing.assert_allclose(found.qpos, expected.qpos, atol=0.02)
    np.testing.assert_allclose(found["tip"], expected["tip"], atol=0.01)
    np.testing.assert_allclose(found["torque"], expected["torque"], atol=0.15)
    np.testing.assert_allclose(found["gyro"], expected["gyro"], atol=0.1)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_ball_comes_to_rest_on_the_floor(pipeline: str) -> None:
    found = brax_world(Scene(DROP, 0.002), pipeline, ([0, 0, 0.15, 1, 0, 0, 0], np.zeros(6)), Control(), 400)
    np.testing.assert_allclose(found["position"], [0, 0, 0.1], atol=5e-3)
    assert np.abs(found.qvel).max() < 0.1


@pytest.mark.parametrize(
    ("body", "extra", "message"),
    [
        ("<body name='b'><joint name='j' type='ball'/><geom size='.1'/></body>", "", "the ball joint 'j'"),
        ("<body name='b'><geom size='.1'/></body>", "", "the body 'b' has 0 joints"),
        ("<body><joint name='j' ref='20'/><geom size='.1'/></body>", "", "'j' has the reference"),
        ("<body name='b'><freejoint/><geom size='.1'/></body>", "<equality><weld body1='b'/></equality>", "equality"),
    ],
)
def test_what_brax_cannot_do_is_one_clear_line(body: str, extra: str, message: str) -> None:
    with pytest.raises(EngineError, match="engine brax") as caught:
        make_engine("brax", Scene(f"<mujoco><worldbody>{body}</worldbody>{extra}</mujoco>", 0.002), 1)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_pipeline_is_named() -> None:
    with pytest.raises(EngineError, match="no pipeline 'magic'; it has positional, spring"):
        make_engine("brax", Scene(BALL, 0.002), 1, pipeline="magic")
