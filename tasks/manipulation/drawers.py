"""A drawer, to be opened and closed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.objects import BLUE, BOX, CAPSULE, PINE, STEEL, WHITE
from tasks.manipulation.rewards import reach, share
from tasks.manipulation.skills import CLOSE, Aim, Seen, fetch, push, raised
from tasks.manipulation.tabletop import Memory, Placement, Tabletop

RAILS = {"damping": [2.0, 0, 0], "frictionloss": 1.0, **objects.STOP}
"""N s/m, Meta-World's; and 1 N of dry friction, ours, so that the drawer stays where it is left."""

# m from the middle of the case's foot, as published if not said otherwise.
DRAWER = (0.0, -0.01, 0.09)  # its origin, when closed
TRAVEL = 0.2  # ours: the published .16 are just what opening it takes
CASE_WIDTH, CASE_DEPTH = 0.236, 0.23  # 3 cm deeper, so that the drawer's back stays inside when it is open
CASE_HEIGHT = 0.12  # 5 cm lower: on a case of .168 the hand, 20 cm long along y, would rest before its fingertips
# reached the handle, 6 cm from it
BAR = (0.0, -0.15, 0.0)  # the handle's middle, from the drawer's origin
BAR_HALF, BAR_RADIUS = 0.05, 0.009
GRIP = 0.005  # the tcp's height above the bar's middle: the hand's body, 37 mm higher, clears the case by 12 mm


class DrawerTask(Tabletop):
    """What the two tasks with a drawer share: the chest, drawn along the far edge of the table."""

    ranges = Ranges(Box((-0.1, 0.9, 0.0), (0.1, 0.9, 0.0)))
    point: ClassVar[tuple[float, float, float]]
    """m from the drawer's origin, what is observed; Meta-World."""
    travel: ClassVar[float]
    """m from start to goal, along y; Meta-World."""
    reached: ClassVar[float]
    """m within which the goal is reached; Meta-World."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A chest with one drawer, which a bar pulls out."""
        chest = objects.fixture(spec, "drawer")
        case(chest)
        box = chest.add_body(name="box", pos=DRAWER)
        box.add_joint(name="drawer", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 1, 0], range=[-TRAVEL, 0], **RAILS)
        drawer(box)
        box.add_site(name="point", pos=self.point, group=4)
        objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "point")

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within `reached`."""
        return self.error(world, memory) <= self.reached


def case(chest: mujoco.MjsBody) -> None:
    """Foot, sides, back and top of the chest: one block for contacts."""
    x, y, z = CASE_WIDTH / 2, CASE_DEPTH / 2, CASE_HEIGHT / 2
    middle = y - 0.1
    objects.solid(chest, type=BOX, size=[x, y, z], pos=[0, middle, z], group=3)
    top, board = 0.006, 0.008  # half of what they are thick
    for size, pos in (
        ([board, y, z - top], [x - board, middle, z - top]),
        ([board, y, z - top], [board - x, middle, z - top]),
        ([x - 2 * board, board, z - top], [0, middle + y - board, z - top]),
        ([x - 2 * board, y - board, board], [0, middle - board, board]),
    ):
        objects.looks(chest, type=BOX, size=size, pos=pos, rgba=WHITE)
    objects.looks(chest, type=BOX, size=[x + 0.004, y + 0.002, top], pos=[0, middle - 0.002, 2 * z - top], rgba=PINE)


def drawer(box: mujoco.MjsBody) -> None:
    """Front, floor and bar; the sides are only looked at."""
    front, back, board = -0.09, 0.12, 0.008
    objects.solid(box, type=BOX, size=[0.099, board, 0.042], pos=[0, front + board, -0.028], mass=0.15, rgba=BLUE)
    middle, half = (front + board + back) / 2, (back - front - board) / 2
    objects.solid(box, type=BOX, size=[0.096, half, 0.012], pos=[0, middle, -0.055], mass=0.15, rgba=PINE)
    for side in (-1, 1):
        objects.looks(box, type=BOX, size=[0.005, half, 0.032], pos=[side * 0.092, middle, -0.036], rgba=PINE)
        post = [side * BAR_HALF, front, 0, side * BAR_HALF, BAR[1], 0]
        objects.looks(box, type=CAPSULE, size=[0.007, 0, 0], fromto=post, rgba=STEEL)
    objects.looks(box, type=BOX, size=[0.096, 0.005, 0.032], pos=[0, back - 0.005, -0.036], rgba=PINE)
    ends = [-BAR_HALF, *BAR[1:], BAR_HALF, *BAR[1:]]
    objects.solid(box, type=CAPSULE, size=[BAR_RADIUS, 0, 0], fromto=ends, mass=0.08, rgba=STEEL)


class DrawerOpen(DrawerTask):
    """Task: pull a drawer open. Randomised: where the chest stands.

    Success: the handle within 3 cm of where it is 19 cm out.
    """

    point = (0.0, -0.16, 0.0)
    travel = 0.19
    reached = 0.03
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "pull": 5.0}
    instruction = (
        "Open the drawer.",
        "Pull the blue drawer out by its handle.",
        "Take hold of the steel bar and draw it towards the robot.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """Closed."""
        return Placement(start + jnp.array([0.0, -0.36, 0.09]), {}, {"drawer": start})

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The hand at the bar, the drawer on its way out."""
        return {
            "reach": reach(world, world["object1_pos"], 0.04),
            "pull": share(self.error(world, memory), self.travel, self.reached),
        }

    def script(self, seen: Seen) -> Aim:
        """Grasp the bar, and pull."""
        bar = jnp.array([0.0, 0.006, GRIP])  # 4 mm before its middle: behind it a finger has 51 mm of room
        return fetch(seen, seen.object + bar, then=Aim(seen.goal + bar, CLOSE))


class DrawerClose(DrawerTask):
    """Task: push a drawer shut. Randomised: where the chest stands.

    Success: a point 5 cm above the handle within 6.5 cm of one that the handle would reach 1 cm further in than closed;
    so the drawer at most 31 mm open.
    """

    point = (0.0, -0.16, 0.05)
    travel = 0.16
    reached = 0.065
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "move": 5.0}
    instruction = (
        "Close the drawer.",
        "Push the blue drawer shut.",
        "Slide the drawer back into the chest until it is closed.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """Open by 15 cm."""
        return Placement(start + jnp.array([0.0, -0.16, 0.09]), {"drawer": jnp.asarray(-0.15)}, {"drawer": start})

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The hand at the bar, the drawer on its way in."""
        bar = raised(world["object1_pos"], -self.point[2])
        return {
            "reach": reach(world, bar, 0.04),
            "move": share(memory.goal[1] - bar[1], self.travel, math.sqrt(self.reached**2 - self.point[2] ** 2)),
        }

    def script(self, seen: Seen) -> Aim:
        """Push against the bar with closed fingers."""
        before = jnp.array([0.0, -0.03, GRIP - self.point[2]])
        shut = seen.object.at[1].set(seen.goal[1] - 0.01)  # the point's place when the drawer is closed
        return push(seen, seen.object + before, shut + before + jnp.array([0.0, 0.015, 0.0]))
