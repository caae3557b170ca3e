"""Learners from memory: each solves the point mass, repeats bit for bit, and is the algorithm it is called."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from embodied.env.vec_env import StepData
from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.algorithm import DivergedError
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.off_policy.actor_critics import (
    DDPGConfig,
    FastTD3Config,
    OffPolicyConfig,
    PQLConfig,
    RLPDConfig,
    SACConfig,
    TD3Config,
)
from policies.off_policy.learner import OffPolicy
from policies.off_policy.replay_buffer import Batch
from policies.off_policy.update_rules import DeterministicRule, EntropyRule
from policies.policy import Policy
from policies.ppo.config import PPOConfig
from policies.ppo.ppo import PPO
from policies.training.loop import Trainer, train
from tests.policies.toys import PointMass

SMALL = NetworkConfig((32, 32), Activation.RELU)
TOY: dict[str, Any] = {"actor": SMALL, "critic": SMALL, "gamma": 0.9, "tau": 0.05, "batch_size": 128, "warm_up": 600,
       "buffer_size": 20_000, "actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3}  # fmt: skip
QUICK: dict[str, Any] = {**TOY, "batch_size": 32, "warm_up": 64, "unroll": 4}
CONFIGS: dict[str, OffPolicyConfig] = {
    "sac": SACConfig(**TOY, temperature_learning_rate=3e-3),
    "rlpd": RLPDConfig(**{**TOY, "batch_size": 64}, critics=3, critic_updates=2, policy_delay=2),
    "td3": TD3Config(**TOY),
    "ddpg": DDPGConfig(**TOY),
    "fast-td3": FastTD3Config(
        **{**TOY, "tau": 0.2, "actor_learning_rate": 1e-3}, random_warm_up=True, value_low=-20, value_high=1, atoms=41
    ),
    "pql": PQLConfig(**TOY, critic_updates=1),
}


def make(config: OffPolicyConfig, num_envs: int = 4, seed: int = 0) -> OffPolicy:
    return OffPolicy({"policy": 2, "critic": 3}, 2, num_envs, config, seed=seed)


def observe(num_envs: int = 4, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"policy": torch.randn(num_envs, 2, generator=generator),
            "critic": torch.randn(num_envs, 3, generator=generator)}  # fmt: skip


def practise(learner: OffPolicy, steps: int, reward: float | None = None) -> dict[str, float]:
    n = learner.num_envs
    for t in range(steps):
        learner.act(observe(n, t))
        earned = (
            torch.randn(n, generator=torch.Generator().manual_seed(t)) if reward is None else torch.full((n,), reward)
        )
        ends = torch.rand(2, n, generator=torch.Generator().manual_seed(t)) < 0.05
        following = observe(n, t + 1)
        learner.record(StepData(following, earned, ends[0], ends[1] & ~ends[0], ends[0], following))
    return learner.update(observe(n, steps))


@pytest.mark.parametrize("name", CONFIGS)
def test_solves_the_point_mass(name):
    trainer = train(PointMass(32), CONFIGS[name], total_steps=16_000)
    env = PointMass(256, seed=1)
    obs, success = env.reset(), torch.zeros(256)
    for _ in range(env.max_episode_steps):
        step = env.step(trainer.policy(obs))
        obs, success = dict(step.obs), step.success.float()
    assert success.mean() > 0.95
    assert env.statistics()["return"] > -5.0  # -4.06 is the best; a random policy gets -20


@pytest.mark.parametrize("name", CONFIGS)
def test_six_iterations_equal_three_a_resume_and_three_more(name):
    changes = {"unroll": 4, "batch_size": 32, "warm_up": 64, "n_step": 3, "buffer_size": 160}
    config = dataclasses.replace(CONFIGS[name], **changes)  # the buffer wraps
    whole = train(PointMass(8), config, total_steps=6 * 32)
    half = train(PointMass(8), config, total_steps=3 * 32)
    saved = trees.flatten(half.state())
    resumed = train(PointMass(8, seed=9), config, total_steps=6 * 32, seed=9, resume=trees.unflatten(saved))
    assert isinstance(whole.algorithm, OffPolicy)
    assert whole.algorithm.updates > 10
    expected, found = trees.flatten(whole.state()), trees.flatten(resumed.state())
    assert expected.keys() == found.keys()
    assert not [key for key, tensor in expected.items() if not torch.equal(tensor, found[key])]
    other = trees.flatten(train(PointMass(8, seed=9), config, total_steps=6 * 32, seed=9).state())
    assert not torch.equal(other["off_policy/values/critic/parameters"], found["off_policy/values/critic/parameters"])


def test_a_run_without_saved_buffer_refills_it_with_its_policy_before_it_learns():
    config = SACConfig(**QUICK, save_buffer=False)
    trainer = train(PointMass(8), config, total_steps=128)
    state = trainer.state()
    assert not [name for name in trees.flatten(state) if "buffer" in name]
    resumed = Trainer(PointMass(8), config, total_steps=1000)
    resumed.load_state(trees.unflatten(trees.flatten(state)))
    learner, updates = resumed.algorithm, trainer.algorithm.updates
    assert len(learner.memory.buffer) == 0
    assert updates > 0
    noise = torch.Generator()
    noise.set_state(learner.noise_generator.get_state())
    action = learner.act(resumed._obs)
    drawn = torch.empty(8, 2).normal_(generator=noise)
    with torch.no_grad():
        assert torch.equal(action, learner.rule.explore(learner.normalizers["policy"](resumed._obs["policy"]), drawn))
    resumed.iterate()  # 4 steps of 8
    assert learner.updates == updates
    resumed.iterate()
    assert learner.updates > updates


def test_ddpg_is_td3_with_one_critic_and_no_delay_or_smoothing():
    def trained(config: OffPolicyConfig) -> torch.Tensor:
        return train(PointMass(8), config, total_steps=512).algorithm.rule.state()["actor"]["parameters"]

    ddpg = trained(DDPGConfig(**QUICK))
    undelayed: dict[str, Any] = {"critics": 1, "policy_delay": 1, "target_delay": 1}
    assert torch.equal(ddpg, trained(TD3Config(**QUICK, **undelayed, target_noise=0.0)))
    assert not torch.equal(ddpg, trained(TD3Config(**QUICK, **undelayed)))
    assert not torch.equal(ddpg, trained(TD3Config(**QUICK, target_noise=0.0)))


@pytest.mark.parametrize(("updates", "delay", "expected"), [(2.0, 2, (20, 10)), (0.25, 1, (2, 2)), (8.0, 4, (80, 20))])
def test_updates_keep_their_ratios_to_control_steps(monkeypatch, updates, delay, expected):
    learner = make(TD3Config(**{**QUICK, "warm_up": 0}, critic_updates=updates, policy_delay=delay))
    improved = []
    improve = learner.rule.improve
    monkeypatch.setattr(learner.rule, "improve", lambda *given: improved.append(1) or improve(*given))
    practise(learner, 10)
    assert (learner.updates, len(improved)) == expected


def test_target_networks_follow_at_their_rate():
    learner = make(TD3Config(**{**QUICK, "tau": 0.25, "warm_up": 0}, target_delay=2, policy_delay=1))
    assert torch.equal(learner.values.target_vector, learner.values.simulator.vector)
    before = learner.values.target_vector.clone()
    practise(learner, 1)
    assert torch.equal(learner.values.target_vector, before)  # the first of two updates
    practise(learner, 1)
    wanted = torch.lerp(before, learner.values.simulator.vector, 0.25)
    torch.testing.assert_close(learner.values.target_vector, wanted)
    assert isinstance(learner.rule, DeterministicRule)
    assert not torch.equal(learner.rule.state()["target"], learner.rule.state()["actor"]["parameters"])
    obs = torch.randn(5, 3), torch.randn(5, 2)
    assert not torch.equal(learner.values.target_critic(*obs), learner.values.critic(*obs))


@pytest.mark.parametrize(("target", "rises"), [(-50.0, False), (50.0, True)])
def test_the_temperature_rises_while_entropy_is_below_its_target(target, rises):
    learner = make(SACConfig(**{**QUICK, "warm_up": 0}, target_entropy=target, temperature_learning_rate=1e-2))
    assert isinstance(learner.rule, EntropyRule)
    before = learner.rule.temperature.item()
    practise(learner, 5)
    assert (learner.rule.temperature.item() > before) == rises
    fixed = make(SACConfig(**{**QUICK, "warm_up": 0}, target_entropy=target, temperature_learning_rate=0.0))
    practise(fixed, 5)
    assert fixed.rule.temperature.item() == pytest.approx(0.1)


def test_targets_take_the_lowest_critic_or_each_its_own():
    outputs = torch.tensor([[[1.0], [5.0]], [[3.0], [2.0]]])  # two critics, two states
    rows = Batch({}, torch.zeros(2, 2), torch.zeros(2), torch.ones(2), {})
    lowest = make(TD3Config(**QUICK)).values.target(outputs, rows, 0.0, torch.Generator())
    own = make(TD3Config(**QUICK, clipped_double=False)).values.target(outputs, rows, 0.0, torch.Generator())
    assert lowest.tolist() == [[[1.0], [2.0]]]
    assert own.tolist() == outputs.tolist()
    some = make(TD3Config(**QUICK, target_critics=1))
    generator = torch.Generator().manual_seed(0)
    drawn = {tuple(some.values.target(outputs, rows, 0.0, generator).flatten().tolist()) for _ in range(20)}
    assert drawn == {(1.0, 5.0), (3.0, 2.0)}


def test_environments_explore_with_noise_of_their_own():
    learner = make(FastTD3Config(**{**QUICK, "warm_up": 0}, noise_min=0.0, noise_max=0.3), num_envs=4)
    obs = {group: values[:1].expand(4, -1) for group, values in observe().items()}
    actions = torch.stack([learner.act(obs) for _ in range(400)])
    assert actions.std(0).mean(-1).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3], abs=0.02)


def test_actions_before_the_first_update_are_uniform_unless_a_policy_is_given():
    learner = make(SACConfig(**{**QUICK, "warm_up": 10**6}), num_envs=2000)
    action = learner.act(observe(2000))
    assert action.var().item() == pytest.approx(1 / 3, rel=0.05)
    given = make(SACConfig(**QUICK), seed=3).policy
    learner.start_from(given)
    obs = observe(2000)
    torch.testing.assert_close(learner.policy(obs), given(obs))
    assert learner.act(obs).var() < 0.2


def test_the_critic_reads_its_own_group_where_there_is_one():
    assert make(SACConfig(**QUICK)).values.critic.weights[0].shape == (2, 3 + 2, 32)
    alone = OffPolicy({"policy": 4}, 2, 4, SACConfig(**QUICK))
    assert alone.values.critic.weights[0].shape == (2, 4 + 2, 32)
    assert set(alone.sizes) == {"policy"}


def test_critics_with_a_group_of_their_own_do_not_read_the_policy_s():
    a, b = (make(TD3Config(**{**QUICK, "warm_up": 0}, normalize_observations=False)) for _ in range(2))
    for learner, policy_part in ((a, 0.0), (b, 1.0)):
        obs = observe() | {"policy": torch.full((4, 2), policy_part)}
        learner._action = torch.zeros(4, 2)
        learner._obs = obs
        ends = torch.ones(4, dtype=torch.bool)
        step = StepData(obs, torch.ones(4), ends, ~ends, ends, obs)
        learner.record(step)  # terminated: the target is the reward alone
    assert torch.equal(a.values.simulator.vector, b.values.simulator.vector)


def test_another_rank_s_state_brings_what_was_learned_but_not_its_noise():
    learner, other = make(SACConfig(**QUICK), seed=1), make(SACConfig(**QUICK), seed=2)
    practise(learner, 20)
    noise = other.noise_generator.get_state()
    other.load_state(learner.state(), explore_alike=False)
    assert torch.equal(other.values.simulator.vector, learner.values.simulator.vector)
    assert torch.equal(other.noise_generator.get_state(), noise)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (SACConfig, {"unroll": 0}, "unroll=0 must be at least 1"),
        (SACConfig, {"batch_size": 0}, "batch_size=0 must be at least 1"),
        (SACConfig, {"gamma": 1.5}, "gamma=1.5 must be between 0 and 1"),
        (SACConfig, {"tau": 0.0}, "tau=0.0 must be above 0 and at most 1"),
        (SACConfig, {"critic_updates": 0.0}, "critic_updates=0.0 must be positive"),
        (SACConfig, {"reward_scale": math.nan}, "reward_scale=nan must be finite"),
        (SACConfig, {"target_critics": 3}, "target_critics=3 must be between 1 and critics=2"),
        (SACConfig, {"initial_temperature": 0.0}, "initial_temperature=0.0 must be positive"),
        (SACConfig, {"demonstration_share": 1.5}, "demonstration_share=1.5 must be between 0 and 1"),
        (FastTD3Config, {"value_low": 300.0}, r"value_low=300.0 must be below value_high=250.0"),
        (TD3Config, {"noise_max": 0.01}, "noise_max=0.01 must be noise_min=0.1 or more"),
        (
            TD3Config,
            {"actor": NetworkConfig((16,), architecture=Architecture.PARTS)},
            "architecture=parts must be mlp: off-policy learners build perceptrons",
        ),
    ],
)
def test_config_messages(kind, changes, message):
    with pytest.raises(ValueError, match=message):
        kind(**changes)


def test_messages_of_the_learner():
    with pytest.raises(ValueError, match="lacks the observation group 'policy'; it has camera"):
        OffPolicy({"camera": 3}, 2, 4, SACConfig())
    with pytest.raises(EmbodiedError, match="a buffer of 3 transitions holds 0 steps of 4 environments"):
        make(SACConfig(**{**QUICK, "buffer_size": 3}))
    learner = make(SACConfig(**{**QUICK, "warm_up": 0}))
    with pytest.raises(DivergedError, match=r"training diverged: .*critic_loss=nan"):
        practise(learner, 3, reward=math.nan)
    deterministic = make(TD3Config(**QUICK)).policy
    with pytest.raises(ValueError, match=r"kind 'squashed-mlp' with hidden=\(32, 32\) relu .* this learner's"):
        make(SACConfig(**QUICK)).start_from(deterministic)
    gaussian: Policy = PPO({"policy": 2}, 2, 4, PPOConfig(actor=SMALL)).policy
    with pytest.raises(ValueError, match="a policy of kind 'gaussian-mlp'"):
        make(TD3Config(**QUICK)).start_from(gaussian)
