"""HAPPO: agents take their steps one after the other, weighted by what those before them changed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from embodied.math.symmetry import Mirror
from policies.algorithm import SettingsError
from policies.multi_agent.happo import HAPPO, HAPPOConfig
from policies.networks import gaussian
from policies.ppo.config import CuriosityConfig, Schedule
from policies.ppo.rollout_buffer import ActorBatch
from tests.kit.learners import CONFIGS
from tests.kit.learning import TwoMovers

CONFIG: HAPPOConfig = CONFIGS["happo"]


class Watched(HAPPO):
    """Notes what each agent was given to learn from."""

    def _improve(self, agent: int, data: ActorBatch, old_log_std: torch.Tensor) -> list[torch.Tensor]:
        self.given[agent] = data
        return super()._improve(agent, data, old_log_std)

    def _learn(self) -> list[torch.Tensor]:
        self.given: dict[int, ActorBatch] = {}
        return super()._learn()


def one_update() -> Watched:
    env = TwoMovers(8)
    learner = Watched(env.observation_spec, 2, 8, CONFIG, team_size=2)
    obs = learner.collect(env, env.reset())
    learner.update(obs)
    return learner


def test_the_second_agent_learns_from_advantages_weighted_by_what_the_first_changed():
    learner = one_update()
    first, second = learner.given  # in the order in which they learned
    advantage = learner.rollout.advantage.flatten()
    assert torch.equal(learner.given[first].advantage, advantage)
    data, actor = learner.given[first], learner.actor
    z = gaussian.standardize(data.action, actor.means[first](data.obs), actor.log_stds[first])
    ratio = (gaussian.log_density(z, actor.log_stds[first]) - data.log_prob).exp()
    torch.testing.assert_close(learner.given[second].advantage, ratio * advantage, rtol=1e-4, atol=1e-5)
    assert (ratio != 1).any()


def test_an_agent_sees_and_does_what_is_its_own():
    learner = one_update()
    action = learner.rollout.action.flatten(0, 1)
    for agent, data in learner.given.items():
        assert torch.equal(data.action[:, 0], action[:, agent])
        assert data.obs.shape == (len(action), 2)


def test_an_agent_that_does_not_learn_keeps_its_bits():
    learner = one_update()
    before = [parameter.clone() for parameter in learner.actor.of_agent(1)]
    learner._improve(0, learner.given[0], learner.collector.log_std[:1])
    assert all(torch.equal(own, old) for own, old in zip(learner.actor.of_agent(1), before, strict=True))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"schedule": Schedule.ADAPTIVE}, "schedule"),
        ({"critic_warm_up": 3}, "critic_warm_up"),
        ({"curiosity": CuriosityConfig(weight=0.1)}, "curiosity"),
    ],
)
def test_what_it_lacks_is_refused_by_name(changes: dict[str, Any], named: str):
    with pytest.raises(SettingsError, match=f"happo has no {named} of that kind; expected perceptrons"):
        dataclasses.replace(CONFIG, **changes)


def test_it_asks_for_no_mirror():
    def mirror() -> Mirror:
        raise AssertionError

    HAPPO(TwoMovers.observation_spec, 2, 8, CONFIG, team_size=2, mirror=mirror)


def test_the_critic_of_the_training_that_a_learner_starts_from_comes_along():
    teacher, fresh = (HAPPO(TwoMovers.observation_spec, 2, 8, CONFIG, team_size=2, seed=seed) for seed in (0, 1))
    fresh.start_from(teacher.policy)
    before = {name: value.clone() for name, value in fresh.actor.state_dict().items()}
    assert fresh.take_critic(teacher.state())
    for own, given in zip(fresh.critic.parameters(), teacher.critic.parameters(), strict=True):
        assert torch.equal(own, given)
    assert all(torch.equal(before[name], value) for name, value in fresh.actor.state_dict().items())
