"""`FunctionalGymnasiumEnv` with Gymnasium's own conversions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.functional_jax_env import FunctionalJaxEnv, FunctionalJaxVectorEnv
from gymnasium.wrappers import TimeLimit

from embodied.env.adapters.gymnasium_functional import FunctionalGymnasiumEnv
from embodied.errors import EmbodiedError, UnknownNameError


def test_its_functions_are_pure_and_tell_of_the_step() -> None:
    env = FunctionalGymnasiumEnv("swarm/hover")
    key, action = jax.random.PRNGKey(0), jnp.ones(4)
    inner, observation = env.functional.reset(key)
    state = env.initial(key)
    np.testing.assert_array_equal(env.observation(state, key), observation["policy"])
    following = jax.jit(env.transition)(state, action, key)
    _, transition = jax.jit(env.functional.step)(inner, action)
    assert env.reward(state, action, following, key) == pytest.approx(float(transition.reward), rel=1e-4)
    np.testing.assert_allclose(env.observation(following, key), transition.observation["policy"], rtol=1e-4, atol=1e-5)
    assert not env.terminal(following, key)
    assert {name: bool(value) for name, value in env.transition_info(state, action, following).items()} == {
        "success": False,
        "diverged": False,
    }


def test_gymnasium_makes_an_environment_of_it() -> None:
    functional = FunctionalGymnasiumEnv("swarm/hover")
    functional.transform(jax.jit)
    env = TimeLimit(FunctionalJaxEnv(functional), 3)
    first, _ = env.reset(seed=3)
    assert env.observation_space.contains(np.asarray(first))
    flags = [env.step(np.zeros(4, np.float32))[2:4] for _ in range(3)]
    assert flags == [(False, False), (False, False), (False, True)]
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)


def test_gymnasium_makes_a_vector_environment_of_it() -> None:
    """It resets rows of the state as it would those of an array."""
    functional = FunctionalGymnasiumEnv("swarm/hover", start_distance=1.9, start_speed=20.0)
    env = FunctionalJaxVectorEnv(functional, num_envs=4, max_episode_steps=12)
    functional.transform(jax.jit)
    first, _ = env.reset(seed=3)
    assert first.shape == (4, 16)
    ended = 0
    for _ in range(40):
        before = env.prev_done
        observation, reward, terminated, truncated, info = env.step(-jnp.ones((4, 4)))
        assert np.isfinite(observation).all()
        assert reward.shape == info["success"].shape == (4,)
        assert not (before & (terminated | truncated)).any()
        ended += int((terminated | truncated).sum())
    assert ended >= 8


def test_refusals_are_one_line() -> None:
    with pytest.raises(EmbodiedError, match=r"this task has \d+ agents, and Gymnasium takes one"):
        FunctionalGymnasiumEnv("swarm/formation")
    with pytest.raises(UnknownNameError, match="unknown observation group 'colour'"):
        FunctionalGymnasiumEnv("swarm/hover", group="colour")
