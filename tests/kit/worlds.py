"""Environments and tasks that tests share: built and compiled once a worker.

env = world("swarm/hover", "rigid")      # 8 environments; reset it first, and leave nothing behind
task = task_of("swarm/hover")            # the task alone
jitted(task.observe)(world, state, key)  # a hook as one program instead of a hundred single operations
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import torch

from embodied.core.task import Task
from embodied.env.env import Env
from embodied.env.factory import configured, default_engine, engine_for, make
from embodied.env.registry import join_content
from tests.kit.budget import sharing
from tests.kit.toy_tasks import Ball

NUM_ENVS = 8
COMPILED: list[str] = []
"""One entry for each program that XLA compiled or took from the disk."""


def count_compilations(event: str, duration_secs: float, **kwargs: str | int) -> None:
    """Note every program that XLA compiles."""
    if event.endswith("backend_compile_duration"):
        COMPILED.append(event)


jax.monitoring.register_event_duration_secs_listener(count_compilations)


@functools.cache
def task_of(name: str) -> Task[Any]:
    """A registered task with its default options."""
    with sharing(f"task {name}"):
        return configured(join_content()[name])  # which `make` takes again


@functools.lru_cache(maxsize=16)
def world(name: str, engine: str | None = None, num_envs: int = NUM_ENVS) -> Env:
    """Environments of a registered task with its default options, whose step and restart are compiled."""
    engine = engine or default_engine(join_content()[name])
    with sharing(f"{name} on {engine}, {num_envs}"):
        return compiled(make(name, num_envs, engine, device="cpu"))


def compiled(env: Env) -> Env:
    """The environments, whose programs are compiled: those of a step and of what follows an episode's end."""
    env.reset(seed=0)
    env.step(torch.zeros(env.action_shape))
    env.episode_length = torch.full((env.num_envs,), env.max_episode_steps - 1)
    env.step(torch.zeros(env.action_shape))
    return env


@functools.cache
def every_engine() -> None:
    """Import what the engines stand on, so that no test pays for it."""
    with sharing("imports of engines"):
        for engine in ("mjx-jax", "mjx-warp", "brax"):
            build_env(Ball(), engine, 1)


@functools.cache
def toy_world(task_type: type[Task[Any]], engine: str, num_envs: int) -> Env:
    """The same of a task that stands in the tests; `mjx-jax` and `mjx-warp` name an implementation."""
    with sharing(f"{task_type.__name__} on {engine}, {num_envs}"):
        env = build_toy(task_type, engine, num_envs)
        env.reset()
        # Twice to the time limit: what follows a restart is compiled as well.
        for _ in range(2):
            env.episode_length = torch.full((num_envs,), env.max_episode_steps - 1)
            env.step(torch.zeros(env.action_shape))
        env.world()
        env.statistics()
    return env


@functools.cache
def toy_task(task_type: type[Task[Any]]) -> Task[Any]:
    """A task that stands in the tests, for what needs no environment."""
    return task_type()


def build_env(task: Task[Any], engine: str, num_envs: int, seed: int = 0, **options: Any) -> Env:
    """New environments of a task object, without the registry; engines are named as in `toy_world`."""
    name, _, impl = engine.partition("-")
    if impl:
        options["impl"] = impl
    return Env(task, engine_for(name, task, num_envs, options), num_envs, seed=seed)


def build_toy(task_type: type[Task[Any]], engine: str, num_envs: int, seed: int = 0) -> Env:
    """New environments of a task that stands in the tests, which run the programs of others."""
    return build_env(toy_task(task_type), engine, num_envs, seed)


@functools.cache
def jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A pure function as one program, compiled once a worker; a task's hook must be that of a shared task."""
    return jax.jit(function)
