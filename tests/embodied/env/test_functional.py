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
from tests.embodied.env.adapters.drones import MAX_STEPS, brief_env

STEPS = 3 * MAX_STEPS


@pytest.fixture(scope="module")
def brief():
    core = brief_env(1)
    return FunctionalEnv(core.task, core.engine)


@pytest.fixture(scope="module")
def hover():
    return embodied.functional("swarm/hover")


def plan(*shape):
    """Actions between the kinks at which thrust is not differentiable."""
    return np.random.default_rng(5).uniform(0.05, 0.9, shape).astype(np.float32)


def assert_close(ours, theirs):
    """Equal up to how XLA vectorises batches of several sizes."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_it_lives_through_the_episodes_of_the_vectorised_environment(brief):
    """Restarts included: each environment's draws come from its own key, however many there are."""
    count, actions = 3, plan(STEPS, 3, 4)
    core = brief_env(count, seed=7)
    expected = [core.reset(7), *(core.step(torch.from_numpy(action)) for action in actions)]

    def step(state, action):
        state, transition = brief.step(state, action)
        ended = transition.terminated | transition.truncated
        fresh, first = brief.restart(state)
        state, seen = jax.tree.map(
            lambda new, old: jnp.where(ended, new, old), (fresh, first), (state, transition.observation)
        )
        return state, (transition, seen)

    states, first = jax.vmap(brief.reset)(environment_keys(7, count))
    _, (transitions, seen) = jax.vmap(lambda state, mine: jax.lax.scan(step, state, mine), (0, 1))(states, actions)
    assert_close(first["policy"], expected[0]["policy"])
    for index, told in enumerate(expected[1:]):
        assert_close(seen["policy"][:, index], told.obs["policy"])
        assert_close(transitions.reward[:, index], told.reward)
        np.testing.assert_array_equal(transitions.terminated[:, index], told.terminated)
        np.testing.assert_array_equal(transitions.truncated[:, index], told.truncated)
    assert transitions.terminated.any()
    assert transitions.truncated.any()


def test_functions_are_pure(hover):
    state, observation = jax.jit(hover.reset)(jax.random.PRNGKey(3))
    step = jax.jit(hover.step)
    (one, first), (other, again) = step(state, jnp.ones(4)), step(state, jnp.ones(4))
    for ours, theirs in zip(jax.tree.leaves((one, first)), jax.tree.leaves((other, again)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert {group: array.shape for group, array in observation.items()} == hover.observation_shapes
    assert hover.action_shape == (4,)


def test_both_kinds_of_keys_mean_the_same(hover):
    """`jax.random.key`'s and `jax.random.PRNGKey`'s."""
    for ours, theirs in zip(
        jax.tree.leaves(hover.reset(jax.random.key(3))),
        jax.tree.leaves(hover.reset(jax.random.PRNGKey(3))),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_gradients_of_the_return_are_its_differences(hover):
    """Through twenty control steps of 10 physics steps each, by every action of the first."""
    actions = jnp.asarray(plan(20, 4))

    @jax.jit
    def total(actions):
        state, _ = hover.reset(jax.random.key(0))
        _, transitions = jax.lax.scan(hover.step, state, actions)
        return jnp.sum(transitions.reward)

    gradient, small = jax.jit(jax.grad(total))(actions), 2e-2
    for rotor in range(4):
        aside = jnp.zeros_like(actions).at[0, rotor].set(small)
        difference = (total(actions + aside) - total(actions - aside)) / (2 * small)
        assert gradient[0, rotor] == pytest.approx(float(difference), rel=0.05, abs=0.01)
    assert np.isfinite(gradient).all()


def test_actions_are_clipped_as_everywhere(hover):
    state, _ = hover.reset(jax.random.key(0))
    _, most = hover.step(state, jnp.ones(4))
    _, more = hover.step(state, jnp.full(4, 7.0))
    np.testing.assert_array_equal(most.observation["policy"], more.observation["policy"])


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
