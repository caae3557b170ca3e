"""Trays on the table: bin-picking, from one into the other, and box-close, a lid onto one that is full."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.world import World
from tasks.manipulation.common import objects
from tasks.manipulation.common.carrying import CarryTask, set_down
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.skills import Aim, Seen, aside, at_height, over, raised
from tasks.manipulation.common.tabletop import WORKSPACE, Placement, TaskState

TRAY = 0.1  # m, half a tray's side, outside; Meta-World
TRAY_TOP = 0.06  # m; Meta-World
TRAY_WALL = 0.005  # m, half the thickness of walls and floor; Meta-World

BIN_X, BIN_Y = 0.12, 0.7  # m, middle of the goal's bin; the other's mirrors it; Meta-World
IN_BIN = 0.03  # m, height of the block's middle on a bin's floor
DRAWN_X = 0.068  # m, |x - middle| of a block that stands in a bin, 1 mm from the wall at most
GRASP_Y = 0.0325  # m, |y - middle| of the grip at most: an open finger's 9 mm fit into the 20 between block and wall
HIGH = 0.01  # m above the block's middle where the fingers take it: the hand comes no lower
OVER_BINS = 0.13  # m, height of the grip at which what it holds clears the walls by 5 cm

LID = 0.115  # m, half the lid's side; Meta-World
RIM = 0.016  # m that the lid's rim hangs below its plate, whose underside is its origin; Meta-World
HANDLE = 0.082  # m, height of the handle's bar above the lid's origin; Meta-World
OVER_BOX = 0.20  # m, height of the grip at which the rim of the lid in the hand clears the box by 4 cm
LET_GO = 0.003  # m above its place at which a thing is let go
ORANGE = (0.93, 0.55, 0.16, 1.0)


def draw_tray(body: mujoco.MjsBody, rgba: Sequence[float], x: float = 0.0, y: float = 0.0) -> None:
    """Visual parts of a tray, at some m on a body: a floor and four walls."""
    wall, half = TRAY - TRAY_WALL, TRAY_TOP / 2
    objects.looks(body, type=objects.BOX, size=[TRAY, TRAY, TRAY_WALL], pos=[x, y, TRAY_WALL], rgba=rgba)
    for side in (-1, 1):
        across, along = [x, y + side * wall, half], [x + side * wall, y, half]
        objects.looks(body, type=objects.BOX, size=[TRAY, TRAY_WALL, half], pos=across, rgba=rgba)
        objects.looks(body, type=objects.BOX, size=[TRAY_WALL, TRAY - 2 * TRAY_WALL, half], pos=along, rgba=rgba)


class BinPicking(CarryTask):
    """Task: take a block out of one bin and put it into the other. Randomised: the block.

    Success: the block's middle within 5 cm of the middle of the other bin's floor.
    """

    ranges = Ranges(Box((-0.21, 0.65, IN_BIN), (-0.03, 0.75, IN_BIN)))
    reached = 0.05
    clear = 0.09
    # 7 mm lower than Meta-World's hand stays: its script lifts when hand and block are within 4 cm, to which there the
    # soft pads squeeze the block up.
    workspace = Box((*WORKSPACE.low[:2], 0.018), WORKSPACE.high)
    language = Language.of(
        "Pick the block from the left bin and put it into the right one.",
        "Move the red block over to the other bin.",
        "Take the block out of its bin and drop it into the empty one.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """Two bins, and a block in one. Six shapes do for both: the 4 cm between them would not take the block."""
        end, wall, half, far = BIN_X + TRAY, TRAY_WALL, TRAY_TOP / 2, TRAY - TRAY_WALL
        between = BIN_X - TRAY + 2 * wall
        shapes = {
            "bottom": ((0, 0, wall), (end, TRAY, wall)),
            "near": ((0, -far, half), (end, wall, half)),
            "far": ((0, far, half), (end, wall, half)),
            "left": ((-end + wall, 0, half), (wall, TRAY - 2 * wall, half)),
            "between": ((0, 0, half), (between, TRAY - 2 * wall, half)),
            "right": ((end - wall, 0, half), (wall, TRAY - 2 * wall, half)),
        }
        body = spec.worldbody.add_body(name="bins", pos=[0, BIN_Y, 0])
        for name, (pos, size) in shapes.items():
            objects.solid(body, name=name, type=objects.BOX, pos=pos, size=size, group=3)
        draw_tray(body, objects.STEEL, -BIN_X)
        draw_tray(body, objects.BLUE, BIN_X)
        objects.looks(
            body,
            type=objects.BOX,
            size=[BIN_X - TRAY, TRAY, half - 0.003],
            pos=[0, 0, half - 0.003],
            rgba=objects.WHITE,
        )
        objects.block(spec, rgba=objects.RED)

    def place(self, start: Array, goal: Array) -> Placement:
        """The block where it was drawn, or beside the wall that it was drawn into."""
        del goal
        start = start.at[0].set(jnp.clip(start[0], -BIN_X - DRAWN_X, -BIN_X + DRAWN_X))
        return Placement(jnp.array([BIN_X, BIN_Y, 0.0]), {"object": start})

    def script(self, seen: Seen) -> Aim:
        """Fetch it from between the walls, and set it down beyond."""
        block = raised(seen.object, HIGH).at[1].set(jnp.clip(seen.object[1], BIN_Y - GRASP_Y, BIN_Y + GRASP_Y))
        away = aside(seen.object, seen.goal)
        way = over(seen, at_height(seen.goal, IN_BIN + HIGH + LET_GO), OVER_BINS, away > 0.02)
        return set_down(seen, block, way, (away < 0.03) & (seen.object[2] < IN_BIN + 2 * LET_GO))


class BoxClose(CarryTask):
    """Task: put the lid on a box. Randomised: lid and box.

    Success: the lid within 8 cm of a point 7 cm above the box.
    """

    ranges = Ranges(Box((-0.05, 0.5, RIM), (0.05, 0.55, RIM)), Box((-0.1, 0.7, 0.133), (0.1, 0.8, 0.133)), 0.25)
    reached = 0.08
    clear = 0.1
    grip = HANDLE
    language = Language.of(
        "Close the box with its lid.",
        "Grasp the lid by its handle and put it on the box of oranges.",
        "Pick up the lid and cover the box.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A box, full of oranges to look at and to the touch a solid block; its lid."""
        box = objects.fixture(spec, "box")
        half = TRAY_TOP / 2
        objects.solid(box, name="box", type=objects.BOX, size=[TRAY, TRAY, half], pos=[0, 0, half], group=3)
        draw_tray(box, objects.PINE)
        for number in range(9):
            pos = [0.06 * (number % 3 - 1), 0.06 * (number // 3 - 1), 0.03]
            objects.looks(box, type=objects.SPHERE, size=[0.029, 0, 0], pos=pos, rgba=ORANGE)
        self.lid(objects.free_body(spec, "object"))

    @staticmethod
    def lid(body: mujoco.MjsBody) -> None:
        """A plate with a rim, capsules in contacts, and a bar of 250 g together to hold it by."""
        objects.loose(body, type=objects.BOX, size=[LID, LID, 0.003], pos=[0, 0, 0.003], mass=0.17, rgba=objects.GREEN)
        middle, low, half = LID - 0.005, 0.005 - RIM, RIM / 2
        for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            ends = [middle * (x - y), middle * (y - x), low, middle * (x + y), middle * (x + y), low]
            objects.loose(body, type=objects.CAPSULE, size=[0.005, 0, 0], fromto=ends, mass=0.015, group=3)
            size = [0.005 if x else LID, 0.005 if y else LID, half]
            objects.looks(body, type=objects.BOX, size=size, pos=[middle * x, middle * y, -half], rgba=objects.GREEN)
        for end in (-0.05, 0.05):
            post = [end, 0, 0.006, end, 0, HANDLE]
            objects.looks(body, type=objects.CAPSULE, size=[0.008, 0, 0], fromto=post, rgba=objects.STEEL)
        bar = [-0.05, 0, HANDLE, 0.05, 0, HANDLE]
        objects.loose(body, type=objects.CAPSULE, size=[0.0095, 0, 0], fromto=bar, mass=0.02, rgba=objects.STEEL)

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"object": start}, {"box": goal.at[2].set(0.0)})

    def solved(self, world: World, state: TaskState) -> Array:
        return self.error(world, state) < self.reached

    def script(self, seen: Seen) -> Aim:
        """Fetch it by its bar, and set it down from above."""
        away = aside(seen.object, seen.goal)
        way = over(seen, at_height(seen.goal, TRAY_TOP + LET_GO + HANDLE), OVER_BOX, away > 0.01)
        placed = (away < 0.02) & (seen.object[2] < TRAY_TOP + 2 * LET_GO)
        return set_down(seen, raised(seen.object, HANDLE), way, placed)
