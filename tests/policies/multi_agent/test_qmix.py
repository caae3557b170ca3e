"""QMIX and VDN: the team's Q-value rises with every utility, so units that act for themselves act for the team."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from torch import nn

from policies.data.replay_buffer import Batch
from policies.multi_agent.mixers import Mixer
from policies.multi_agent.qmix import QMIXActorUpdate, QMIXConfig, QMIXUpdate
from policies.networks.mlp import NetworkConfig
from policies.networks.structured.team_bins import TeamBinsActor, TeamBinsStructure, bin_centres, nearest_bins
from policies.off_policy.config import Sizes
from tests.kit.arrays import drawn
from tests.kit.learners import CONFIGS

CONFIG: QMIXConfig = CONFIGS["qmix"]
AGENTS, INPUTS, ACTIONS, BINS, STATE = 2, 3, 2, 3, 4
UNITS, ROWS = AGENTS * ACTIONS, 16


def mixer_of(kind: Mixer) -> nn.Module:
    return kind.build(UNITS, STATE, 8, torch.Generator().manual_seed(0))


def build(mixer: Mixer) -> tuple[QMIXActorUpdate, QMIXUpdate]:
    sizes = Sizes(AGENTS * INPUTS, STATE, UNITS, device=torch.device("cpu"), team=AGENTS)
    config = dataclasses.replace(CONFIG, mixer=mixer, bins=BINS, critic=NetworkConfig((16,), output_gain=1.0))
    actor, critic = config.build(sizes, torch.Generator().manual_seed(0))
    assert isinstance(actor, QMIXActorUpdate)
    assert isinstance(critic, QMIXUpdate)
    return actor, critic


@pytest.mark.parametrize("kind", Mixer)
def test_the_teams_value_never_falls_where_a_utility_rises(kind):
    mixer, utilities, state = mixer_of(kind), 3 * drawn(256, UNITS), 3 * drawn(256, STATE, seed=2)
    before = mixer(utilities, state)
    for unit, step in itertools.product(range(UNITS), (0.01, 1.0, 10.0)):
        raised = utilities.clone()
        raised[:, unit] += step
        change = mixer(raised, state) - before
        assert change.min() >= -1e-5
        assert change.max() > 0


def test_the_sum_is_the_sum_whatever_the_state():
    utilities = drawn(5, UNITS)
    assert torch.equal(mixer_of(Mixer.SUM)(utilities, drawn(5, STATE)), utilities.sum(-1))
    assert not list(mixer_of(Mixer.SUM).parameters())


def test_weights_and_biases_of_the_monotone_mixer_depend_on_the_state():
    mixer, utilities, state = mixer_of(Mixer.MONOTONE), drawn(5, UNITS), drawn(5, STATE)
    slopes = [torch.autograd.functional.jacobian(lambda u, s=s: mixer(u, s).sum(), utilities) for s in (state, -state)]
    assert not torch.allclose(slopes[0], slopes[1])  # type: ignore[arg-type]
    assert mixer(0 * utilities, state).std() > 0


@pytest.mark.parametrize("kind", Mixer)
def test_greedy_units_are_the_joint_maximum(kind):
    actor, critic = build(kind)
    obs, state = drawn(ROWS, AGENTS * INPUTS), drawn(ROWS, STATE, seed=2)
    joint = torch.tensor(list(itertools.product(range(BINS), repeat=UNITS)))
    values = torch.stack([critic.critic((obs, state), bins.expand(ROWS, -1)) for bins in joint])
    best = bin_centres(joint[values.argmax(0)], BINS)
    assert torch.equal(actor.actor(obs), best)
    torch.testing.assert_close(critic.q_value((obs, state), best), values.amax(0))
    assert len(best.unique()) == BINS


def test_an_agent_rates_its_units_by_its_own_observation_and_network():
    actor = build(Mixer.SUM)[0].actor
    obs = drawn(ROWS, AGENTS * INPUTS)
    other = obs.clone()
    other[:, :INPUTS] += 1
    changed = (actor.utilities(obs) != actor.utilities(other)).any(0).any(-1)
    assert changed.tolist() == [True, True, False, False]
    same = actor.utilities(torch.ones(1, AGENTS * INPUTS))[0]
    assert (same[:ACTIONS] != same[ACTIONS:]).all()


def test_bins_are_equally_spaced_and_actions_between_them_belong_to_the_nearest():
    values = bin_centres(torch.arange(5), 5)
    assert values.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert torch.equal(nearest_bins(values, 5), torch.arange(5))
    assert nearest_bins(torch.tensor([-1.0, -0.8, -0.7, 0.2, 0.99]), 5).tolist() == [0, 0, 1, 2, 4]


@pytest.mark.parametrize("kind", Mixer)
def test_targets_are_double_q_learning(kind):
    """The online networks choose the next bins, the target networks rate them."""
    actor, critic = build(kind)
    with torch.no_grad():
        critic.optimizer.vector.add_(0.3 * drawn(len(critic.optimizer.vector)))  # the target network lags behind
    obs, next_obs = ((drawn(ROWS, AGENTS * INPUTS, seed=i), drawn(ROWS, STATE, seed=i + 1)) for i in (3, 5))
    next_action, bonus = actor.next_action(next_obs[0], torch.zeros(ROWS, UNITS))
    batch = Batch({}, drawn(ROWS, UNITS).tanh(), drawn(ROWS), torch.full((ROWS,), 0.9), {})
    chosen = actor.actor.utilities(next_obs[0]).argmax(-1)
    target = batch.reward + 0.9 * critic.target_critic(next_obs, chosen)
    loss = (critic.q_value(obs, batch.action) - target).square().mean()
    found = critic.update(batch, obs, next_obs, next_action, bonus, torch.Generator())
    torch.testing.assert_close(found["critic_loss"], loss.detach())


def test_units_explore_each_by_itself_with_the_probability_that_the_schedule_says():
    actor = TeamBinsActor(INPUTS, ACTIONS, NetworkConfig((8,)), TeamBinsStructure(AGENTS, BINS, 0.3))
    obs, noise = torch.ones(20_000, AGENTS * INPUTS), drawn(20_000, UNITS)
    greedy, action = actor(obs), actor.sample(obs, noise)
    changed = (action != greedy).float()
    torch.testing.assert_close(changed.mean(0), torch.full((UNITS,), 0.3 * (1 - 1 / BINS)), atol=0.02, rtol=0)
    assert changed.T.corrcoef().sub(torch.eye(UNITS)).abs().max() < 0.03
    uniform = actor.explore(obs, noise, 1.0)
    shares = torch.stack([(uniform == value).float().mean() for value in bin_centres(torch.arange(BINS), BINS)])
    torch.testing.assert_close(shares, torch.full((BINS,), 1 / BINS), atol=0.02, rtol=0)
    assert torch.equal(actor.explore(obs, noise, 0.0), greedy)


def test_exploration_falls_linearly_with_transitions_and_goes_on_where_it_was():
    config = dataclasses.replace(CONFIG, epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=100)
    assert [config.epsilon(steps) for steps in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert dataclasses.replace(config, epsilon_steps=0).epsilon(0) == pytest.approx(0.2)
    actor, again = build(Mixer.SUM)[0], build(Mixer.SUM)[0]
    obs, noise = drawn(ROWS, AGENTS * INPUTS), drawn(ROWS, UNITS)
    for _ in range(300):
        actor.explore(obs, noise)
    again.load_state(actor.state())
    assert torch.equal(actor.explore(obs, noise), again.explore(obs, noise))
    assert actor.state() == again.state() == {"steps": 301 * ROWS}
