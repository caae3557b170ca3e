"""IDQL: values of the best that data support, and a policy that stays within their support."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from policies.data.replay_buffer import Transitions
from policies.imitation.behaviour_cloning import BehaviourCloning
from policies.networks.structured.diffusion import IDQLActor
from policies.off_policy.idql import IDQLConfig, expectile_loss
from policies.off_policy.learner import OffPolicyLearner
from policies.policy import rebuild
from tests.kit.learners import CONFIGS
from tests.kit.learning import vectors

QUICK: IDQLConfig = dataclasses.replace(CONFIGS["idql"], batch_size=64, unroll=4)


def expectile_of(values: Tensor, expectile: float) -> float:
    """Where the loss is least, by bisection of its slope."""
    low, high = values.min(), values.max()
    for _ in range(40):
        middle = ((low + high) / 2).requires_grad_()
        (slope,) = torch.autograd.grad(expectile_loss(values - middle, expectile).sum(), middle)
        low, high = (middle.detach(), high) if slope < 0 else (low, middle.detach())
    return low.item()


def test_an_expectile_goes_from_the_mean_to_the_largest_value():
    values = 2 * torch.rand(200, generator=torch.Generator().manual_seed(0)) - 1
    found = [expectile_of(values, expectile) for expectile in (0.5, 0.7, 0.9, 0.99, 0.99999)]
    assert found[0] == pytest.approx(values.mean().item(), abs=1e-5)
    assert found == sorted(found)
    assert found[-1] == pytest.approx(values.max().item(), abs=0.01)


def two_ways(count: int, seed: int) -> Transitions:
    """Around an obstacle on the left or on the right, by 0.6; the way on the side of the observation pays."""
    generator = torch.Generator().manual_seed(seed)
    obs = 2 * torch.rand(count, 1, 2, generator=generator) - 1
    side = torch.where(torch.rand(count, 1, 1, generator=generator) < 0.5, -1.0, 1.0)
    action = (0.6 * side).expand(-1, -1, 2) + 0.03 * torch.randn(count, 1, 2, generator=generator)
    over = torch.ones(count, 1, dtype=torch.bool)
    pays = (side[..., 0] == obs[..., 0].sign()).float()
    return Transitions({"policy": obs}, action, pays, over, ~over, {"policy": obs})


def test_the_policy_stays_among_what_was_done_where_a_clone_of_one_peak_goes_between():
    steps = two_ways(256, 0)
    learner = OffPolicyLearner(vectors(policy=2), 2, 8, dataclasses.replace(QUICK, offline_updates=120))
    learner.add_demonstrations(steps)
    learner.act({"policy": steps.obs["policy"][:8, 0]})
    fresh = two_ways(200, 1).obs["policy"][:, 0]
    clear = fresh[fresh[:, 0].abs() > 0.2]
    action = learner.policy(clear)
    assert ((action.abs() - 0.6).abs().amax(-1) < 0.2).float().mean() > 0.85
    assert (action[:, 0].sign() == clear[:, 0].sign()).float().mean() > 0.95  # of both ways the one that pays
    actor = learner.actor_update.actor
    assert isinstance(actor, IDQLActor)
    with torch.no_grad():
        drawn = actor.samples(learner.normalizers["policy"](clear), actor.noise[:, None].expand(-1, len(clear), -1, -1))
    assert 0.2 < (drawn[..., 0] > 0).float().mean() < 0.8  # the model of behaviour knows both
    clone = BehaviourCloning(vectors(policy=2), 2, 8, CONFIGS["bc"])
    clone.set_demonstrations(steps)
    for _ in range(2):
        clone.update({})
    assert ((clone.policy(clear).abs() - 0.6).abs().amax(-1) < 0.2).float().mean() < 0.3


def test_a_policy_of_an_earlier_version_says_so():
    meta, tensors = OffPolicyLearner(vectors(policy=2), 2, 8, QUICK).policy.to_tensors()
    with pytest.raises(ValueError, match="an earlier version of this library wrote it; train again"):
        rebuild({key: value for key, value in meta.items() if key != "structure"}, tensors)
