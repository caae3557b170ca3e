"""`BraxEnv` with Brax's own wrappers and training."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.adapters.brax import BraxEnv, wrap
from embodied.errors import ActionError, EmbodiedError, UnknownNameError
from tests.documents.snippets import ROOT, blocks_of
from tests.kit.worlds import jitted

FALLING: dict[str, Any] = {"start_distance": 1.9, "start_speed": 20.0}


@pytest.fixture(scope="module")
def env() -> BraxEnv:
    """The drones that the tests share, whose programs are compiled."""
    env = BraxEnv("swarm/hover", **FALLING)
    state = jitted(env.reset)(jax.random.PRNGKey(0))
    jitted(env.step)(state, jnp.zeros(env.action_size))
    inner, _ = jitted(env.functional.reset)(jax.random.PRNGKey(0))
    jitted(env.functional.step)(inner, jnp.zeros(env.action_size))
    return env


def test_it_is_the_functional_environment(env: BraxEnv) -> None:
    state = jitted(env.reset)(jax.random.PRNGKey(0))
    inner, observation = jitted(env.functional.reset)(jax.random.PRNGKey(0))
    assert state.obs.shape == (env.observation_size,)
    np.testing.assert_allclose(state.obs, observation["policy"], rtol=1e-5, atol=1e-6)
    step, its = jitted(env.step), jitted(env.functional.step)
    for action in np.random.default_rng(5).uniform(0, 1, (4, env.action_size)).astype(np.float32):
        state = step(state, action)
        inner, transition = its(inner, action)
        np.testing.assert_allclose(state.obs, transition.observation["policy"], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(state.reward, transition.reward, rtol=1e-4, atol=1e-4)
        terms = sum(state.metrics[name] for name in env.functional.task.reward_weights)
        np.testing.assert_allclose(terms, transition.reward, rtol=1e-4, atol=1e-4)
        assert state.done == transition.terminated


@pytest.fixture(scope="module")
def life(env: BraxEnv) -> Any:
    """What happens in four environments under no thrust, in 60 steps."""
    wrapped: Any = wrap(env, 12)
    state = jax.jit(wrapped.reset)(jax.random.split(jax.random.PRNGKey(0), 4))
    first = state.obs

    def step(state, _):
        state = wrapped.step(state, -jnp.ones((4, wrapped.action_size)))
        return state, (state.obs, state.done, state.info["truncation"], state.info["steps"])

    return first, *jax.jit(lambda state: jax.lax.scan(step, state, None, length=60))(state)[1]


def test_episodes_begin_afresh(life: Any) -> None:
    """Elsewhere, after the time limit or a fall."""
    first, seen, done, truncation, steps = life
    assert done.sum() >= 8
    assert truncation.any(), "some drones should last 12 steps"
    assert (done > truncation).any(), "and some should not"
    assert int(steps.max()) == 12
    assert not any(np.allclose(seen[time, which], first[which], atol=1e-3) for time, which in np.argwhere(done))


def test_several_groups_are_a_dictionary_and_one_agent_is_no_axis() -> None:
    env = BraxEnv("swarm/hover", group=("policy", "critic"))
    assert env.observation_size == {"policy": (16,), "critic": (23,)}
    observation: Any = jax.eval_shape(env.reset, jax.random.PRNGKey(0)).obs
    assert {name: array.shape for name, array in observation.items()} == env.observation_size
    landing = BraxEnv("swarm/landing")
    state = jax.eval_shape(landing.reset, jax.random.PRNGKey(0))
    state = jax.eval_shape(landing.step, state, jnp.zeros(landing.action_size))
    assert state.obs.shape == (landing.observation_size,)
    assert state.reward.shape == ()


def test_refusals_are_one_line(env: BraxEnv) -> None:
    with pytest.raises(EmbodiedError, match=r"this task has \d+ agents, and Brax takes one; use .*embodied.functional"):
        BraxEnv("swarm/formation")
    with pytest.raises(UnknownNameError, match="unknown observation group 'colour'"):
        BraxEnv("swarm/hover", group="colour")
    with pytest.raises(EmbodiedError, match="randomization_fn changes models of Brax"):
        wrap(env, 400, randomization_fn=lambda system: system)


CALLS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "key": (lambda env, _: env.reset(0), "the random key is 0; expected a key of jax.random"),
    "list": (lambda env, state: env.step(state, [0.0] * 4), "action is a list; expected an array (4,)"),
    "no action": (lambda env, state: env.step(state, None), "action is None; expected an array (4,)"),
    "number": (lambda env, state: env.step(state, 0.0), "action is 0.0; expected an array (4,)"),
    "long": (lambda env, state: env.step(state, jnp.zeros(5)), "action has shape (5,); expected (4,)"),
    "batch": (lambda env, state: env.step(state, jnp.zeros((1, 4))), "action has shape (1, 4); expected (4,)"),
    "NaN": (lambda env, state: env.step(state, jnp.full(4, jnp.nan)), "action is not finite: [nan, nan, nan, nan]"),
    "state": (lambda env, _: env.step(3, jnp.zeros(4)), "state is of type int; expected a State"),
    "inner state": (lambda env, state: env.step(state.pipeline_state, jnp.zeros(4)), "state is of type EnvState"),
    "restart": (lambda env, state: env.restart(state), "state is a State; expected an EnvState"),
    "keys": (lambda env, _: wrap(env, 9).reset(0), "the random key is 0; expected keys of jax.random"),  # type: ignore[arg-type]
    "one key": (lambda env, _: wrap(env, 9).reset(jax.random.PRNGKey(0)), "an array (2,) of uint32; expected keys"),
    "wrapped": (lambda env, state: wrap(env, 9).step(state, jnp.full(4, jnp.inf)), "action is not finite"),
    "wrapped state": (lambda env, _: wrap(env, 9).step(3, 3), "state is of type int"),  # type: ignore[arg-type]
    "less than a step": (lambda env, _: wrap(env, -1), "episode_length=-1; expected a whole number, from 1 to 214748"),
    "half a step": (lambda env, _: wrap(env, 3.5), "episode_length=3.5; expected a whole n"),  # type: ignore[arg-type]
    "too many steps": (lambda env, _: wrap(env, 2**31), "episode_length=2147483648; expected a whole number"),
    "never": (lambda env, _: wrap(env, 9, 0), "action_repeat=0; expected a whole number, from 1 to 2147483647"),
    "no environment": (lambda *_: wrap(3, 9), "env=3; expected a BraxEnv"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS)
def test_bad_input_is_refused_in_a_line(env: BraxEnv, call: str) -> None:
    ask, expected = CALLS[call]
    state = jitted(env.reset)(jax.random.PRNGKey(0))
    with pytest.raises(EmbodiedError) as caught:
        ask(env, state)
    assert expected in str(caught.value)
    assert isinstance(caught.value, ActionError) == ("action " in expected)


@pytest.mark.slow
def test_brax_trains_on_it_as_the_page_says() -> None:
    """docs/adapters.md, with fewer environments: its PPO runs, sums of `success` are rates, and its policy acts."""
    (block,) = (block for block in blocks_of(ROOT / "docs" / "adapters.md") if "adapters.brax import" in block.text)
    code = block.text.replace("2_000_000", "512").replace(
        "num_envs=1024, batch_size=256", "num_envs=16, batch_size=16, num_eval_envs=4, num_minibatches=2"
    )
    found: dict[str, Any] = {}
    exec(compile(code, block.place, "exec"), found)
    assert 0.0 <= found["metrics"]["eval/episode_success"] <= 1.0
    assert np.isfinite(found["metrics"]["eval/episode_reward"])
    env, act = found["env"], found["make_policy"](found["parameters"], deterministic=True)
    assert act(jnp.zeros(env.observation_size), jax.random.PRNGKey(0))[0].shape == (env.action_size,)
