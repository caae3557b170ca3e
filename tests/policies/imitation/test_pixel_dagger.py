"""DAgger from pictures: who sees learns from who is told, stores with its buffer, resumes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from policies.algorithm import MismatchError
from policies.imitation.dagger_config import PixelDaggerConfig
from policies.imitation.pixel_dagger import PixelDagger
from policies.pixel_policy import PixelPolicy
from policies.training.loop import train
from tests.kit.imitation import SPEC
from tests.kit.learners import CONFIGS, told
from tests.kit.learning import PixelPointMass, heading, success_of

QUICK: PixelDaggerConfig = CONFIGS["dagger-pixels"]


def run(steps: int) -> Any:
    """The policy after `steps` beside an expert that is told where the mass is."""
    env = PixelPointMass(8)
    return train(env, QUICK, total_steps=steps, adviser=told(env)).policy


@pytest.mark.parametrize(("steps", "aims"), [(256, 0.7), pytest.param(2_000, 0.9, marks=pytest.mark.slow)])
def test_it_sees_what_the_expert_is_told(steps: int, aims: float):
    policy = run(steps)
    assert isinstance(policy, PixelPolicy)
    assert not PixelPointMass(8).reset()["policy"].any()
    assert heading(policy, PixelPointMass) > aims
    assert steps < 2_000 or success_of(policy, PixelPointMass) > 0.8


def test_its_policy_knows_its_camera_and_its_buffer_is_of_bytes():
    env = PixelPointMass(8)
    trainer = train(env, dataclasses.replace(QUICK, save_buffer=True), total_steps=64, adviser=told(env))
    kept = trainer.state()["algorithm"]["answers"]["images"]
    assert (kept.dtype, kept.shape[1:4]) == (torch.uint8, (4, 8, 3))
    assert trainer.policy.to_tensors()[0]["cameras"] == ["above"]


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
    first = run(64)
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
