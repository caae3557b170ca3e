"""Brax against MuJoCo on small models, and what the engine says of models that it cannot run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.hooks import Timing
from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from embodied.errors import EngineError
from embodied.registry import join_content
from tests.kit.toy_tasks import BALL

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
FLOATER = """
<mujoco>
  <option integrator="Euler" gravity="0 0 {gravity}"/>
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <freejoint/>
      <geom type="box" size=".1 .06 .04" mass="2" contype="0" conaffinity="0"/>
      <body name="head" pos="-.1 0 .05" quat=".9 0 .4 .1">
        <geom type="box" size=".03 .02 .05" pos=".01 0 0" mass=".3" contype="0" conaffinity="0"/>
        <body name="tail" pos="-.05 0 0">
          <joint name="wag" type="ball" pos="0 .01 0"/>
          <geom type="capsule" size=".01" fromto="0 0 0 -.2 0 0" mass=".1" contype="0" conaffinity="0"/>
        </body>
      </body>
      <body name="arm" pos=".1 0 0" quat=".9 .1 .3 .2">
        <joint name="shoulder" axis="0 1 0" pos="0 .01 0" armature=".05"/>
        <joint name="twist" axis="1 0 1" pos="0 .02 0" armature=".01"/>
        <joint name="stretch" type="slide" axis="1 1 0" stiffness="50" damping="2"/>
        <geom type="capsule" size=".02" fromto="0 0 0 .2 0 0" mass=".4" contype="0" conaffinity="0"/>
        <body name="rod" pos=".2 0 0">
          <joint name="elbow" axis="0 .6 .8" ref=".3"/>
          <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass=".2" contype="0" conaffinity="0"/>
          <body name="tip" pos="0 0 -.2">
            <joint name="reach" type="slide" axis="0 0 1" ref=".1" stiffness="20" armature=".1"/>
            <geom size=".03" mass=".1" contype="0" conaffinity="0"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator>
</mujoco>
"""
FLOATING = (
    [0, 0, 1, 1, 0, 0, 0, 0.8, 0.1, 0.5, -0.3, 0.2, -0.3, 0.01, 0.5, 0.08],
    [1, 0.5, 2, 0.5, -0.4, 0.8, 2.0, -3.0, 1.0, 1.0, -2.0, 0.1, 1.5, 0.3],
)
GRIPPER = """
<mujoco>
  <option integrator="implicitfast"/>
  <worldbody>
    <body name="hand" pos="0 0 .5" quat=".8 .6 0 0" gravcomp="1">
      <joint name="wrist" axis="0 1 0" damping=".1"/>
      <geom type="box" size=".05 .02 .02" mass=".5" contype="0" conaffinity="0"/>
      <body name="left" pos="0 0 .05">
        <joint name="left" type="slide" axis="0 1 0" range="0 .04" damping="5"/>
        <geom type="box" size=".01 .01 .03" mass=".05" contype="0" conaffinity="0"/>
      </body>
      <body name="right" pos="0 0 .05">
        <joint name="right" type="slide" axis="0 -1 0" range="0 .04" damping="5"/>
        <geom type="box" size=".01 .01 .03" mass=".1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="split"><joint joint="left" coef=".5"/><joint joint="right" coef=".5"/></fixed></tendon>
  <equality><joint joint1="left" joint2="right"/></equality>
  <actuator><position name="grip" tendon="split" kp="200" kv="5"/></actuator>
</mujoco>
"""
BRAKED = """
<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body name="wheel">
      <joint name="brake" axis="0 0 1" frictionloss=".05" range="-400 400"/>
      <inertial pos="0 0 0" mass="1" diaginertia=".01 .01 .02"/>
    </body>
    <body name="gate" pos="0 0 1">
      <joint name="stop" axis="0 0 1" range="-30 30"/>
      <inertial pos=".2 0 0" mass=".5" diaginertia=".005 .005 .005"/>
    </body>
  </worldbody>
  <actuator><motor joint="stop"/></actuator>
</mujoco>
"""
SLED = """
<mujoco>
  <worldbody>
    <geom type="plane" size="0 0 1" friction=".5"/>
    <body name="sled" pos="0 0 .05">
      <freejoint/>
      <geom type="box" size=".2 .1 .05" mass="3" friction=".5"/>
      <site name="skin" type="sphere" size=".3"/>
    </body>
  </worldbody>
  <sensor><touch name="touch" site="skin"/></sensor>
</mujoco>
"""
RAMP = """
<mujoco>
  <option gravity="{along} 0 {down}"/>
  <worldbody>
    <geom type="plane" size="0 0 1" friction=".5"/>
    <body name="crate" pos="0 0 .05"><freejoint/><geom type="box" size=".2 .1 .05" mass="3" friction=".5"/></body>
  </worldbody>
</mujoco>
"""


def held(**parts: Any) -> Control:
    """A control of numpy arrays."""
    return Control(**parts)


class Scene:
    """A model as engines take it, without a task around it."""

    def __init__(self, xml: str, dt: float) -> None:
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.timing = Timing(dt, 1, 1.0)


def scene(xml: str, dt: float) -> Any:
    """A `Scene` in place of a task."""
    return Scene(xml, dt)


class Body(Scene):
    """A registered task's model, at its physics step."""

    def __init__(self, name: str) -> None:
        task = join_content()[name].load()()
        self.model, self.timing = task.model, task.timing


def brax_world(scene: Any, state: tuple[Any, Any], control: Control, steps: int) -> World:
    """The world after some physics steps of Brax."""
    engine: Any = make_engine("brax", scene, 1)
    qpos, qvel = (jnp.asarray(part, jnp.float32) for part in state)
    move = jax.jit(lambda physics: engine.step(physics, jax.tree.map(jnp.float32, control), steps))
    return engine.world(move(engine.start(ResetState(qpos, qvel, None, {}))))


def mujoco_world(scene: Any, state: tuple[Any, Any], control: Control, steps: int) -> World:
    """The same of C MuJoCo, without the axis of environments."""
    engine: Any = make_engine("mujoco", scene, 1)
    qpos, qvel = (np.array([part], float) for part in state)
    start: Any = {"qpos": qpos, "qvel": qvel}
    engine.reset(np.arange(1), ResetState(**start, task_state=None, model={}))
    engine.step(jax.tree.map(lambda leaf: np.asarray(leaf)[None], control), steps)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], engine.world())


def test_a_spinning_pushed_ball_flies_as_in_mujoco() -> None:
    scene, wrench = Scene(BALL, 0.002), np.zeros((2, 6))
    wrench[1] = [0.5, 0.3, 0.2, 0.05, 0.02, 0.03]
    quat = np.array([0.9, 0.1, 0.2, 0.3]) / np.linalg.norm([0.9, 0.1, 0.2, 0.3])
    state = [0, 0, 1, *quat], [1, 2, 3, 1, -2, 3]
    found = brax_world(scene, state, held(wrench=wrench), 24)
    expected = mujoco_world(scene, state, held(wrench=wrench), 24)
    np.testing.assert_allclose(found.qpos, expected.qpos, atol=1e-5)
    np.testing.assert_allclose(found.qvel, expected.qvel, atol=1e-4)
    np.testing.assert_allclose(found["accelerometer"], expected["accelerometer"], atol=0.01)
    np.testing.assert_allclose(found["rim_velocity"], expected["rim_velocity"], atol=1e-3)


def test_a_servo_moves_a_pendulum_as_in_mujoco() -> None:
    scene, state, control = Scene(PENDULUM, 0.001), ([0.5], [1.0]), held(ctrl=np.array([-0.5]))
    found, expected = brax_world(scene, state, control, 300), mujoco_world(scene, state, control, 300)
    assert abs(expected.qpos[0] - 0.5) > 0.3
    np.testing.assert_allclose(found.qpos, expected.qpos, atol=1e-4)
    np.testing.assert_allclose(found["tip"], expected["tip"], atol=1e-4)
    np.testing.assert_allclose(found["torque"], expected["torque"], atol=5e-3)
    np.testing.assert_allclose(found["gyro"], expected["gyro"], atol=1e-3)


def test_a_pendulum_swings_in_its_period_and_keeps_its_energy() -> None:
    """A capsule's small swings last 2 pi (I / (m g l))^1/2; a whole one brings it back."""
    scene = Scene(PENDULUM.replace('damping=".1"', "").replace('kp="5" kv=".2"', 'kp="0" kv="0"'), 0.001)
    model = scene.model
    inertia = float(model.dof_M0[0])
    lever = float(np.linalg.norm(model.body_ipos[1]))
    period = 2 * np.pi * np.sqrt(inertia / (model.body_mass[1] * 9.81 * lever))
    world = brax_world(scene, ([0.05], [0.0]), held(ctrl=np.zeros(1)), round(period / 0.001))
    np.testing.assert_allclose(world.qpos, [0.05], rtol=2e-3)
    assert abs(float(world.qvel[0])) < 0.05 * 0.02 * 2 * np.pi / period


def test_a_ball_comes_to_rest_on_the_floor() -> None:
    found = brax_world(Scene(DROP, 0.002), ([0, 0, 0.15, 1, 0, 0, 0], np.zeros(6)), Control(), 400)
    np.testing.assert_allclose(found["position"], [0, 0, 0.1], atol=2e-3)
    np.testing.assert_allclose(found["touch"], 2 * 9.81, rtol=0.02)
    assert np.abs(found.qvel).max() < 0.02


def mechanics(model: mujoco.MjModel, qpos: Any, qvel: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """Energy J, momentum N s and angular momentum N m s about the common centre of mass, by MuJoCo, rotors left out."""
    copy, data = model.__copy__(), mujoco.MjData(model)
    copy.opt.enableflags = mujoco.mjtEnableBit.mjENBL_ENERGY
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(copy, data)
    mujoco.mj_subtreeVel(copy, data)
    return float(data.energy.sum()), model.body_mass.sum() * data.subtree_linvel[0], data.subtree_angmom[0].copy()


def test_every_kind_of_joint_moves_as_in_mujoco() -> None:
    """Free, ball, two hinges and a slide on one body, references, springs, rotors, a body without joints."""
    scene, control = Scene(FLOATER.format(gravity=-9.81), 0.001), held(ctrl=np.array([0.6, -0.05]))
    found, expected = (run(scene, FLOATING, control, 100) for run in (brax_world, mujoco_world))
    assert np.abs(np.asarray(expected.qpos) - FLOATING[0]).max() > 0.15
    # A ball joint of three hinges is integrated hinge by hinge: of first order in the step, as MuJoCo is.
    np.testing.assert_allclose(found.qpos, expected.qpos, atol=2e-3)
    np.testing.assert_allclose(found.qvel, expected.qvel, atol=3e-2)


@pytest.mark.slow
def test_a_flying_body_keeps_its_momentum_and_its_energy() -> None:
    xml = FLOATER.format(gravity=0)
    for rotor in (' armature=".05"', ' armature=".01"', ' armature=".1"', ' damping="2"'):
        xml = xml.replace(rotor, "")
    scene = Scene(xml, 0.0005)
    world = brax_world(scene, FLOATING, held(ctrl=np.zeros(2)), 500)
    first, last = mechanics(scene.model, *FLOATING), mechanics(scene.model, world.qpos, world.qvel)
    np.testing.assert_allclose(last[0], first[0], rtol=0.02)
    np.testing.assert_allclose(last[1], first[1], atol=2e-2)
    np.testing.assert_allclose(last[2], first[2], atol=5e-3)


def test_dry_friction_stops_a_wheel_and_a_limit_a_gate() -> None:
    """The wheel at 2 rad/s: friction .05 N m on .02 kg m^2 stops it after 0.8 s and 0.8 rad."""
    scene, control = Scene(BRAKED, 0.002), held(ctrl=np.array([0.5]))
    rest = brax_world(scene, ([0, 0], [2.0, 0]), control, 500)
    np.testing.assert_allclose(rest.qpos, [0.8, np.pi / 6], atol=0.02)
    assert np.abs(rest.qvel).max() < 0.05


def test_friction_stops_a_sled() -> None:
    """At 1 m/s and a coefficient of .5: after v^2 / (2 mu g) = 0.102 m; its corners carry its weight meanwhile."""
    scene, state = Scene(SLED, 0.002), ([0, 0, 0.05, 1, 0, 0, 0], [1.0, 0, 0, 0, 0, 0])
    found = brax_world(scene, state, Control(), 200)
    np.testing.assert_allclose(found.qpos, [0.102, 0, 0.05, 1, 0, 0, 0], atol=1e-2)
    np.testing.assert_allclose(found["touch"], 3 * 9.81, rtol=0.05)
    assert np.abs(found.qvel).max() < 0.05


@pytest.mark.parametrize("slope", [0.4, 0.6])
def test_a_crate_slides_down_a_ramp_that_is_steeper_than_its_friction(slope: float) -> None:
    """Coefficient .5: it creeps on a slope of .4, and slides on one of .6 with g (sin - mu cos)."""
    angle = np.arctan(slope)
    scene = Scene(RAMP.format(along=9.81 * np.sin(angle), down=-9.81 * np.cos(angle)), 0.002)
    found = brax_world(scene, ([0, 0, 0.05, 1, 0, 0, 0], np.zeros(6)), Control(), 150)
    expected = 0.3 * 9.81 * max(0.0, np.sin(angle) - 0.5 * np.cos(angle))
    np.testing.assert_allclose(found.qvel[0], expected, atol=0.06)


def test_coupled_fingers_close_by_a_tendon_as_in_mujoco() -> None:
    """Slides in a turned frame, a joint equality, a fixed tendon, gravity compensation, implicit damping."""
    scene, state = Scene(GRIPPER, 0.002), ([0.1, 0.0, 0.0], [0.5, 0.0, 0.0])
    found, expected = (run(scene, state, held(ctrl=np.array([0.03])), 100) for run in (brax_world, mujoco_world))
    assert expected.qpos[1] > 0.015
    np.testing.assert_allclose(found.qpos, expected.qpos, atol=1e-3)
    np.testing.assert_allclose(found.qpos[1], found.qpos[2], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "effort"), [("half-cheetah", 0.3), ("hopper", 0.3), ("walker2d", 0.02), ("ant", 0.1)])
def test_the_classic_bodies_fly_as_in_mujoco(name: str, effort: float) -> None:
    """0.2 s of the same torques, 1 m up, from the middle of the joints' ranges: 0.01 rad and m."""
    time = 0.2
    scene = Body(f"locomotion/{name}")
    model, random = scene.model, np.random.default_rng(0)
    qpos, qvel = model.qpos0.copy(), 0.5 * random.standard_normal(model.nv)
    qpos[2 if name == "ant" else 1] += 1.0
    limited = model.jnt_limited.astype(bool)
    qpos[model.jnt_qposadr[limited]] = model.jnt_range[limited].mean(axis=1)
    control = held(ctrl=effort * random.uniform(-1, 1, model.nu))
    steps = round(time / scene.timing.physics_dt)
    found = brax_world(scene, (qpos, qvel), control, steps)
    expected = fine_mujoco(model, (qpos, qvel), control, time)
    assert np.abs(expected - qpos).max() > 0.1
    np.testing.assert_allclose(found.qpos, expected, atol=0.03)


def fine_mujoco(model: mujoco.MjModel, state: tuple[Any, Any], control: Control, time: float) -> np.ndarray:
    """qpos after some time of MuJoCo at a step so small that its integrator no longer matters."""
    copy, data = model.__copy__(), mujoco.MjData(model)
    copy.opt.timestep, copy.opt.integrator = 5e-5, mujoco.mjtIntegrator.mjINT_RK4
    data.qpos[:], data.qvel[:], data.ctrl[:] = *state, control.ctrl
    mujoco.mj_step(copy, data, round(time / copy.opt.timestep))
    return data.qpos


@pytest.mark.slow
def test_a_go1_stands_as_in_mujoco() -> None:
    """Dropped by 1 cm onto its home pose: the same height within 1 mm, its weight on its feet, each within 5 %."""
    scene = Body("locomotion/go1-joystick-flat")
    home, feet = scene.model.key("home"), [f"{name}_foot_touch" for name in ("FR", "FL", "RR", "RL")]
    qpos, control = home.qpos.copy(), held(ctrl=home.ctrl)
    qpos[2] += 0.01
    found, expected = (run(scene, (qpos, home.qvel), control, 250) for run in (brax_world, mujoco_world))
    np.testing.assert_allclose(found.qpos[2], expected.qpos[2], atol=1e-3)
    np.testing.assert_allclose(found.qpos[7:], expected.qpos[7:], atol=5e-3)
    forces, others = (np.concatenate([world[name] for name in feet]) for world in (found, expected))
    np.testing.assert_allclose(forces.sum(), scene.model.body_mass.sum() * 9.81, rtol=0.02)
    np.testing.assert_allclose(forces, others, rtol=0.05)


FREE = "<body name='b'><freejoint/><geom size='.1'/></body>"
TWO = "<body><joint name='j'/><geom size='.1'/><body><joint name='k'/><geom size='.1'/></body></body>"


@pytest.mark.parametrize(
    ("body", "extra", "message"),
    [
        (
            "<body><joint name='j' type='ball' range='0 1' limited='true'/><geom size='.1'/></body>",
            "",
            "ball joint 'j'",
        ),
        (FREE, "<equality><weld name='w' body1='b'/></equality>", "constraint 'w' is a weld"),
        (
            TWO,
            "<tendon><fixed name='t' stiffness='3' limited='true' range='0 1'><joint joint='j' coef='1'/></fixed>"
            "</tendon>",
            "the tendon 't' has a limit and a spring",
        ),
        (FREE, "<option density='1.2'/>", "no fluid; the model's has density 1.2"),
        (
            "<geom type='hfield' hfield='h'/>" + FREE,
            "<asset><hfield name='h' nrow='2' ncol='2' size='1 1 1 1'/></asset>",
            "no height fields",
        ),
        (FREE, "<sensor><user name='qfrc_bias' dim='6'/></sensor>", "the MjData field 'qfrc_bias'; it has xpos"),
    ],
)
def test_what_brax_cannot_do_is_one_clear_line(body: str, extra: str, message: str) -> None:
    with pytest.raises(EngineError, match="engine brax") as caught:
        make_engine("brax", scene(f"<mujoco><worldbody>{body}</worldbody>{extra}</mujoco>", 0.002), 1)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
