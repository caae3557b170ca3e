"""A team's actor: every agent acts by what it observes itself, with a network of its own."""

import pytest
import torch

from policies.networks.mlp import NetworkConfig
from policies.networks.structured.team import TeamActor, TeamStructure

AGENTS, INPUTS, ACTIONS = 3, 5, 2


@pytest.fixture(params=[True, False])
def actor(request: pytest.FixtureRequest) -> TeamActor:
    structure = TeamStructure(AGENTS, request.param, noise=0.1)
    config = NetworkConfig((16,), output_gain=1.0)
    return TeamActor(INPUTS, ACTIONS, config, structure, torch.Generator().manual_seed(0))


def test_an_agent_acts_by_its_own_observation_alone(actor: TeamActor):
    obs = torch.randn(7, AGENTS * INPUTS)
    other = obs.clone()
    other[:, INPUTS : 2 * INPUTS] += 1
    changed = (actor(obs) != actor(other)).any(0).unflatten(0, (AGENTS, ACTIONS)).all(-1)
    assert changed.tolist() == [False, True, False]


def test_agents_have_networks_of_their_own(actor: TeamActor):
    same = actor(torch.ones(1, AGENTS * INPUTS)).unflatten(-1, (AGENTS, ACTIONS))
    assert (same[:, 0] != same[:, 1]).all()
    assert (same[:, 1] != same[:, 2]).all()


def test_joint_samples_are_the_agents_samples(actor: TeamActor):
    obs, noise = torch.randn(4, AGENTS * INPUTS), torch.randn(4, AGENTS * ACTIONS)
    joint = actor.sample(obs, noise)
    assert joint.shape == (4, AGENTS * ACTIONS)
    assert joint.abs().max() <= 1
    if actor.structure.stochastic:
        drawn, density = actor.sample_with_density(obs, noise)
        assert torch.equal(drawn, joint)
        assert density.shape == (4, AGENTS)


def test_statistics_of_one_agent_serve_each(actor: TeamActor):
    mean, scale = actor.statistics(torch.arange(5.0), torch.ones(5))
    assert torch.equal(mean, torch.arange(5.0).repeat(AGENTS))
    assert len(scale) == AGENTS * INPUTS
    whole = torch.arange(15.0)
    assert torch.equal(actor.statistics(whole, whole)[0], whole)
