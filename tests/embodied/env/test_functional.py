"""One environment as pure functions: what `embodied.make` lives through, and what JAX makes of functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from embodied.core.episode import environment_keys
from embodied.env.functional import FunctionalEnv
from embodied.errors import EmbodiedError, EngineError, UnknownNameError
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
    with pytest.raises(EngineError, match="engine 'mujoco' is no program of JAX; functional expects one of rigid, mjx"):
        embodied.functional("swarm/hover", "mujoco")
    with pytest.raises(UnknownNameError, match="unknown engine 'rigit'"):
        embodied.functional("swarm/hover", "rigit")
    with pytest.raises(EmbodiedError, match="functional draws no pictures"):
        embodied.functional("swarm/hover", cameras=("front",))
    with pytest.raises(EmbodiedError, match="has no field 'wind'"):
        embodied.functional("swarm/hover", wind=3)
