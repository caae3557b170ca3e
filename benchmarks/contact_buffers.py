"""`python -m benchmarks.contact_buffers`: how many contacts and constraints every task's model needs on MJX-Warp.

Episodes run on C MuJoCo by actions of three sizes, and by the expert or the shipped policy where there is one. Warp
then looks at their states: what its broad phase lets through, what touches, and the rows of the constraint Jacobian.
The most that one environment needed is written to `assets/contact_buffers.json`, task by task, so that a run that was
stopped goes on; `embodied.engines.mjx.buffers` adds the head room.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import torch
import tyro
from mujoco import mjx

import embodied
from embodied import cli
from embodied.core.task import has_expert
from embodied.engines.base import substeps_model
from embodied.engines.mjx.buffers import counted, fingerprint
from embodied.engines.mjx.engine import known_to_mjx
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, guard
from embodied.storage.paths import shipped
from policies.policy import PolicyFunction
from policies.training.loading import load_policy

RESULT = Path("assets/contact_buffers.json")
TOGETHER = 8  # states that Warp looks at in one call: candidates of the broad phase are known in total only
HOLD = 8  # control steps for which a random action is held, so that limbs get somewhere


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tasks; by default all that mjx runs."""
    num_envs: int = 32
    """Environments."""
    steps: int = 160
    """Control steps of each way of acting."""
    every: int = 8
    """Control steps between states that are looked at."""
    json: Path = RESULT
    """The result, written after every task."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.contact_buffers")
    registry = join_content()
    rows = json.loads(settings.json.read_text())["models"] if settings.json.exists() else []
    known = {row["task"] for row in rows}
    names = [name for name in settings.tasks or registry if "mjx" in registry[name].engines and name not in known]
    with cli.Line("contacts and constraints", len(names)) as line:
        for done, name in enumerate(names, 1):
            rows.append(measured(name, settings))
            line.update(done, f"{name} {rows[-1]['contacts']} {rows[-1]['constraints']}")
            jax.clear_caches()
            rows.sort(key=lambda row: row["task"])
            cli.write_result(settings.json, cli.command_line("benchmarks.contact_buffers"), {"models": rows})
    return 0


def measured(name: str, settings: Settings) -> dict[str, Any]:
    """The most that one environment of a task needed."""
    begun = time.perf_counter()
    env = embodied.make(name, settings.num_envs, engine="mujoco")
    needs = Needs(substeps_model(env.task.model, env.task.timing.physics_dt))
    for policy in ways_of_acting(env):
        obs = env.reset()
        for step in range(settings.steps):
            if step % settings.every == 0:
                needs.look(env.world().qpos, env.world().qvel)
            obs = env.step(policy(obs)).obs
    most = counted(needs.model)
    return {
        "task": name,
        "fingerprint": fingerprint(needs.model),
        "contacts": needs.contacts,
        "constraints": needs.constraints,
        "counted_contacts": most.contacts,
        "counted_constraints": most.constraints,
        "states": needs.states,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def ways_of_acting(env: embodied.Env) -> Iterator[PolicyFunction]:
    """Nothing, small and large random actions, and the policies that can do the task."""
    yield load_policy("zero", env)
    for size in (0.3, 1.0):
        yield held(env, size)
    if has_expert(env.task):
        with contextlib.suppress(EmbodiedError):  # of a hand for which no gait was searched yet
            yield load_policy("expert", env)
    if env.entry is not None and env.entry.name in shipped():
        yield load_policy("shipped", env)


def held(env: embodied.Env, size: float) -> PolicyFunction:
    """Random actions of a size, each held for `HOLD` control steps."""
    generator, count, action = torch.Generator().manual_seed(0), 0, torch.zeros(env.action_shape)

    def act(obs: Any) -> torch.Tensor:
        nonlocal count, action
        del obs
        if count % HOLD == 0:
            action = size * (2 * torch.rand(env.action_shape, generator=generator) - 1)
        count += 1
        return action

    return act


class Needs:
    """The most contacts and constraints of one environment among all states that were looked at."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Prepare Warp's collision of `model`, with all the room that any state could need."""
        self.model, most = model, counted(model)
        known = known_to_mjx(model)
        device = mjx.put_model(known, impl="warp")
        data = mjx.make_data(known, impl="warp", naconmax=2 * most.contacts * TOGETHER, njmax=2 * most.constraints)

        def count(qpos: jax.Array, qvel: jax.Array) -> tuple[jax.Array, ...]:
            inner: Any = mjx.forward(device, data.replace(qpos=qpos, qvel=qvel))._impl
            return inner.nefc, inner.nacon, inner.ncollision, inner.contact__worldid

        self._count = jax.jit(jax.vmap(count))
        self.contacts = self.constraints = self.states = 0

    def look(self, qpos: Any, qvel: Any) -> None:
        """Count in states (N, nq) and (N, nv), N a multiple of `TOGETHER`."""
        qpos, qvel = jnp.asarray(np.asarray(qpos)), jnp.asarray(np.asarray(qvel))
        for first in range(0, len(qpos), TOGETHER):
            part = slice(first, first + TOGETHER)
            rows, touching, candidates, worlds = map(np.asarray, self._count(qpos[part], qvel[part]))
            each = np.bincount(worlds[0][: int(touching.max())], minlength=1)
            shared = -(-int(candidates.max()) // TOGETHER)
            self.contacts = max(self.contacts, int(each.max()), shared)
            self.constraints = max(self.constraints, int(rows.max()))
            self.states += len(rows)


if __name__ == "__main__":
    sys.exit(main())
