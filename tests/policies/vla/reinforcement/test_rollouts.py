"""Episodes with recorded decisions: groups begin alike, go apart, and nobody looks at what is over."""

from __future__ import annotations

import pytest
import torch

from policies.vla.fine_tuning.stopwatch import Part, Stopwatch
from policies.vla.reinforcement.experience import Experience
from tests.policies.vla.toy_arena import COARSE, ToyArena, fresh_policy, toy_episodes


def test_a_group_begins_alike_is_told_the_same_and_goes_apart():
    experience = toy_episodes(fresh_policy(), ToyArena())
    first = experience.places == 0
    assert first.sum() == len(experience) == 32
    for group in range(8):
        own = experience.group == group
        seen = experience.pixels[first][own]
        assert torch.equal(seen, seen[:1].expand_as(seen))
        assert experience.text[own].unique().numel() == 1
        assert experience.tokens[first][own].flatten(1).unique(dim=0).shape[0] > 1
    assert experience.success[experience.group == 0].numel() == 4


@pytest.mark.parametrize("execute", [0, 3])
def test_what_is_over_is_neither_looked_at_nor_counted(execute):
    arena = ToyArena()
    experience = toy_episodes(fresh_policy(execute=execute), arena)
    assert torch.equal(experience.actions, experience.length)
    assert sum(map(len, arena.looked)) == len(experience.episode)
    stride = execute or COARSE.chunk
    for number in range(len(experience)):
        rows = experience.episode == number
        assert rows.sum() == -(-experience.length[number] // stride)
        assert torch.equal(experience.elapsed[rows], torch.arange(int(rows.sum())) * stride / arena.horizon)
    assert not experience.acted[:, stride:].any()
    assert (experience.length < arena.horizon).any()


def test_an_episode_succeeds_at_its_goal_and_fails_beyond_the_other_side():
    arena = ToyArena(goal=0.5)
    experience = toy_episodes(fresh_policy(), arena)
    assert experience.success.any()
    assert (~experience.success).any()
    ended = experience.length < arena.horizon
    assert (ended | ~experience.success).all() or experience.success[~ended].any()


def test_experience_is_selected_and_joined_without_losing_whose_is_what():
    one, other = (toy_episodes(fresh_policy(), ToyArena(), seed=seed) for seed in (0, 1))
    joined = Experience.joined([one, other])
    assert joined.group.unique().tolist() == list(range(16))
    assert joined.texts == one.texts
    again = joined.only(joined.group >= 8)
    assert torch.equal(again.episode, other.episode)
    for name in ("pixels", "tokens", "log_prob", "acted", "success", "text"):
        assert torch.equal(getattr(again, name), getattr(other, name))


def test_the_parts_of_the_time_add_up_to_the_whole():
    now = [0.0]
    watch = Stopwatch(clock=lambda: now[0])
    for part, took in ((Part.PHYSICS, 1.0), (Part.UPDATE, 2.0)):
        with watch.part(part):
            now[0] += took
            with watch.part(Part.RENDERING):
                now[0] += 0.5
        now[0] += 0.25
    taken = watch.take()
    assert sum(taken.values()) == now[0] == 4.5
    assert taken[Part.RENDERING] == 1.0
    assert taken[Part.PHYSICS] == 1.0
    assert taken[Part.OTHER] == 0.5
    assert not any(watch.take().values())
