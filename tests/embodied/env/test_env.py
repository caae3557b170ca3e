"""What `Env` says of itself, and how it ends."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import embodied
from embodied.errors import ActionError, EmbodiedError
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import toy_world


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_an_environment_describes_its_observations_and_episodes(engine: str) -> None:
    env = toy_world(Speck, engine, 8)
    obs = env.reset()
    assert {group: (values.shape[1:], values.dtype) for group, values in obs.items()} == {
        group: (spec.shape, spec.dtype) for group, spec in env.observation_spec.items()
    }
    assert f"Speck on {engine}: 8 environments on cpu, action (3,)" in repr(env)
    step = env.step(torch.zeros(env.action_shape))
    assert "Step(8 environments: 0 terminated, 0 truncated" in repr(step)
    assert env.episode_length.tolist() == np.asarray(env.episode.steps).tolist() == [1] * 8
    np.testing.assert_array_equal(env.render_state().qpos, env.world().qpos)
    env.spread_episode_lengths()
    assert env.episode_length.tolist() == [env.max_episode_steps * place // 8 for place in range(8)]


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_an_environment_ends_when_closed(engine: str) -> None:
    with embodied.make("swarm/hover", 2, engine) as env:
        action = torch.zeros(env.action_shape)
    env.close()
    assert "closed" in repr(env)
    with pytest.raises(ActionError, match=r"step\(\) after close\(\) of swarm/hover"):
        env.step(action)
    with pytest.raises(EmbodiedError, match=r"reset\(\) after close\(\)"):
        env.reset()
