"""Environments that begin equal: on every kind of engine, and until somebody does something else."""

from __future__ import annotations

import pytest
import torch

import embodied
from embodied.errors import EmbodiedError


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_neighbours_begin_as_one_would_alone_and_go_apart_by_what_they_do(engine: str) -> None:
    env = embodied.make("swarm/hover", 4, engine, seed=3)
    expected = env.reset()["policy"].clone()
    obs = env.reset(group_size=2)["policy"]
    torch.testing.assert_close(obs, expected[:2].repeat_interleave(2, 0), atol=1e-6, rtol=0)
    assert (expected[0] != expected[1]).any()
    action = torch.full((4, env.action_size), 0.1)
    action[1] = -0.5
    after = obs
    for _ in range(3):
        after = env.step(action).obs["policy"]
    torch.testing.assert_close(after[2], after[3], atol=1e-6, rtol=0)
    assert (after[0] - after[1]).abs().max() > 1e-3


def test_a_count_that_does_not_divide_is_named() -> None:
    env = embodied.make("swarm/hover", 6)
    for group_size in (0, 4):
        with pytest.raises(EmbodiedError, match=f"group_size={group_size} does not divide 6 environments"):
            env.reset(group_size=group_size)


def test_with_a_seed_of_its_own_each_begins_as_one_alone_would() -> None:
    env, alone = embodied.make("swarm/hover", 3), embodied.make("swarm/hover", 1)
    expected = torch.cat([alone.reset(seed)["policy"].clone() for seed in (5, 6, 5)])
    torch.testing.assert_close(env.reset((5, 6, 5))["policy"], expected, atol=1e-6, rtol=0)
    pairs = embodied.make("swarm/hover", 4).reset((5, 6), group_size=2)["policy"]
    torch.testing.assert_close(pairs, expected[[0, 0, 1, 1]], atol=1e-6, rtol=0)
    with pytest.raises(EmbodiedError, match="2 seeds; expected 3, one for each environment"):
        env.reset([1, 2])
