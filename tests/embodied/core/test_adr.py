"""Physics that widens as the policy copes."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from embodied.core.adr import STEP, widening
from embodied.core.task import Task
from embodied.errors import EmbodiedError

TASKS = ("swarm/hover", "locomotion/go1-joystick-flat")
KEY = jax.random.PRNGKey(3)


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    return embodied.make(request.param, 1).task


def after(start, success, width):
    """The state with which an episode ended."""
    return dataclasses.replace(start.task_state, success=jnp.asarray(success), width=jnp.asarray(width))


def test_the_first_episode_has_the_models_own_physics(task):
    start = jax.jit(widening(task).reset)(KEY)
    for name, value in start.model.items():
        np.testing.assert_allclose(value, getattr(task.model, name), rtol=1e-6, atol=1e-9)
    assert start.task_state.width == 0


def test_at_full_width_it_is_what_the_task_draws(task):
    full, own = jax.jit(task.narrowed)(task.reset(KEY), jnp.ones(())), jax.jit(task.reset)(KEY)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), full, own)
    assert own.model, "or there is nothing to narrow"


def test_half_the_width_is_half_of_every_difference(task):
    half, own = jax.jit(task.narrowed)(task.reset(KEY), jnp.asarray(0.5)), jax.jit(task.reset)(KEY)
    for name, value in own.model.items():
        nominal = getattr(task.model, name)
        np.testing.assert_allclose(half.model[name] - nominal, 0.5 * (value - nominal), rtol=1e-3, atol=1e-6)


def test_success_widens_and_failure_narrows_so_that_the_share_is_kept(task):
    wide = widening(task, keep=0.75)
    again = jax.jit(lambda state: wide.restart(KEY, state).task_state.width)
    start = wide.reset(KEY)
    assert again(after(start, True, 0.5)) == pytest.approx(0.5 + 0.25 * STEP)
    assert again(after(start, False, 0.5)) == pytest.approx(0.5 - 0.75 * STEP)
    assert again(after(start, False, 0.0)) == 0.0
    assert again(after(start, True, 1.0)) == 1.0


@pytest.mark.parametrize("name", TASKS)
def test_an_environment_runs_reports_widths_and_observes_as_ever(name):
    env, usual = embodied.make(name, 4, widen=0.8), embodied.make(name, 4)
    assert env.observation_terms == usual.observation_terms
    env.reset(0)
    env.episode_length = torch.full((4,), env.max_episode_steps - 1)
    step = env.step(torch.zeros(4, env.action_size))
    assert step.done.all()
    assert (step.info["width"] == 0).all()
    expected = np.clip(STEP * (step.success.numpy() - 0.8), 0, 1)
    np.testing.assert_allclose(np.asarray(env.task_state.width), expected, atol=1e-6)


def test_every_method_that_is_given_the_memory_gives_the_task_its_own(task):
    given = {
        name
        for name, method in inspect.getmembers(Task, inspect.isfunction)
        if "state" in inspect.signature(method).parameters
    }
    assert given >= {"ghosts", "expert", "outcome"}
    assert given <= set(vars(type(widening(task))))


@pytest.mark.parametrize("keep", [0.0, 1.0, -1.0])
def test_shares_that_cannot_be_kept_are_refused(task, keep):
    with pytest.raises(EmbodiedError, match="share"):
        widening(task, keep)
