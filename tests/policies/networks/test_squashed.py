"""Squashed policies: their densities, how they are stored, and that exports end in the tangent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import distributions

from policies.networks.mlp import Activation, NetworkConfig
from policies.networks.squashed import LOG_STD_MAX, LOG_STD_MIN, SquashedActor
from policies.policy import NormalizedActor, Policy
from tests.kit.bundles import ACTIONS, INPUTS, inputs_of, small_described

CONFIG = NetworkConfig((21, 5), Activation.RELU, output_gain=1.5)


def make_policy(stochastic: bool = True) -> Policy:
    generator = torch.Generator().manual_seed(3)
    actor = SquashedActor(INPUTS, ACTIONS, CONFIG, stochastic=stochastic, generator=generator)
    for parameter in actor.parameters():
        parameter.data.add_(0.2 * torch.empty_like(parameter).normal_(generator=generator))
    mean = torch.empty(INPUTS).normal_(generator=generator)
    scale = torch.empty(INPUTS).uniform_(0.3, 3.0, generator=generator)
    return Policy(NormalizedActor(actor, mean, scale, 5.0), CONFIG)


def actor_of(policy: Policy) -> SquashedActor:
    assert isinstance(policy.network.actor, SquashedActor)
    return policy.network.actor


def observations(count: int = 200) -> torch.Tensor:
    return 2 * torch.randn(count, INPUTS, generator=torch.Generator().manual_seed(1))


def test_densities_are_those_of_torch_distributions():
    actor, obs = actor_of(make_policy()), observations()
    noise = torch.randn(200, ACTIONS, generator=torch.Generator().manual_seed(2))
    action, density = actor.sample_with_density(obs, noise)
    mean, log_std = actor.distribution(obs)
    squashed = distributions.TransformedDistribution(
        distributions.Normal(mean, log_std.exp()), [distributions.TanhTransform(cache_size=1)]
    )
    inside = (action.abs() < 0.999).all(-1)  # atanh of rounded numbers says little beyond
    assert inside.sum() > 50
    wanted = squashed.log_prob(action).sum(-1)
    torch.testing.assert_close(density[inside], wanted[inside], atol=1e-3, rtol=1e-3)
    assert torch.equal(action, actor.sample(obs, noise))


def test_densities_stay_finite_where_the_tangent_is_flat():
    actor = actor_of(make_policy())
    _, density = actor.sample_with_density(observations(), torch.full((200, ACTIONS), 60.0))
    assert density.isfinite().all()


def test_the_deviation_is_bounded_and_differs_between_states():
    actor = actor_of(make_policy())
    _, log_std = actor.distribution(100 * observations())
    assert LOG_STD_MIN <= log_std.min() < log_std.max() <= LOG_STD_MAX
    with pytest.raises(ValueError, match="no standard deviation"):
        actor_of(make_policy(stochastic=False)).distribution(observations())


@pytest.mark.parametrize("stochastic", [False, True])
def test_names_and_numbers_rebuild_it(stochastic):
    policy, obs = make_policy(stochastic), observations()
    meta, tensors = policy.to_tensors()
    assert meta["kind"] == "squashed-mlp"
    assert torch.equal(Policy.from_tensors(meta, tensors)(obs), policy(obs))
    assert torch.equal(policy.stochastic(5)(obs), policy(obs)) != stochastic
    normal = ((obs - policy.network.observation_mean) * policy.network.observation_scale).clamp(-5, 5)
    assert torch.equal(policy(obs), actor_of(policy).mean(normal).tanh())
    with pytest.raises(ValueError, match="actor.log_std.weight is " + ("unknown" if stochastic else "missing")):
        Policy.from_tensors(meta | {"stochastic": not stochastic}, tensors)


def test_exports_end_in_the_tangent():
    policy = make_policy()
    made = small_described(policy)
    seen = 3 * np.random.default_rng(0).standard_normal((20, INPUTS)).astype(np.float32)
    assert np.abs(actor_of(policy).mean(torch.from_numpy(seen)).detach().numpy()).max() > 1  # a clip would differ
    found = np.array([made.graph.run(**inputs_of(row))["action"] for row in seen])
    np.testing.assert_allclose(found, policy(torch.from_numpy(seen)).numpy(), atol=1e-5)
