"""A nut with a handle that goes onto a peg, or comes off one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.world import World
from embodied.math.rotations import quat_rotate
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.rewards import both, grasp, near, reach, share
from tasks.manipulation.common.skills import CLOSE, Aim, Seen, aside, at_height, carry, fetch
from tasks.manipulation.common.tabletop import BACK, Placement, Tabletop, TaskState

TURN = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # wxyz, the nut's at the start: its handle points to the right
WALL = 0.048  # m from the ring's axis to the middle of its walls; Meta-World
THICK = 0.019  # m, half the ring's height and half its walls' thickness; Meta-World
HANDLE = (0.0, -0.13, 0.0)  # m in the nut's frame, the middle of the handle's grip: what is observed; Meta-World
TO_RING = (0.0, 0.13, 0.0)  # m, the way back
GRIP_HALF = (0.019, 0.038, 0.016)  # m; Meta-World
RING_MASS, GRIP_MASS = 0.165, 0.055  # kg, Meta-World's .22 with its centre of mass

PEG_RADIUS, PEG_TOP = 0.02, 0.1  # m; Meta-World
ABOVE = 0.13  # m, height of a ring that clears the peg by a centimetre
DOWN = 0.06  # m, height of a ring that is well on it
IN_LINE, ROOM = 0.005, 0.015  # m beside the peg's axis at which a ring goes down, and what is then allowed; it has 9 mm
ON_PEG = 0.02  # m beside the peg's axis; Meta-World


class NutTask(Tabletop):
    """Base of the two nut tasks: a nut with a handle, and a peg."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A six-sided nut, its walls capsules in contacts, and a wooden peg with a round top."""
        nut = objects.free_body(spec, "nut", point=HANDLE)
        nut.quat = TURN
        objects.mark(spec, nut, "ring", (0.0, 0.0, 0.0))
        corner, outside = WALL / math.cos(math.pi / 6), (WALL + THICK) * math.tan(math.pi / 6)
        for side in range(6):
            ends = [((side + end) * math.pi / 3, corner) for end in (0, 1)]
            wall = [coordinate for turn, far in ends for coordinate in (far * math.cos(turn), far * math.sin(turn), 0)]
            objects.loose(nut, type=objects.CAPSULE, size=[THICK, 0, 0], fromto=wall, mass=RING_MASS / 6, group=3)
            turn = (side + 0.5) * math.pi / 3
            height = THICK - 0.001 - 0.0004 * (side % 2)  # neighbours overlap, and must not share a surface
            flat = {"pos": [WALL * math.cos(turn), WALL * math.sin(turn), 0], "size": [THICK, outside, height]}
            facing = [math.cos(turn / 2), 0, 0, math.sin(turn / 2)]
            objects.looks(nut, type=objects.BOX, quat=facing, rgba=objects.STEEL, **flat)
        objects.loose(nut, type=objects.BOX, size=GRIP_HALF, pos=HANDLE, mass=GRIP_MASS, rgba=objects.RED)
        objects.looks(nut, type=objects.CYLINDER, size=[0.01], fromto=[0, -WALL, 0, 0, -0.1, 0], rgba=objects.STEEL)
        peg = objects.fixture(spec, "peg")
        upright = [0, 0, PEG_RADIUS, 0, 0, PEG_TOP - PEG_RADIUS]
        objects.solid(peg, type=objects.CAPSULE, size=[PEG_RADIUS, 0, 0], fromto=upright, rgba=objects.PINE)
        objects.looks(peg, type=objects.CYLINDER, size=[0.028, 0.004, 0], pos=[0, 0, 0.004], rgba=objects.PINE)


class Assembly(NutTask):
    """Task: put a nut onto a peg, by its handle. Randomised: the peg.

    Success: the ring's middle within 2 cm of the peg's axis, and below the peg's top.
    """

    ranges = Ranges(Box((0.0, 0.6, THICK), (0.0, 0.6, THICK)), Box((-0.1, 0.75, 0.1), (0.1, 0.85, 0.1)), apart=0.1)
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "lift": 1.0, "move": 2.0, "insert": 2.0}
    language = Language.of(
        "Pick up the nut and place it onto the peg.",
        "Grasp the nut by its red handle and lower its ring over the peg.",
        "Put the nut on the upright peg.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"nut": start}, {"peg": at_height(goal, 0.0)})

    def error(self, world: World, state: TaskState) -> Array:
        """From the ring's middle to the peg's axis, or to its top, whichever is farther."""
        ring = world["ring"]
        return jnp.maximum(aside(ring, state.goal), ring[2] - state.goal[2])

    def solved(self, world: World, state: TaskState) -> Array:
        ring = world["ring"]
        return (aside(ring, state.goal) < ON_PEG) & (ring[2] < state.goal[2])

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        ring, handle = world["ring"], world["object1_pos"]
        held, off = grasp(world, handle), aside(ring, state.goal)
        around = near(off, ON_PEG, ON_PEG)
        return {
            "reach": reach(world, handle, 0.01),
            "grasp": held,
            "lift": held * jnp.maximum(share(ring[2], THICK, ABOVE), around),
            "move": both(held, near(off, ON_PEG)),
            "insert": both(around, share(ring[2], ABOVE, state.goal[2])),
        }

    def script(self, seen: Seen) -> Aim:
        """Fetch it by its handle, lift it higher than the peg, and lower it when its ring is in line."""
        ring = seen.object + quat_rotate(seen.quat, jnp.array(TO_RING))
        in_line = aside(ring, seen.goal) < jnp.where(ring[2] < ABOVE - 0.01, ROOM, IN_LINE)
        higher, lower = (seen.grip + at_height(seen.goal, height) - ring for height in (ABOVE, DOWN))
        way = jnp.where(in_line, lower, carry(seen, higher, start=ABOVE - 0.01))
        return fetch(seen, seen.object, then=Aim(way, CLOSE))


class Disassemble(NutTask):
    """Task: take a nut off a peg, by its handle. Randomised: nut and peg.

    Success: the handle higher than 17.5 cm.
    """

    ranges = Ranges(Box((0.0, 0.6, THICK), (0.1, 0.75, THICK)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 2.0, "lift": 4.0}
    hand_start = BACK
    language = Language.of(
        "Take the nut off the peg.",
        "Grasp the nut by its red handle and lift it off the peg.",
        "Remove the nut from the upright peg.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        del goal
        return Placement(at_height(start, 0.175), {"nut": start}, {"peg": at_height(start, 0.0)})

    def error(self, world: World, state: TaskState) -> Array:
        return jnp.maximum(state.goal[2] - world["object1_pos"][2], 0.0)

    def solved(self, world: World, state: TaskState) -> Array:
        return world["object1_pos"][2] > state.goal[2]

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        handle = world["object1_pos"]
        held = grasp(world, handle)
        return {
            "reach": reach(world, handle, 0.01),
            "grasp": held,
            "lift": held * share(handle[2], THICK, state.goal[2]),
        }

    def script(self, seen: Seen) -> Aim:
        """Grasp it by its handle, and lift it straight up."""
        return fetch(seen, seen.object, then=Aim(at_height(seen.grip, seen.goal[2] + 0.04), CLOSE))
