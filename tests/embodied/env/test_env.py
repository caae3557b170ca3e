"""What `Env` says of itself, and how it ends."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from embodied.errors import ActionError, EmbodiedError
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import build_toy, jitted, toy_world


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
    with build_toy(Speck, engine, 8) as env:
        action = torch.zeros(env.action_shape)
    env.close()
    assert "closed" in repr(env)
    with pytest.raises(ActionError, match=r"step\(\) after close\(\) of Speck"):
        env.step(action)
    with pytest.raises(EmbodiedError, match=r"reset\(\) after close\(\)"):
        env.reset()


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_of_few_environments_those_that_end_begin_by_their_own_keys(engine: str) -> None:
    """Few restart by the program that began them."""
    env = toy_world(Speck, engine, 8)
    env.reset(seed=2)
    lengths = torch.zeros(env.num_envs, dtype=torch.int64)
    lengths[3] = env.max_episode_steps - 1
    env.episode_length = lengths
    key, before = np.array(env.episode.key), np.array(env.world().qpos)
    step = env.step(torch.zeros(env.action_shape))
    assert step.truncated.tolist() == [number == 3 for number in range(env.num_envs)]
    start = jitted(env.task.reset)(jax.random.split(key[3])[0])
    np.testing.assert_allclose(env.world().qpos[3], start.qpos, rtol=1e-6, atol=1e-6)
    others = np.delete(np.array(env.world().qpos) - before, 3, 0)
    assert np.abs(others).max() < 0.1
    np.testing.assert_array_equal(env.episode_length, [0 if number == 3 else 1 for number in range(env.num_envs)])


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_a_step_tells_the_sums_and_means_of_its_episode(engine: str) -> None:
    env = toy_world(Speck, engine, 8)
    env.reset(seed=1)
    heights, rewards, whole = [], [], np.ones(8, bool)
    for count in range(1, 5):
        step = env.step(torch.zeros(env.action_shape))
        whole &= ~step.done.numpy()
        heights.append(np.array(env.world()["position"][:, 2]))
        rewards.append(step.reward.numpy())
        assert (step.info["length"].numpy() == count)[whole].all()
        np.testing.assert_allclose(step.info["height"][whole], np.mean(heights, 0)[whole], rtol=1e-5)
        np.testing.assert_allclose(step.info["return"][whole], np.sum(rewards, 0)[whole], rtol=1e-5)
    assert whole.sum() > 2
