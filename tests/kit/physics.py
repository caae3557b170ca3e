"""Engines alone, without the task's part around them: a model that moves under controls."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.hooks import Timing
from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from tests.kit.budget import sharing


class Scene:
    """A model as engines take it, in place of a task."""

    def __init__(self, model: str | mujoco.MjModel, dt: float) -> None:
        self.model = mujoco.MjModel.from_xml_string(model) if isinstance(model, str) else model
        self.timing = Timing(dt, 1, 1.0)


def held(**parts: Any) -> Control:
    """A control of numpy arrays, as engines take it."""
    return Control(**parts)


def readings(task: Any, engine: str, starts: ResetState[Any], controls: Control, substeps: int) -> list[World]:
    """The worlds of N environments at their start and after each control (steps, N, ...), so many substeps each.

    Engines are named as in `toy_world`. The physics of a fused engine is one program.
    """
    name, _, impl = engine.partition("-")
    with sharing(f"imports of {engine}"):
        built: Any = make_engine(name, task, len(starts.qpos), **({"impl": impl} if impl else {}))
    count = len(jax.tree.leaves(controls)[0])
    if not built.fused:
        built.reset(np.arange(len(starts.qpos)), jax.tree.map(np.asarray, starts))
        worlds = [built.world()]
        for number in range(count):
            built.step(jax.tree.map(lambda leaf, i=number: np.asarray(leaf[i]), controls), substeps)
            worlds.append(built.world())
        return worlds

    def run(start: ResetState[Any], controls: Control) -> World:
        def step(physics: Any, control: Control) -> tuple[Any, World]:
            physics = built.step(physics, control, substeps)
            return physics, built.world(physics)

        begun = built.start(start)
        rows = jax.lax.scan(step, begun, controls)[1]
        return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), built.world(begun), rows)

    with sharing(f"{type(task).__name__} alone on {engine}"):
        worlds = jax.tree.map(np.asarray, jax.jit(jax.vmap(run, in_axes=(0, 1)))(starts, controls))
    return [jax.tree.map(lambda leaf, i=number: leaf[:, i], worlds) for number in range(count + 1)]
