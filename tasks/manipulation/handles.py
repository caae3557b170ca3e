"""A handle that slides up and down in a tower: press it, pull it; the tower faces the robot or stands at its left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.rewards import grasp, reach, share
from tasks.manipulation.skills import CLOSE, Aim, Seen, at_height, fetch, push, raised
from tasks.manipulation.tabletop import BACK, MIDDLE, Memory, Placement, Tabletop

# m, Meta-World's measures, in the tower's frame: its middle on the table, the handle ahead of it along -y.
TOWER = (0.115, 0.11, 0.11)  # half its extents
SLOT = 0.036  # half the width of the slot in which the handle slides
PIVOT = (0.0, -0.05, 0.15)  # of the handle when it is up
PLATE_Y, PLATE = -0.081, (0.032, 0.075, 0.011)  # from the pivot; half its extents
BAR_Y, BAR_RADIUS, BAR_HALF = -0.166, 0.022, 0.07  # from the pivot; it lies along x
BAR_AHEAD = 0.216  # from the tower's middle to the bar's
PULLED_FROM = -0.1  # where the handle that is to be pulled begins

TRAVEL = 0.12  # m down; Meta-World's .1 gives way to its hand, which may press .06 further
DAMPING = 30.0  # N s/m; Meta-World
MASS = 0.3  # kg, a hollow handle of aluminium; Meta-World's 2 g would be less than a sheet of paper

TOP = (0.0, BAR_Y, BAR_RADIUS)  # m from the pivot: above the bar's middle
RIGHT = (0.05, BAR_Y, 0.014)  # m from the pivot: at the bar's right end
CENTRE = (0.0, -0.12, 0.0)  # m from the pivot: on the plate, 46 mm behind the bar

TIP = 0.0085  # m, from the tcp down to the ends of the fingers
CLEARANCE = jnp.array([0.0, -0.008, 0.0])  # m: the hand, 10 cm wide either way, passes the tower 14 mm from it
SHORT = 0.03  # m below the goal, where the script stops pulling: within 5 cm, and short of the joint's end


def tower(spec: mujoco.MjSpec, turned: bool, point: tuple[float, float, float]) -> None:
    """A fixture with a slide joint, `tower` and `handle`. The handle stays wherever it is left.

    Args:
        spec: where to put it.
        turned: whether the handle is ahead along +x, not -y.
        point: what is observed, m from the handle's pivot.
    """
    quat = [np.sqrt(0.5), 0, 0, np.sqrt(0.5)] if turned else [1, 0, 0, 0]
    stand = objects.fixture(spec, "tower").add_body(name="stand", quat=quat)
    # One block for the robot, since no finger reaches into the slot.
    objects.solid(stand, name="tower", type=objects.BOX, size=TOWER, pos=[0, 0, TOWER[2]], group=3)
    draw_tower(stand)
    handle = stand.add_body(name="handle", pos=PIVOT, gravcomp=1)  # a counterweight in the tower balances it
    slide = {"axis": [0, 0, 1], "range": [-TRAVEL, 0], "damping": [DAMPING, 0, 0]}
    handle.add_joint(name="handle", type=mujoco.mjtJoint.mjJNT_SLIDE, **slide)
    plate = {"size": PLATE, "pos": [0, PLATE_Y, 0], "rgba": objects.RED}
    objects.solid(handle, name="plate", type=objects.BOX, mass=MASS / 2, **plate)
    # A box in contacts: a round bar's ends would slip from between two pads.
    bar = {"size": [BAR_HALF, BAR_RADIUS, BAR_RADIUS], "pos": [0, BAR_Y, 0]}
    objects.solid(handle, name="bar", type=objects.BOX, mass=MASS / 2, group=3, **bar)
    for radius, half, rgba in ((BAR_RADIUS, BAR_HALF - 0.008, objects.RED), (0.018, BAR_HALF, objects.STEEL)):
        across = {"pos": [0, BAR_Y, 0], "quat": [1, 0, 1, 0], "size": [radius, half, 0], "rgba": rgba}
        objects.looks(handle, type=objects.CYLINDER, **across)
    handle.add_site(name="point", pos=point, group=4)
    objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "point")


def draw_tower(stand: mujoco.MjsBody) -> None:
    """What is seen of it: two columns with a slot between them, a dark back in it, a foot and a cap."""
    width, depth, height = TOWER
    column = (width - SLOT) / 2
    for side in (-1, 1):
        parts = (
            ([column, depth, height], [side * (SLOT + column), 0, height], objects.WHITE),
            ([0.004, 0.003, height], [side * (SLOT + 0.004), -depth, height], objects.STEEL),  # edges of the slot
        )
        for size, pos, rgba in parts:
            objects.looks(stand, type=objects.BOX, size=size, pos=pos, rgba=rgba)
    front = PIVOT[1] + 0.01
    back = {"size": [SLOT, (depth - front) / 2, height - 0.001], "pos": [0, (depth + front) / 2, height - 0.002]}
    objects.looks(stand, type=objects.BOX, rgba=objects.BLACK, **back)
    for half, z in ((0.006, 0.006), (0.003, 2 * height + 0.003)):
        plate = {"size": [width + 0.003, depth + 0.003, half], "pos": [0, 0, z], "rgba": objects.BLACK}
        objects.looks(stand, type=objects.BOX, **plate)


class HandleTask(Tabletop):
    """What the four tasks share: a tower, drawn on the table, and a height to which its handle is to go."""

    turned = False
    """Whether the tower stands at the left and its handle points to +x."""
    point: ClassVar[tuple[float, float, float]]
    """m from the handle's pivot: what is observed and measured."""
    begins = 0.0
    """m, the joint's position at the start."""
    height: ClassVar[float]
    """m, where the point is to go."""
    reached: ClassVar[float]
    """m of the goal's height or, where the plate is pulled, of the goal; Meta-World."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A tower with a handle."""
        tower(spec, self.turned, self.point)

    def place(self, start: Array, goal: Array) -> Placement:
        """The tower where it was drawn, the goal above or below its bar."""
        x, y = (BAR_AHEAD, 0.0) if self.turned else (0.0, -BAR_AHEAD)
        goal = start + jnp.array([x, y, self.height])
        return Placement(goal, {"handle": jnp.asarray(self.begins)}, {"tower": start})

    def error(self, world: World, memory: Memory) -> Array:
        """How far the point is above or below the goal."""
        return jnp.abs(world["object1_pos"][2] - memory.goal[2])

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within `reached`."""
        return self.error(world, memory) <= self.reached


class HandlePress(HandleTask):
    """Task: press a handle down. Randomised: where its tower stands.

    Success: the bar's top within 2 cm of the goal's height; further down it is none.
    """

    ranges = Ranges(Box((-0.1, 0.8, 0.0), (0.1, 0.9, 0.0)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "press": 5.0}
    hand_start = BACK  # at Meta-World's (0, .6) the hand would begin inside the bar
    point = TOP
    height = 0.075
    reached = 0.02
    instruction = (
        "Press the handle down.",
        "Push the red handle down to the marked height.",
        "Slide the handle of the tower downwards until it is at the goal.",
    )

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The fingertips on the bar, the bar near the goal's height."""
        up = PIVOT[2] + self.point[2] - self.height
        return {
            "reach": reach(world, world["object1_pos"], 0.02),
            "press": share(self.error(world, memory), up, self.reached),
        }

    def script(self, seen: Seen) -> Aim:
        """From above, straight down to the goal's height and no further."""
        bar, goal = (point + raised(CLEARANCE, TIP) for point in (seen.object, seen.goal))
        return push(seen, raised(bar, 0.03), goal)


class HandlePressSide(HandlePress):
    """Task: press a handle down that points to the right. Randomised: where its tower stands.

    Success: the bar's top within 2 cm of the goal's height; further down it is none.
    """

    ranges = Ranges(Box((-0.35, 0.65, 0.0), (-0.25, 0.75, 0.0)))
    hand_start = MIDDLE
    turned = True
    instruction = (
        "Press the handle at the side down.",
        "Push the red handle of the tower on the left down to the marked height.",
        "Slide the sideways handle downwards until it is at the goal.",
    )


class HandlePull(HandleTask):
    """Task: pull a handle up. Randomised: where its tower stands.

    Success: the bar's right end within 5 cm of the goal's height.
    """

    ranges = HandlePress.ranges
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 2.0, "pull": 4.0}
    hand_start = BACK  # at Meta-World's (0, .6) the hand would begin inside the tower
    point = RIGHT
    begins = PULLED_FROM
    height = 0.172
    reached = 0.05
    left = 0.108
    """m that are left to do at the start."""
    grip = (0.0, -0.003, -RIGHT[2])
    """m from the observed point to where the script grasps."""
    instruction = (
        "Pull the handle up.",
        "Grasp the red handle and lift it to the marked height.",
        "Slide the handle of the tower upwards until it is at the goal.",
    )

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The fingertips at the grip, the handle held, near the goal."""
        grip = world["object1_pos"] + jnp.array(self.grip)
        return {
            "reach": reach(world, grip, 0.01),
            "grasp": grasp(world, grip),
            "pull": share(self.error(world, memory), self.left, self.reached),
        }

    def script(self, seen: Seen) -> Aim:
        """Grasp it from above, and lift it."""
        grip = seen.object + jnp.array(self.grip)
        return fetch(seen, grip, then=Aim(at_height(grip, seen.goal[2] - SHORT), CLOSE))


class HandlePullSide(HandlePull):
    """Task: pull a handle up that points to the right. Randomised: where its tower stands.

    Success: the plate's middle within 8 cm of the goal, which is above the bar.
    """

    ranges = HandlePressSide.ranges
    hand_start = MIDDLE
    turned = True
    point = CENTRE
    reached = 0.08
    left = 0.13
    grip = (0.0, 0.0, 0.0)  # across the bar the hand cannot reach, as it opens along y; the plate is 64 mm wide
    instruction = (
        "Pull the handle at the side up.",
        "Grasp the red handle of the tower on the left and lift it to the marked height.",
        "Slide the sideways handle upwards until it is at the goal.",
    )

    def error(self, world: World, memory: Memory) -> Array:
        """From the plate's middle to the goal."""
        return Tabletop.error(self, world, memory)
