"""Behaviour cloning: repeats what was shown, keeps what is best for held-out episodes, ends, resumes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from embodied.errors import EmbodiedError
from policies.algorithm import DivergedError
from policies.imitation.behaviour_cloning import BehaviourCloning, BehaviourCloningConfig
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3Config
from policies.training.loop import train
from tests.kit.imitation import SPEC, homewards, saved, shown
from tests.kit.learners import CONFIGS, SMALL
from tests.kit.learning import PointMass, algorithm_of, success_of, vectors

QUICK: BehaviourCloningConfig = CONFIGS["bc"]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("shown") / "homewards.safetensors", 40)


def make(config: BehaviourCloningConfig, seed: int = 0) -> BehaviourCloning:
    return BehaviourCloning(SPEC, 2, 4, config, seed=seed)


def test_the_clone_does_what_was_shown_and_so_reaches_its_goal(file):
    config = dataclasses.replace(QUICK, demonstrations=file)
    trainer = train(PointMass(8), config, total_steps=640)
    assert success_of(trainer.policy) > 0.9
    obs = shown(20).obs["policy"][:, 0]
    error = (trainer.policy(obs) - homewards({"policy": obs})).square().mean()
    assert error < 0.01  # untrained: 0.6


def test_what_the_environment_brings_changes_nothing(file):
    config = dataclasses.replace(QUICK, demonstrations=file)
    a = algorithm_of(train(PointMass(8), config, total_steps=256), BehaviourCloning)
    b = algorithm_of(train(PointMass(8, seed=5), config, total_steps=256), BehaviourCloning)
    assert torch.equal(a.optimizer.vector, b.optimizer.vector)
    assert a.updates == 160  # 32 control steps of 8 environments


def test_whole_episodes_are_held_out_and_their_share_of_them():
    learner = make(dataclasses.replace(QUICK, held_out=0.3))
    steps = shown(10)
    learner.set_demonstrations(steps)
    assert learner.training is not None
    assert learner.held_out is not None
    held_out = learner.held_out
    episodes = steps.obs["policy"].view(10, 20, 2)
    apart = [i for i in range(10) if (episodes[i][:1] == held_out.obs).all(-1).any()]
    assert len(apart) == 3
    assert torch.equal(held_out.obs, torch.cat([episodes[i] for i in apart]))
    assert len(learner.training) == 7 * 20
    normal = learner.normalizer(learner.training.obs)
    torch.testing.assert_close(normal.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    every = make(dataclasses.replace(QUICK, held_out=0.999))
    every.set_demonstrations(steps)
    assert every.training is not None
    assert len(every.training) == 20  # one is always left to learn from


def test_the_policy_is_the_best_so_far_and_learning_ends_when_it_gets_no_better():
    learner = make(dataclasses.replace(QUICK, validation_interval=1, patience=3, updates=1.0, unroll=1))
    learner.set_demonstrations(shown(6))
    learner.update({})
    best, error = learner._best_parameters.clone(), learner._best_error
    assert torch.equal(best, learner.optimizer.vector)  # any error is less than none so far
    assert learner.held_out is not None
    learner.held_out = dataclasses.replace(
        learner.held_out, action=learner.best(learner.normalizer(learner.held_out.obs)).detach()
    )
    learner._best_error = 0.0  # nothing is better
    for _ in range(2):
        assert learner.update({})["finished"] == 0.0
    assert learner.update({})["finished"] == 1.0
    assert learner.updates == 4
    assert "imitation_loss" not in learner.update({})
    assert learner.updates == 4
    assert error > 0
    assert torch.equal(learner._best_parameters, best)
    assert not torch.equal(learner.optimizer.vector, best)
    obs = torch.randn(5, 2)
    assert torch.equal(learner.policy(obs), learner.best(learner.normalizer(obs)).detach())


def test_without_held_out_episodes_the_last_weights_count():
    learner = make(dataclasses.replace(QUICK, held_out=0.0))
    learner.set_demonstrations(shown(1))
    metrics = learner.update({})
    assert "held_out_error" not in metrics
    assert metrics["samples"] == 80 * 64
    assert torch.equal(learner._best_parameters, learner.optimizer.vector)


def test_others_start_from_a_clone_and_a_clone_from_others(file):
    clone = train(PointMass(8), dataclasses.replace(QUICK, demonstrations=file), total_steps=64).policy
    learner = OffPolicyLearner(SPEC, 2, 4, SACConfig(actor=SMALL, critic=SMALL), seed=3)
    learner.start_from(clone)
    obs = torch.randn(20, 2)
    torch.testing.assert_close(learner.policy(obs), clone(obs), atol=1e-5, rtol=1e-4)
    again = make(QUICK, seed=4)
    again.start_from(clone)
    assert torch.equal(again.optimizer.vector, again._best_parameters)
    assert torch.equal(again.actor(obs), clone.network.actor(obs))
    deterministic = OffPolicyLearner(SPEC, 2, 4, TD3Config(actor=SMALL, critic=SMALL)).policy
    with pytest.raises(ValueError, match=r"kind 'squashed-mlp' with hidden=\(32, 32\) relu .* this learner's"):
        again.start_from(deterministic)


def test_cloning_leaves_a_deviation_to_explore_with():
    learner = make(QUICK)
    learner.set_demonstrations(shown(6))
    for _ in range(5):
        learner.update({})
    deviation = learner.actor.distribution(torch.randn(500, 2))[1].detach().exp()
    assert deviation.mean() == pytest.approx(0.22, abs=0.02)
    assert deviation.std() < 0.05


def test_messages_of_the_learner():
    with pytest.raises(EmbodiedError, match=r"of which there are none; expected demonstrations=FILE, as python -m"):
        train(PointMass(4), QUICK, total_steps=4)
    with pytest.raises(EmbodiedError, match=r"held_out=0.1 of 1 demonstrated episode; expected at least 2 episodes"):
        make(QUICK).set_demonstrations(shown(1))
    with pytest.raises(ValueError, match=r"lacks the observation group 'policy'; it has camera"):
        BehaviourCloning(vectors(camera=3), 2, 4, QUICK)
    learner = make(dataclasses.replace(QUICK, normalize_observations=False))
    steps = shown(6)
    steps.obs["policy"].fill_(math.nan)
    learner.set_demonstrations(steps)
    with pytest.raises(DivergedError, match="training diverged: imitation_loss=nan"):
        learner.update({})
