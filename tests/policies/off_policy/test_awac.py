"""AWAC: advantage weights, and an actor that clones the better of the replay buffer's actions."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from policies.imitation.advice import QFunction
from policies.imitation.losses import log_likelihood
from policies.networks.squashed import SquashedActor
from policies.off_policy.awac import AWACActorUpdate, AWACConfig, advantage_weights
from tests.kit.learners import SMALL

LEARNING_RATE: dict[str, Any] = {"actor_learning_rate": 3e-3}


def make(**changes: Any) -> AWACActorUpdate:
    actor = SquashedActor(2, 2, SMALL, stochastic=True, generator=torch.Generator().manual_seed(1))
    return AWACActorUpdate(actor, AWACConfig(**LEARNING_RATE, **changes))


def some(rows: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    """Observations, actions and noise."""
    obs, action, noise = torch.randn(3, rows, 2, generator=torch.Generator().manual_seed(0)).clamp(-0.9, 0.9)
    return obs, action, noise


def improved(awac: AWACActorUpdate, q_value: QFunction) -> Tensor:
    """The gradient that a step took."""
    obs, taken, noise = some()
    with mock.patch.object(awac.optimizer, "step", wraps=awac.optimizer.step) as step:
        awac.update(obs, taken, noise, q_value)
    (gradient,) = step.call_args.args
    return gradient


def upwards(action: Tensor) -> Tensor:
    return 3 * action[:, 0]


def test_weights_grow_with_advantage_and_average_1():
    advantage = torch.tensor([-1.0, 0.0, 0.0, 2.0])
    weights = advantage_weights(advantage, 0.5)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[1] == weights[2]
    assert (weights[3] / weights[1]).item() == pytest.approx(math.exp(4))
    assert (weights[1] / weights[0]).item() == pytest.approx(math.exp(2))
    assert advantage_weights(1e9 * advantage, 0.5).isfinite().all()


def test_at_an_infinite_temperature_it_is_cloning_by_likelihood():
    awac = make(temperature=1e9, blur=0.0)
    obs, taken, _ = some()
    plain = torch.autograd.grad(-log_likelihood(awac.actor, obs, taken).mean(), list(awac.actor.parameters()))
    wanted = torch.cat([part.reshape(-1) for part in plain])
    torch.testing.assert_close(improved(awac, upwards), wanted, atol=1e-5, rtol=1e-4)
    selective = improved(make(temperature=0.1, blur=0.0), upwards)
    assert (selective - wanted).norm() > 0.2 * wanted.norm()


def test_the_policy_moves_to_the_better_of_the_buffer_s_actions():
    awac = make(temperature=0.5)
    obs, noise = torch.ones(64, 2), torch.zeros(64, 2)
    taken = torch.where(torch.arange(64)[:, None] % 2 == 0, 0.6, -0.6).expand(64, 2)
    metrics = {}
    for _ in range(200):
        metrics = awac.update(obs, taken, noise, upwards)
    assert awac.actor(obs[:1]).detach().numpy() == pytest.approx(0.6, abs=0.1)  # between them without advantage
    assert metrics["effective_share"] == pytest.approx(0.5, abs=0.05)


def test_the_blur_is_the_deviation_that_a_script_teaches():
    awac = make(temperature=1e9, blur=0.3)
    obs = torch.randn(64, 2, generator=torch.Generator().manual_seed(3))
    for _ in range(250):
        awac.update(obs, 0.5 * obs.clamp(-1, 1), torch.zeros(64, 2), upwards)
    assert awac.actor.distribution(obs)[1].exp().mean().item() == pytest.approx(0.3, rel=0.1)
