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
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import task_of, toy_world

HOVER, GO1 = "swarm/hover", "locomotion/go1-joystick-flat"
KEY = jax.random.PRNGKey(3)
ENDS = [(True, 0.5), (False, 0.5), (False, 0.0), (True, 1.0)]
"""Success of an episode, and its scale."""


@pytest.fixture(scope="module", params=[HOVER, GO1])
def task(request):
    return task_of(request.param)


@pytest.fixture(scope="module")
def drawn(task):
    """What is drawn with one key, as one program."""
    wide = AutomaticDomainRandomization(task, success_rate=0.75)

    def draws(key):
        first, own = wide.reset(key), task.reset(key)

        def after(success, scale):
            state = dataclasses.replace(first.task_state, success=success, scale=scale)
            return wide.restart(key, state).task_state.scale

        ends = jax.vmap(after)(*map(jnp.asarray, zip(*ENDS, strict=True)))
        parts = [scaled(task.model, task.terms, own, jnp.asarray(scale)) for scale in (0.5, 1.0)]
        return {"first": first, "own": own, "half": parts[0], "full": parts[1], "scales after": ends}

    return jax.tree.map(np.asarray, jax.jit(draws)(KEY))


def test_the_first_episode_has_the_models_own_physics(task, drawn):
    for name, value in drawn["first"].model.items():
        np.testing.assert_allclose(value, getattr(task.model, name), rtol=1e-6, atol=1e-9)
    assert drawn["first"].task_state.scale == 0


def test_at_scale_one_it_is_what_the_task_draws(drawn):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), drawn["full"], drawn["own"])
    assert drawn["own"].model, "or there is nothing to scale"


def test_half_the_scale_is_half_of_every_difference(task, drawn):
    for name, value in drawn["own"].model.items():
        nominal = getattr(task.model, name)
        np.testing.assert_allclose(drawn["half"].model[name] - nominal, 0.5 * (value - nominal), rtol=1e-3, atol=1e-6)


def test_success_raises_and_failure_lowers_the_scale_so_that_the_share_is_kept(drawn):
    expected = [0.5 + 0.25 * STEP, max(0.0, 0.5 - 0.75 * STEP), 0.0, 1.0]
    assert drawn["scales after"].tolist() == pytest.approx(expected)


class Widened(AutomaticDomainRandomization):
    """A speck of which as much may be randomised as it copes with."""

    def __init__(self):
        super().__init__(Speck(), 0.8)


def check_scales(env):
    """An environment reports the scales, which its episodes' success moves."""
    env.reset(0)
    env.episode_length = torch.full((env.num_envs,), env.max_episode_steps - 1)
    step = env.step(torch.zeros(env.action_shape))
    assert step.done.all()
    assert (step.info["adr_scale"] == 0).all()
    expected = np.clip(STEP * (step.success.numpy() - 0.8), 0, 1)
    np.testing.assert_allclose(np.asarray(env.task_state.scale), expected, atol=1e-6)
    return expected


def test_an_environment_runs_and_reports_scales():
    assert len(set(check_scales(toy_world(Widened, "mujoco", 8)).tolist())) == 2, "some should succeed, some not"


@pytest.mark.parametrize("name", [HOVER, GO1])
def test_it_is_asked_for_by_a_share_and_observes_as_ever(name):
    task = embodied.make(name, 1, adr=0.8).task
    assert isinstance(task, AutomaticDomainRandomization)
    assert task.observation_terms == task_of(name).observation_terms


@pytest.mark.slow
@pytest.mark.parametrize("name", [HOVER, GO1])
def test_registered_tasks_run_and_report_scales(name):
    check_scales(embodied.make(name, 4, adr=0.8))


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0])
def test_shares_that_cannot_be_kept_are_refused(rate):
    with pytest.raises(EmbodiedError, match="success rate"):
        AutomaticDomainRandomization(task_of(HOVER), rate)
