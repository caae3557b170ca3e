"""PPO with networks that remember: they learn what others cannot, from whole sequences, and resume with it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from embodied.errors import EmbodiedError
from policies import PPO, PPOConfig, Trainer, train
from policies.networks.mlp import NetworkConfig
from policies.networks.recurrent import RecurrentNetwork
from policies.policy import Policy, RememberingPolicy
from tests.kit.learners import REMEMBERING as QUICK
from tests.kit.learning import PointMass, Recall, algorithm_of, vectors


def learned(config: PPOConfig, iterations: int) -> Trainer:
    return train(Recall(64), config, total_steps=iterations * config.unroll * 64)


def result(trainer: Trainer) -> float:
    """Mean return of whole episodes of the learned policy."""
    env = Recall(256, seed=3)
    policy, obs = trainer.policy.acting_in(env), env.reset()
    for _ in range(3 * env.max_episode_steps):
        obs = env.step(policy(obs)).obs
    return env.statistics()["return"]


def test_it_recalls_what_an_episode_began_with() -> None:
    config = dataclasses.replace(QUICK, unroll=12, epochs=4, gamma=0.5, learning_rate=1e-2)
    plain = NetworkConfig((16,))
    forgetful = dataclasses.replace(config, actor=plain, critic=dataclasses.replace(plain, output_gain=1.0))
    assert result(learned(config, 5)) > -1.0
    assert result(learned(forgetful, 5)) < -4.5


def test_a_sequence_is_computed_again_as_it_was_acted() -> None:
    trainer = Trainer(Recall(32), QUICK, total_steps=10_000)
    ppo = algorithm_of(trainer, PPO)
    trainer.iterate()
    obs = ppo.collect(trainer.env, trainer._obs)
    index = torch.arange(32)
    batch = ppo.rollout.actor_batch(index)
    assert isinstance(ppo.actor.mean, RecurrentNetwork)
    assert batch.sequences is not None
    assert batch.sequences.begins.any()
    assert batch.sequences.hidden.abs().max() > 0
    torch.testing.assert_close(ppo.actor.mean.over(batch.obs, batch.sequences)[0], batch.mean)
    assert ppo.update(obs)["kl"] < 0.1


def test_chunks_and_minibatches_are_of_whole_sequences() -> None:
    ppo = algorithm_of(Trainer(Recall(32), QUICK, total_steps=1), PPO)
    for buffer in (ppo.rollout.actor_obs, ppo.rollout.action, ppo.rollout.advantage, ppo.rollout.returns):
        buffer.normal_(generator=ppo.noise_generator)
    minibatches = list(ppo.rollout.minibatches(3, ppo.order_generator))
    assert sorted(torch.cat(minibatches).tolist()) == list(range(32))
    whole = ppo._gradient(torch.arange(32))
    ppo.networks.workers.chunk = 50  # six sequences of eight steps
    torch.testing.assert_close(ppo._gradient(torch.arange(32)), whole, rtol=1e-4, atol=1e-6)


def test_values_after_a_time_limit_remember_the_episode() -> None:
    ppo = algorithm_of(Trainer(Recall(8), QUICK, total_steps=1), PPO)
    obs = ppo.collect(env := Recall(8), env.reset())
    final_value, last_value = ppo.networks.values(ppo.rollout, ppo.normalizers["policy"], obs["policy"])
    network, hidden = ppo.critic.value, torch.zeros(8, 12)
    assert isinstance(network, RecurrentNetwork)
    for t in range(ppo.config.unroll):
        value, hidden = network(ppo.rollout.critic_obs[t], hidden)
        torch.testing.assert_close(ppo.rollout.value[t], value[:, 0])
        ended = ppo.rollout.truncated[t]
        final, _ = network(ppo.normalizers["policy"](ppo.rollout.final_obs[t]), hidden)
        torch.testing.assert_close(final_value[t], torch.where(ended, final[:, 0], 0.0))
        hidden = hidden.masked_fill(ended[:, None], 0.0)
    torch.testing.assert_close(last_value, network(ppo.normalizers["policy"](obs["policy"]), hidden)[0][:, 0])


def test_a_stored_policy_acts_as_before_and_forgets_at_the_episode_s_end() -> None:
    trainer = learned(QUICK, 3)
    stored = Policy.from_tensors(*trainer.policy.to_tensors())
    env = Recall(4)
    obs = env.reset()
    first, again = trainer.policy.acting_in(env), stored.acting_in(env)
    assert isinstance(again, RememberingPolicy)
    seen = []
    for _ in range(2 * env.max_episode_steps):
        action = first(obs)
        assert torch.equal(again(obs), action)
        seen.append(action)
        obs = env.step(action).obs
    begun, fresh = Recall(4, seed=5), stored.acting_in(Recall(4))
    begun.reset()
    assert torch.equal(fresh(obs), again(obs))  # both at an episode's first step
    plain = train(PointMass(4), PPOConfig(unroll=2, minibatches=1), total_steps=8).policy
    assert plain.acting_in(env) is plain


def test_what_it_cannot_do_is_said_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"minibatches=8 exceeds the 4 environments, of which .* whole sequences"):
        PPO(vectors(policy=1), 1, 4, dataclasses.replace(QUICK, minibatches=8))
    with pytest.raises(EmbodiedError, match=r"'gaussian-gru' remembers; expected Policy.acting_in\(env\)"):
        learned(QUICK, 1).policy(torch.zeros(2, 1))
