"""The off-policy learner: ratios of updates, target networks, warm-up, observation groups, messages."""

from __future__ import annotations

import math

import pytest
import torch

from embodied.env.vec_env import StepData
from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.algorithm import DivergedError
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3ActorUpdate, TD3Config
from policies.policy import Policy
from policies.ppo.config import PPOConfig
from policies.ppo.ppo import PPO
from policies.training.loop import Trainer, train
from tests.kit.learners import QUICK, SMALL, learner_of, observe, practise
from tests.kit.learning import PointMass, algorithm_of, vectors


def test_a_run_without_saved_buffer_refills_it_with_its_policy_before_it_learns():
    config = SACConfig(**QUICK, save_buffer=False)
    trainer = train(PointMass(8), config, total_steps=128)
    state = trainer.state()
    assert not [name for name in trees.flatten(state) if "buffer" in name]
    resumed = Trainer(PointMass(8), config, total_steps=1000)
    resumed.load_state(trees.unflatten(trees.flatten(state)))
    learner, updates = algorithm_of(resumed, OffPolicyLearner), algorithm_of(trainer, OffPolicyLearner).updates
    assert len(learner.replay.buffer) == 0
    assert updates > 0
    noise = torch.Generator()
    noise.set_state(learner.noise_generator.get_state())
    action = learner.act(resumed._obs)
    drawn = torch.empty(8, 2).normal_(generator=noise)
    with torch.no_grad():
        obs = learner.normalizers["policy"](resumed._obs["policy"])
        assert torch.equal(action, learner.actor_update.explore(obs, drawn))
    resumed.iterate()  # 4 steps of 8
    assert learner.updates == updates
    resumed.iterate()
    assert learner.updates > updates


@pytest.mark.parametrize(("updates", "delay", "expected"), [(2.0, 2, (20, 10)), (0.25, 1, (2, 2)), (8.0, 4, (80, 20))])
def test_updates_keep_their_ratios_to_control_steps(monkeypatch, updates, delay, expected):
    learner = learner_of(TD3Config(**{**QUICK, "warm_up": 0}, critic_updates=updates, policy_delay=delay))
    improved = []
    improve = learner.actor_update.update
    monkeypatch.setattr(learner.actor_update, "update", lambda *given: improved.append(1) or improve(*given))
    practise(learner, 10)
    assert (learner.updates, len(improved)) == expected


def test_target_networks_follow_at_their_rate():
    learner = learner_of(TD3Config(**{**QUICK, "tau": 0.25, "warm_up": 0}, target_delay=2, policy_delay=1))
    assert torch.equal(learner.critic_update.target_parameters, learner.critic_update.optimizer.vector)
    before = learner.critic_update.target_parameters.clone()
    practise(learner, 1)
    assert torch.equal(learner.critic_update.target_parameters, before)  # the first of two updates
    practise(learner, 1)
    wanted = torch.lerp(before, learner.critic_update.optimizer.vector, 0.25)
    torch.testing.assert_close(learner.critic_update.target_parameters, wanted)
    assert isinstance(learner.actor_update, TD3ActorUpdate)
    assert not torch.equal(learner.actor_update.state()["target"], learner.actor_update.state()["actor"]["parameters"])
    obs = torch.randn(5, 3), torch.randn(5, 2)
    assert not torch.equal(learner.critic_update.target_critic(*obs), learner.critic_update.critic(*obs))


def test_actions_before_the_first_update_are_uniform_unless_a_policy_is_given():
    learner = learner_of(SACConfig(**{**QUICK, "warm_up": 10**6}), num_envs=2000)
    action = learner.act(observe(2000))
    assert action.var().item() == pytest.approx(1 / 3, rel=0.05)
    given = learner_of(SACConfig(**QUICK), seed=3).policy
    learner.start_from(given)
    obs = observe(2000)
    torch.testing.assert_close(learner.policy(obs), given(obs))
    assert learner.act(obs).var() < 0.2


def test_the_critics_of_the_training_that_a_learner_starts_from_come_along():
    teacher, fresh = learner_of(SACConfig(**QUICK), seed=3), learner_of(SACConfig(**QUICK))
    fresh.start_from(teacher.policy)
    obs, action = torch.randn(5, 3), torch.randn(5, 2)
    ours, theirs = fresh.critic_update, teacher.critic_update
    assert not torch.equal(ours.critic(obs, action), theirs.critic(obs, action))
    assert fresh.take_critic(teacher.state())
    assert torch.equal(ours.critic(obs, action), theirs.critic(obs, action))
    assert torch.equal(ours.target_critic(obs, action), theirs.target_critic(obs, action))
    assert not learner_of(SACConfig(**{**QUICK, "critics": 3})).take_critic(teacher.state())
    assert not fresh.take_critic(PPO(vectors(policy=2, critic=3), 2, 4, PPOConfig()).state())


def test_the_critic_reads_its_own_group_where_there_is_one():
    assert learner_of(SACConfig(**QUICK)).critic_update.critic.weights[0].shape == (2, 3 + 2, 32)
    alone = OffPolicyLearner(vectors(policy=4), 2, 4, SACConfig(**QUICK))
    assert alone.critic_update.critic.weights[0].shape == (2, 4 + 2, 32)
    assert set(alone.groups.spec) == {"policy"}


def test_critics_with_a_group_of_their_own_do_not_read_the_policy_s():
    a, b = (learner_of(TD3Config(**{**QUICK, "warm_up": 0}, normalize_observations=False)) for _ in range(2))
    for learner, policy_part in ((a, 0.0), (b, 1.0)):
        obs = observe() | {"policy": torch.full((4, 2), policy_part)}
        learner._action = torch.zeros(4, 2)
        learner._obs = obs
        ends = torch.ones(4, dtype=torch.bool)
        step = StepData(obs, torch.ones(4), ends, ~ends, ends, obs)
        learner.record(step)  # terminated: the target is the reward alone
    assert torch.equal(a.critic_update.optimizer.vector, b.critic_update.optimizer.vector)


def test_another_rank_s_state_brings_what_was_learned_but_not_its_noise():
    learner, other = learner_of(SACConfig(**QUICK), seed=1), learner_of(SACConfig(**QUICK), seed=2)
    practise(learner, 20)
    noise = other.noise_generator.get_state()
    other.load_state(learner.state(), explore_alike=False)
    assert torch.equal(other.critic_update.optimizer.vector, learner.critic_update.optimizer.vector)
    assert torch.equal(other.noise_generator.get_state(), noise)


def test_messages_of_the_learner():
    with pytest.raises(ValueError, match="lacks the observation group 'policy'; it has camera"):
        OffPolicyLearner(vectors(camera=3), 2, 4, SACConfig())
    with pytest.raises(EmbodiedError, match="a buffer of 3 transitions holds 0 steps of 4 environments"):
        learner_of(SACConfig(**{**QUICK, "buffer_size": 3}))
    learner = learner_of(SACConfig(**{**QUICK, "warm_up": 0}))
    with pytest.raises(DivergedError, match=r"training diverged: .*critic_loss=nan"):
        practise(learner, 3, reward=math.nan)
    deterministic = learner_of(TD3Config(**QUICK)).policy
    with pytest.raises(ValueError, match=r"kind 'squashed-mlp' with hidden=\(32, 32\) relu .* this learner's"):
        learner_of(SACConfig(**QUICK)).start_from(deterministic)
    gaussian: Policy = PPO(vectors(policy=2), 2, 4, PPOConfig(actor=SMALL)).policy
    with pytest.raises(ValueError, match="a policy of kind 'gaussian-mlp'"):
        learner_of(TD3Config(**QUICK)).start_from(gaussian)
