"""A peg that goes into a hole, and a plug that comes out of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.world import World
from embodied.math.rotations import quat_rotate
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.rewards import both, distance, grasp, near, reach, share
from tasks.manipulation.common.skills import CLOSE, Aim, Seen, carry, fetch, raised
from tasks.manipulation.common.tabletop import Placement, Tabletop, TaskState

Rectangle: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
"""m, two corners, y and z."""

SIDE = 0.1  # m, half the width and the height of what has a hole; Meta-World

PEG_HALF = (0.12, 0.015, 0.015)  # m; Meta-World
PEG_MASS = 0.1  # kg, Meta-World: pine's density
PEG_HEAD = (-0.1, 0.0, 0.0)  # m, peg's frame, 2 cm behind its tip: what has to be in the hole; Meta-World
PEG_GRASP = (0.03, 0.0, 0.01)  # m, peg's frame: what is observed; Meta-World
HEAD_FROM_GRASP = (-0.13, 0.0, -0.01)  # m, peg's frame
BOX_HOLE: Rectangle = ((-0.03, 0.1), (0.03, 0.16))  # m; Meta-World
IN_HOLE = (0.03, 0.0, 0.13)  # m from the box's foot to the goal, 7 cm behind its face; Meta-World
OUTSIDE = 0.11  # m, x from the goal to a head whose tip is 2 cm before the hole
IN_LINE, ROOM = 0.006, 0.012  # m beside the hole's axis at which the peg is led in, and what is then allowed
TAKE = -0.012  # m from the observed point up to where the fingers close: the peg then reaches 17 mm above their tips

WALL_HALF = 0.025  # m, along x; Meta-World
SOCKET: Rectangle = ((-0.022, 0.109), (0.022, 0.153))  # m; Meta-World
PRONG_SIDE = 0.0215  # m, half its width: half a millimetre of play all around
PLUG_START = (0.044, 0.0, SOCKET[0][1] + PRONG_SIDE)  # m from the wall's foot, at rest; Meta-World: z .131
PLUG_MASS = 0.08  # kg; Meta-World
PLUG_POINT = (0.04, 0.0, 0.0)  # m, plug's frame: what is observed; Meta-World
PRONG = (-0.065, -0.019)  # m, x from its end to the wall's face, in the plug's frame; Meta-World
GRIP, GRIP_SIDE = (-0.019, 0.06), 0.025  # m, likewise, and half its width; Meta-World's .038 is 4 mm short of too wide
OUT = (0.194, 0.0, 0.131)  # m from the wall's foot to the goal, 11 cm from where the point begins; Meta-World


class PegInsertSide(Tabletop):
    """Task: put a peg into the hole in a box's side. Randomised: peg and box.

    Success: the peg's head, 2 cm behind its tip, within 7 cm of a point in the hole, y and z counted twice.
    """

    ranges = Ranges(Box((0.0, 0.5, 0.015), (0.2, 0.7, 0.015)), Box((-0.35, 0.4, 0.0), (-0.25, 0.7, 0.0)), apart=0.1)
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "lift": 1.0, "move": 1.0, "insert": 3.0}
    reached = 0.07
    language = Language.of(
        "Insert the peg into the hole in the side of the box.",
        "Pick up the green peg and push it sideways into the box.",
        "Grasp the peg and slide its red end into the hole.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        peg = objects.free_body(spec, "peg", point=PEG_GRASP)
        objects.loose(peg, type=objects.BOX, size=PEG_HALF, mass=PEG_MASS, rgba=objects.GREEN)
        tip = [0.01, PEG_HALF[1] + 0.0005, PEG_HALF[2] + 0.0005]
        objects.looks(peg, type=objects.BOX, size=tip, pos=[-PEG_HALF[0] + 0.0095, 0, 0], rgba=objects.RED)
        objects.mark(spec, peg, "peg_head", PEG_HEAD)
        pierced(objects.fixture(spec, "box"), SIDE, BOX_HOLE, objects.PINE)

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal + jnp.array(IN_HOLE), {"peg": start}, {"box": goal})

    def error(self, world: World, state: TaskState) -> Array:
        """From the peg's head to the goal, y and z counted twice."""
        return distance(jnp.array([1.0, 2.0, 2.0]) * (world["peg_head"] - state.goal), 0.0)

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        point, head = world["object1_pos"], world["peg_head"]
        held = grasp(world, raised(point, TAKE))
        return {
            "reach": reach(world, raised(point, TAKE), 0.01),
            "grasp": held,
            "lift": held * share(head[2], PEG_HALF[2], state.goal[2] - 0.01),
            "move": both(held, near(distance((head - state.goal)[1:], 0.0), IN_LINE)),
            "insert": both(held, near(self.error(world, state), self.reached)),
        }

    def script(self, seen: Seen) -> Aim:
        """Fetch it, bring it in line with the hole, and lead it in."""
        head = seen.object + quat_rotate(seen.quat, jnp.array(HEAD_FROM_GRASP))
        entrance = seen.goal.at[0].add(OUTSIDE)
        beside = distance((head - entrance)[1:], 0.0)
        # A peg that has begun to go in has some room.
        ready = beside < jnp.where(head[0] < entrance[0] - ROOM, ROOM, IN_LINE)
        way = jnp.where(ready & (head[0] < entrance[0] + ROOM), seen.goal, entrance)
        return fetch(seen, raised(seen.object, TAKE), then=Aim(carry(seen, seen.grip + way - head), CLOSE))


class PegUnplugSide(Tabletop):
    """Task: pull a plug out of its socket. Randomised: the wall with the socket.

    Success: the plug's grip within 7 cm of a point 11 cm before where it was.
    """

    ranges = Ranges(Box((-0.25, 0.6, 0.0), (-0.15, 0.8, 0.0)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 2.0, "pull": 4.0}
    reached = 0.07
    language = Language.of(
        "Unplug the peg from the wall.",
        "Grasp the plug and pull it sideways out of its socket.",
        "Pull the blue plug out of the white wall.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        plug = objects.free_body(spec, "plug", point=PLUG_POINT)
        for (low, high), side, rgba in ((PRONG, PRONG_SIDE, objects.STEEL), (GRIP, GRIP_SIDE, objects.BLUE)):
            half, middle = [(high - low) / 2, side, side], [(low + high) / 2, 0, 0]
            objects.loose(plug, type=objects.BOX, size=half, pos=middle, mass=PLUG_MASS / 2, rgba=rgba)
        for x, radius, thick in ((-0.015, 0.04, 0.004), (0.064, 0.02, 0.004)):  # a flange, and a cap behind
            disc = {"size": [radius, thick, 0], "quat": [1, 0, 1, 0], "rgba": objects.BLACK}
            objects.looks(plug, type=objects.CYLINDER, pos=[x, 0, 0], **disc)
        pierced(objects.fixture(spec, "wall"), WALL_HALF, SOCKET, objects.WHITE)

    def place(self, start: Array, goal: Array) -> Placement:
        del goal
        return Placement(start + jnp.array(OUT), {"plug": start + jnp.array(PLUG_START)}, {"wall": start})

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        plug = world["object1_pos"]
        held = grasp(world, plug)
        pulled = share(self.error(world, state), OUT[0] - PLUG_START[0] - PLUG_POINT[0], self.reached)
        return {"reach": reach(world, plug, 0.01), "grasp": held, "pull": held * pulled}

    def script(self, seen: Seen) -> Aim:
        return fetch(seen, seen.object, then=Aim(seen.goal, CLOSE))


def pierced(body: mujoco.MjsBody, half: float, hole: Rectangle, rgba: Sequence[float]) -> None:
    """Something upright, 20 cm wide and high, with a hole along x: half its depth, m, and the hole's corners."""
    (right, bottom), (left, top) = hole
    parts = (
        ((-SIDE, 0.0), (SIDE, bottom)),
        ((-SIDE, top), (SIDE, 2 * SIDE)),
        ((-SIDE, bottom), (right, top)),
        ((left, bottom), (SIDE, top)),
    )
    for low, high in parts:
        middle, extent = [[(b + sign * a) / 2 for a, b in zip(low, high, strict=True)] for sign in (1, -1)]
        objects.solid(body, type=objects.BOX, pos=[0, *middle], size=[half, *extent], rgba=rgba)
    y, z, centre = (left - right) / 2, (top - bottom) / 2, (top + bottom) / 2
    edge = 0.004  # m, half the breadth of a metal rim around the hole
    rim = {"type": objects.BOX, "rgba": objects.STEEL}
    for sign in (-1, 1):
        objects.looks(body, pos=[half, sign * (y + edge), centre], size=[0.001, edge, z + 2 * edge], **rim)
        objects.looks(body, pos=[half, 0, centre + sign * (z + edge)], size=[0.001, y, edge], **rim)
