"""A target differs from the model as it was told to, and in nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import embodied
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from sim2real.twin_training.target import HiddenParameters, HiddenTask, ShortEpisodes

pytestmark = pytest.mark.timeout(200)

NOTHING = HiddenParameters(latency=0, motor_strength=1.0, friction=1.0, joint_damping=1.0, mass=1.0)


def target(hidden: HiddenParameters | None) -> Env:
    wrappers = () if hidden is None else (lambda task: HiddenTask(task, hidden),)
    return embodied.make("manipulation/reach", 2, "mujoco", 3, wrappers=wrappers)


def hands(env: Env, actions: torch.Tensor) -> np.ndarray:
    """(T + 1, N, 3) m, where the hands are, from the reset on."""
    env.reset()
    result = [np.asarray(env.world()["hand_pos"])]
    for action in actions:
        env.step(action)
        result.append(np.asarray(env.world()["hand_pos"]))
    return np.array(result)


@pytest.fixture(scope="module")
def actions() -> torch.Tensor:
    return torch.rand(12, 2, 4, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_late_actions_move_the_hand_as_many_steps_later(actions: torch.Tensor) -> None:
    plain = hands(target(NOTHING), torch.cat([torch.zeros(2, 2, 4), actions]))
    late = hands(
        target(HiddenParameters(**{**vars(NOTHING), "latency": 2})), torch.cat([actions, torch.zeros(2, 2, 4)])
    )
    np.testing.assert_allclose(late, plain, atol=1e-5)


def test_nothing_hidden_is_the_task_itself(actions: torch.Tensor) -> None:
    np.testing.assert_array_equal(hands(target(NOTHING), actions), hands(target(None), actions))


def test_weak_servos_leave_the_hand_elsewhere(actions: torch.Tensor) -> None:
    weak = HiddenParameters(**{**vars(NOTHING), "motor_strength": 0.5, "mass": 1.5})
    assert np.abs(hands(target(weak), actions) - hands(target(NOTHING), actions)).max() > 5e-4


def test_episodes_end_when_they_are_told_to() -> None:
    env = embodied.make("manipulation/reach", 1, "mujoco", wrappers=[lambda task: ShortEpisodes(task, 0.125)])
    env.reset()
    ends = [bool(env.step(torch.zeros(1, 4)).truncated[0]) for _ in range(10)]
    assert ends == [False] * 9 + [True]
    with pytest.raises(EmbodiedError, match=r"episodes of 60 s; Reach has episodes of at most 6\.25 s"):
        embodied.make("manipulation/reach", 1, "mujoco", wrappers=[lambda task: ShortEpisodes(task, 60.0)])


def test_a_latency_below_zero_is_one_line() -> None:
    with pytest.raises(EmbodiedError, match="latency=-1; expected 0 control steps or more"):
        HiddenParameters(latency=-1)
