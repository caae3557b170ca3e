"""Policies that are followed for some steps: what every step gave, and which environments were solved on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.flight_parity import FusedWorld, HostWorld
from embodied.core.episode import flatten_observation
from embodied.core.task import Task
from embodied.core.world import World
from embodied.engines import make_engine
from embodied.env.env import Env
from embodied.env.step import Step
from tasks.swarm.control.levels import SPEED
from tasks.swarm.dynamics.drones import still as still_drones
from tests.kit.budget import sharing

Acting = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]


def rollout(env: Env, policy: Acting, steps: int, seed: int = 0) -> list[Step]:
    """So many control steps from a reset."""
    obs, rows = env.reset(seed), []
    for _ in range(steps):
        rows.append(env.step(policy(obs)))
        obs = rows[-1].obs
    return rows


def still(env: Env, steps: int, seed: int = 0) -> list[Step]:
    """Nobody does anything."""
    return rollout(env, lambda obs: torch.zeros(env.action_shape), steps, seed)


def solved(env: Env, policy: Acting, steps: int, seed: int = 0) -> torch.Tensor:
    """(N,) whether there was success on the way; ends early where all were."""
    obs, found = env.reset(seed), torch.zeros(env.num_envs, dtype=torch.bool)
    for _ in range(steps):
        step = env.step(policy(obs))
        obs, found = step.obs, found | step.success
        if found.all():
            break
    return found


@dataclasses.dataclass(frozen=True)
class Hosted:
    """What became of n episodes, (steps + 1, n, ...) each, beginning with the start; none ends or begins anew."""

    success: np.ndarray
    failure: np.ndarray
    terms: Mapping[str, np.ndarray]
    """Reward terms without their weights; of the start they say nothing."""
    seen: Mapping[str, np.ndarray]
    """Observation groups."""
    worlds: World
    states: Any
    """The task's states."""


@functools.cache
def _starts(task: Task[Any]) -> Callable[..., Any]:
    return jax.jit(jax.vmap(task.reset))


@functools.cache
def _turning(task: Task[Any], scripted: bool, watched: bool) -> Callable[..., Any]:
    """All of a control step but the physics: what the last one led to, what is done about it, and what that moves."""

    def turn(world: World, state: Any, action: Any, begun: Any, following: Any, key: Any) -> Any:
        after, now = jax.random.split(key)
        stepped = task.post_step(world, state, action, after)
        state = jax.tree.map(lambda new, old: jnp.where(begun, new, old), stepped, state)
        outcome, terms = task.outcome(world, state), task.rewards(world, state, action) if watched else {}
        seen = flatten_observation(task.observe(world, state, now), task.team) if watched or scripted else {}
        if scripted:
            following = jnp.clip(task.expert(seen, state), -1.0, 1.0)
        command, moved = task.process_action(world, state, following, now)
        control, moved = task.apply_action(world, moved, command)
        return (outcome.success, outcome.failure, terms, seen, state), following, control, moved

    return jax.jit(jax.vmap(turn, (0, 0, 0, None, 0, 0)))


def hosted(
    task: Task[Any], steps: int, actions: Any = None, *, count: int = 4, seed: int = 0, start: Any = None,
    watched: bool = True,
) -> Hosted:  # fmt: skip
    """So many steps of a task in C MuJoCo, by its script or by actions, without an `Env`.

    `actions`: one of them (size,), or (steps, count, ...). `start`: `count` reset states, which then draw alike.
    Compiles in a third of the time. Nothing watches over it: actions are not checked, episodes do not end, and each
    action controls all substeps. Rewards and observations are left out unless they are `watched`.
    """
    alike = start is not None
    compiling = functools.partial(sharing, f"{type(task).__name__} without environments")  # by whoever comes first
    if start is None:
        with compiling():
            start = _starts(task)(jax.random.split(jax.random.PRNGKey(seed), count))
    engine: Any = make_engine("mujoco", task, count, threads=1)
    engine.reset(np.arange(count), jax.tree.map(np.asarray, start))
    turn, state, rows = _turning(task, actions is None, watched), start.task_state, []
    done = np.zeros((count, *task.action_shape), np.float32)
    wanted = np.broadcast_to(np.zeros(()) if actions is None else actions, (steps, *done.shape)).astype(np.float32)
    for step in range(steps + 1):
        world = jax.tree.map(np.array, engine.world())
        keys = jax.random.split(jax.random.PRNGKey(1000 * seed + step), count)
        keys = np.broadcast_to(np.asarray(keys)[:1], keys.shape) if alike else keys
        following = wanted[min(step, steps - 1)]
        with compiling() if step == 0 else contextlib.nullcontext():
            (*found, now), done, control, state = turn(world, state, done, step > 0, following, keys)
        rows.append((*found, world, now))
        engine.step(jax.tree.map(np.asarray, control), task.timing.substeps)
    engine.close()
    return Hosted(*jax.tree.map(lambda *leaves: np.stack(leaves), *rows))


@functools.cache
def _of_one(task: Task[Any]) -> tuple[Callable[..., Any], ...]:
    return tuple(jax.jit(hook) for hook in (task.reset, task.process_action, task.apply_action, task.post_step))


class Flown(NamedTuple):
    """One environment's worlds and the task's states, (steps + 1, ...)."""

    worlds: World
    states: Any


def flown(task: Task[Any], engine: str, actions: np.ndarray, seed: int = 0, start: Any = None) -> Flown:
    """One environment on any engine, named as in `toy_world`, under actions (steps, ...), whatever comes of it.

    The task's hooks are compiled once for all engines, which an `Env` for each would compile again.
    """
    reset, process_action, apply_action, post_step = _of_one(task)
    name, _, impl = engine.partition("-")
    built: Any = make_engine(name, task, 1, **({"impl": impl} if impl else {}))
    world = FusedWorld(built) if built.fused else HostWorld(built)
    keys = jax.random.split(jax.random.PRNGKey(seed), len(actions) + 1)
    start = reset(keys[0]) if start is None else start
    world.begin(start)
    state = start.task_state
    seen = [jax.tree.map(np.array, (world.read(), state))]
    for action, key in zip(np.asarray(actions, np.float32), keys[1:], strict=True):
        command, state = process_action(world.read(), state, action, key)
        for _ in range(task.timing.substeps):
            control, state = apply_action(world.read(), state, command)
            world.step(control)
        state = post_step(world.read(), state, action, key)
        seen.append(jax.tree.map(np.array, (world.read(), state)))
    return Flown(*jax.tree.map(lambda *leaves: np.stack(leaves), *seen))


def obeyed(
    task: Any, steps: int, scripted: bool, seed: int = 0, idle: tuple[int, ...] = ()
) -> tuple[Any, Mapping[str, np.ndarray]]:
    """The last state of a team of drones that do at once as they are told, and its metrics (steps, ...).

    The task commands velocities. Drones follow its script, or fly at random, but for those that are `idle`; nothing of
    their physics is computed.
    """
    with sharing(f"drones of {type(task).__name__} that obey"):
        play = _obeying(task, steps, idle)
    return jax.tree.map(np.asarray, play(jax.random.PRNGKey(seed), scripted))


@functools.cache
def _obeying(task: Any, steps: int, idle: tuple[int, ...]) -> Callable[..., Any]:
    dt = task.timing.control_dt
    low, high = jnp.asarray(task.arena.low), jnp.asarray(task.arena.high)

    def step(carry: Any, key: Any) -> Any:
        drones, state, scripted, time = carry
        now = dataclasses.replace(World.zeros(task.model), qpos=drones.qpos, qvel=drones.qvel, time=time)
        script = task.expert(flatten_observation(task.observe(now, state, key), task.team), state)
        action = jnp.where(scripted, jnp.clip(script, -1.0, 1.0), jax.random.uniform(key, script.shape, minval=-1.0))
        vel = SPEED * action[:, :3].at[np.array(idle, int)].set(0.0)
        drones = dataclasses.replace(drones, pos=jnp.clip(drones.pos + dt * vel, low, high), vel=vel)
        now = dataclasses.replace(now, qpos=drones.qpos, qvel=drones.qvel, time=time + dt)
        state = task.post_step(now, dataclasses.replace(state, action=action), action, key)
        return (drones, state, scripted, time + dt), task.metrics(now, state)

    def play(key: Any, scripted: Any) -> Any:
        first, then = jax.random.split(key)
        start = task.reset(first)
        begun = (still_drones(start.qpos.reshape(-1, 7)[:, :3]), start.task_state, scripted, jnp.zeros(()))
        (_, state, _, _), metrics = jax.lax.scan(step, begun, jax.random.split(then, steps))
        return state, metrics

    return jax.jit(play).lower(jax.random.PRNGKey(0), True).compile()
