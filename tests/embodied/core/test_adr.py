"""Physics randomised as widely as the policy copes with."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from embodied.core.adr import STEP, AutomaticDomainRandomization
from embodied.core.randomization import scaled
from embodied.errors import EmbodiedError

TASKS = ("swarm/hover", "locomotion/go1-joystick-flat")
KEY = jax.random.PRNGKey(3)


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    return embodied.make(request.param, 1).task


def after(start, success, scale):
    """The state with which an episode ended."""
    return dataclasses.replace(start.task_state, success=jnp.asarray(success), scale=jnp.asarray(scale))


def test_the_first_episode_has_the_models_own_physics(task):
    start = jax.jit(AutomaticDomainRandomization(task).reset)(KEY)
    for name, value in start.model.items():
        np.testing.assert_allclose(value, getattr(task.model, name), rtol=1e-6, atol=1e-9)
    assert start.task_state.scale == 0


def test_at_scale_one_it_is_what_the_task_draws(task):
    full, own = scaled(task.model, task.terms, task.reset(KEY), jnp.ones(())), jax.jit(task.reset)(KEY)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), full, own)
    assert own.model, "or there is nothing to scale"


def test_half_the_scale_is_half_of_every_difference(task):
    half, own = scaled(task.model, task.terms, task.reset(KEY), jnp.asarray(0.5)), jax.jit(task.reset)(KEY)
    for name, value in own.model.items():
        nominal = getattr(task.model, name)
        np.testing.assert_allclose(half.model[name] - nominal, 0.5 * (value - nominal), rtol=1e-3, atol=1e-6)


def test_success_raises_and_failure_lowers_the_scale_so_that_the_share_is_kept(task):
    wide = AutomaticDomainRandomization(task, success_rate=0.75)
    again = jax.jit(lambda state: wide.restart(KEY, state).task_state.scale)
    start = wide.reset(KEY)
    assert again(after(start, True, 0.5)) == pytest.approx(0.5 + 0.25 * STEP)
    assert again(after(start, False, 0.5)) == pytest.approx(max(0.0, 0.5 - 0.75 * STEP))
    assert again(after(start, False, 0.0)) == 0.0
    assert again(after(start, True, 1.0)) == 1.0


@pytest.mark.parametrize("name", TASKS)
def test_an_environment_runs_reports_scales_and_observes_as_ever(name):
    env, usual = embodied.make(name, 4, adr=0.8), embodied.make(name, 4)
    assert env.observation_terms == usual.observation_terms
    env.reset(0)
    env.episode_length = torch.full((4,), env.max_episode_steps - 1)
    step = env.step(torch.zeros(4, env.action_size))
    assert step.done.all()
    assert (step.info["adr_scale"] == 0).all()
    expected = np.clip(STEP * (step.success.numpy() - 0.8), 0, 1)
    np.testing.assert_allclose(np.asarray(env.task_state.scale), expected, atol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0])
def test_shares_that_cannot_be_kept_are_refused(task, rate):
    with pytest.raises(EmbodiedError, match="success rate"):
        AutomaticDomainRandomization(task, rate)
