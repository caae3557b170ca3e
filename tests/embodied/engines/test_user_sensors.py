"""User sensors hold the MjData field of their name, as the last physics step left it, whatever the integrator."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from embodied.engines.base import data_fields, of_last_step, substeps_model
from embodied.env.env import Env
from embodied.errors import EngineError
from tests.kit.physics import held, readings
from tests.kit.toy_tasks import FIELDS, USERS, Toy, ToyConfig
from tests.kit.worlds import toy_world

N = 8
PEBBLE = """
<mujoco>
  <worldbody>
    <camera name="side" pos="0 -2 1"/>
    <geom type="plane" size="0 0 1" contype="1" conaffinity="0"/>
    <body name="pebble" pos="0 0 .12">
      <freejoint/>
      <geom size=".1" mass="1" contype="0" conaffinity="1" condim="3"/>
      <site name="imu" pos=".02 .01 .03"/>
    </body>
  </worldbody>
  <sensor>
    <framepos name="position" objtype="xbody" objname="pebble"/>
    <velocimeter name="velocity" site="imu"/>
    <accelerometer name="accelerometer" site="imu"/>
  </sensor>
</mujoco>
"""

pytestmark = pytest.mark.timeout(280)


class Pebble(Toy):
    """A ball that falls on a floor, pushed by the action; all episodes have the model's own mass."""

    action_size = 3
    xml = PEBBLE

    def __init__(self) -> None:
        super().__init__(ToyConfig(mass_low=1.0, mass_high=1.0))

    @property
    def spread(self) -> jax.Array:
        return jnp.full(7, 0.02)

    def apply_action(self, world: World, state: Any, command: jax.Array) -> tuple[Control, Any]:
        del world
        return Control(wrench=jnp.zeros((2, 6)).at[1, :3].set(5.0 * command)), state


class Probed(Pebble):
    """The same with its MjData watched."""

    xml = PEBBLE.replace("</sensor>", f"{USERS}</sensor>")


class ProbedRungeKutta(Probed):
    """The same under Runge-Kutta, which leaves its last stage behind."""

    xml = Probed.xml.replace("<worldbody>", '<option integrator="RK4"/><worldbody>', 1)


SUBSTEPS = 2


def actions(steps: int) -> torch.Tensor:
    """(steps, N, 3) in [-0.9, 0.9], none of which explodes."""
    return 1.8 * torch.rand(steps, N, 3, generator=torch.Generator().manual_seed(0)) - 0.9


def reference(task: Any, starts: ResetState[Any], wrenches: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Field -> (N, size) after each wrench, by a loop over C MuJoCo."""
    model = substeps_model(task.model, task.timing.physics_dt)
    simulations = [mujoco.MjData(model) for _ in range(N)]
    rows = []
    for step in range(len(wrenches) + 1):
        for i, data in enumerate(simulations):
            if step:
                data.xfrc_applied[:] = wrenches[step - 1, i]
                mujoco.mj_step(model, data, nstep=SUBSTEPS)
            else:
                data.qpos[:], data.qvel[:] = starts.qpos[i], starts.qvel[i]
                mujoco.mj_forward(model, data)
            mujoco.mj_rnePostConstraint(model, data)
        rows.append({name: np.stack([getattr(data, name).ravel() for data in simulations]) for name in FIELDS})
    return rows


@pytest.mark.parametrize(
    ("engine", "task_type"),
    [
        ("mujoco", Probed),
        ("mujoco", ProbedRungeKutta),
        *(pytest.param(engine, Probed, marks=pytest.mark.slow) for engine in ("mjx-jax", "mjx-warp", "brax")),
        *(pytest.param(engine, ProbedRungeKutta, marks=pytest.mark.slow) for engine in ("mjx-jax", "mjx-warp")),
    ],
)
def test_user_sensors_equal_a_loop_over_c_mujoco(engine: str, task_type: Any) -> None:
    """Open loop, falling on the floor and rolling: exact on `mujoco`, to 0.1 % of the largest in single precision.

    In the air `test_promises.py` sees MJX-JAX do so.
    """
    task = task_type()
    starts = jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.PRNGKey(3), N))
    wrenches = np.zeros((6, N, 2, 6), np.float32)
    wrenches[:, :, 1, :3] = 5 * actions(6).numpy()
    expected = reference(task, starts, wrenches)
    for step, world in enumerate(readings(task, engine, starts, held(wrench=wrenches), SUBSTEPS)):
        for name in FIELDS:
            wanted, said = expected[step][name], f"{name}, step {step}"
            atol = max(1.0, float(np.abs(wanted).max())) * (1e-6 if engine == "mujoco" else 1e-3)
            np.testing.assert_allclose(np.asarray(world[name]), wanted, rtol=0, atol=atol, err_msg=said)
    upwards = max(row["cfrc_ext"][:, 11].max() for row in expected)
    assert upwards > 10, "no pebble hit the floor: pushes reach 4.5 N"


def read(env: Env, name: str) -> np.ndarray:
    """(N, size) a sensor as a task reads it."""
    return np.asarray(env.world()[name])


def test_other_sensors_are_what_they_are_without_user_sensors() -> None:
    """Positions and velocities stay current, forces stay those of the last step."""
    plain, probed = toy_world(Pebble, "mujoco", N), toy_world(Probed, "mujoco", N)
    plain.reset(seed=1)
    probed.reset(seed=1)
    for action in actions(8):
        plain.step(action)
        probed.step(action)
        for name in plain.world().layout.names:
            np.testing.assert_array_equal(read(probed, name), read(plain, name), err_msg=name)


def test_watched_runs_are_bit_identical_at_any_number_of_threads_and_across_a_resume() -> None:
    task, rows = Probed(), []
    starts = jax.tree.map(np.asarray, jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.PRNGKey(2), N)))
    for threads in (1, 2):
        engine: Any = make_engine("mujoco", task, N, threads=threads)
        engine.reset(np.arange(N), starts)

        def moved(engine: Any = engine) -> list[np.ndarray]:
            """(N, sensors) after each of five steps."""
            read = []
            for action in actions(5):
                wrench = np.zeros((N, 2, 6))
                wrench[:, 1, :3] = 5 * action.numpy()
                engine.step(held(wrench=wrench), 4)
                read.append(engine.world().sensordata)
            return read

        before = moved()
        state = engine.state()
        rows.append([before, moved()])
        engine.load_state(state)
        np.testing.assert_array_equal(moved(), rows[-1][1])
    np.testing.assert_array_equal(rows[0], rows[1])


def test_user_sensors_are_of_the_last_step_whatever_stage_they_name() -> None:
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><sensor><clock name="now"/><user name="xpos" dim="3" needstage="pos"/></sensor></mujoco>'
    )
    assert of_last_step(model).tolist() == [False, True, True, True]
    assert data_fields(model) == {"xpos": slice(1, 4)}


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        ('<user name="xpose" dim="3"/>', "user sensor 'xpose' reads 3 numbers; expected the name of an MjData array"),
        ('<user name="ncon" dim="1"/>', "user sensor 'ncon' reads 1 numbers; expected the name of an MjData array"),
        ('<user dim="3"/>', "user sensor '' reads 3 numbers; expected the name of an MjData array"),
        ('<user name="cfrc_ext" dim="7"/>', "user sensor 'cfrc_ext' reads 7 numbers; expected 6 of it"),
    ],
)
def test_a_user_sensor_that_reads_no_field_is_refused(sensor: str, message: str) -> None:
    model = mujoco.MjModel.from_xml_string(f"<mujoco><sensor>{sensor}</sensor></mujoco>")
    with pytest.raises(EngineError, match=message):
        data_fields(model)
