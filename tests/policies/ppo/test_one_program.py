"""A rollout that a fused engine takes as one program is the one that single steps would take."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from embodied.env.env import Env
from policies import PPO, PPOConfig, Trainer
from policies.networks.mlp import NetworkConfig
from tests.kit.learning import algorithm_of
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import build_toy

N = 16  # torch draws normal numbers in blocks of 16: those of single steps are then the same in one piece
SMALL = NetworkConfig((16,))
CRITIC = dataclasses.replace(SMALL, output_gain=1.0)
CONFIG = PPOConfig(unroll=8, epochs=1, minibatches=2, actor=SMALL, critic=CRITIC)


def collect(one: Trainer, single: Trainer) -> None:
    """A rollout in one program, and the same in single steps."""
    one._obs = one.algorithm.collect(one.env, one._obs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Env, "roll_out", None)
        single._obs = single.algorithm.collect(single.env, single._obs)


@pytest.fixture(scope="module")
def begun() -> tuple[Trainer, Trainer]:
    """Both with a rollout that they have not learned from."""
    one, single = (Trainer(build_toy(Speck, "rigid", N), CONFIG, total_steps=10_000, seed=1) for _ in range(2))
    collect(one, single)
    return one, single


def test_a_rollout_in_one_program_is_that_of_single_steps(begun: tuple[Trainer, Trainer]) -> None:
    """Two of them with an update between: what is remembered, normalised as it was acted upon, and counted."""
    ours, theirs = (algorithm_of(trainer, PPO) for trainer in begun)
    for number in range(2):
        for group, rows in theirs.rollout.obs.items():
            assert group == "critic" or 0.3 < rows.std() < 3, "not normalised"
            torch.testing.assert_close(ours.rollout.obs[group], rows, rtol=1e-3, atol=1e-3)
        for name in ("action", "mean", "reward", "terminated", "truncated", "final_obs"):
            found, expected = (getattr(learner.rollout, name) for learner in (ours, theirs))
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3, msg=f"{name} of rollout {number}")
        for trainer in begun:
            trainer.algorithm.update(trainer._obs)
        for group, normalizer in theirs.normalizers.items():
            for name, expected in normalizer.state().items():
                torch.testing.assert_close(ours.normalizers[group].state()[name], expected, rtol=1e-3, atol=1e-3)
        collect(*begun)
