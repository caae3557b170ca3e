"""Environments that begin equal: on every kind of engine, and until somebody does something else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from embodied.errors import EmbodiedError
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import toy_world


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_neighbours_begin_as_one_would_alone_and_go_apart_by_what_they_do(engine: str) -> None:
    env = toy_world(Speck, engine, 8)
    expected = env.reset(3)["policy"].clone()
    obs = env.reset(3, group_size=2)["policy"]
    torch.testing.assert_close(obs, expected[:4].repeat_interleave(2, 0), atol=1e-6, rtol=0)
    assert (expected[0] != expected[1]).any()
    action = torch.full(env.action_shape, 0.1)
    action[1] = -0.5
    after = obs
    for _ in range(2):  # no episode is as short
        after = env.step(action).obs["policy"]
    torch.testing.assert_close(after[2], after[3], atol=1e-6, rtol=0)
    velocity = np.asarray(env.world().qvel)
    assert np.abs(velocity[0] - velocity[1]).max() > 1e-3


def test_a_count_that_does_not_divide_is_named() -> None:
    env = toy_world(Speck, "mujoco", 8)
    for group_size in (0, 3):
        with pytest.raises(EmbodiedError, match=f"group_size={group_size} does not divide 8 environments"):
            env.reset(group_size=group_size)


def test_with_a_seed_of_its_own_each_begins_as_one_alone_would() -> None:
    env, alone, seeds = toy_world(Speck, "mujoco", 8), toy_world(Speck, "mujoco", 1), (5, 6, 5, 7, 8, 9, 10, 11)
    expected = torch.cat([alone.reset(seed)["policy"].clone() for seed in seeds])
    torch.testing.assert_close(env.reset(seeds)["policy"], expected, atol=1e-6, rtol=0)
    pairs = env.reset((5, 6, 5, 7), group_size=2)["policy"]
    torch.testing.assert_close(pairs, expected[:4].repeat_interleave(2, 0), atol=1e-6, rtol=0)
    with pytest.raises(EmbodiedError, match="2 seeds; expected 8, one for each environment"):
        env.reset([1, 2])
