"""A mushroom button to press, from the side or from above, with and without a wall before it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.rewards import reach, share
from tasks.manipulation.skills import CLOSE, Aim, Seen, first, over, push
from tasks.manipulation.tabletop import BACK, Memory, Placement, Tabletop

BASE = 0.115  # m, height of the box's origin; Meta-World
FACE = 0.193  # m from the box's origin to the button's face, along the button; Meta-World
SUNK = 0.1  # m from the box's origin to the goal of the face; Meta-World
TRAVEL = 0.09  # m; Meta-World's .06 gives way to the hand, since success takes .07
HEAD_HALF = 0.006  # m, half the thickness of the head: at the end of its travel it meets the box
HEAD_RADIUS = 0.043  # m; Meta-World
HEAD_SIDE = 0.04  # m, half an edge of the box that stands for the head in contacts
SHAFT_RADIUS = 0.021  # m; Meta-World
BUTTON_MASS = 0.05  # kg, of plastic; Meta-World's .01 kg is too light for steps of 6.25 ms
SPRING, PRELOAD = 20.0, 0.05  # N/m, and m by which it is pressed at rest: 1 N at first, 2.8 N at the end; our choice

BOX_HALF = (0.12, 0.102, 0.0825)  # m, across, along the button, and up; Meta-World's is .12 up
BOX_AHEAD = 0.012  # m from the box's middle to its origin, along the button; Meta-World
LOWERED = -0.0325  # m, the middle of a lying box: it stands on the table and ends at z = .165, below the hand's body

FRONT = BOX_AHEAD - BOX_HALF[1]  # m, y of the face with the button in the box's frame
ALONG = (0.0, 1.0, 0.0)  # the button's axis in the box's frame

WALL_HALF = (0.1, 0.01, 0.075)  # m; Meta-World
WALL_SIDE = (0.1, 0.6, 0.075)  # m, its middle before a lying box; Meta-World
WALL_ABOVE = (0.1, 0.7, 0.075)  # m, its middle before a standing box; Meta-World
BEHIND_WALL = 0.625  # m, y of the tcp at which closed fingers, 15 mm thick either way, are past a wall that ends at .61
OVER_WALL = 0.185  # m, tcp: the fingers end 9 mm below it, the wall at z = .15


class ButtonTask(Tabletop):
    """What the four tasks share: a box with a button, and the formula of success along the button's axis."""

    hand_start = BACK
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "press": 5.0}
    axis: ClassVar[int] = 1
    """Of the world, along which the button goes in."""
    outward: ClassVar[tuple[float, float, float]] = (0.0, -1.0, 0.0)
    """Unit vector from the box to the button."""
    touch: ClassVar[tuple[float, float, float]] = (0.0, -0.015, 0.028)
    """m from the face's middle to the tcp when closed fingers touch it. Above the middle where the button goes in
    sideways: the hand's body, 20 cm along y and 37 mm above the tcp, passes above the box."""
    before: ClassVar[float] = 0.03
    """m before the button at which the fingers come to its axis."""
    reached = 0.02
    """m between face and goal within which it is pressed; Meta-World."""
    wall: ClassVar[tuple[float, float, float] | None] = None
    """m, the middle of a wall."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A box with a button, and perhaps a wall."""
        button_box(spec, upright=self.axis == 2)
        if self.wall:
            objects.wall(spec, self.wall, WALL_HALF)

    def place(self, start: Array, goal: Array) -> Placement:
        """The box where it was drawn; the goal is on the button's axis."""
        del goal
        return Placement(start + SUNK * jnp.asarray(self.outward), fixtures={"box": start})

    def error(self, world: World, memory: Memory) -> Array:
        """From the button's face to the goal, along the button."""
        return jnp.abs(world["object1_pos"][self.axis] - memory.goal[self.axis])

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within `reached`."""
        return self.error(world, memory) <= self.reached

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The closed fingers at the button, the button on its way in."""
        return {
            "reach": reach(world, world["object1_pos"] + jnp.asarray(self.touch), 0.01),
            "press": share(self.error(world, memory), FACE - SUNK, self.reached),
        }

    def script(self, seen: Seen) -> Aim:
        """Before the button with closed fingers, then straight on, nearly to the end of the travel."""
        end = seen.goal + jnp.asarray(self.touch) + 0.008 * jnp.asarray(self.outward)
        return push(seen, self.ready(seen), end, clear=0.0)

    def ready(self, seen: Seen) -> Array:
        """Where the tcp is just before it presses, (3) m."""
        return seen.object + jnp.asarray(self.touch) + self.before * jnp.asarray(self.outward)


class ButtonPress(ButtonTask):
    """Task: press a button on a box, sideways. Randomised: where the box stands.

    Success: the button's face within 2 cm of the goal, along y.
    """

    ranges = Ranges(Box((-0.1, 0.85, BASE), (0.1, 0.9, BASE)))
    instruction = (
        "Press the button.",
        "Push the red button into the yellow box.",
        "Move your closed fingers against the button until it is in.",
    )


class ButtonPressWall(ButtonPress):
    """Task: press a button on a box, sideways, behind a wall. Randomised: where the box stands.

    Success: the button's face within 3 cm of the goal, along y.
    """

    ranges = Ranges(Box((-0.05, 0.85, BASE), (0.05, 0.9, BASE)))
    before = 0.009  # between wall and button there are 47 mm, and the closed fingers take 30
    reached = 0.03
    wall = WALL_SIDE
    instruction = (
        "Press the button behind the wall.",
        "Go past the wall and push the red button into the yellow box.",
        "Reach over the wall and press the button until it is in.",
    )

    def script(self, seen: Seen) -> Aim:
        """Over the wall, down between it and the button, then straight on."""
        ready, ahead = self.ready(seen), seen.tcp[1] < BEHIND_WALL
        high = seen.tcp[2] > ready[2] + 0.01
        return first((ahead | high, Aim(over(seen, ready, OVER_WALL, ahead), CLOSE)), (True, super().script(seen)))


class ButtonPressTopdown(ButtonTask):
    """Task: press a button on a box, from above. Randomised: where the box stands.

    Success: the button's face within 24 mm of the goal, along z.
    """

    ranges = Ranges(Box((-0.1, 0.8, BASE), (0.1, 0.9, BASE)))
    axis = 2
    outward = (0.0, 0.0, 1.0)
    touch = (0.0, 0.0, 0.0085)
    reached = 0.024
    instruction = (
        "Press the button from above.",
        "Push the red button down into the yellow box.",
        "Move your closed fingers down on the button until it is in.",
    )


class ButtonPressTopdownWall(ButtonPressTopdown):
    """Task: press a button on a box, from above, behind a wall. Randomised: where the box stands.

    Success: the button's face within 24 mm of the goal, along z.
    """

    wall = WALL_ABOVE
    instruction = (
        "Press the button behind the wall from above.",
        "Go over the wall and push the red button down into the yellow box.",
        "Reach past the wall and press the button down until it is in.",
    )


def button_box(spec: mujoco.MjSpec, upright: bool) -> None:
    """A fixture `box` with a button that goes in along y, or along z where it stands upright; object 1 is its face."""
    turn = [0.5**0.5, -(0.5**0.5), 0, 0] if upright else [1, 0, 0, 0]  # wxyz: -y becomes z
    fixture = objects.fixture(spec, "box")
    box = fixture.add_body(name="housing", quat=turn)
    middle = 0.0 if upright else LOWERED
    foot = [BOX_HALF[0] + 0.003, BOX_HALF[2 if upright else 1] + 0.003, 0.006]
    objects.looks(
        fixture, type=objects.BOX, size=foot, pos=[0, 0 if upright else BOX_AHEAD, 0.006 - BASE], rgba=objects.BLACK
    )
    objects.solid(box, name="housing", type=objects.BOX, size=BOX_HALF, pos=[0, BOX_AHEAD, middle], rgba=objects.YELLOW)
    objects.disc(box, 0.056, 0.003, [0, FRONT, 0], objects.STEEL, axis=ALONG)
    objects.disc(box, 0.032, 0.007, [0, FRONT, 0], objects.BLACK, axis=ALONG)
    for x, z in itertools.product((-1, 1), (-1, 1)):
        screw = [x * (BOX_HALF[0] - 0.015), FRONT, middle + z * (BOX_HALF[2] - 0.015)]
        objects.disc(box, 0.006, 0.002, screw, objects.STEEL, axis=ALONG)

    button = box.add_body(name="button")
    button.add_joint(
        name="button",
        type=mujoco.mjtJoint.mjJNT_SLIDE,
        axis=[0, -1, 0],
        range=[-TRAVEL, 0],
        stiffness=[SPRING, 0, 0],
        springref=PRELOAD,
        damping=[1, 0, 0],
        solref_limit=[0.0125, 1],
    )
    head = {"pos": [0, HEAD_HALF - FACE, 0], "size": [HEAD_SIDE, HEAD_HALF, HEAD_SIDE]}
    shaft = [0, FRONT + SHAFT_RADIUS, 0, 0, 2 * HEAD_HALF - FACE, 0]
    objects.solid(button, name="head", type=objects.BOX, mass=BUTTON_MASS, group=3, **head)
    objects.solid(button, name="shaft", type=objects.CAPSULE, fromto=shaft, size=[SHAFT_RADIUS, 0, 0], mass=0, group=3)
    objects.looks(button, type=objects.CYLINDER, fromto=shaft, size=[SHAFT_RADIUS, 0, 0], rgba=objects.STEEL)
    objects.disc(button, HEAD_RADIUS, HEAD_HALF - 0.002, [0, HEAD_HALF + 0.002 - FACE, 0], objects.RED, axis=ALONG)
    objects.disc(button, HEAD_RADIUS - 0.003, 0.003, [0, 0.003 - FACE, 0], objects.RED, axis=ALONG)  # a chamfer
    button.add_site(name="face", pos=[0, -FACE, 0])
    objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "face")
