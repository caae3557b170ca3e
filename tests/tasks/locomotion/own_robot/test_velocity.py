"""`locomotion/velocity` with other people's robots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import embodied
from embodied.errors import EmbodiedError
from tasks.locomotion.joystick import Joystick
from tasks.locomotion.own_robot.velocity import Velocity, VelocityConfig
from tests.kit.robots import arm, quadruped

pytestmark = pytest.mark.timeout(280)


def test_a_strangers_quadruped_stands_under_zero_actions(tmp_path: Path) -> None:
    file = tmp_path / "q.urdf"
    file.write_text(quadruped())
    env = embodied.make("locomotion/velocity", 8, engine="mujoco", robot=str(file), without=("all",))
    env.reset()
    for _ in range(50):
        step = env.step(torch.zeros(env.action_shape))
        assert not step.terminated.any()
    assert env.action_size == 8
    assert isinstance(env.task, Velocity)
    height = np.asarray(env.world()["position"])[:, 2]
    np.testing.assert_allclose(height, env.task.prepared.height, atol=0.05)


def test_go1_as_a_file_is_go1() -> None:
    envs = [embodied.make(f"locomotion/{name}", 1, engine="mujoco") for name in ("go1-joystick-flat", "velocity")]
    own, same = envs[0].task, envs[1].task
    assert isinstance(own, Joystick)
    assert isinstance(same, Velocity)
    assert same.robot.pose_weights == own.robot.pose_weights
    assert same.robot.joint_names == own.robot.joint_names
    assert same.effort_scale == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(same.layout.home, own.layout.home, atol=1e-6)
    np.testing.assert_allclose(same.layout.stance, own.layout.stance, atol=1e-6)
    np.testing.assert_allclose(same.layout.limits, own.layout.limits)
    assert envs[0].observation_spec == envs[1].observation_spec


def test_rough_ground_is_a_word_away(tmp_path: Path) -> None:
    file = tmp_path / "q.urdf"
    file.write_text(quadruped())
    env = embodied.make("locomotion/velocity", 2, engine="mujoco", robot=str(file), terrain="rough")
    env.reset()
    assert torch.isfinite(env.step(torch.zeros(env.action_shape)).obs["critic"]).all()


def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(arm())
    with pytest.raises(EmbodiedError, match=r"arm.urdf is understood as an arm; expected a legged robot"):
        embodied.make("locomotion/velocity", 1, engine="mujoco", robot=str(file))
    with pytest.raises(EmbodiedError, match="No such file"):
        embodied.make("locomotion/velocity", 1, engine="mujoco", robot=str(tmp_path / "none.urdf"))


def test_a_relative_path_is_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.urdf").write_text(quadruped())
    monkeypatch.chdir(tmp_path)
    assert VelocityConfig(robot="q.urdf").robot == str(tmp_path / "q.urdf")
