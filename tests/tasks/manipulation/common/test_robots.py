"""Table tasks with arms from a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import embodied
from embodied.errors import EmbodiedError
from policies.training.loading import load_policy
from tasks.manipulation.common import robots
from tasks.manipulation.common.panda import CONTROL_DT
from tasks.manipulation.common.robots import PlacedArm
from tasks.manipulation.common.tabletop import TabletopConfig
from tasks.manipulation.rigid_objects.pucks import Reach
from tasks.manipulation.track_pose import TrackPoseConfig
from tests.kit.robots import fingers, quadruped, six_axes
from tests.kit.scripts import solved
from tests.kit.tabletop import begun, played, tabletop
from tests.kit.worlds import jitted

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


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Reach:
    """`reach` with the test's arm, whose place at the table is searched for once."""
    task = Reach(TabletopConfig(robot=file_of(tmp_path_factory.mktemp("arm"), long_arm())))
    assert isinstance(task.robot, PlacedArm)
    return task


def test_the_scripts_of_reach_solve_it_with_another_arm(reach: Reach) -> None:
    assert reach.observation_terms["policy"] == tabletop("reach").observation_terms["policy"]
    _, start, data = begun(reach, 0)
    panda_begins = [0, 0.6, 0.195]
    np.testing.assert_allclose(data.sensor("hand_pos").data, panda_begins, atol=0.01)
    assert float(reach.robot.opening(start.qpos[6:8])[0]) == pytest.approx(1.0, abs=0.01)
    assert played(reach, 100).success.any(0).all()


def test_the_gripper_closes_and_opens(reach: Reach) -> None:
    actions = np.zeros((160, 4, 4), np.float32)
    actions[:, :, 3] = np.repeat([1.0, -1.0], 80)[:, None]
    fingers = played(reach, 160, actions).worlds.qpos[:, 0, 6:8]
    for after, opening in ((79, 0.0), (159, 1.0)):
        assert float(reach.robot.opening(fingers[after])[0]) == pytest.approx(opening, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["franka_panda/panda.urdf", "xarm/xarm6_with_gripper.urdf"])
@pytest.mark.parametrize("task", ["push", "pick-place"])
def test_arms_of_other_makers_push_and_carry(name: str, task: str) -> None:
    folder = Path(pytest.importorskip("pybullet_data").getDataPath())
    env = embodied.make(f"manipulation/{task}", 16, engine="mujoco", robot=str(folder / name))
    assert solved(env, load_policy("expert", env), 499).all()


def test_the_name_of_the_default_robot_is_the_default() -> None:
    assert TabletopConfig(robot="panda") == TabletopConfig()
    assert TrackPoseConfig(robot="panda") == TrackPoseConfig()


def test_limits_of_acceleration_are_those_that_are_stated(reach: Reach) -> None:
    limited = Reach(dataclasses.replace(reach.config, arm_limits=True))
    with pytest.raises(EmbodiedError, match=r"arm_limits: .*arm.urdf states no accelerations; say acceleration in"):
        _ = limited.robot
    most = np.linspace(2.0, 12.0, 6)
    joints = [
        dataclasses.replace(joint, acceleration=top) for joint, top in zip(reach.robot.model.joints, most, strict=True)
    ]
    robot = dataclasses.replace(reach.robot, model=dataclasses.replace(reach.robot.model, joints=tuple(joints)))
    still = jnp.asarray(reach.start_joints, jnp.float32)
    _, speeds = jitted(robot.eased)(still, jnp.zeros(6), still + jnp.array([0.02, -0.02, 0.01, 0.0, 0.03, 0.02]))
    shares = np.abs(speeds) / CONTROL_DT / most
    assert shares.max() == pytest.approx(robots.SERVED, abs=0.01), "to the limit, and no further"


def test_an_arm_that_reaches_too_little_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From every place that is tried it misses some point by 4 cm."""

    def missing(arm: Any, limits: Any, rest: Any, dreach: Reach, points: Any) -> tuple[Any, Any]:
        return np.zeros((len(points), len(rest))), np.where(np.arange(len(points)) % 7 == 0, 0.04, 0.0)

    monkeypatch.setattr(robots, "solve", missing)
    with pytest.raises(EmbodiedError, match=r"the arm is too short, .* points up to .* are 0.04 m out of its reach"):
        _ = Reach(TabletopConfig(robot=file_of(tmp_path, long_arm()))).robot


@pytest.mark.parametrize(
    ("urdf", "message"),
    [
        (six_axes(), r"arm.urdf has no two-finger gripper, which the tasks at a table need"),
        pytest.param(
            six_axes(fingers(), at="0 0 .1"),
            r"the arm is too short, .* points up to \d\.\d\d m from its base are \d",
            marks=pytest.mark.slow,
        ),
        (quadruped(), r"is understood as a legged robot; expected an arm"),
    ],
    ids=["no gripper", "too short", "a quadruped"],
)
def test_arms_that_do_not_fit_are_refused_in_one_line(tmp_path: Path, urdf: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        embodied.make("manipulation/reach", 1, engine="mujoco", robot=file_of(tmp_path, urdf))
