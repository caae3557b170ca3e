"""A plate on the table and a cabinet: slide it in, from the front or the side, and out again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language
from embodied.core.world import World
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Point, Ranges
from tasks.manipulation.common.rewards import near, reach
from tasks.manipulation.common.skills import ALIGNED, CLOSE, OPEN, Aim, Seen, aside, at_height, first, push, raised
from tasks.manipulation.common.tabletop import Placement, Tabletop, TaskState

PLATE_MIDDLE = (0.0, 0.6, 0.015)  # m, where its slides are at zero; Meta-World
PLATE_HALF = 0.05  # m, half an edge of the box that stands for it in contacts, the radius it is drawn with; Meta-World
PLATE_THICK = 0.03  # m; Meta-World
PLATE_MASS = 0.05  # kg; Meta-World
PLATE_DAMPING = 1.0  # N s/m, of its slides; Meta-World. It glides on for 50 ms
PLATE_ROOM = ((-0.64, 0.64), (-0.34, 0.38))  # m, the slides' ranges: from edge to edge of the table

CABINET_SIDE, CABINET_FRONT, CABINET_BACK, CABINET_TOP = 0.104, -0.0765, 0.08, 0.18  # m, its faces; Meta-World
ROOF_FRONT = -0.05  # m; 2.65 cm farther back than Meta-World's, or a Panda's wrist could not follow the plate
PANE = 0.012  # m, thickness of its panes; Meta-World's are thinner, between posts of 16 mm
BAR = 0.007  # m, half the breadth of its frame's bars
TURNED = (0.70710678, 0.0, 0.0, 0.70710678)  # wxyz: the open front faces +x
OAK = (0.62, 0.45, 0.28, 1.0)
GLASS = (0.75, 0.88, 0.92, 0.25)

OPEN_FRONT = 0.053  # m from the grip to the far face of a finger that is open
CLOSED_SIDE = 0.015  # m from the grip to the side of a finger
PUSHING = 0.02  # m, height of the grip that pushes
PRESSING = 0.03  # m, height to which the grip is led that presses on the plate, where it stays 8.5 mm higher
DEEPEST, SHALLOWEST = (-0.245, 0.57, 0.0), (0.0, 0.63, 0.0)
"""m, between which the plate may be led into a cabinet at its left: in x until a broad hand that pushes it meets the
cabinet's walls, in y until it is 1 cm from them itself."""
SLOPE = 1.5  # m ahead per m aside: what is pushed with friction 1 follows the fingers aside at up to 45 degrees


class PlateTask(Tabletop):
    """Base of the four plate tasks: the plate, where it must go, and a cabinet."""

    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "move": 5.0}
    reached = 0.07
    cabinet_at: ClassVar[Point | None] = None
    """m, where the cabinet stands; None: at the goal."""
    cabinet_quat: ClassVar[tuple[float, ...]] = (1.0, 0.0, 0.0, 0.0)
    """wxyz, how it is turned; its open front faces -y if it is not."""
    beside: ClassVar[Point] = (0.0, 0.0, 0.0)
    """m from the drawn start, which is the cabinet's where the plate begins in it, to the plate."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        plate(spec)
        if self.cabinet_at is None:
            cabinet(objects.fixture(spec, "cabinet"))
        else:
            cabinet(spec.worldbody.add_body(name="cabinet", pos=self.cabinet_at, quat=self.cabinet_quat))

    def place(self, start: Array, goal: Array) -> Placement:
        """The plate beside what was drawn, the cabinet at the goal unless it stands fast."""
        slid = start + jnp.asarray(self.beside) - jnp.asarray(PLATE_MIDDLE)
        fixtures = {"cabinet": goal} if self.cabinet_at is None else {}
        return Placement(goal, {"plate_x": slid[0], "plate_y": slid[1]}, fixtures)

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        return {
            "reach": reach(world, world["object1_pos"], PLATE_HALF + 0.01),
            "move": near(self.error(world, state), self.reached),
        }


class PlateSlide(PlateTask):
    """Task: slide a plate into a cabinet. Randomised: the cabinet.

    Success: the plate's middle within 7 cm of the cabinet's, on the table.
    """

    ranges = Ranges(Box(PLATE_MIDDLE, PLATE_MIDDLE), Box((-0.1, 0.85, 0.0), (0.1, 0.9, 0.0)))
    language = Language.of(
        "Slide the plate into the cabinet.",
        "Push the plate forwards across the table into the glass cabinet.",
        "Get the plate into the open cabinet in front of it.",
    )

    def script(self, seen: Seen) -> Aim:
        """Push it with the far one of the open fingers: no broad hand fits below the roof."""
        end = seen.goal - jnp.array([0.0, 0.03, 0.0])
        return push_along(seen, end, jnp.array([0.0, 1.0, 0.0]), OPEN_FRONT, OPEN)


class PlateSlideSide(PlateTask):
    """Task: slide a plate sideways into a cabinet. Randomised: the place in the cabinet.

    Success: the plate's middle within 7 cm of the goal.
    """

    ranges = Ranges(Box(PLATE_MIDDLE, PLATE_MIDDLE), Box((-0.3, 0.54, 0.0), (-0.25, 0.66, 0.0)))
    cabinet_at = (-0.3, 0.6, 0.0)
    cabinet_quat = TURNED
    language = Language.of(
        "Slide the plate sideways into the cabinet.",
        "Push the plate to the left into the glass cabinet.",
        "Get the plate into the open cabinet on its left.",
    )

    def script(self, seen: Seen) -> Aim:
        """Push it with the side of the fingers, until a hand that is wider than the cabinet is before its front."""
        end = jnp.clip(seen.goal, jnp.asarray(DEEPEST), jnp.asarray(SHALLOWEST))
        return push_along(seen, end, jnp.array([-1.0, 0.0, 0.0]), CLOSED_SIDE, CLOSE)


class PlateSlideBack(PlateTask):
    """Task: slide a plate out of a cabinet, towards the robot. Randomised: the goal.

    Success: the plate's middle within 7 cm of the goal.
    """

    ranges = Ranges(Box((0.0, 0.85, 0.0), (0.0, 0.85, 0.0)), Box((-0.1, 0.6, 0.015), (0.1, 0.6, 0.015)))
    cabinet_at = (0.0, 0.85, 0.0)
    beside = (0.0, -0.1, 0.0)
    language = Language.of(
        "Slide the plate out of the cabinet to the goal.",
        "Pull the plate back out of the glass cabinet to the target.",
        "Get the plate out of the cabinet and onto the marked spot.",
    )

    def script(self, seen: Seen) -> Aim:
        """Press on its edge with the far one of the open fingers, so that the hand stays before the cabinet."""
        return drag(seen, jnp.array([0.0, -0.085, 0.0]), OPEN)


class PlateSlideBackSide(PlateTask):
    """Task: slide a plate sideways out of a cabinet. Randomised: the goal.

    Success: the plate's middle within 7 cm of the goal.
    """

    ranges = Ranges(Box((-0.25, 0.6, 0.0), (-0.25, 0.6, 0.0)), Box((-0.05, 0.6, 0.015), (0.15, 0.6, 0.015)))
    cabinet_at = (-0.25, 0.6, 0.0)
    cabinet_quat = TURNED
    beside = (0.1, 0.0, 0.0)
    language = Language.of(
        "Slide the plate sideways out of the cabinet to the goal.",
        "Pull the plate to the right out of the glass cabinet to the target.",
        "Get the plate out of the cabinet on the left and onto the marked spot.",
    )

    def script(self, seen: Seen) -> Aim:
        """Press on its edge with closed fingers."""
        return drag(seen, jnp.array([0.034, 0.0, 0.0]), CLOSE)


def plate(spec: mujoco.MjSpec) -> None:
    """A plate that slides over the table and never turns; in contacts it is a box."""
    body = spec.worldbody.add_body(name="plate", pos=PLATE_MIDDLE)
    for axis, room in enumerate(PLATE_ROOM):
        body.add_joint(
            name=f"plate_{'xy'[axis]}",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[float(axis == 0), float(axis == 1), 0],
            range=room,
            damping=[PLATE_DAMPING, 0, 0],
        )
    half = PLATE_THICK / 2
    objects.loose(body, type=objects.BOX, size=[PLATE_HALF, PLATE_HALF, half], mass=PLATE_MASS, group=3)
    spec.add_exclude(bodyname1="world", bodyname2="plate")  # its slides hold it up, not the table
    for radius, top in ((0.032, 0.009), (0.040, 0.014), (0.046, 0.022), (PLATE_HALF, PLATE_THICK)):  # m
        size = [radius, 0.0045, 0]  # each a rim of 9 mm, over the smaller one below
        objects.looks(body, type=objects.CYLINDER, size=size, pos=[0, 0, top - 0.0045 - half], rgba=objects.WHITE)
    for radius, above, rgba in ((0.043, 0.0002, objects.BLUE), (0.039, 0.0004, objects.WHITE)):  # a painted ring
        objects.looks(body, type=objects.CYLINDER, size=[radius, 0.001, 0], pos=[0, 0, half + above - 0.001], rgba=rgba)
    objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_XBODY, "plate")


def cabinet(body: mujoco.MjsBody) -> None:
    """Three walls and a roof of glass in a frame of oak; the open front faces -y."""
    side, front, back, top = CABINET_SIDE, CABINET_FRONT, CABINET_BACK, CABINET_TOP
    for corners in (
        ((-side, front, 0), (PANE - side, back, top)),
        ((side - PANE, front, 0), (side, back, top)),
        ((PANE - side, back - PANE, 0), (side - PANE, back, top)),
        ((PANE - side, ROOF_FRONT, top - PANE), (side - PANE, back - PANE, top)),
    ):
        low, high = np.array(corners)
        objects.solid(body, type=objects.BOX, pos=(low + high) / 2, size=(high - low) / 2, rgba=GLASS)
    side, front, back, low, high = side - PANE / 2, front + PANE / 2, back - PANE / 2, PANE / 2, top - PANE / 2
    bars = [((-side, y, z), (side, y, z)) for y, z in ((ROOF_FRONT, high), (back, high), (back, low))]
    bars += [((x, front, z), (x, back, z)) for x in (-side, side) for z in (low, high)]
    bars += [((x, y, 0), (x, y, top)) for x in (-side, side) for y in (front, back)]
    for start, end in bars:
        objects.looks(body, type=objects.BOX, size=[BAR, 0, 0], fromto=[*start, *end], rgba=OAK)


def push_along(seen: Seen, end: Array, way: Array, gap: float, effort: float) -> Aim:
    """Push the plate along a way (3) to its end (3) m, and aside on that way as far as friction takes it.

    `gap`: m from the grip to the face that pushes.
    """
    left = at_height(end - seen.object, 0.0)
    ahead = jnp.sum(left * way)
    across = left - ahead * way
    ahead = jnp.minimum(ahead, jnp.maximum(SLOPE * jnp.sum(jnp.abs(across)), 0.05))
    start = at_height(seen.object - (PLATE_HALF + gap + 0.012) * way, PUSHING)
    return Aim(push(seen, start, at_height(seen.grip + ahead * way + across, PUSHING)).grip, effort)


def drag(seen: Seen, beside: Array, effort: float) -> Aim:
    """Press on the plate, with the grip beside its middle (3) m, and lead it to the goal."""
    spot = at_height(seen.object + beside, PRESSING)
    off = aside(seen.grip, spot)
    pressing = (off < ALIGNED) & (seen.grip[2] < PLATE_THICK + 0.012)
    return first(
        (pressing, Aim(at_height(seen.goal + beside, PRESSING), effort)),
        (off < ALIGNED, Aim(spot, effort)),
        (True, Aim(raised(spot, 0.06), effort)),
    )
