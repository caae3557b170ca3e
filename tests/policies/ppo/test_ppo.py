import dataclasses
import math

import pytest
import torch

from embodied.env.vec_env import StepData
from policies import PPO, PPOConfig, Trainer, train
from policies.algorithm import DivergedError
from policies.networks.mlp import Activation, NetworkConfig
from policies.networks.optim.parallel import PLAIN, Workers
from policies.ppo.config import Schedule
from policies.ppo.learning_rate import LearningRate
from policies.ppo.ppo import REPORTED
from tests.kit.learning import PointMass, algorithm_of, vectors

SMALL = NetworkConfig((16,))
QUICK = PPOConfig(unroll=8, epochs=2, minibatches=2, actor=SMALL, critic=SMALL)


def rollout(ppo: PPO, reward: float | None = None) -> dict[str, torch.Tensor]:
    """Record random transitions and return the last observation."""
    generator = torch.Generator().manual_seed(0)
    n = ppo.rollout.num_envs
    obs = {"policy": torch.zeros(n, 3)}
    for _ in range(ppo.config.unroll):
        ppo.act(obs)
        obs = {"policy": torch.randn(n, 3, generator=generator)}
        r = torch.randn(n, generator=generator) if reward is None else torch.full((n,), reward)
        ends = torch.rand(2, n, generator=generator) < 0.1
        ppo.record(StepData(obs, r, ends[0], ends[1], ends[0], obs))
    return obs


def make(config: PPOConfig = QUICK, num_envs: int = 64, seed: int = 0) -> PPO:
    return PPO(vectors(policy=3), 2, num_envs, config, seed=seed)


def test_a_learner_starts_from_another_policy_and_goes_on_learning():
    teacher = train(PointMass(64), QUICK, total_steps=3 * 8 * 64).algorithm.policy
    trainer = Trainer(PointMass(64, seed=5), QUICK, total_steps=10_000, seed=5)
    trainer.algorithm.start_from(teacher)
    obs = torch.randn(20, 4)[:, : teacher.observation_size]
    torch.testing.assert_close(trainer.algorithm.policy(obs), teacher(obs))
    torch.testing.assert_close(algorithm_of(trainer, PPO).actor.log_std, teacher.network.actor.log_std)
    before = teacher(obs).clone()
    trainer.iterate()
    assert not torch.equal(trainer.algorithm.policy(obs), before)
    assert torch.equal(teacher(obs), before)


@pytest.mark.parametrize("spec", [vectors(policy=3), vectors(policy=3, critic=5)])
def test_the_critic_of_the_training_that_a_learner_starts_from_comes_along(spec):
    teacher, fresh = PPO(spec, 2, 4, QUICK), PPO(spec, 2, 4, QUICK, seed=1)
    group = teacher.critic_group
    for normalizer in teacher.normalizers.values():
        normalizer.observe(3 + 2 * torch.randn(500, len(normalizer.mean)))
        normalizer.commit()
    fresh.start_from(teacher.policy)
    obs = torch.randn(20, spec[group].shape[0])
    values = [one.critic(one.normalizers[group](obs)) for one in (teacher, fresh)]
    assert not torch.allclose(*values)
    assert fresh.take_critic(teacher.state())
    torch.testing.assert_close(
        teacher.critic(teacher.normalizers[group](obs)), fresh.critic(fresh.normalizers[group](obs))
    )
    torch.testing.assert_close(teacher.policy(torch.ones(1, 3)), fresh.policy(torch.ones(1, 3)))


def test_a_critic_of_another_shape_or_of_another_algorithm_is_left():
    other = PPO(vectors(policy=3), 2, 4, dataclasses.replace(QUICK, critic=NetworkConfig((8,), output_gain=1.0)))
    for state in (other.state(), PPO(vectors(policy=4), 2, 4, QUICK).state(), {"critics": {}}, {}):
        fresh = PPO(vectors(policy=3), 2, 4, QUICK, seed=1)
        before = fresh.optimizer.vector.clone()
        assert not fresh.take_critic(state)
        assert torch.equal(fresh.optimizer.vector, before)


def test_a_policy_with_other_layers_is_no_start():
    teacher = make(dataclasses.replace(QUICK, actor=NetworkConfig((8,)))).policy
    with pytest.raises(ValueError, match=r"with hidden=\(8,\) tanh .* with hidden=\(16,\)"):
        make().start_from(teacher)


def test_the_first_gradient_starts_at_the_rollout_s_policy():
    config = dataclasses.replace(QUICK, epochs=1, minibatches=1, schedule=Schedule.FIXED)
    ppo = make(config)
    metrics = ppo.update(rollout(ppo))
    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
    assert metrics["clip_fraction"] == 0
    assert set(metrics) == set(REPORTED)


def test_any_number_of_workers_gives_the_same_bits():
    config = dataclasses.replace(QUICK, unroll=40)
    results = []
    for count in (1, 3):
        ppo = make(config, num_envs=PLAIN.cpu // 8)
        ppo.networks.workers = Workers("cpu", count)
        ppo.update(rollout(ppo))
        results.append(ppo.optimizer.vector.clone())
    assert torch.equal(*results)


def test_the_gradient_is_that_of_the_whole_loss_in_any_chunks():
    ppo = PPO(vectors(policy=3, critic=4), 2, 64, QUICK)
    rollout = ppo.rollout
    for buffer in (rollout.actor_obs, rollout.critic_obs, rollout.action, rollout.advantage, rollout.returns):
        buffer.normal_(generator=ppo.noise_generator)
    index = torch.arange(len(rollout))
    found = ppo._gradient(index)
    ppo.networks.workers.chunk = 100
    torch.testing.assert_close(ppo._gradient(index), found, rtol=1e-4, atol=1e-6)

    actor, critic = rollout.actor_batch(index), rollout.critic_batch(index)
    z = (actor.action - ppo.actor(actor.obs)) * (-ppo.actor.log_std).exp()
    log_prob = -0.5 * z.square().sum(-1) - ppo.actor.log_std.sum() - math.log(2 * math.pi)
    gain, bound = (r * actor.advantage for r in (log_prob.exp(), log_prob.exp().clamp(0.8, 1.2)))
    loss = -torch.minimum(gain, bound).mean() + 0.5 * (ppo.critic(critic.obs) - critic.returns).square().mean()
    torch.testing.assert_close(found[:-4], ppo.optimizer.gradient(loss), rtol=1e-4, atol=1e-6)


def test_adaptive_rate_follows_the_divergence_within_its_bounds():
    rate = LearningRate(dataclasses.replace(QUICK, learning_rate=1e-3, desired_kl=0.01), torch.device("cpu"))

    def rate_after(kl: float, times: int = 1) -> float:
        for _ in range(times):
            rate.adapt(torch.tensor(kl))
        return rate.value.item()

    assert rate_after(0.01) == pytest.approx(1e-3)
    assert rate_after(0.01 * 1.2**2) == pytest.approx(1e-3 / 1.2)
    assert rate_after(0.01 / 1.2**2) == pytest.approx(1e-3)
    assert rate_after(1.0) == pytest.approx(1e-3 / 3)
    assert rate_after(0.0, times=20) == pytest.approx(1e-2)
    assert rate_after(1.0, times=40) == pytest.approx(1e-5)


def test_the_policy_moves_by_the_divergence_that_is_desired():
    ppo = make(dataclasses.replace(QUICK, epochs=4, schedule=Schedule.ADAPTIVE, learning_rate=1e-4, desired_kl=0.004))
    found = [ppo.update(rollout(ppo)) for _ in range(45)]
    assert found[0]["kl"] < 0.001
    assert sum(update["kl"] for update in found[30:]) / 15 == pytest.approx(0.004, rel=0.3)


def test_linear_rate_reaches_zero_with_the_training():
    ppo = make(dataclasses.replace(QUICK, schedule=Schedule.LINEAR, learning_rate=4e-4))
    rates = [ppo.update(rollout(ppo), progress)["learning_rate"] for progress in (0.0, 0.25, 1.0)]
    assert rates == pytest.approx([4e-4, 3e-4, 0.0])


def test_actions_are_neither_clipped_nor_shared_with_the_rollout():
    ppo = make(dataclasses.replace(QUICK, initial_std=5.0))
    action = ppo.act({"policy": torch.zeros(64, 3)})
    assert action.abs().max() > 1
    action.zero_()
    assert ppo.rollout.action[0].abs().max() > 1


@pytest.mark.parametrize("min_std", [0.0, 0.4])
def test_the_deviation_stays_above_its_bound(min_std):
    ppo = make(dataclasses.replace(QUICK, initial_std=0.45, min_std=min_std, entropy_coef=0.0, learning_rate=1e-2))
    for _ in range(10):
        last = rollout(ppo, 0.0)
        # Actions far from the mean are punished, so that the deviation wants to fall.
        ppo.rollout.reward.copy_(-(ppo.rollout.action - ppo.rollout.mean).square().sum(-1))
        ppo.update(last)
    assert (ppo.actor.log_std.exp().min() >= 0.4 - 1e-6) == (min_std > 0)
    fresh = make(dataclasses.replace(QUICK, min_std=0.9))
    fresh.start_from(ppo.policy)
    assert fresh.actor.log_std.exp().tolist() == pytest.approx([0.9, 0.9])


def test_the_critic_reads_its_own_group_where_there_is_one():
    privileged = PPO(vectors(policy=2, critic=5), 1, 4, QUICK)
    assert privileged.critic(torch.zeros(2, 5)).shape == make().critic(torch.zeros(2, 3)).shape == (2,)


def test_another_rank_s_trainer_takes_what_was_learned_and_goes_on_with_fresh_episodes_and_noise_of_its_own():
    env = PointMass(64, 2)
    trainer = Trainer(PointMass(64, 1), QUICK, total_steps=10**6, seed=1)
    other = Trainer(env, QUICK, total_steps=10**6, seed=2)
    trainer.iterate()
    position, learner = env.position.clone(), algorithm_of(other, PPO)
    noise = learner.noise_generator.get_state()
    other.load_state(trainer.state() | {"rank": 1})
    assert other.steps == trainer.steps
    assert torch.equal(learner.optimizer.vector, algorithm_of(trainer, PPO).optimizer.vector)
    assert torch.equal(learner.noise_generator.get_state(), noise)
    assert torch.equal(env.position, position)


@pytest.mark.slow
def test_the_compiled_loss_is_the_same():
    plain, compiled = make(), make(dataclasses.replace(QUICK, compile=True))
    for ppo in (plain, compiled):
        ppo.update(rollout(ppo))
    torch.testing.assert_close(compiled.optimizer.vector, plain.optimizer.vector, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("activation", Activation)
def test_every_option_trains(activation: Activation):
    network = NetworkConfig((8,), activation)
    config = PPOConfig(
        unroll=4, minibatches=3, value_clip=0.2, entropy_coef=0.01, normalize_advantage=False,
        normalize_observations=False, reward_scale=0.1, schedule=Schedule.FIXED, actor=network, critic=network,
    )  # fmt: skip
    metrics = Trainer(PointMass(10), config, total_steps=40).iterate()
    assert all(math.isfinite(metrics[name]) for name in REPORTED)


def test_stops_when_told():
    reported = []
    trainer = train(
        PointMass(64), QUICK, total_steps=10**9,
        on_iteration=lambda trainer, metrics: reported.append((trainer.steps, metrics["env_steps_per_second"])),
        should_stop=lambda: len(reported) == 2,
    )  # fmt: skip
    assert [steps for steps, _ in reported] == [512, 1024]
    assert trainer.steps == 1024


def test_messages_of_the_learner():
    with pytest.raises(ValueError, match="lacks the observation group 'policy'; it has camera"):
        PPO(vectors(camera=3), 2, 4, QUICK)
    with pytest.raises(ValueError, match=r"minibatches=100 exceeds the 8 transitions .*unroll=8 x 1 environments"):
        PPO(vectors(policy=3), 2, 1, dataclasses.replace(QUICK, minibatches=100))
    with pytest.raises(ValueError, match="total_steps=0 must be at least 1"):
        Trainer(PointMass(2), QUICK, total_steps=0)
    ppo = make()
    with pytest.raises(RuntimeError, match="the rollout holds 0 of 8 steps"):
        ppo.update({"policy": torch.zeros(64, 3)})
    obs = rollout(ppo)
    with pytest.raises(RuntimeError, match=r"the rollout holds 8 steps already; call update\(\)"):
        ppo.act(obs)
    with pytest.raises(RuntimeError, match="8 steps into a rollout"):
        ppo.state()
    ppo = make()
    with pytest.raises(DivergedError, match=r"training diverged: .*value_loss=nan"):
        ppo.update(rollout(ppo, reward=math.nan))
