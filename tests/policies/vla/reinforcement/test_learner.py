"""Reinforcement learning: both algorithms learn, waste is bounded, and a resume is the same bit for bit."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.learner import DivergedError
from policies.vla.fine_tuning.stopwatch import Part
from policies.vla.model.config import Head
from policies.vla.reinforcement.config import Algorithm, ImprovementConfig
from policies.vla.reinforcement.learner import MEASURED, Improvement
from tests.policies.vla.shown import SMALL, untrained
from tests.policies.vla.toy_arena import BRIEF, DEMONSTRATIONS, ToyArena, fresh_policy


def improvement(algorithm: Algorithm, config: ImprovementConfig = BRIEF, *, goal: float = 1.0, seed: int = 0):
    return Improvement(fresh_policy(seed), [ToyArena(goal=goal)], algorithm, config, seed=seed)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_success_rises(algorithm):
    made = improvement(algorithm)
    rates = [made.step()["success"] for _ in range(17)]
    assert sum(rates[:3]) / 3 < 0.5
    assert sum(rates[-3:]) / 3 > 0.8


def test_groups_that_all_fail_are_drawn_anew_so_often_and_then_nothing_is_learned():
    made = improvement(Algorithm.GRPO, goal=100.0)
    before = made.simulator.vector.clone()
    measures = made.step()
    assert measures["dropped"] == 1.0
    assert measures["episodes"] == BRIEF.rounds * BRIEF.episodes
    assert not set(MEASURED) & set(measures)
    assert torch.equal(made.simulator.vector, before)


def test_a_critic_learns_before_the_policy_does():
    made = improvement(Algorithm.PPO)
    before, critic = made.simulator.vector.clone(), made.judge.critic._simulator.vector.clone()
    measures = made.step()
    assert measures["dropped"] == 0.0
    assert measures["critic_loss"] > 0
    assert torch.equal(made.simulator.vector, before)
    assert not torch.equal(made.judge.critic._simulator.vector, critic)
    made.step()
    assert not torch.equal(made.simulator.vector, before)


def test_frozen_parts_stay_as_they_are():
    policy = fresh_policy()
    policy.network.vision.requires_grad_(False)
    frozen = {name: value.clone() for name, value in policy.network.vision.state_dict().items()}
    made = Improvement(policy, [ToyArena()], Algorithm.GRPO, BRIEF)
    made.step()
    assert all(torch.equal(value, frozen[name]) for name, value in policy.network.vision.state_dict().items())


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_resumed_training_is_the_same_bit_for_bit(algorithm):
    whole, half, other = (improvement(algorithm, seed=seed) for seed in (0, 0, 1))
    for _ in range(4):
        whole.step()
    for _ in range(2):
        half.step()
    other.load_state(trees.unflatten(trees.flatten(half.state())))
    for _ in range(2):
        other.step()
    expected, found = trees.flatten(whole.state()), trees.flatten(other.state())
    assert expected.keys() == found.keys()
    assert not [name for name, tensor in expected.items() if not torch.equal(tensor, found[name])]


def test_the_step_size_rises():
    config = dataclasses.replace(BRIEF, rise=1000)
    made = Improvement(fresh_policy(), [ToyArena()], Algorithm.GRPO, config)
    made.step()
    assert made.gradient_steps > 0
    assert made.simulator.learning_rate == pytest.approx(config.learning_rate * made.gradient_steps / 1000)
    brisk = improvement(Algorithm.GRPO)
    brisk.gradient_steps = 10_000
    brisk.step()
    assert brisk.simulator.learning_rate == brisk.config.learning_rate


def test_the_time_is_split_into_all_that_happened():
    made = improvement(Algorithm.GRPO)
    made.step()
    taken = made.watch.take()
    assert all(taken[part] > 0 for part in (Part.PHYSICS, Part.RENDERING, Part.INFERENCE, Part.UPDATE, Part.OTHER))


def test_weights_that_are_not_finite_are_an_error():
    made = improvement(Algorithm.GRPO)
    kept, _, _ = made.collect()
    with torch.no_grad():
        made.simulator.vector.fill_(math.nan)
    with pytest.raises(DivergedError, match="training diverged in iteration 0: loss=nan"):
        made.learn(kept, made.judge.judge(kept))


def test_partial_credit_tells_failures_apart():
    config = dataclasses.replace(BRIEF, partial_credit=0.5)
    made = improvement(Algorithm.GRPO, config, goal=100.0)
    before = made.simulator.vector.clone()
    measures = made.step()
    assert measures["success"] == 0.0
    assert measures["dropped"] == 0.0
    assert not torch.equal(made.simulator.vector, before)


def test_messages():
    with pytest.raises(EmbodiedError, match="has the head 'flow', whose actions have no probability"):
        Improvement(
            untrained(DEMONSTRATIONS, dataclasses.replace(SMALL, head=Head.FLOW)), [ToyArena()], Algorithm.GRPO, BRIEF
        )
    with pytest.raises(EmbodiedError, match="'toy/left' has 30 environments; expected 8 groups of 4, 32"):
        Improvement(fresh_policy(), [ToyArena(30)], Algorithm.GRPO, BRIEF)
    silent, generous = ToyArena(), dataclasses.replace(BRIEF, partial_credit=0.5)
    silent.tells_progress = False
    with pytest.raises(EmbodiedError, match=r"partial_credit=0\.5, but the reward of toy/left does not tell"):
        Improvement(fresh_policy(), [silent], Algorithm.GRPO, generous)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_size": 1}, "group_size=1 must be at least 2"),
        ({"temperature": 0.0}, "temperature=0.0 must be finite and more than 0"),
        ({"gamma": 1.5}, "gamma=1.5 must be 0 to 1"),
        ({"partial_credit": -0.1}, "partial_credit=-0.1 must be 0 to 1"),
        ({"clip_low": 1.0}, "clip_low=1.0 clip_high=0.28: expected 0 < low < 1 and 0 < high"),
    ],
)
def test_messages_of_the_config(changes, message):
    with pytest.raises(ValueError, match=message):
        ImprovementConfig(**changes)
