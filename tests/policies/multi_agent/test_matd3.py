"""MATD3: with one agent it is TD3; every agent's critics learn from its own reward, and its actor climbs them alone."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from policies.data.replay_buffer import Batch
from policies.multi_agent.matd3 import AgentsBellmanUpdate, MATD3ActorUpdate, MATD3Config, deviations
from policies.off_policy.config import Sizes
from policies.off_policy.critics import PolicyValue
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.td3 import TD3Config
from policies.training.loop import train
from tests.kit.arrays import drawn
from tests.kit.learners import CONFIGS, assert_one_agent_trains_alike
from tests.kit.learning import TwoMovers, algorithm_of

CONFIG: MATD3Config = CONFIGS["matd3"]
AGENTS, ROWS = 3, 16


@pytest.mark.parametrize("changes", [{}, {"policy_value": PolicyValue.LOWEST, "n_step": 3, "target_critics": 1}])
def test_with_one_agent_it_is_td3_bit_for_bit(changes):
    assert_one_agent_trains_alike(TD3Config, MATD3Config, ("critics", "actor"), **changes)


def build(config: MATD3Config = CONFIG) -> tuple[MATD3ActorUpdate, AgentsBellmanUpdate]:
    sizes = Sizes(policy=2 * AGENTS, critic=4, action=AGENTS, device=torch.device("cpu"), team=AGENTS)
    actor, critics = config.build(sizes, torch.Generator().manual_seed(0))
    assert isinstance(actor, MATD3ActorUpdate)
    assert isinstance(critics, AgentsBellmanUpdate)
    return actor, critics


def learned(reward: Tensor) -> Tensor:
    """(M, P) the agents' critics after an update by rewards (ROWS, M)."""
    critics = build()[1]
    batch = Batch({}, drawn(ROWS, AGENTS).tanh(), reward, torch.full((ROWS,), 0.9), {})
    obs, next_action = drawn(ROWS, 4, seed=2), drawn(ROWS, AGENTS, seed=3).tanh()
    critics.update(batch, obs, obs + 0.1, next_action, 0.0, torch.Generator())
    each = [parameter.unflatten(0, (AGENTS, -1)).flatten(1) for parameter in critics.critic.parameters()]
    return torch.cat(each, 1)


def test_an_agents_critics_learn_from_its_own_reward_alone():
    reward = 3 * drawn(ROWS, AGENTS, seed=4)
    other = reward.clone()
    other[:, [0, 1]] = reward[:, [1, 0]]
    changed = (learned(reward) != learned(other)).any(1)
    assert changed.tolist() == [True, True, False]


def test_targets_are_each_agents_lowest_critic():
    critics = build()[1]
    outputs = drawn(AGENTS * CONFIG.critics, ROWS, 1)
    batch = Batch({}, drawn(ROWS, AGENTS), drawn(ROWS, AGENTS, seed=5), torch.full((ROWS,), 0.5), {})
    lowest = outputs[..., 0].unflatten(0, (AGENTS, -1)).amin(1)
    expected = (batch.reward.T + 0.5 * lowest).repeat_interleave(CONFIG.critics, 0)
    assert torch.equal(critics.target(outputs, batch, 0.0, torch.Generator())[..., 0], expected)


def test_each_agents_q_value_is_its_own_critics():
    critics = build(dataclasses.replace(CONFIG, policy_value=PolicyValue.LOWEST))[1]
    obs, action = drawn(ROWS, 4), drawn(ROWS, AGENTS, seed=2).tanh()
    values = critics.critic(obs, action)[..., 0].unflatten(0, (AGENTS, -1)).amin(1)
    torch.testing.assert_close(critics.q_value(obs, action.expand(AGENTS, -1, -1)), values)


def test_one_agent_deviates_from_what_the_buffer_holds():
    action, own = torch.zeros(1, 6), torch.arange(1.0, 7.0)[None]
    joint = deviations(action, own, 3)
    assert joint.tolist() == [[[1, 2, 0, 0, 0, 0]], [[0, 0, 3, 4, 0, 0]], [[0, 0, 0, 0, 5, 6]]]


def test_an_actor_climbs_its_own_critics_with_the_others_as_in_the_buffer():
    obs, action, ahead = drawn(ROWS, 2 * AGENTS), drawn(ROWS, AGENTS, seed=2).tanh(), torch.tensor([[1.0], [0], [0]])
    actor, _ = build()
    before = actor.actor(obs)

    def q_value(joint: Tensor) -> Tensor:
        others = joint[0, :, 1:]
        assert torch.equal(others, action[:, 1:])
        return ahead * joint.sum(-1)  # only the first agent's critics care for anybody's action

    actor.update(obs, action, torch.zeros(ROWS, AGENTS), q_value)
    moved = actor.actor(obs) - before
    assert (moved[:, 0].mean() > 0).all()
    assert (moved[:, 1:] == 0).all()


class Opposed(TwoMovers):
    """The second mover earns what the first one loses."""

    def step(self, action: Tensor):
        step = super().step(action)
        return dataclasses.replace(step, reward=step.reward * torch.tensor([1.0, -1.0]))


def test_the_replay_buffer_keeps_each_agents_own_rewards():
    config = dataclasses.replace(CONFIG, n_step=3, warm_up=10_000)
    learner = algorithm_of(train(Opposed(8), config, total_steps=8 * 32), OffPolicyLearner)
    reward = learner.replay.sample(torch.Generator().manual_seed(0)).reward
    assert reward.shape == (CONFIG.batch_size, 2)
    assert torch.equal(reward[:, 0], -reward[:, 1])
    assert (reward[:, 0] < 0).all()
