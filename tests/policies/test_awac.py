"""Advantage weighting, what is done offline, and demonstrations inside the buffer."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.imitation import demonstrations
from policies.imitation.losses import log_likelihood
from policies.networks.mlp import Activation, NetworkConfig
from policies.networks.squashed import SquashedActor, log_density
from policies.off_policy.actor_critics import OffPolicyConfig, RLPDConfig, SACConfig, TD3Config
from policies.off_policy.awac import AWACConfig
from policies.off_policy.learner import OffPolicy
from policies.off_policy.replay_buffer import ReplayBuffer
from policies.off_policy.replay_memory import folded
from policies.off_policy.update_rules import AdvantageRule, advantage_weights, make_rule
from policies.optim.cpu_settings import announced, keep_freed_memory, products
from policies.training.loop import Trainer, train
from tests.policies.imitation.test_behaviour_cloning import success_of
from tests.policies.imitation.test_demonstrations import SIZES, homewards
from tests.policies.toys import PointMass

SMALL = NetworkConfig((32, 32), Activation.RELU)
TOY: dict[str, Any] = {"actor": SMALL, "critic": SMALL, "gamma": 0.9, "tau": 0.05, "batch_size": 64, "unroll": 4,
       "buffer_size": 20_000, "actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("shown") / "homewards.safetensors"
    demonstrations.save(path, demonstrations.record(PointMass(8), homewards, 20))
    return path


def rule_of(**changes: float) -> AdvantageRule:
    actor = SquashedActor(2, 2, SMALL, stochastic=True, generator=torch.Generator().manual_seed(1))
    rule = make_rule(actor, AWACConfig(**TOY, **changes), 4)
    assert isinstance(rule, AdvantageRule)
    return rule


def some(rows: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(3, rows, 2, generator=torch.Generator().manual_seed(0)).clamp(-0.9, 0.9))


def improved(rule: AdvantageRule, values: Any) -> Tensor:
    """The gradient that a step took."""
    obs, taken, noise = some()
    rule.improve(obs, taken, noise, values)
    return rule._simulator._flat.grad.clone()


def upwards(action: Tensor) -> Tensor:
    return 3 * action[:, 0]


def test_weights_grow_with_advantage_and_average_1():
    advantage = torch.tensor([-1.0, 0.0, 0.0, 2.0])
    weights = advantage_weights(advantage, 0.5)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[1] == weights[2]
    assert (weights[3] / weights[1]).item() == pytest.approx(math.exp(4))
    assert (weights[1] / weights[0]).item() == pytest.approx(math.exp(2))
    assert advantage_weights(1e9 * advantage, 0.5).isfinite().all()


def test_at_an_infinite_temperature_it_is_cloning_by_likelihood():
    rule = rule_of(temperature=1e9, blur=0.0)
    obs, taken, _ = some()
    plain = torch.autograd.grad(-log_likelihood(rule.actor, obs, taken).mean(), list(rule.actor.parameters()))
    wanted = torch.cat([part.reshape(-1) for part in plain])
    torch.testing.assert_close(improved(rule, upwards), wanted, atol=1e-5, rtol=1e-4)
    selective = improved(rule_of(temperature=0.1, blur=0.0), upwards)
    assert (selective - wanted).norm() > 0.2 * wanted.norm()


def test_the_policy_moves_to_the_better_of_the_remembered_actions():
    rule = rule_of(temperature=0.5)
    obs, noise = torch.ones(64, 2), torch.zeros(64, 2)
    taken = torch.where(torch.arange(64)[:, None] % 2 == 0, 0.6, -0.6).expand(64, 2)
    for _ in range(200):
        measures = rule.improve(obs, taken, noise, upwards)
    assert rule.actor(obs[:1]).detach().numpy() == pytest.approx(0.6, abs=0.1)  # between them without advantage
    assert measures["weighted_share"] == pytest.approx(0.5, abs=0.05)


def test_the_likelihood_is_the_density_but_for_the_tangent():
    actor = rule_of().actor
    obs, action, _ = some()
    mean, log_std = actor.distribution(obs)
    before = action.atanh()
    bent = (1 - action.square()).log().sum(-1)
    density = log_density(before, (before - mean) / log_std.exp(), log_std)
    torch.testing.assert_close(log_likelihood(actor, obs, action), density + bent, atol=1e-4, rtol=1e-4)
    assert log_likelihood(actor, obs, torch.ones(16, 2)).isfinite().all()


def test_blurred_likelihood_is_its_mean_over_blurred_actions():
    actor = rule_of().actor
    obs, action, _ = (row[:1] / 3 for row in some())
    noise = torch.randn(40_000, 2, generator=torch.Generator().manual_seed(2))
    blurred = (action.atanh() + 0.2 * noise).tanh()
    wanted = log_likelihood(actor, obs.expand(40_000, 2), blurred).mean()
    assert log_likelihood(actor, obs, action, 0.2).item() == pytest.approx(wanted.item(), abs=0.02)
    assert log_likelihood(actor, obs, action).item() > wanted + 0.1


def test_the_blur_is_the_deviation_that_a_script_teaches():
    rule = rule_of(temperature=1e9, blur=0.3)
    obs = torch.randn(64, 2, generator=torch.Generator().manual_seed(3))
    for _ in range(800):
        rule.improve(obs, 0.5 * obs.clamp(-1, 1), torch.zeros(64, 2), upwards)
    assert rule.actor.distribution(obs)[1].exp().mean().item() == pytest.approx(0.3, rel=0.1)


def offline(config: OffPolicyConfig) -> OffPolicy:
    trainer = Trainer(PointMass(8), config, total_steps=32)
    trainer.algorithm.act(trainer._obs)
    assert isinstance(trainer.algorithm, OffPolicy)
    return trainer.algorithm


@pytest.mark.parametrize(("kind", "in_buffer"), [(AWACConfig, True), (SACConfig, False), (TD3Config, True)])
def test_offline_updates_teach_policy_and_critics_before_the_first_step(file, kind, in_buffer):
    config = kind(**TOY, demonstrations=file, demonstrations_in_buffer=in_buffer, offline_updates=300)
    learner = offline(config)
    assert (learner.updates, learner._offline_updates) == (0, 300)
    assert success_of(learner.policy) > 0.9
    steps = demonstrations.load(file, SIZES, 2)
    obs = learner.normalizers["critic"](steps.obs["critic"][:, 0])
    # After the time limit the same would go on, so values are those of endless episodes: -Σ γᵏ distance.
    value = learner.values.climbed(obs, steps.action[:, 0]).detach()
    assert torch.corrcoef(torch.stack([value, -steps.obs["policy"][:, 0].norm(dim=-1)]))[0, 1] > 0.9


def test_offline_updates_happen_once_and_a_resume_does_not_repeat_them(file):
    config = AWACConfig(**TOY, demonstrations=file, offline_updates=20)
    whole = train(PointMass(8), config, total_steps=6 * 32)
    half = train(PointMass(8), config, total_steps=3 * 32)
    saved = trees.unflatten(trees.flatten(half.state()))
    resumed = train(PointMass(8, seed=9), config, total_steps=6 * 32, seed=9, resume=saved)
    assert whole.algorithm._offline_updates == 20
    assert whole.algorithm.updates == 24
    expected, found = trees.flatten(whole.state()), trees.flatten(resumed.state())
    assert expected.keys() == found.keys()
    assert not [key for key, tensor in expected.items() if not torch.equal(tensor, found[key])]


def test_awac_solves_the_point_mass_from_demonstrations_and_own_steps(file):
    config = AWACConfig(**{**TOY, "unroll": 16}, demonstrations=file, offline_updates=100)
    assert success_of(train(PointMass(16), config, total_steps=4_000).policy) > 0.95


def test_sac_with_seeded_buffer_learns_at_once_by_its_policy_and_keeps_one_buffer(file):
    config = SACConfig(**TOY, warm_up=10_000, demonstrations=file, demonstrations_in_buffer=True)
    seeded = train(PointMass(8), config, total_steps=32).algorithm
    beside = train(PointMass(8), dataclasses.replace(config, demonstrations_in_buffer=False), total_steps=32).algorithm
    assert (seeded.updates, beside.updates) == (4, 0)
    assert len(seeded.memory.buffer) == 20 * 20 + 32
    assert seeded.memory.demonstrations is None
    assert len(beside.memory.buffer) == 32
    rewards = seeded.memory.buffer.gather(torch.arange(400)).reward
    wanted = demonstrations.load(file, SIZES, 2).reward[:, 0]
    assert torch.equal(rewards.sort().values, wanted.sort().values)


def test_seeded_runs_without_saved_buffer_are_seeded_again(file):
    config = SACConfig(**TOY, save_buffer=False, demonstrations=file, demonstrations_in_buffer=True)
    half = train(PointMass(8), config, total_steps=32)
    resumed = Trainer(PointMass(8), config, total_steps=64)
    resumed.load_state(trees.unflatten(trees.flatten(half.state())))
    assert not resumed.algorithm.memory.seeded
    resumed.iterate()
    assert len(resumed.algorithm.memory.buffer) == 400 + 32


def test_folded_steps_are_the_same_transitions_and_no_return_crosses_a_column():
    steps = demonstrations.record(PointMass(4), homewards, 3)  # 60 steps
    rows = folded(steps, 8)
    assert rows.reward.shape == (8, 8)
    assert torch.equal(rows.reward.T.flatten()[:60], steps.reward[:, 0])
    assert torch.equal(rows.reward.T.flatten()[60:], steps.reward[:4, 0])
    assert rows.truncated[-1].all()
    assert torch.equal(rows.truncated[:-1].T.flatten()[:14], torch.zeros(14, dtype=torch.bool))
    buffer = ReplayBuffer(160, 8, SIZES, 2, gamma=0.5, n_step=3)
    buffer.extend(rows)
    buffer.extend(folded(steps, 8))
    last = buffer.gather(torch.arange(7 * 8, 8 * 8))  # the last seeded row
    assert torch.equal(last.reward, rows.reward[-1])
    assert torch.equal(last.discount, torch.full((8,), 0.5))
    assert torch.equal(last.next_obs["policy"], rows.next_obs["policy"][-1])
    assert not steps.truncated[7]  # what was given is left alone


def test_messages(file):
    with pytest.raises(
        EmbodiedError, match=r"offline_updates=25000 learn from demonstrations, of which there are none"
    ):
        train(PointMass(4), AWACConfig(**TOY), total_steps=4)
    small = {**TOY, "buffer_size": 80}
    with pytest.raises(
        EmbodiedError,
        match=r"400 demonstrated steps do not fit into a buffer of 10 .* expected buffer_size=400 or more",
    ):
        train(PointMass(8), AWACConfig(**small, demonstrations=file), total_steps=4)
    for changes, message in (
        ({"temperature": 0.0}, "temperature=0.0 must be positive"),
        ({"blur": -1.0}, "blur=-1.0 must be 0 or more"),
        ({"offline_updates": -1}, "offline_updates=-1 must be 0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            AWACConfig(**changes)
    with pytest.raises(TypeError, match="expected a SACConfig, TD3Config or AWACConfig"):
        make_rule(rule_of().actor, OffPolicyConfig(), 4)


def test_a_long_phase_says_how_far_it_is(monkeypatch, capsys):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("policies.optim.cpu_settings.time.monotonic", lambda: next(clock))
    assert list(announced(4, "offline updates")) == [0, 1, 2, 3]
    assert capsys.readouterr().err.splitlines() == ["offline updates: 2 of 4", "offline updates: 4 of 4"]


def test_products_are_rounded_within_and_exact_after():
    a, b = torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(0))
    exact = a @ b
    with products(rounded=True):
        assert torch.get_float32_matmul_precision() == "medium"
        torch.testing.assert_close(a @ b, exact, atol=0.3, rtol=0.02)
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.equal(a @ b, exact)
    with products(rounded=False):
        assert torch.get_float32_matmul_precision() == "highest"


def test_rounded_products_change_what_is_learned_little(file):
    def learned(rounded: bool) -> OffPolicy:
        config = RLPDConfig(**TOY, critics=2, critic_updates=1, policy_delay=1, demonstrations=file, warm_up=0)
        return train(PointMass(8), dataclasses.replace(config, rounded_products=rounded), total_steps=320).algorithm

    exact, rounded = learned(False), learned(True)
    obs = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(exact.policy(obs), rounded.policy(obs), atol=0.1, rtol=0)


def test_memory_is_kept_where_the_c_library_can_be_told():
    import platform

    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
