"""DAgger from pictures: who sees learns from who is told, stores with its buffer, resumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.algorithm import MismatchError
from policies.imitation.dagger_config import PixelDaggerConfig
from policies.imitation.pixel_dagger import PixelDagger
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.off_policy.svea.policy import PixelPolicy
from policies.policy import rebuild
from policies.training.loop import Trainer, train
from tests.kit.learning import PixelPointMass, success_of
from tests.policies.imitation.test_demonstrations import SPEC

QUICK = PixelDaggerConfig(
    unroll=4, batch_size=64, updates=4.0, learning_rate=3e-3, features=16, actor=NetworkConfig((32,), Activation.RELU)
)


def run(steps: int, config: PixelDaggerConfig = QUICK, resume: Any = None, stop_at: int | None = None) -> Trainer:
    """Train for `steps`, or stop earlier, beside an expert that is told where the mass is."""
    env, taken = PixelPointMass(8), []

    def knowing(obs: Mapping[str, Tensor]) -> Tensor:
        assert not obs["policy"].any()
        return (-env.position / 0.1).clamp(-1.0, 1.0)

    return train(
        env, config, total_steps=steps, adviser=knowing, resume=resume,
        on_iteration=lambda trainer, metrics: taken.append(trainer.steps),
        should_stop=lambda: taken[-1] >= (stop_at or steps),
    )  # fmt: skip


def test_it_sees_what_the_expert_is_told():
    policy = run(2_000).policy
    assert isinstance(policy, PixelPolicy)
    assert success_of(policy, PixelPointMass) > 0.8


def test_it_is_stored_and_rebuilt_as_any_policy_from_pictures():
    policy = run(64).policy
    again = rebuild(*policy.to_tensors())
    obs = PixelPointMass(16).reset()
    assert torch.equal(again(obs), policy(obs))
    assert policy.to_tensors()[0]["cameras"] == ["above"]


def test_runs_go_on_bit_for_bit_with_their_buffer():
    config = dataclasses.replace(QUICK, save_buffer=True)
    whole, half = run(256, config), run(256, config, stop_at=128)
    resumed = run(256, config, resume=trees.unflatten(trees.flatten(half.state())))
    expected, found = trees.flatten(whole.state()), trees.flatten(resumed.state())
    assert not [key for key, tensor in expected.items() if not torch.equal(tensor, found[key])]
    assert expected.keys() == found.keys()
    kept = next(value for key, value in expected.items() if key.endswith("answers/images"))
    assert (kept.dtype, kept.shape[1:4]) == (torch.uint8, (4, 8, 3))


def test_a_share_of_each_batch_looks_otherwise_and_shows_the_same():
    def batch(share: float) -> tuple[Tensor, Tensor, Tensor]:
        learner = PixelDagger(
            PixelPointMass(64).observation_spec, 2, 64, dataclasses.replace(QUICK, unroll=1, augmented_share=share)
        )
        learner.advise(lambda obs: torch.zeros(64, 2))
        learner.act(PixelPointMass(64).reset())
        learner._blocks += 1
        obs, action, _ = learner._batch()
        return obs.vector, obs.images, action

    (vector, images, action), (own, changed, told) = batch(0.0), batch(0.25)
    assert torch.equal(vector, own)
    assert torch.equal(action, told)
    assert torch.equal(images[16:], changed[16:])
    assert not (images[:16] == changed[:16]).flatten(1).all(1).any()


def test_another_policy_begins():
    first = run(64).policy
    learner = PixelDagger(PixelPointMass(8).observation_spec, 2, 8, QUICK)
    learner.start_from(first)
    obs = PixelPointMass(16).reset()
    torch.testing.assert_close(learner.policy(obs), first(obs), atol=1e-3, rtol=0)
    other = PixelDagger(PixelPointMass(8).observation_spec, 2, 8, dataclasses.replace(QUICK, features=8))
    with pytest.raises(MismatchError):
        other.start_from(first)


def test_messages():
    with pytest.raises(EmbodiedError, match="the environment's images are none; expected cameras"):
        PixelDagger(SPEC, 2, 8, QUICK)
    with pytest.raises(ValueError, match="architecture=gru must be mlp behind the image encoder"):
        PixelDaggerConfig(actor=NetworkConfig((16,), architecture=Architecture.GRU, memory=16))
    with pytest.raises(ValueError, match="features=0 must be at least 1"):
        PixelDaggerConfig(features=0)
    with pytest.raises(ValueError, match=r"augmented_share=1\.5 must be between 0 and 1"):
        PixelDaggerConfig(augmented_share=1.5)
