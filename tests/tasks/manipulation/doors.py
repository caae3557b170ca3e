"""A toy task with a fixture that stands elsewhere in every episode and has a hinge: what most of the fifty need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.world import World
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.rewards import reach
from tasks.manipulation.common.skills import Aim, Seen, push
from tasks.manipulation.common.tabletop import Placement, Tabletop, TaskState

LEAF = 0.12  # m, half the leaf's width
HANDLE = (2 * LEAF, -0.02, 0.0)  # m from the hinge


class ToyDoor(Tabletop):
    """Task: turn a leaf. Randomised: where it stands."""

    ranges = Ranges(Box((-0.2, 0.7, 0.1), (0.0, 0.8, 0.1)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 5.0}
    instruction = ("Push the door.",)

    def furnish(self, spec: mujoco.MjSpec) -> None:
        frame = objects.fixture(spec, "door")
        objects.solid(frame, type=objects.BOX, size=[0.02, 0.02, 0.1], pos=[-0.03, 0, 0])
        leaf = frame.add_body(name="leaf")
        leaf.add_joint(name="hinge", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1], damping=[0.2, 0, 0])
        objects.solid(leaf, type=objects.BOX, size=[LEAF, 0.01, 0.08], pos=[LEAF, 0, 0], mass=0.5)
        leaf.add_site(name="handle", pos=HANDLE)
        objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "handle")

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(start + jnp.array([0.0, 0.2, 0.0]), {"hinge": jnp.asarray(0.1)}, {"door": start})

    def solved(self, world: World, state: TaskState) -> Array:
        del state
        return world.qpos[self.model.joint("hinge").qposadr[0]] > 0.5

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        del state
        return {"reach": reach(world, world["object1_pos"])}

    def script(self, seen: Seen) -> Aim:
        return push(seen, seen.object + jnp.array([0.0, -0.05, -0.05]), seen.object + jnp.array([0.0, 0.08, -0.05]))
