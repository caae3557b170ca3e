"""Speed of environments, and the fraction of the bare engine's speed that is left.

Environment and bare engine take turns in one process, so that a machine whose speed drifts slows both; every figure is
the median over the turns. The bare engine moves the same number of copies of the same model from the same states by
the same number of physics steps, with nothing else: no task, no resets, no policy, no torch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from mujoco.batch import Batch

from embodied.core.world import Control
from embodied.engines.mujoco import MujocoEngine
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError


def measure(
    env: Env, act: PolicyFunction, *, turns: int, steps: int, on_turn: Callable[[int, float], None]
) -> dict[str, Any]:
    """Steps per second of an environment with a policy in the loop, and of its bare engine.

    Args:
        turns: Number of alternations of environment and bare engine.
        steps: Control steps of a turn.
        on_turn: Called with the number of finished turns and the seconds of a control step in the last one.

    Raises:
        EmbodiedError: the engine cannot be measured by itself.
    """
    started = time.perf_counter()
    obs = env.reset()
    obs = env.step(act(obs)).obs
    bare = bare_engine(env)
    bare()
    compile_seconds = time.perf_counter() - started
    whole, physics = [], []
    for turn in range(turns + 1):
        begin = time.perf_counter()
        for _ in range(steps):
            step = env.step(act(obs))
            obs, _ = step.obs, (step.reward, step.terminated, step.truncated)
        wait(env)
        whole.append((time.perf_counter() - begin) / steps)
        bare = bare_engine(env, bare)
        begin = time.perf_counter()
        for _ in range(steps):
            bare()
        physics.append((time.perf_counter() - begin) / steps)
        on_turn(turn, whole[-1])
    whole, physics = whole[1:], physics[1:]  # the first turn compiles what only some steps need
    seconds, bare_seconds = statistics.median(whole), statistics.median(physics)
    substeps = env.task.timing.substeps
    return {
        "env_steps_per_second": env.num_envs / seconds,
        "physics_steps_per_second": substeps * env.num_envs / seconds,
        "bare_physics_steps_per_second": substeps * env.num_envs / bare_seconds,
        "engine_fraction": statistics.median(b / w for b, w in zip(physics, whole, strict=True)),
        "milliseconds_per_step": 1e3 * seconds,
        "milliseconds_per_step_low": 1e3 * min(whole),
        "milliseconds_per_step_high": 1e3 * max(whole),
        "compile_seconds": compile_seconds,
    }


def wait(env: Env) -> None:
    """Wait until the device is done: calls return before, and a clock would stop too early."""
    jax.block_until_ready((env.physics_state, env.episode))
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def bare_engine(env: Env, previous: Callable[[], None] | None = None) -> Callable[[], None]:
    """A function that moves the bare engine by one control step, from the environment's present states."""
    if env.engine.fused:
        return _BareFused(env, previous)
    if isinstance(env.engine, MujocoEngine):
        return _BareMujoco(env, env.engine, previous)
    raise EmbodiedError(
        f"engine '{env.engine_name}' has no batch that steps by itself; expected mujoco, mjx, rigid or brax"
    )


class _BareMujoco:
    """`mujoco.Batch` by itself."""

    def __init__(self, env: Env, engine: MujocoEngine, previous: Any = None) -> None:
        self.batch = previous.batch if previous is not None else Batch(engine.model, env.num_envs)
        self.batch.state[...] = engine.batch.state
        self.substeps = env.task.timing.substeps

    def __call__(self) -> None:
        self.batch.step(nstep=self.substeps)


class _BareFused:
    """The fused engine's step by itself, compiled alone."""

    def __init__(self, env: Env, previous: Any = None) -> None:
        engine, substeps, model = env.engine, env.task.timing.substeps, env.task.model
        held = Control(ctrl=jnp.zeros(model.nu) if model.nu else None, wrench=jnp.zeros((model.nbody, 6)))
        step = jax.vmap(lambda physics: engine.step(physics, held, substeps))
        self.step = previous.step if previous is not None else jax.jit(step, donate_argnums=0)
        self.physics = jax.tree.map(jnp.copy, env.physics_state)
        self.ready = jax.block_until_ready

    def __call__(self) -> None:
        self.physics = self.ready(self.step(self.physics))
