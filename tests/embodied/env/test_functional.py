"""One environment as pure functions: what `embodied.make` lives through, and what JAX makes of functions."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from embodied.core.episode import environment_keys
from embodied.env.functional import FunctionalEnv
from embodied.errors import ActionError, EmbodiedError, EngineError, UnknownNameError
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import jitted, toy_world

NUM_ENVS, STEPS = 8, 30


@pytest.fixture(scope="module")
def speck():
    core = toy_world(Speck, "rigid", NUM_ENVS)
    env = FunctionalEnv(core.task, core.engine)
    state, _ = jitted(env.reset)(jax.random.PRNGKey(3))
    jitted(env.step)(state, jnp.ones(3))
    return env


def plan(*shape):
    """Actions of which none explodes."""
    return np.random.default_rng(5).uniform(0.05, 0.9, shape).astype(np.float32)


def assert_close(ours, theirs):
    """Equal up to how XLA vectorises batches of several sizes."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_it_lives_through_the_episodes_of_the_vectorised_environment(speck):
    """Restarts included: each environment's draws come from its own key, however many there are."""
    actions = plan(STEPS, NUM_ENVS, 3)
    core = toy_world(Speck, "rigid", NUM_ENVS)
    expected = [core.reset(7), *(core.step(torch.from_numpy(action)) for action in actions)]

    def step(state, action):
        state, transition = speck.step(state, action)
        ended = transition.terminated | transition.truncated
        fresh, first = speck.restart(state)
        state, seen = jax.tree.map(
            lambda new, old: jnp.where(ended, new, old), (fresh, first), (state, transition.observation)
        )
        return state, (transition, seen)

    def life(key, mine):
        state, first = speck.reset(key)
        return first, jax.lax.scan(step, state, mine)[1]

    first, (transitions, seen) = jax.jit(jax.vmap(life, (0, 1)))(environment_keys(7, NUM_ENVS), actions)
    assert_close(first["policy"], expected[0]["policy"])
    for index, told in enumerate(expected[1:]):
        assert_close(seen["policy"][:, index], told.obs["policy"])
        assert_close(transitions.reward[:, index], told.reward)
        np.testing.assert_array_equal(transitions.terminated[:, index], told.terminated)
        np.testing.assert_array_equal(transitions.truncated[:, index], told.truncated)
    assert transitions.terminated.any()
    assert transitions.truncated.any()


def test_functions_are_pure(speck):
    state, observation = jitted(speck.reset)(jax.random.PRNGKey(3))
    step = jitted(speck.step)
    (one, first), (other, again) = step(state, jnp.ones(3)), step(state, jnp.ones(3))
    for ours, theirs in zip(jax.tree.leaves((one, first)), jax.tree.leaves((other, again)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert {group: array.shape for group, array in observation.items()} == speck.observation_shapes
    assert speck.action_shape == (3,)


def test_both_kinds_of_keys_mean_the_same(speck):
    """`jax.random.key`'s and `jax.random.PRNGKey`'s."""
    reset = jitted(speck.reset)
    for ours, theirs in zip(
        jax.tree.leaves(reset(jax.random.key(3))), jax.tree.leaves(reset(jax.random.PRNGKey(3))), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def check_gradients(env, actions, small, **tolerance):
    """The gradient of the return by the first action is its difference quotients; all of it is finite."""

    def total(actions):
        state, _ = env.reset(jax.random.key(0))
        _, transitions = jax.lax.scan(env.step, state, actions)
        return jnp.sum(transitions.reward)

    both = jax.jit(jax.value_and_grad(total))
    gradient = both(actions)[1]
    for place in range(actions.shape[1]):
        aside = jnp.zeros_like(actions).at[0, place].set(small)
        difference = (both(actions + aside)[0] - both(actions - aside)[0]) / (2 * small)
        np.testing.assert_allclose(gradient[0, place], difference, **tolerance)
    assert np.isfinite(gradient).all()
    return gradient


def test_gradients_of_the_return_are_its_differences(speck):
    """Through three control steps of 4 physics steps each: upwards it earns more."""
    gradient = check_gradients(speck, jnp.asarray(plan(3, 3)), 0.05, rtol=0.05, atol=1e-5)
    assert (gradient[:2, 2] > 0).all()


@pytest.mark.slow
def test_gradients_of_hovering_are_its_differences():
    """Through twenty control steps of 10 physics steps each, by every rotor, between the kinks of thrust."""
    check_gradients(embodied.functional("swarm/hover"), jnp.asarray(plan(20, 4)), 2e-2, rtol=0.05, atol=0.01)


def test_actions_are_clipped_as_everywhere(speck):
    state, _ = jitted(speck.reset)(jax.random.key(0))
    _, most = jitted(speck.step)(state, jnp.ones(3))
    _, more = jitted(speck.step)(state, jnp.full(3, 7.0))
    np.testing.assert_array_equal(most.observation["policy"], more.observation["policy"])


def states(env):
    """A state, and what is none: by name."""
    state, observation = jitted(env.reset)(jax.random.PRNGKey(0))
    return {
        "own": state,
        "both": (state, observation),
        "several": jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state),
        "another engine's": dataclasses.replace(state, physics={"qpos": jnp.zeros(7)}),
        "another task's": dataclasses.replace(state, episode=dataclasses.replace(state.episode, terms={})),
    }


ONE = "expected a key of jax.random, such as jax.random.PRNGKey(0)"
ACTIONS: dict[str, tuple[Any, str]] = {
    "no array": (None, "action is None; expected an array (3,) of JAX or numpy"),
    "number": (0.0, "action is 0.0; expected an array (3,)"),
    "list": ([0.0, 0.0, 0.0], "action is a list; expected an array (3,)"),
    "torch": (torch.zeros(3), "action is a Tensor; expected an array (3,)"),
    "too long": (jnp.zeros(5), "action has shape (5,); expected (3,)"),
    "several": (np.zeros((1, 3), np.float32), "action has shape (1, 3); expected (3,)"),
    "complex": (jnp.zeros(3, complex), "action has dtype complex64; expected a floating-point array"),
    "whole": (np.zeros(3, int), "action has dtype int64; expected a floating-point array"),
    "objects": (np.array([None] * 3), "action has dtype object; expected a floating-point array"),
    "texts": (np.array(["a"] * 3), "action has dtype <U1; expected a floating-point array"),
    "eighths": (jnp.zeros(3, jnp.float8_e4m3fn), "action has dtype float8_e4m3fn; expected a floating-point array"),
    "not a number": (jnp.array([0.0, jnp.nan, 0.0]), "action is not finite: [0.0, nan, 0.0]; expected [-1, 1]"),
    "infinite": (np.array([0.0, np.inf, 0.0], np.float32), "action is not finite: [0.0, inf, 0.0]"),
}
CALLS: dict[str, tuple[Callable[[FunctionalEnv, dict[str, Any]], Any], str]] = {
    "key of a number": (lambda env, _: env.reset(0), f"the random key is 0; {ONE}"),  # type: ignore[arg-type]
    "no key": (lambda env, _: env.reset(None), f"the random key is None; {ONE}"),  # type: ignore[arg-type]
    "key of text": (lambda env, _: env.reset("x"), f"the random key is 'x'; {ONE}"),  # type: ignore[arg-type]
    "key of a traced number": (lambda env, _: jax.jit(env.reset)(0), f"an array () of int32; {ONE}"),
    "floating key": (lambda env, _: env.reset(jnp.zeros(2)), f"an array (2,) of float32; {ONE}"),
    "long key": (lambda env, _: env.reset(jax.random.key(0, impl="rbg")), "an array () of key<rbg>"),
    "keys": (lambda env, _: env.reset(jax.random.split(jax.random.key(0), 4)), "jax.vmap(env.reset) takes several"),
    "no state": (lambda env, _: env.step(3, jnp.zeros(3)), "state is 3; expected an EnvState"),  # type: ignore[arg-type]
    "state and observation": (lambda env, of: env.step(of["both"], jnp.zeros(3)), "state is a tuple; expected an EnvS"),
    "states": (lambda env, of: env.step(of["several"], jnp.zeros(3)), "state holds (2,) environments; expected one"),
    "another engine's state": (
        lambda env, of: env.step(of["another engine's"], jnp.zeros(3)),
        "it has no physics.time; expected () as reset gives it",
    ),
    "another task's state": (
        lambda env, of: env.step(of["another task's"], jnp.zeros(3)),
        "state is not one of FunctionalEnv(Speck on rigid: action (3,)): it has no episode.terms.",
    ),
    "restart": (lambda env, of: env.restart(of["both"]), "state is a tuple; expected an EnvState"),
    "restart of several": (lambda env, of: env.restart(of["several"]), "state holds (2,) environments"),
    "world": (lambda env, _: env.world(None), "state is None; expected an EnvState"),  # type: ignore[arg-type]
    "overflow": (lambda env, _: env.overflow({}), "state is a dict; expected an EnvState"),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def given(speck):
    return states(speck)


@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_no_action_is_refused_before_the_task_sees_it(speck, given, action):
    value, expected = ACTIONS[action]
    with pytest.raises(ActionError) as caught:
        speck.step(given["own"], value)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_key_and_no_state_is_refused(speck, given, call):
    ask, expected = CALLS[call]
    with pytest.raises(EmbodiedError) as caught:
        ask(speck, given)
    assert expected in str(caught.value)


def test_values_are_looked_at_where_there_are_any_and_shapes_everywhere(speck, given):
    """A NaN in a program shows as a divergence, as on a GPU."""
    step = jitted(speck.step)
    assert step(given["own"], jnp.full(3, jnp.nan))[1].diverged
    with pytest.raises(ActionError, match=r"action has shape \(5,\); expected \(3,\)"):
        jax.eval_shape(speck.step, given["own"], jnp.zeros(5))
    half = jax.eval_shape(speck.step, given["own"], jnp.zeros(3, jnp.float16))
    assert half[1].reward.shape == ()


def test_a_registered_task_has_its_shapes():
    env = embodied.functional("swarm/hover")
    assert env.action_shape == (4,)
    assert env.observation_shapes == {"policy": (16,), "critic": (23,)}


@pytest.mark.slow
def test_contacts_on_mjx():
    """A jumper on its foot, by MJX's own JAX implementation."""
    env = embodied.functional("locomotion/hopper", "mjx", engine_options={"impl": "jax"})
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    state, transition = jax.jit(env.step)(state, jnp.zeros(env.action_shape))
    assert np.isfinite(transition.reward)
    assert not env.overflow(state)


def test_refusals_are_one_line():
    with pytest.raises(EmbodiedError, match="unknown engine"):
        embodied.functional("swarm/hover", ["rigid"])  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="engine 'mujoco' is no program of JAX; functional expects one of rigid, mjx"):
        embodied.functional("swarm/hover", "mujoco")
    with pytest.raises(UnknownNameError, match="unknown engine 'rigit'"):
        embodied.functional("swarm/hover", "rigit")
    with pytest.raises(EmbodiedError, match="functional draws no pictures"):
        embodied.functional("swarm/hover", cameras=("front",))
    with pytest.raises(EmbodiedError, match="has no field 'wind'"):
        embodied.functional("swarm/hover", wind=3)
