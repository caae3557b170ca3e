"""A layout of blocks as the twin takes it: bodies of a scene, or the initial state of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.initial_states import InitialStateBuffer, first_reset_states
from embodied.core.scenes import compose
from embodied.core.task import Task
from embodied.errors import EmbodiedError, listing
from sim2real.cameras.reconstruction.blocks import Found

PAINT = {
    "red": (0.86, 0.22, 0.18, 1.0),
    "orange": (0.93, 0.50, 0.12, 1.0),
    "yellow": (0.93, 0.80, 0.15, 1.0),
    "green": (0.18, 0.58, 0.28, 1.0),
    "cyan": (0.15, 0.70, 0.75, 1.0),
    "blue": (0.13, 0.38, 0.78, 1.0),
    "purple": (0.55, 0.25, 0.70, 1.0),
}
"""Colour -> RGBA in which the twin paints it; by eye."""
DENSITY = 700.0  # kg/m^3, of beech; a picture does not show it


def document(found: Sequence[Found]) -> list[dict[str, Any]]:
    """The layout for JSON: m, rad, world frame."""
    return [
        {"name": one.block.name, "colour": one.block.colour, "position": one.position.tolist(), "yaw": one.yaw,
         "half": list(one.half), "residual_px": one.residual}
        for one in found
    ]  # fmt: skip


def scene(found: Sequence[Found], file: str = "scenes/table.xml") -> mujoco.MjSpec:
    """A scene with the blocks where they were found, each a free body of its name."""
    spec = compose(file)
    for one in found:
        body = spec.worldbody.add_body(name=one.block.name, pos=one.position, quat=one.quat)
        body.add_freejoint(name=one.block.name)
        box, colour = mujoco.mjtGeom.mjGEOM_BOX, PAINT[one.block.colour]
        body.add_geom(type=box, size=list(one.half), rgba=colour, density=DENSITY)
    return spec


def initial_states(
    task: Task[Any], found: Sequence[Found], joints: Mapping[str, str], draws: int
) -> InitialStateBuffer:
    """Initial states of a task in which its free bodies lie as blocks were found; all else as the task draws it.

    Args:
        task: Has free joints.
        found: The blocks.
        joints: Free joint -> name of the block that lies there.
        draws: How many initial states, alike but for the rest.

    Raises:
        EmbodiedError: there is no such free joint or no such block, or no block is to lie anywhere.
    """
    model, known = task.model, {one.block.name: one for one in found}
    free = [model.joint(j).name for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]
    if wrong := [joint for joint in joints if joint not in free]:
        raise EmbodiedError(f"{task.unwrapped} has no free joint '{wrong[0]}'; it has {listing(free) or 'none'}")
    if not joints:
        raise EmbodiedError(
            f"no block lies anywhere in {task.unwrapped}; expected --joints JOINT=NAME of one that was found, and of "
            f"its free joints: {listing(free) or 'it has none'}"
        )
    if missing := [name for name in joints.values() if name not in known]:
        raise EmbodiedError(f"no block '{missing[0]}' was found; found were {listing(known) or 'none'}")
    drawn = first_reset_states(task, 0, draws)
    qpos = np.array(drawn.qpos)
    for joint, name in joints.items():
        first = int(model.joint(joint).qposadr[0])
        qpos[:, first : first + 3] = known[name].position
        qpos[:, first + 3 : first + 7] = known[name].quat
    placed = dataclasses.replace(drawn, qpos=jax.tree.map(np.asarray, jnp.asarray(qpos, jnp.float32)))
    return InitialStateBuffer(placed, np.ones(draws))
