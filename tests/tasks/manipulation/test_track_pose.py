"""`manipulation/track-pose` with other people's arms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

import embodied
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from tasks.manipulation.track_pose import TrackPose, TrackPoseConfig
from tests.kit.robots import fingers, quadruped, six_axes

pytestmark = pytest.mark.timeout(280)

ONE_GOAL = 100  # control steps


def made(file: Path, num_envs: int = 16, **options: Any) -> tuple[Env, TrackPose]:
    env = embodied.make("manipulation/track-pose", num_envs, engine="mujoco", robot=str(file), **options)
    assert isinstance(env.task, TrackPose)
    return env, env.task


@pytest.fixture(scope="module")
def arm_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("arm") / "arm.urdf"
    file.write_text(six_axes(fingers()))
    return file


def played(env: Env, task: TrackPose, steps: int) -> torch.Tensor:
    """Success (N,) of the script after some steps."""
    act = jax.jit(jax.vmap(lambda seen, state: task.expert({"policy": seen}, state)))
    seen, success = env.reset(seed=0)["policy"], torch.zeros(0)
    for _ in range(steps):
        step = env.step(torch.from_numpy(np.array(act(seen.numpy(), env.task_state))))
        seen, success = step.obs["policy"], step.success
    return success


@pytest.mark.parametrize("orientation", [False, True], ids=["point", "pose"])
def test_the_script_reaches_every_goal(arm_file: Path, orientation: bool) -> None:
    env, task = made(arm_file, 64, orientation=orientation)
    assert task.action_size == 6
    assert played(env, task, ONE_GOAL - 1).all()
    off, turned = jax.vmap(task.errors)(env.world(), env.task_state)
    assert np.asarray(off).max() < 0.01
    assert not orientation or np.asarray(turned).max() < 0.1


def test_an_episode_ends_on_a_goal_that_had_its_time(arm_file: Path) -> None:
    env, _ = made(arm_file, 4)
    env.reset(seed=0)
    ages, goals = [], []
    for _ in range(env.max_episode_steps - 1):
        env.step(torch.zeros(env.action_shape))
        ages.append(int(np.asarray(env.task_state.age)[0]))
        goals.append(tuple(np.asarray(env.task_state.goal)[0].tolist()))
    assert ages[-1] == ONE_GOAL - 1
    assert ages[ONE_GOAL - 1 : ONE_GOAL + 1] == [ONE_GOAL, 1]
    assert len(set(goals)) == 3


def test_an_action_is_a_target_that_moves_no_faster_than_the_joints_may(arm_file: Path) -> None:
    env, task = made(arm_file, 2, without=("all",))
    env.reset(seed=0)
    action = torch.tensor([[0.2, -0.3, 0.5, 0.4, 0.1, -0.6]] * 2)
    before = np.asarray(env.task_state.target)
    env.step(action)
    after = np.asarray(env.task_state.target)
    assert (np.abs(after - before) <= task.max_step + 1e-6).all()
    for _ in range(ONE_GOAL):
        env.step(action)
    wanted = np.clip(task.home + task.scale * action.numpy(), task.limits[:, 0], task.limits[:, 1])
    np.testing.assert_allclose(np.asarray(env.task_state.target), wanted, atol=1e-5)
    np.testing.assert_allclose(np.asarray(env.world().qpos)[:, task.qpos], wanted, atol=0.01)


def test_goals_lie_ahead_and_joints_that_reach_them_are_free(arm_file: Path) -> None:
    _, task = made(arm_file, 1)
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


def test_the_tip_is_known_from_the_joints(arm_file: Path) -> None:
    """Kinematics agree with the simulator, and the Jacobian with its own."""
    _, task = made(arm_file, 1)
    arm, model, data = task.arm, task.model, mujoco.MjData(task.model)
    data.qpos[:] = task.home_qpos
    data.qpos[task.qpos] = joints = task.poses.joints[0]
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    pos, rot = arm.tip_w(jnp.asarray(joints))
    np.testing.assert_allclose(pos, data.site("tcp").xpos, atol=1e-6)
    np.testing.assert_allclose(rot, data.site("tcp").xmat.reshape(3, 3), atol=1e-6)
    linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jacSite(model, data, linear, angular, model.site("tcp").id)
    both = np.concatenate([arm.base_rot.T @ linear, arm.base_rot.T @ angular])[:, task.qvel]
    np.testing.assert_allclose(arm.jacobian(jnp.asarray(joints)), both, atol=1e-6)


def test_joints_keep_their_order_of_actions(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(six_axes())
    (tmp_path / "robot.toml").write_text('joints = ["j6", "j5", "j4", "j3", "j2", "j1"]')
    env, task = made(tmp_path / "arm.urdf", 16)
    assert task.joint_names == ("j6", "j5", "j4", "j3", "j2", "j1")
    assert played(env, task, ONE_GOAL - 1).all()


def test_a_slow_arm_gets_nearer_goals(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(six_axes().replace('velocity="10"', 'velocity="0.5"'))
    env, task = made(tmp_path / "arm.urdf", 32)
    assert (task.scale < 0.5).all()
    assert played(env, task, ONE_GOAL - 1).all()


def test_a_strangers_arm_of_another_maker_is_led_too() -> None:
    folder = Path(pytest.importorskip("pybullet_data").getDataPath())
    env, task = made(folder / "kuka_iiwa/model.urdf", 32)
    assert played(env, task, ONE_GOAL - 1).all()


def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "q.urdf").write_text(quadruped())
    with pytest.raises(EmbodiedError, match=r"q.urdf is understood as a legged robot; expected an arm"):
        made(tmp_path / "q.urdf")
    with pytest.raises(EmbodiedError, match="No such file"):
        made(tmp_path / "none.urdf")


def test_a_relative_path_is_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert TrackPoseConfig(robot="arm.urdf").robot == str(tmp_path / "arm.urdf")
