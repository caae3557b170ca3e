"""Demonstrations in the replay buffer or beside it: their share of batches, updates on them alone, resumes."""

from __future__ import annotations

import dataclasses
import gc
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.data import demonstrations
from policies.data.replay_buffer import ReplayBuffer, split_into_envs
from policies.off_policy.awac import AWACConfig
from policies.off_policy.config import ActorCriticConfig
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.rlpd import RLPDConfig
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3Config
from policies.training.loop import Trainer, train
from tests.kit.imitation import SPEC, saved, shown
from tests.kit.learners import QUICK
from tests.kit.learning import PointMass, algorithm_of, assert_resumed_run_equals_whole, heading

TOY: dict[str, Any] = {name: value for name, value in QUICK.items() if name != "warm_up"} | {"batch_size": 64}


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("demonstrations") / "homewards.safetensors", 20)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.25, 16), (1.0, 64)])
def test_batches_hold_their_share_of_demonstrations(share, expected):
    learner = OffPolicyLearner(SPEC, 2, 4, SACConfig(**TOY, warm_up=0, demonstration_share=share, reward_scale=2.0))
    learner.add_demonstrations(shown(6))
    own = PointMass(4, seed=3)
    obs = own.reset()
    for _ in range(5):
        step = own.step(learner.act(obs))
        learner.record(step)
        obs = step.obs
    batch = learner.replay.sample(learner.batch_generator)
    assert len(batch.reward) == 64
    recorded = 2 * shown(6).reward.flatten()
    assert int(torch.isin(batch.reward, recorded).sum()) == expected


def test_demonstrations_save_steps_and_survive_a_resume(file, tmp_path):
    file = Path(shutil.copy(file, tmp_path))
    config = SACConfig(**TOY, warm_up=0, demonstrations=file, temperature_learning_rate=3e-3)
    half = train(PointMass(8), config, total_steps=480)
    assert heading(half.policy) > 0.6
    kept = trees.unflatten(trees.flatten(half.state()))
    file.unlink()  # a resume needs the checkpoint alone
    resumed = Trainer(PointMass(8), config, total_steps=4_000)
    resumed.load_state(kept)
    half.iterate()
    resumed.iterate()
    key = "algorithm/critics/critic/parameters"
    assert torch.equal(trees.flatten(half.state())[key], trees.flatten(resumed.state())[key])


def offline(config: ActorCriticConfig) -> OffPolicyLearner:
    trainer = Trainer(PointMass(8), config, total_steps=32)
    trainer.algorithm.act(trainer._obs)
    assert isinstance(trainer.algorithm, OffPolicyLearner)
    return trainer.algorithm


@pytest.mark.parametrize(("kind", "in_buffer"), [(AWACConfig, True), (SACConfig, False), (TD3Config, True)])
def test_offline_updates_teach_policy_and_critics_before_the_first_step(file, kind, in_buffer):
    config = kind(**TOY, demonstrations=file, demonstrations_in_buffer=in_buffer, offline_updates=80)
    learner = offline(config)
    assert (learner.updates, learner._offline_updates) == (0, 80)
    assert heading(learner.policy) > 0.8
    steps = demonstrations.load(file, SPEC, 2)
    obs = learner.normalizers["critic"](steps.obs["critic"][:, 0])
    # After the time limit the same would go on, so values are those of endless episodes: -Σ γᵏ distance.
    value = learner.critic_update.q_value(obs, steps.action[:, 0]).detach()
    assert torch.corrcoef(torch.stack([value, -steps.obs["policy"][:, 0].norm(dim=-1)]))[0, 1] > 0.8


def test_however_many_offline_updates_there_are_no_more_tensors_stay(file):
    def tensors_after(updates: int) -> int:
        learner = offline(AWACConfig(**TOY, demonstrations=file, offline_updates=updates))
        gc.collect()
        count = sum(isinstance(one, torch.Tensor) for one in gc.get_objects())
        assert math.isfinite(learner.update({})["critic_loss"])
        return count

    gc.freeze()  # what other tests left is not looked through
    tensors_after(5)
    assert abs(tensors_after(60) - tensors_after(5)) < 50


def test_offline_updates_happen_once_and_a_resume_does_not_repeat_them(file):
    config = AWACConfig(**TOY, demonstrations=file, offline_updates=20)
    whole = assert_resumed_run_equals_whole(lambda seed: PointMass(8, seed), config)
    assert isinstance(whole.algorithm, OffPolicyLearner)
    assert whole.algorithm._offline_updates == 20
    assert whole.algorithm.updates == 24


def test_sac_with_seeded_buffer_learns_at_once_by_its_policy_and_keeps_one_buffer(file):
    config = SACConfig(**TOY, warm_up=10_000, demonstrations=file, demonstrations_in_buffer=True)
    apart = dataclasses.replace(config, demonstrations_in_buffer=False)
    seeded = algorithm_of(train(PointMass(8), config, total_steps=32), OffPolicyLearner)
    beside = algorithm_of(train(PointMass(8), apart, total_steps=32), OffPolicyLearner)
    assert (seeded.updates, beside.updates) == (4, 0)
    assert len(seeded.replay.buffer) == 20 * 20 + 32
    assert seeded.replay.demonstrations is None
    assert len(beside.replay.buffer) == 32
    rewards = seeded.replay.buffer.gather(torch.arange(400)).reward
    wanted = demonstrations.load(file, SPEC, 2).reward[:, 0]
    assert torch.equal(rewards.sort().values, wanted.sort().values)


def test_seeded_runs_without_saved_buffer_are_seeded_again(file):
    config = SACConfig(**TOY, save_buffer=False, demonstrations=file, demonstrations_in_buffer=True)
    half = train(PointMass(8), config, total_steps=32)
    resumed = Trainer(PointMass(8), config, total_steps=64)
    resumed.load_state(trees.unflatten(trees.flatten(half.state())))
    learner = algorithm_of(resumed, OffPolicyLearner)
    assert not learner.replay.prefilled
    resumed.iterate()
    assert len(learner.replay.buffer) == 400 + 32


def test_folded_steps_are_the_same_transitions_and_no_return_crosses_a_column():
    steps = shown(3)  # 60 steps
    rows = split_into_envs(steps, 8)
    assert rows.reward.shape == (8, 8)
    assert torch.equal(rows.reward.T.flatten()[:60], steps.reward[:, 0])
    assert torch.equal(rows.reward.T.flatten()[60:], steps.reward[:4, 0])
    assert rows.truncated[-1].all()
    assert torch.equal(rows.truncated[:-1].T.flatten()[:14], torch.zeros(14, dtype=torch.bool))
    buffer = ReplayBuffer(160, 8, SPEC, 2, gamma=0.5, n_step=3)
    buffer.extend(rows)
    buffer.extend(split_into_envs(steps, 8))
    last = buffer.gather(torch.arange(7 * 8, 8 * 8))  # the last seeded row
    assert torch.equal(last.reward, rows.reward[-1])
    assert torch.equal(last.discount, torch.full((8,), 0.5))
    assert torch.equal(last.next_obs["policy"], rows.next_obs["policy"][-1])
    assert not steps.truncated[7]  # what was given is left alone


def test_bfloat16_matmul_change_what_is_learned_little(file):
    def learned(rounded: bool) -> OffPolicyLearner:
        config = RLPDConfig(**TOY, critics=2, critic_updates=1, policy_delay=1, demonstrations=file, warm_up=0)
        config = dataclasses.replace(config, bfloat16_matmul=rounded)
        return algorithm_of(train(PointMass(8), config, total_steps=192), OffPolicyLearner)

    exact, rounded = learned(False), learned(True)
    obs = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(exact.policy(obs), rounded.policy(obs), atol=0.1, rtol=0)


def test_awac_goes_on_from_demonstrations_by_own_steps(file):
    config = AWACConfig(**{**TOY, "unroll": 16}, demonstrations=file, offline_updates=40)
    trainer = train(PointMass(16), config, total_steps=768)
    assert algorithm_of(trainer, OffPolicyLearner).updates == 48
    assert heading(trainer.policy) > 0.8


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
