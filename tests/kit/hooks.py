"""A task's hooks as single programs. Called as they stand they are a hundred operations, and each is compiled alone.

task = compiled(Swap())                      # the same task, but a hook compiles once, as a whole
task = compiled(PathFinding(), "draw")       # and further methods that take and give arrays
blank(task)                                  # zeros of a reset's shapes, for which nothing compiles
partly(task.reset, lambda start: start.qpos) # a part of what it gives; the rest is not computed, nor compiled
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import mujoco
import numpy as np
import pytest

from embodied.core.task import Task
from tests.kit.budget import sharing

HOOKS = (
    "reset", "restart", "process_action", "apply_action", "post_step", "observe", "rewards", "outcome", "metrics",
    "expert",
)  # fmt: skip
TaskT = TypeVar("TaskT", bound=Task[Any])


def compiled(task: TaskT, *more: str) -> TaskT:
    """The task with its hooks compiled, and those methods of these names that it has.

    Mappings that they return are sorted by name.
    """
    found = copy.copy(task)
    for name in (*HOOKS, *(name for name in more if hasattr(task, name))):
        setattr(found, name, jax.jit(getattr(task, name)))
    if task.team is not None:
        found.team = dataclasses.replace(task.team, seen_by=jax.jit(task.team.seen_by))
    return found


def blank(task: Task[Any]) -> Any:
    """A reset state that is all zeros."""
    shapes = jax.eval_shape(task.reset, jax.random.PRNGKey(0))
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def partly(function: Callable[..., Any], part: Callable[[Any], Any]) -> Callable[..., Any]:
    """A part of what a function gives, as one program."""
    return jax.jit(lambda *given: part(function(*given)))


def contacts_in_mjx(model: mujoco.MjModel) -> int:
    """For how many contacts MJX-JAX, which must accept the model, makes room."""
    with sharing("importing mujoco.mjx"):
        mjx = pytest.importorskip("mujoco.mjx")
        mjx.put_model(mujoco.MjModel.from_xml_string("<mujoco/>"), impl="jax")
    mjx.put_model(model, impl="jax")
    return mjx.make_data(model, impl="jax")._impl.contact.dist.shape[0]
