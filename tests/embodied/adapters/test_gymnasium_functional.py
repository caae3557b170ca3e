"""`FunctionalGymnasiumEnv` with Gymnasium's own conversions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.functional_jax_env import FunctionalJaxEnv, FunctionalJaxVectorEnv
from gymnasium.wrappers import TimeLimit

from embodied.adapters.gymnasium_functional import FunctionalGymnasiumEnv
from embodied.errors import EmbodiedError, UnknownNameError

KEY, ACTION = jax.random.PRNGKey(0), np.ones(4, np.float32)


@pytest.fixture(scope="module")
def env():
    return FunctionalGymnasiumEnv("swarm/hover")


@pytest.fixture(scope="module")
def one_step(env):
    """A start and a step: the adapter's states, and what the functional environment tells of them."""

    @jax.jit
    def both(key):
        inner, observation = env.functional.reset(key)
        state = env.initial(key)
        following, (_, transition) = env.transition(state, ACTION, key), env.functional.step(inner, ACTION)
        return state, observation, following, transition

    return both(KEY)


def test_its_functions_are_pure_and_tell_of_the_step(env, one_step) -> None:
    (state, observation, following, transition), key, action = one_step, KEY, ACTION
    np.testing.assert_array_equal(env.observation(state, key), observation["policy"])
    assert env.reward(state, action, following, key) == pytest.approx(float(transition.reward), rel=1e-4)
    np.testing.assert_allclose(env.observation(following, key), transition.observation["policy"], rtol=1e-4, atol=1e-5)
    assert not env.terminal(following, key)
    assert {name: bool(value) for name, value in env.transition_info(state, action, following).items()} == {
        "success": False,
        "diverged": False,
    }


@pytest.fixture(scope="module")
def converted():
    """An environment that Gymnasium made, whose functions are compiled."""
    functional = FunctionalGymnasiumEnv("swarm/hover")
    functional.transform(jax.jit)
    env = FunctionalJaxEnv(functional)
    env.reset(seed=0)
    env.step(np.zeros(4, np.float32))
    return env


def test_gymnasium_makes_an_environment_of_it(converted) -> None:
    env = TimeLimit(converted, 3)
    first, _ = env.reset(seed=3)
    assert env.observation_space.contains(np.asarray(first))
    flags = [env.step(np.zeros(4, np.float32))[2:4] for _ in range(3)]
    assert flags == [(False, False), (False, False), (False, True)]
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)


def test_rows_of_a_batch_of_states_are_set_as_of_an_array(one_step) -> None:
    states = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * 4), one_step[0])
    rows = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * 2), one_step[2])
    mixed = jax.tree.map(jnp.asarray, states).at[np.array([0, 3])].set(rows)
    for leaf, old, new in zip(*map(jax.tree.leaves, (mixed, one_step[0], one_step[2])), strict=True):
        for row in range(4):
            np.testing.assert_array_equal(leaf[row], new if row in (0, 3) else old)


@pytest.mark.slow
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


CALLS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "key": (lambda env, _: env.initial(0), "the random key is 0; expected a key of jax.random"),
    "no action": (lambda env, state: env.transition(state, None, KEY), "action is None; expected an array (4,)"),
    "list": (lambda env, state: env.transition(state, [0.0] * 4, KEY), "action is a list; expected an array (4,)"),
    "long": (lambda env, state: env.transition(state, np.zeros(5), KEY), "action has shape (5,); expected (4,)"),
    "batch": (
        lambda env, state: env.transition(state, np.zeros((1, 4)), KEY),
        "action has shape (1, 4); expected",
    ),
    "NaN": (lambda env, state: env.transition(state, ACTION * np.nan, KEY), "action is not finite: [nan, nan, nan"),
    "state": (lambda env, _: env.transition(3, ACTION, KEY), "state is of type int; expected a FuncState"),
    "inner state": (lambda env, state: env.observation(state.env, KEY), "state is of type EnvState; expected a Func"),
    "no state": (lambda env, _: env.terminal(None, KEY), "state is of type NoneType; expected a FuncState"),
    "no next state": (lambda env, state: env.reward(state, ACTION, None, KEY), "state is of type NoneType"),
    "no info": (lambda env, state: env.transition_info(state, ACTION, None), "state is of type NoneType"),
}


@pytest.mark.parametrize("call", CALLS)
def test_bad_input_is_refused_in_a_line(env, one_step, call) -> None:
    ask, expected = CALLS[call]
    with pytest.raises(EmbodiedError) as caught:
        ask(env, one_step[0])
    assert str(caught.value).startswith(expected)


def test_refusals_are_one_line() -> None:
    with pytest.raises(EmbodiedError, match=r"this task has \d+ agents, and Gymnasium takes one"):
        FunctionalGymnasiumEnv("swarm/formation")
    with pytest.raises(UnknownNameError, match="unknown observation group 'colour'"):
        FunctionalGymnasiumEnv("swarm/hover", group="colour")
