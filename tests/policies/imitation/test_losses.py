"""Imitation losses: the likelihood is the density before the tanh, and its mean over blurred actions."""

import pytest
import torch
from torch import Tensor

from policies.imitation.losses import log_likelihood
from policies.networks.squashed import SquashedActor, log_density
from tests.kit.learners import SMALL


def make_actor() -> SquashedActor:
    return SquashedActor(2, 2, SMALL, stochastic=True, generator=torch.Generator().manual_seed(1))


def some(rows: int = 16) -> tuple[Tensor, Tensor]:
    """Observations and actions."""
    obs, action, _ = torch.randn(3, rows, 2, generator=torch.Generator().manual_seed(0)).clamp(-0.9, 0.9)
    return obs, action


def test_the_likelihood_is_the_density_before_the_tanh():
    actor = make_actor()
    obs, action = some()
    mean, log_std = actor.distribution(obs)
    before = action.atanh()
    bent = (1 - action.square()).log().sum(-1)
    density = log_density(before, (before - mean) / log_std.exp(), log_std)
    torch.testing.assert_close(log_likelihood(actor, obs, action), density + bent, atol=1e-4, rtol=1e-4)
    assert log_likelihood(actor, obs, torch.ones(16, 2)).isfinite().all()


def test_blurred_likelihood_is_its_mean_over_blurred_actions():
    actor = make_actor()
    obs, action = (row[:1] / 3 for row in some())
    noise = torch.randn(40_000, 2, generator=torch.Generator().manual_seed(2))
    blurred = (action.atanh() + 0.2 * noise).tanh()
    wanted = log_likelihood(actor, obs.expand(40_000, 2), blurred).mean()
    assert log_likelihood(actor, obs, action, 0.2).item() == pytest.approx(wanted.item(), abs=0.02)
    assert log_likelihood(actor, obs, action).item() > wanted + 0.1
