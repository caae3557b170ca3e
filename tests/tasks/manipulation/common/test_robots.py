"""Table tasks with other people's arms."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
import torch

import embodied
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from tasks.manipulation.common.robots import OwnArm
from tasks.manipulation.common.tabletop import Tabletop
from tests.kit.robots import fingers, quadruped, six_axes

pytestmark = pytest.mark.timeout(280)

LONG = 1.3  # times the test's arm of 85 cm


def file_of(folder: Path, urdf: str) -> str:
    (folder / "arm.urdf").write_text(urdf)
    return str(folder / "arm.urdf")


def long_arm() -> str:
    """The test's arm with longer links, and fingers that open along y."""
    urdf = six_axes(fingers(), low="-3", high="3", effort="150")
    for length in (0.3, 0.15):
        urdf = urdf.replace(f'xyz="0 0 {length}"', f'xyz="0 0 {LONG * length + 0.1:.3f}"')
    return urdf


def solved(env: Env, steps: int = 200) -> float:
    """Share of environments that the task's own script has solved after some steps."""
    act = jax.jit(jax.vmap(lambda seen, state: env.task.expert({"policy": seen}, state)))
    seen, success = env.reset(seed=0)["policy"], torch.zeros(1)
    for _ in range(steps):
        step = env.step(torch.from_numpy(np.array(act(seen.numpy(), env.task_state))))
        seen, success = step.obs["policy"], step.success
    return float(success.float().mean())


def test_the_scripts_of_reach_solve_it_with_another_arm(tmp_path: Path) -> None:
    env = embodied.make("manipulation/reach", 8, engine="mujoco", robot=file_of(tmp_path, long_arm()))
    assert isinstance(env.task, Tabletop)
    robot = env.task.robot
    assert isinstance(robot, OwnArm)
    assert (
        env.observation_spec.keys() == embodied.make("manipulation/reach", 1, engine="mujoco").observation_spec.keys()
    )
    seen = env.reset(seed=0)["policy"]
    assert seen.shape == (8, 39)
    np.testing.assert_allclose(seen[:, :3], [[0, 0.6, 0.195]] * 8, atol=0.01)  # where the Panda's hand begins
    np.testing.assert_allclose(seen[:, 3], 1.0, atol=0.01)
    assert solved(env) == 1.0


def test_the_gripper_closes_and_opens(tmp_path: Path) -> None:
    env = embodied.make("manipulation/reach", 2, engine="mujoco", robot=file_of(tmp_path, long_arm()))
    env.reset(seed=0)
    for effort, opening in ((1.0, 0.0), (-1.0, 1.0)):
        action = torch.tensor([[0.0, 0.0, 0.0, effort]] * 2)
        seen = [env.step(action).obs["policy"] for _ in range(80)][-1]
        np.testing.assert_allclose(seen[:, 3], opening, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["franka_panda/panda.urdf", "xarm/xarm6_with_gripper.urdf"])
@pytest.mark.parametrize("task", ["push", "pick-place"])
def test_strangers_push_and_carry(name: str, task: str) -> None:
    folder = Path(pytest.importorskip("pybullet_data").getDataPath())
    env = embodied.make(f"manipulation/{task}", 16, engine="mujoco", robot=str(folder / name))
    assert solved(env, 499) == 1.0


@pytest.mark.parametrize(
    ("urdf", "message"),
    [
        (six_axes(), r"arm.urdf has no two-finger gripper, which the tasks at a table need"),
        (six_axes(fingers(), at="0 0 .1"), r"the arm is too short, .* points up to \d\.\d\d m from its base are \d"),
        (quadruped(), r"is understood as a legged robot; expected an arm"),
    ],
    ids=["no gripper", "too short", "a quadruped"],
)
def test_arms_that_do_not_fit_are_refused_in_one_line(tmp_path: Path, urdf: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        embodied.make("manipulation/reach", 1, engine="mujoco", robot=file_of(tmp_path, urdf))
