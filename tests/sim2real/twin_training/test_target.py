"""A target differs from the model as it was told to, and in nothing else: a mass on a rail."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import embodied
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from sim2real.twin_training.target import HiddenParameters, HiddenTask, ShortEpisodes
from tests.kit.task_file import mass

pytestmark = pytest.mark.timeout(200)

NOTHING = HiddenParameters(latency=0, motor_strength=1.0, friction=1.0, joint_damping=1.0, mass=1.0)
ACTIONS = torch.rand(12, 2, 1, generator=torch.Generator().manual_seed(0)) * 2 - 1


def target(file: str, hidden: HiddenParameters | None) -> Env:
    wrappers = () if hidden is None else (lambda task: HiddenTask(task, hidden),)
    return embodied.make(file, 2, "mujoco", 3, wrappers=wrappers)


def places(env: Env, actions: torch.Tensor) -> np.ndarray:
    """(T + 1, N, 1) m, where the masses are, from the reset on."""
    env.reset()
    result = [np.array(env.world().qpos)]
    for action in actions:
        step = env.step(action)
        assert not (step.terminated | step.truncated).any()
        result.append(np.array(env.world().qpos))
    return np.array(result)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mass(tmp_path_factory.mktemp("mass"))


@pytest.fixture(scope="module")
def plain(file: str) -> np.ndarray:
    """Where a target without anything hidden is, under no action for two steps and then all."""
    return places(target(file, NOTHING), torch.cat([torch.zeros(2, 2, 1), ACTIONS]))


def test_late_actions_move_the_mass_as_many_steps_later(file: str, plain: np.ndarray) -> None:
    hidden = HiddenParameters(**{**vars(NOTHING), "latency": 2})
    late = places(target(file, hidden), torch.cat([ACTIONS, torch.zeros(2, 2, 1)]))
    np.testing.assert_allclose(late, plain, atol=1e-6)
    assert np.ptp(plain, axis=0).min() > 1e-3


def test_nothing_hidden_is_the_task_itself(file: str, plain: np.ndarray) -> None:
    own = places(target(file, None), torch.cat([torch.zeros(2, 2, 1), ACTIONS]))
    np.testing.assert_array_equal(own, plain)


@pytest.mark.parametrize("part", ["motor_strength", "mass"])
def test_a_weak_motor_or_a_heavy_mass_is_elsewhere(part: str, file: str, plain: np.ndarray) -> None:
    hidden = HiddenParameters(**{**vars(NOTHING), part: {"motor_strength": 0.5, "mass": 2.0}[part]})
    moved = places(target(file, hidden), torch.cat([torch.zeros(2, 2, 1), ACTIONS]))
    np.testing.assert_allclose(moved - moved[0], 0.5 * (plain - plain[0]), atol=1e-5)


def test_episodes_end_when_they_are_told_to(file: str) -> None:
    env = embodied.make(file, 1, "mujoco", wrappers=[lambda task: ShortEpisodes(task, 0.1)])
    env.reset()
    ends = [bool(env.step(torch.zeros(1, 1)).truncated[0]) for _ in range(5)]
    assert ends == [False] * 4 + [True]
    with pytest.raises(EmbodiedError, match=r"episodes of 60 s; .* has episodes of at most 1 s"):
        embodied.make(file, 1, "mujoco", wrappers=[lambda task: ShortEpisodes(task, 60.0)])


def test_a_latency_below_zero_is_one_line() -> None:
    with pytest.raises(EmbodiedError, match="latency=-1 must be 0 control steps or more"):
        HiddenParameters(latency=-1)
