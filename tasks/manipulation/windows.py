"""A window, to be opened and closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.objects import BOX, CAPSULE, PINE, RED, WHITE
from tasks.manipulation.rewards import reach, share
from tasks.manipulation.skills import Aim, Seen, push
from tasks.manipulation.tabletop import BACK, Memory, Placement, Tabletop

RAILS = {"damping": [2.0, 0, 0], "frictionloss": 1.0, **objects.STOP}
"""N s/m, Meta-World's; and 1 N of dry friction, ours, so that the sash stays where it is left."""

# m from the window's origin, its middle, as published if not said otherwise.
TRAVEL = 0.22  # ours: opening it takes .19 of the published .2
FRAME_HALF, FRAME_TOP = 0.25, 0.181
SETBACK = 0.04  # ours: the frame's middle behind that origin, where the published one is; the handle sticks out by as
# much more. The hand is 20 cm long along y, and would scrape along a frame 65 mm behind what its fingers push.
PANE = 0.2  # width of either sash
PANE_HALF = 0.15  # half its height
HANDLE = (-0.014, -0.095, 0.0)  # from the sash's origin, at its right edge
HANDLE_HALF, HANDLE_RADIUS = 0.045, 0.008
OVER = 0.025  # the tcp's height above the handle's middle: the hand's body, 37 mm higher, passes over its upper end
GLASS = (0.62, 0.80, 0.90, 0.35)


class WindowTask(Tabletop):
    """What the two tasks with a window share: it stands somewhere along the table and slides along x."""

    hand_start = BACK
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "move": 5.0}
    reached = 0.05
    """m along x within which the goal is reached; Meta-World."""
    point: ClassVar[tuple[float, float, float]]
    """m from the sash's origin, what is observed: the side of the handle that is pushed; Meta-World."""
    travel: ClassVar[float]
    """m from start to goal, along x; Meta-World."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A window of two sashes, of which the left one slides in front of the other."""
        window = objects.fixture(spec, "window")
        frame(window, self.ranges.start.low[2])
        sash = window.add_body(name="sash")
        sash.add_joint(name="window", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0], range=[0, TRAVEL], **RAILS)
        pane(sash, -PANE, 0.0, SETBACK - 0.013)
        handle(sash)
        sash.add_site(name="point", pos=self.point, group=4)
        objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "point")

    def error(self, world: World, memory: Memory) -> Array:
        """Along x."""
        return jnp.abs(world["object1_pos"][0] - memory.goal[0])

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within `reached`."""
        return self.error(world, memory) <= self.reached

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The hand at the handle, the sash on its way."""
        return {
            "reach": reach(world, world["object1_pos"], 0.04),
            "move": share(self.error(world, memory), self.travel, self.reached),
        }


def frame(window: mujoco.MjsBody, height: float) -> None:
    """What stands fast: a frame around the sashes, down to the table at `height` m below, and the pane behind."""
    middle, half = (FRAME_TOP - height) / 2, (FRAME_TOP + height) / 2
    objects.solid(window, type=BOX, size=[FRAME_HALF, 0.03, half], pos=[0, SETBACK, middle], group=3)
    for left, right, low, high in (
        (-FRAME_HALF, -PANE, -height, FRAME_TOP),
        (TRAVEL, FRAME_HALF, -height, FRAME_TOP),
        (-PANE, TRAVEL, PANE_HALF, FRAME_TOP),
        (-PANE, TRAVEL, -height, -PANE_HALF),
    ):
        size, pos = [(right - left) / 2, 0.03, (high - low) / 2], [(right + left) / 2, SETBACK, (high + low) / 2]
        objects.looks(window, type=BOX, size=size, pos=pos, rgba=WHITE)
    pane(window, 0.0, TRAVEL, SETBACK + 0.013)


def pane(body: mujoco.MjsBody, left: float, right: float, depth: float) -> None:
    """A sash to look at: glass in a wooden frame."""
    middle, half = (left + right) / 2, (right - left) / 2
    for side in (-1, 1):
        upright = {"size": [0.012, 0.012, PANE_HALF], "pos": [middle + side * (half - 0.012), depth, 0]}
        level = {"size": [half, 0.012, 0.01], "pos": [middle, depth, side * (PANE_HALF - 0.01)]}
        for bar in (upright, level):
            objects.looks(body, type=BOX, rgba=PINE, **bar)
    objects.looks(body, type=BOX, size=[half - 0.02, 0.001, PANE_HALF - 0.02], pos=[middle, depth, 0], rgba=GLASS)


def handle(sash: mujoco.MjsBody) -> None:
    """An upright bar on two posts."""
    x, y, _ = HANDLE
    objects.solid(sash, type=CAPSULE, size=[HANDLE_RADIUS, HANDLE_HALF, 0], pos=HANDLE, mass=0.64, rgba=RED)
    for side in (-1, 1):
        post = [x, y, side * HANDLE_HALF, x, SETBACK - 0.02, side * HANDLE_HALF]
        objects.looks(sash, type=CAPSULE, size=[HANDLE_RADIUS, 0, 0], fromto=post, rgba=RED)


class WindowOpen(WindowTask):
    """Task: slide a window open. Randomised: where it stands.

    Success: the left side of the handle within 5 cm of 20 cm right of the window's middle, along x.
    """

    ranges = Ranges(Box((-0.1, 0.7, 0.16), (0.1, 0.9, 0.16)))
    point = (-0.04, -0.095, 0.0)
    travel = 0.24
    instruction = (
        "Open the window.",
        "Push the window's red handle to the right.",
        "Slide the sash aside until the window is open.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """Closed."""
        return Placement(start + jnp.array([0.2, 0.0, 0.0]), {}, {"window": start})

    def script(self, seen: Seen) -> Aim:
        """Push the handle to the right with closed fingers."""
        contact, end = jnp.array([0.0075, -0.01, OVER]), seen.object.at[0].set(seen.goal[0] - 0.03)
        return push(seen, seen.object + contact - jnp.array([0.03, 0.0, 0.0]), end + contact)


class WindowClose(WindowTask):
    """Task: slide a window shut. Randomised: how far back it stands.

    Success: the right side of the handle within 5 cm of the window's middle, along x.
    """

    ranges = Ranges(Box((0.0, 0.75, 0.2), (0.0, 0.9, 0.2)))
    point = (0.01, -0.095, 0.0)
    travel = 0.21
    instruction = (
        "Close the window.",
        "Push the window's red handle to the left.",
        "Slide the sash back until the window is shut.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """Open by 20 cm."""
        return Placement(start, {"window": jnp.asarray(0.2)}, {"window": start})

    def script(self, seen: Seen) -> Aim:
        """Push the handle to the left with closed fingers."""
        contact, end = jnp.array([-0.0055, -0.01, OVER]), seen.object.at[0].set(seen.goal[0] + 0.02)
        return push(seen, seen.object + contact + jnp.array([0.03, 0.0, 0.0]), end + contact)
