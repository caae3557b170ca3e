"""`manipulation/track-pose` with other people's arms."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import embodied
from embodied.errors import EmbodiedError
from policies.training.loading import load_policy
from tasks.manipulation.track_pose import TrackPose, TrackPoseConfig
from tests.kit.robots import fingers, quadruped, six_axes
from tests.kit.scripts import hosted, rollout
from tests.kit.worlds import jitted

pytestmark = pytest.mark.timeout(280)

ONE_GOAL = 100  # control steps


@functools.cache
def made(file: Path, **options: Any) -> TrackPose:
    return TrackPose(TrackPoseConfig(robot=str(file), **options))


@pytest.fixture(scope="module")
def arm_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("arm") / "arm.urdf"
    file.write_text(six_axes(fingers()))
    return file


@pytest.fixture(scope="module")
def pose_task(arm_file: Path) -> TrackPose:
    return made(arm_file, orientation=True)


@pytest.fixture(scope="module")
def turned_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arm whose owner counts its joints from the hand."""
    folder = tmp_path_factory.mktemp("turned")
    (folder / "arm.urdf").write_text(six_axes())
    (folder / "robot.toml").write_text('joints = ["j6", "j5", "j4", "j3", "j2", "j1"]')
    return folder / "arm.urdf"


@pytest.fixture(scope="module")
def slow_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("slow") / "arm.urdf"
    file.write_text(six_axes().replace('velocity="10"', 'velocity="0.5"'))
    return file


@pytest.fixture(scope="module")
def iiwa_file() -> Path:
    return Path(pytest.importorskip("pybullet_data").getDataPath()) / "kuka_iiwa/model.urdf"


def test_the_script_reaches_poses(pose_task: TrackPose) -> None:
    assert pose_task.action_size == 6
    episodes = hosted(pose_task, ONE_GOAL - 1, count=8, watched=False)
    assert episodes.success[-1].all()
    last = jax.tree.map(lambda leaf: leaf[-1], (episodes.worlds, episodes.states))
    off, turned = jitted(jax.vmap(pose_task.errors))(*last)
    assert np.asarray(off).max() < 0.01
    assert np.asarray(turned).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("file", ["arm_file", "turned_file", "slow_file", "iiwa_file"])
def test_the_script_reaches_every_goal(file: str, request: pytest.FixtureRequest) -> None:
    env = embodied.make("manipulation/track-pose", 64, engine="mujoco", robot=str(request.getfixturevalue(file)))
    task: Any = env.task
    assert rollout(env, load_policy("expert", env), ONE_GOAL - 1)[-1].success.all()
    off, _ = jax.vmap(task.errors)(env.world(), env.task_state)
    assert np.asarray(off).max() < (0.01 if file == "arm_file" else 0.02)


def test_an_episode_ends_on_a_goal_that_had_its_time(pose_task: TrackPose) -> None:
    last = pose_task.timing.max_steps - 1
    states = hosted(pose_task, last, count=8, watched=False).states
    ages = states.age[1:, 0].tolist()
    assert ages[-1] == ONE_GOAL - 1
    assert ages[ONE_GOAL - 1 : ONE_GOAL + 1] == [ONE_GOAL, 1]
    assert len(np.unique(states.goal[:, 0], axis=0)) == 3


def test_an_action_is_a_target_that_moves_no_faster_than_the_joints_may(arm_file: Path) -> None:
    task = made(arm_file, without=("all",))
    start = jitted(task.reset)(jax.random.PRNGKey(0))
    data, state = mujoco.MjData(task.model), start.task_state
    data.qpos = start.qpos
    action = np.array([0.2, -0.3, 0.5, 0.4, 0.1, -0.6], np.float32)
    for _ in range(ONE_GOAL + 1):
        before = np.asarray(state.target)
        command, state = jitted(task.process_action)(None, state, action, jax.random.PRNGKey(0))
        assert (np.abs(np.asarray(state.target) - before) <= task.max_step + 1e-6).all()
        data.ctrl = jitted(task.apply_action)(None, state, command)[0].ctrl
        mujoco.mj_step(task.model, data, task.timing.substeps)
    wanted = np.clip(task.home + task.scale * action, task.limits[:, 0], task.limits[:, 1])
    np.testing.assert_allclose(np.asarray(state.target), wanted, atol=1e-5)
    np.testing.assert_allclose(data.qpos[task.qpos], wanted, atol=0.01)


def test_goals_lie_ahead_and_joints_that_reach_them_are_free(arm_file: Path) -> None:
    task = made(arm_file, orientation=True)
    poses = task.poses
    assert poses.pos[:, 2].min() >= 0.05
    assert (np.abs(np.arctan2(poses.pos[:, 1], poses.pos[:, 0])) < np.radians(76)).all()
    data = mujoco.MjData(task.model)
    for joints, pos, rot in zip(poses.joints[:50], poses.pos, poses.rot, strict=False):
        data.qpos[:] = task.home_qpos
        data.qpos[task.qpos] = joints
        mujoco.mj_forward(task.model, data)
        np.testing.assert_allclose(data.site("tcp").xpos, pos, atol=1e-6)
        np.testing.assert_allclose(data.site("tcp").xmat.reshape(3, 3), rot, atol=1e-6)
        assert not any(contact.dist < 0 for contact in data.contact)


@pytest.mark.parametrize("file", ["arm_file", "turned_file", pytest.param("iiwa_file", marks=pytest.mark.slow)])
def test_the_tip_is_known_from_the_joints(file: str, request: pytest.FixtureRequest) -> None:
    """Kinematics agree with the simulator, and the Jacobian with its own."""
    task = made(request.getfixturevalue(file), orientation=True)
    arm, model, data = task.arm, task.model, mujoco.MjData(task.model)
    data.qpos[:] = task.home_qpos
    data.qpos[task.qpos] = joints = task.poses.joints[0]
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    pos, rot = jitted(arm.tip_w)(jnp.asarray(joints))
    np.testing.assert_allclose(pos, data.site("tcp").xpos, atol=1e-6)
    np.testing.assert_allclose(rot, data.site("tcp").xmat.reshape(3, 3), atol=1e-6)
    linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jacSite(model, data, linear, angular, model.site("tcp").id)
    both = np.concatenate([arm.base_rot.T @ linear, arm.base_rot.T @ angular])[:, task.qvel]
    np.testing.assert_allclose(jitted(arm.jacobian)(jnp.asarray(joints)), both, atol=1e-6)


def test_joints_keep_their_order_of_actions(turned_file: Path) -> None:
    task = made(turned_file, orientation=True)
    names = ("j6", "j5", "j4", "j3", "j2", "j1")
    assert task.joint_names == names
    assert tuple(task.model.actuator(index).name for index in task.actuators) == names
    moving = task.model.actuator_trnid[task.actuators, 0]
    assert tuple(task.model.joint(index).name for index in moving) == names
    np.testing.assert_array_equal(task.qpos, [task.model.joint(name).qposadr[0] for name in names])


def test_a_slow_arm_gets_nearer_goals(slow_file: Path) -> None:
    """It comes from any of them to any other within three quarters of the time."""
    task = made(slow_file)
    assert (task.scale < 0.5).all()
    assert (np.ptp(task.poses.joints, 0) / task.max_step < 0.75 * ONE_GOAL).all()


def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "q.urdf").write_text(quadruped())
    with pytest.raises(EmbodiedError, match=r"q.urdf is understood as a legged robot; expected an arm"):
        made(tmp_path / "q.urdf")
    with pytest.raises(EmbodiedError, match="does not exist"):
        made(tmp_path / "none.urdf")


def test_a_relative_path_is_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert TrackPoseConfig(robot="arm.urdf").robot == str(tmp_path / "arm.urdf")
