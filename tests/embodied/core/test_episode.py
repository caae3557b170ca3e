"""What a task hands to the engine has the shapes of its model, and its state always the same types."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.episode import MOST_STEPS, Episode, apply_action
from embodied.core.hooks import Timing
from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from embodied.env import options
from embodied.env.functional import FunctionalEnv
from embodied.errors import ActionError, EmbodiedError
from tests.kit.toy_tasks import Ball


@pytest.mark.parametrize(
    ("control", "message"),
    [
        (Control(wrench=jnp.zeros((3, 6))), r"Told.apply_action gives wrench \(3, 6\); expected \(2, 6\)"),
        (Control(ctrl=jnp.zeros(1)), r"gives ctrl \(1,\); expected \(0,\)"),
        (Control(mocap_pos=jnp.zeros(3)), r"gives mocap_pos \(3,\); expected \(0, 3\)"),
    ],
)
def test_controls_of_another_shape_are_refused(control: Control, message: str) -> None:
    class Told(Ball):
        def apply_action(self, world: World, state: Any, command: Any) -> tuple[Control, Any]:
            return control, state

    task, key = Told(), jax.random.key(0)
    state = jax.eval_shape(task.reset, key).task_state
    zero: Any = np.zeros(())
    begun = Episode(state, key, steps=zero, total=zero, terms={}, metrics={}, success_any=zero)
    with pytest.raises(ActionError, match=message):
        apply_action(task, World.zeros(task.model), begun, jnp.zeros(1))


class Written(Ball):
    """Its states hold numbers that are written in Python, to which JAX gives weak types."""

    def reset(self, key: jax.Array) -> ResetState[Any]:
        start = super().reset(key)
        return dataclasses.replace(start, task_state=dataclasses.replace(start.task_state, spin=jnp.full((), 0.5)))

    def post_step(self, world: World, state: Any, action: jax.Array, key: jax.Array) -> Any:
        return dataclasses.replace(super().post_step(world, state, action, key), level=jnp.asarray(3))


def test_states_are_of_one_type_so_that_nothing_compiles_twice() -> None:
    task = Written()
    env = FunctionalEnv(task, cast(Any, make_engine("rigid", task, 1)))
    first, _ = jax.eval_shape(env.reset, jax.random.key(0))
    following, _ = jax.eval_shape(env.step, first, jnp.zeros(task.action_size))
    again, _ = jax.eval_shape(env.restart, following)
    for state in (following, again):
        same = jax.tree.map(
            lambda a, b: (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type), first, state
        )
        assert all(jax.tree.leaves(same)), same


def test_time_limits_are_what_the_count_of_steps_holds() -> None:
    class Patient(Ball):
        timing = Timing(physics_dt=0.002, substeps=5, episode_seconds=2**31 * 0.01)

    task = Patient()
    env = FunctionalEnv(task, cast(Any, make_engine("rigid", task, 1)))
    with pytest.raises(EmbodiedError, match=r"the time limit of .* is 2147483648 control steps.*at most 2147483647"):
        jax.eval_shape(env.reset, jax.random.key(0))
    assert options.MOST == MOST_STEPS == np.iinfo(np.int32).max
