"""DAgger: asks where the learner goes, learns from nothing else, ends as a policy of PPO's kind, resumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from policies.algorithm import DivergedError, MismatchError
from policies.imitation.dagger import Dagger
from policies.imitation.dagger_config import DaggerConfig
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.ppo.config import PPOConfig
from policies.training.loop import Trainer, train
from tests.kit.imitation import SPEC, homewards, outwards
from tests.kit.learners import DAGGER as QUICK
from tests.kit.learning import PointMass, Recall, algorithm_of, success_of

REMEMBERING = NetworkConfig((16,), Activation.RELU, architecture=Architecture.GRU, memory=16)


def run(steps: int, config: DaggerConfig = QUICK) -> Trainer:
    return train(PointMass(8), config, total_steps=steps, adviser=homewards)


def test_it_does_what_the_expert_says_and_so_reaches_its_goal():
    policy = run(640).policy
    assert success_of(policy) > 0.8
    assert policy.kind == "gaussian-mlp"


def test_the_expert_is_asked_everywhere_but_acts_only_at_first():
    learner = Dagger(SPEC, 2, 8, dataclasses.replace(QUICK, unroll=1, expert_until=0.5))
    learner.advise(outwards)
    generator = torch.Generator().manual_seed(0)
    shares = []
    for iteration in range(8):
        obs = {"policy": 0.05 * torch.randn(8, 2, generator=generator)}
        told, own = outwards(obs), learner.policy(obs)
        action = learner.act(obs)
        by_expert = (action == told).all(-1)
        assert torch.equal(action[~by_expert], own[~by_expert])
        shares.append(by_expert.float().mean().item())
        learner.update(obs, iteration / 8)
    assert shares[0] == 1.0
    assert 0.0 < sum(shares[1:4]) / 3 < 1.0
    assert shares[5:] == [0.0, 0.0, 0.0]
    kept = learner.state()["answers"]
    assert torch.equal(kept["action"], outwards({"policy": kept["obs"]}))
    assert kept["obs"].shape == (8, 1, 8, 2)


def test_noise_moves_what_is_done_ever_more_from_environment_to_environment_and_not_what_is_learned():
    learner = Dagger(SPEC, 2, 1000, dataclasses.replace(QUICK, unroll=1, action_noise=0.1))
    learner.advise(homewards)
    obs = {"policy": torch.zeros(1000, 2)}
    told, done = homewards(obs), learner.act(obs)
    learner.update(obs)
    kept = learner.state()["answers"]
    assert torch.equal(kept["action"][0, 0], told)
    assert torch.equal(done[0], told[0])
    assert (done - told)[450:550].std().item() == pytest.approx(0.05, rel=0.2)
    assert (done - told)[900:].std().item() == pytest.approx(0.095, rel=0.2)
    assert (done - told).mean().item() == pytest.approx(0.0, abs=0.01)


def test_the_oldest_answers_make_room():
    learner = Dagger(SPEC, 2, 4, dataclasses.replace(QUICK, unroll=1, buffer_size=10))
    learner.advise(homewards)
    for number in range(5):
        learner.act({"policy": torch.full((4, 2), float(number))})
        learner.update({})
    assert learner.state()["answers"]["obs"][:, 0, :, 0].tolist() == [[4.0] * 4, [3.0] * 4]


def test_the_step_size_falls_to_nothing():
    learner = Dagger(SPEC, 2, 4, QUICK)
    learner.advise(homewards)
    learner.act({"policy": torch.rand(4, 2)})
    before = learner.optimizer.vector.clone()
    learner.update({}, 1.0)
    assert torch.equal(learner.optimizer.vector, before)
    learner.update({}, 0.5)
    assert learner.optimizer.learning_rate == pytest.approx(QUICK.learning_rate / 2)
    assert not torch.equal(learner.optimizer.vector, before)


def test_with_memory_it_does_what_the_expert_knows_and_shows_only_once():
    def knowing(obs: Mapping[str, Tensor]) -> Tensor:
        return env.position[:, :1].sign()

    env = Recall(64)
    config = dataclasses.replace(QUICK, unroll=6, actor=REMEMBERING, batch_size=240)
    policy, own = train(env, config, total_steps=2_304, adviser=knowing).policy, Recall(256, seed=1)
    obs, begun = own.reset(), torch.ones(256, dtype=torch.bool)
    network, hidden = policy.network, torch.zeros(256, 16)
    for _ in range(2 * own.max_episode_steps):
        action, hidden = network.step(obs["policy"], hidden.masked_fill(begun[:, None], 0.0))
        assert (action.sign() == own.position[:, :1].sign()).float().mean() >= 0.95
        step = own.step(action)
        obs, begun = step.obs, step.truncated


def test_without_its_buffer_a_resumed_run_collects_anew():
    config = dataclasses.replace(QUICK, save_buffer=False)
    state = algorithm_of(run(128, config), Dagger).state()
    assert "answers" not in state
    learner = Dagger(SPEC, 2, 8, config)
    learner.advise(homewards)
    learner.load_state(state)
    for _ in range(4):
        learner.act({"policy": torch.rand(8, 2)})
        learner.record(PointMass(8).step(torch.zeros(8, 2)))
    found = learner.update({}, 0.9)
    assert (found["buffer"], found["updates"]) == (32, 160)


def test_another_policy_begins_and_ppo_goes_on_from_it():
    first = run(256).policy
    learner = Dagger(SPEC, 2, 8, dataclasses.replace(QUICK, initial_std=0.5))
    learner.start_from(first)
    obs = {"policy": torch.rand(16, 2)}
    torch.testing.assert_close(learner.policy(obs), first(obs), atol=1e-3, rtol=0)
    torch.testing.assert_close(learner.actor.log_std.exp(), torch.full((2,), 0.5))
    ppo = Trainer(PointMass(8), PPOConfig(unroll=4, actor=QUICK.actor), total_steps=100)
    ppo.algorithm.start_from(first)
    torch.testing.assert_close(ppo.policy(obs), first(obs), atol=1e-3, rtol=0)
    with pytest.raises(MismatchError, match=r"hidden=\(32, 32\)"):
        Dagger(SPEC, 2, 8, dataclasses.replace(QUICK, actor=NetworkConfig((16,)))).start_from(first)


def test_messages():
    learner = Dagger(SPEC, 2, 4, QUICK)
    with pytest.raises(EmbodiedError, match=r"adviser='expert' is announced; give its policy to Dagger.advise"):
        learner.act({"policy": torch.zeros(4, 2)})

    def broken(obs: Mapping[str, Tensor]) -> Tensor:
        return torch.full((4, 2), float("nan"))

    learner.advise(broken)
    learner.act({"policy": torch.zeros(4, 2)})
    with pytest.raises(DivergedError, match="imitation_loss=nan"):
        learner.update({})
