"""Interventions: classes of steps, their published weights, what a memory keeps, and what it brings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from policies.data import demonstrations
from policies.data.interventions import Source, episodes_to_keep, mark_before, target_shares, weights
from policies.data.replay_buffer import Transitions
from policies.imitation.behaviour_cloning import BehaviourCloning, BehaviourCloningConfig
from tests.kit.learners import CONFIGS
from tests.kit.learning import vectors

SHOWN, ROBOT, HELPED, BEFORE = (int(source) for source in Source)
CONFIG: BehaviourCloningConfig = dataclasses.replace(CONFIGS["bc"], held_out=0.0)


def ends_after(*lengths: int) -> Tensor:
    ends = torch.zeros(sum(lengths), dtype=torch.bool)
    ends[torch.tensor(lengths).cumsum(0) - 1] = True
    return ends


def test_steps_before_a_take_over_are_marked_within_their_episode():
    source = torch.tensor([ROBOT, ROBOT, HELPED, ROBOT, ROBOT, ROBOT, HELPED, ROBOT])
    assert mark_before(source, ends_after(4, 4), 1).tolist() == [1, BEFORE, 2, 1, 1, BEFORE, 2, 1]
    assert mark_before(source, ends_after(4, 4), 15).tolist() == [BEFORE, BEFORE, 2, 1, BEFORE, BEFORE, 2, 1]
    shown = torch.tensor([SHOWN, SHOWN, HELPED])
    assert torch.equal(mark_before(shown, ends_after(3)), shown)


def test_weights_make_the_published_proportions():
    source = torch.tensor([SHOWN] * 20 + [ROBOT] * 60 + [HELPED] * 12 + [BEFORE] * 8)
    weight = weights(source)
    share = torch.stack([weight[source == kind].sum() for kind in Source]) / weight.sum()
    assert share.tolist() == pytest.approx([0.2, 0.3, 0.5, 0.0])
    assert weight.mean().item() == pytest.approx(1.0)
    assert target_shares(source[:80]).tolist() == pytest.approx([0.25, 0.75, 0.0, 0.0])  # nobody took over
    many = torch.tensor([SHOWN] * 80 + [ROBOT] * 10 + [HELPED] * 10)
    assert target_shares(many).tolist() == pytest.approx([0.5, 0.0, 0.5, 0.0])
    assert target_shares(torch.tensor([HELPED, BEFORE])).tolist() == pytest.approx([0.0, 0.0, 1.0, 0.0])


def test_a_full_memory_keeps_demonstrations_and_the_most_helped_newest_episodes():
    ends = ends_after(2, 2, 3, 2, 2)
    source = torch.tensor([SHOWN, SHOWN, ROBOT, HELPED, ROBOT, HELPED, HELPED, ROBOT, HELPED, ROBOT, ROBOT])
    episode = (ends.cumsum(0) - ends.long()).tolist()

    def kept(capacity: int) -> list[int]:
        mask = episodes_to_keep(source, ends, capacity)
        return sorted({number for number, stays in zip(episode, mask.tolist(), strict=True) if stays})

    assert kept(11) == [0, 1, 2, 3, 4]
    assert kept(9) == [0, 1, 2, 3]
    assert kept(7) == [0, 2, 3]
    assert kept(5) == [0, 2]
    assert kept(1) == [0]


def good(obs: Tensor) -> Tensor:
    return 0.8 * obs


def worked(episodes: int = 40) -> tuple[Transitions, Tensor]:
    """A robot that errs for five steps where x > 0 until somebody takes over for five; a few demonstrations."""
    generator = torch.Generator().manual_seed(0)
    obs = 2 * torch.rand(episodes, 10, 2, generator=generator) - 1
    errs = torch.arange(episodes) % 2 == 0
    obs[..., 0] = torch.where(errs[:, None], obs[..., 0].abs(), obs[..., 0])
    action = good(obs)
    action[errs, :5] *= -1
    source = torch.full((episodes, 10), ROBOT)
    source[errs, 5:] = HELPED
    source[1:8:2] = SHOWN
    obs, action = obs.reshape(-1, 1, 2), action.reshape(-1, 1, 2)
    ends = ends_after(*[10] * episodes)[:, None]
    led_to = {"policy": obs.clone()}
    never = torch.zeros_like(ends)
    return Transitions({"policy": obs}, action, torch.zeros(len(obs), 1), never, ends, led_to), source.flatten()


def error_of(clone: BehaviourCloning) -> float:
    for _ in range(3):
        clone.update({})
    obs = torch.rand(200, 2, generator=torch.Generator().manual_seed(1))
    return (clone.policy(obs) - good(obs)).abs().mean().item()


def test_weighted_cloning_learns_from_take_overs_and_not_from_what_led_to_them():
    steps, source = worked()
    plain, weighted = (BehaviourCloning(vectors(policy=2), 2, 4, CONFIG) for _ in range(2))
    plain.set_demonstrations(steps)
    weighted.set_demonstrations(steps, source)
    assert error_of(weighted) < 0.1 < 0.2 < error_of(plain)


def test_who_acted_is_read_from_the_file_and_kept_in_checkpoints(tmp_path: Path):
    steps, source = worked(12)
    path = tmp_path / "worked.safetensors"
    demonstrations.save(path, steps, source)
    config = dataclasses.replace(CONFIG, demonstrations=path, weigh_interventions=True, max_steps=80)
    clone = BehaviourCloning(vectors(policy=2), 2, 4, config)
    clone.act({"policy": steps.obs["policy"][:4, 0]})
    assert clone.training is not None
    assert len(clone.training) <= 80
    assert (clone.training.weight == 0).any()
    other = BehaviourCloning(vectors(policy=2), 2, 4, config)
    other.set_demonstrations(steps, source)
    other.load_state(clone.state())
    assert other.training is not None
    assert torch.equal(other.training.weight, clone.training.weight)


def test_messages(tmp_path: Path):
    steps, source = worked(4)
    path = tmp_path / "worked.safetensors"
    demonstrations.save(path, steps)
    with pytest.raises(EmbodiedError, match=r"lack 'source', who acted: expected .* of 0 demonstration, 1 robot"):
        demonstrations.load_source(path)
    demonstrations.save(path, steps, source + 2)
    with pytest.raises(EmbodiedError, match=r"from 2 to 4; expected"):
        demonstrations.load_source(path)
