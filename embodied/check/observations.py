"""Checks of what a running task gives: shapes, dtypes, finite numbers, and observations that vary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import torch

from embodied.check.findings import Finding, place_of
from embodied.env.env import Env
from embodied.env.vec_env import vector_sizes


def actions(env: Env, steps: int) -> torch.Tensor:
    """(steps, *env.action_shape) drawn evenly from [-1, 1], always the same."""
    return 2 * torch.rand(steps, *env.action_shape, generator=torch.Generator().manual_seed(0)) - 1


def everything_is_finite_float32_of_the_announced_shapes(env: Env) -> Iterator[Finding]:
    """Observations, rewards, flags and `info`, over ten steps of random actions."""
    obs = env.reset(seed=0)
    look, leading = place_of(env.task, "observe"), env.action_shape[:-1]
    announced = {key: (*leading, size) for key, size in vector_sizes(env.observation_spec).items()}
    for action in actions(env, 10):
        step = env.step(action)
        for group in (obs, step.obs, step.final_obs):
            shapes = {key: tuple(value.shape) for key, value in group.items()}
            if shapes != announced:
                yield Finding("observation", f"its shapes are {shapes}", f"{announced}, as announced", look)
                return
            for key, value in group.items():
                if value.dtype != torch.float32:
                    yield Finding(f"observation group {key!r}", f"it is {value.dtype}", "float32", look)
                if not torch.isfinite(value).all():
                    yield Finding(
                        f"observation {_not_finite(env, key, value)}", "it is not finite", "finite numbers", look
                    )
                    return
        yield from _wrong("reward", step.reward, leading, torch.float32, place_of(env.task, "rewards"))
        for name in ("terminated", "truncated", "success"):
            yield from _wrong(name, getattr(step, name), (env.num_envs,), torch.bool, place_of(env.task, "outcome"))
        if step.done.shape != (env.num_envs,):
            yield Finding("done", f"its shape is {tuple(step.done.shape)}", f"({env.num_envs},)")
        if (step.terminated & step.truncated).any():
            yield Finding("an episode", "it ended as failed and by its time limit at once", "one of the two")
        for key, value in step.info.items():
            value = torch.where(value.isnan(), 0, value)  # a metric that is NaN was not measured, see `Task.metrics`
            yield from _wrong(f"info {key!r}", value, (env.num_envs,), None, place_of(env.task, "metrics"))


def every_term_of_every_observation_varies(env: Env) -> Iterator[Finding]:
    """Under random actions or, where they never reach, with state (a count of steps held still) or world (a plate)."""
    rows = [env.reset(seed=1)] + [env.step(action).obs for action in actions(env, 40)]
    constant = []
    for group, terms in env.observation_terms.items():
        values = torch.cat([row[group].flatten(0, -2) for row in rows])
        sizes = [int(np.prod(shape)) for shape in terms.values()]
        for term, part in zip(terms, values.split(sizes, dim=1), strict=True):
            if part.std(dim=0).max() == 0:
                constant.append((group, term, part[0]))
    if not constant:
        return
    key = jax.random.PRNGKey(0)
    world, state = jax.tree.map(lambda leaf: np.asarray(leaf[0]), (env.world(), env.task_state))
    worlds = [world, world, world, shifted(world, 1)]
    states = [state, shifted(state, 10), shifted(state, -10), state]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *zip(worlds, states, strict=True))
    seen = jax.jit(jax.vmap(lambda both: env.task.observe(both[0], both[1], key)))(stacked)
    for group, term, value in constant:
        values = np.asarray(seen[group][term])
        if (values[1:] == values[0]).all():
            shown = np.array2string(value.numpy(), precision=4, threshold=6)
            yield Finding(
                f"observation {group}/{term}",
                f"it is constant, {shown}, in {env.num_envs} environments over 40 steps, whatever robot and state do",
                "a term that says something of the robot, the goal or the episode",
                place_of(env.task, "observe"),
            )


def shifted(state: Any, by: int) -> Any:
    """Every number of a state moved, every flag turned: counters run up, waiting times run out."""
    return jax.tree.map(lambda leaf: ~leaf if leaf.dtype == bool else leaf + leaf.dtype.type(by), state)


def _not_finite(env: Env, group: str, value: torch.Tensor) -> str:
    """Name of the first observed term that is not finite."""
    sizes = [int(np.prod(shape)) for shape in env.observation_terms[group].values()]
    parts = value.flatten(0, -2).split(sizes, dim=1)
    terms = zip(env.observation_terms[group], parts, strict=True)
    return next((f"{group}/{term}" for term, part in terms if not torch.isfinite(part).all()), group)


def _wrong(
    what: str, value: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype | None, look: str
) -> Iterator[Finding]:
    if tuple(value.shape) != shape:
        yield Finding(what, f"its shape is {tuple(value.shape)}", str(shape), look)
    if dtype is not None and value.dtype != dtype:
        yield Finding(what, f"it is {value.dtype}", str(dtype), look)
    if not torch.isfinite(value.float()).all():
        yield Finding(what, "it is not finite", "finite numbers", look)
