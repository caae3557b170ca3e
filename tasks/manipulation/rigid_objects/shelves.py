"""Goals above the table: a shelf to place a block on, and a basket to hold a ball over."""

from __future__ import annotations

import math

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.world import World
from tasks.manipulation.common import objects
from tasks.manipulation.common.carrying import CarryTask, set_down
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.rewards import distance
from tasks.manipulation.common.skills import CLOSE, Aim, Seen, aside, at_height, fetch, first
from tasks.manipulation.common.tabletop import BACK, Placement, TaskState

REST = 0.02  # m, height of the block's middle on the table
GOAL_ABOVE = 0.3  # m, the goal above the shelf's foot; Meta-World
BOARD_TOP = 0.25  # m, of the upper board; Meta-World
FRONT = 0.11  # m from the middle of the shelf to the boards' front; Meta-World
HAND = 0.105  # m that a broad hand reaches forth and back, and 5 mm
SHELF_DEEP = 0.08  # m from the middle to the back; Meta-World
INTO_SHELF = 0.30  # m, height of the grip at which the block in the hand clears the board by 3 cm

BALL = 0.03  # m, radius; Meta-World
RING, TUBE = 0.045, 0.01  # m, radii of the ring's middle line and of its tube; Meta-World
HOOP = (0.0, -0.083, 0.25)  # m from the foot to the ring's middle; Meta-World
ABOVE_HOOP = 0.05  # m from the ring's middle up to where the ball counts; Meta-World
BOARD_FRONT = 0.073  # m from the ring's middle to the backboard
BEFORE_RING = 0.115  # m, y from the ring's middle back to where a ball that is lifted passes the ring by 3 cm
ORANGE = (0.90, 0.42, 0.12, 1.0)


class ShelfPlace(CarryTask):
    """Task: put a block on a shelf. Randomised: block and shelf.

    Success: the block's middle within 7 cm of a point 5 cm above the upper board.
    """

    ranges = Ranges(Box((-0.1, 0.5, REST), (0.1, 0.6, REST)), Box((-0.1, 0.8, 0.299), (0.1, 0.9, 0.301)), 0.1)
    reached = 0.07
    clear = BOARD_TOP + REST
    # At Meta-World's y = .6 a broad hand would begin inside the nearest shelves.
    hand_start = BACK
    language = Language.of(
        "Put the block on the shelf.",
        "Pick up the green block and place it on the upper board.",
        "Grasp the block, lift it and set it down inside the shelf.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A shelf of two boards, closed behind, and a block. The lower board and its foot are one shape."""
        shelf = objects.fixture(spec, "shelf")
        deep = (FRONT + SHELF_DEEP) / 2
        middle = deep - FRONT
        shapes = {
            "left": ((-0.11, 0, 0.34), (0.01, 0.1, 0.34)),
            "right": ((0.11, 0, 0.34), (0.01, 0.1, 0.34)),
            "back": ((0, 0.09, 0.34), (0.1, 0.01, 0.34)),
            "top": ((0, 0, 0.69), (0.12, 0.1, 0.01)),
            "board": ((0, middle, BOARD_TOP - 0.01), (0.1, deep, 0.01)),
            "lower": ((0, middle, 0.03), (0.1, deep, 0.03)),
        }
        for name, (pos, size) in shapes.items():
            light = name in ("board", "lower")
            objects.solid(
                shelf, name=name, type=objects.BOX, pos=pos, size=size, rgba=objects.WHITE if light else objects.PINE
            )
        objects.block(spec)

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"object": start}, {"shelf": goal - jnp.array([0.0, 0.0, GOAL_ABOVE])})

    def script(self, seen: Seen) -> Aim:
        """Fetch it and lift it, before the shelf, then go straight in and set it down."""
        before = seen.goal[1] - FRONT - HAND
        inside = seen.goal + jnp.array([0.0, SHELF_DEEP - HAND - 0.005, BOARD_TOP + REST - 0.002 - GOAL_ABOVE])
        grip = seen.grip
        block = jnp.where(seen.object[2] > BOARD_TOP / 2, seen.object, seen.object.at[1].min(before))
        facing = jnp.stack([seen.goal[0], before, jnp.asarray(INTO_SHELF)])
        way = first(
            (grip[2] < INTO_SHELF - 0.04, at_height(grip.at[1].min(before), INTO_SHELF + 0.02)),
            ((jnp.abs(grip[0] - seen.goal[0]) > 0.03) & (grip[1] < before + 0.02), facing),
            (jnp.abs(grip[1] - inside[1]) > 0.02, at_height(inside, INTO_SHELF)),
            (True, inside),
        )
        placed = (aside(seen.object, inside) < 0.04) & (jnp.abs(seen.object[2] - BOARD_TOP - REST) < 0.005)
        return set_down(seen, block, way, placed)


class Basketball(CarryTask):
    """Task: bring a ball to the basket, and hold it over the ring. Randomised: ball and basket.

    Success: the ball's middle within 8 cm of a point 5 cm above the ring's middle, heights counting double.
    """

    ranges = Ranges(Box((-0.1, 0.6, BALL), (0.1, 0.7, BALL)), Box((-0.1, 0.85, 0.0), (0.1, 0.9, 0.0)), 0.15)
    reached = 0.08
    clear = 0.30
    language = Language.of(
        "Bring the basketball to the hoop.",
        "Pick up the ball and hold it over the ring of the basket.",
        "Grasp the orange ball and dunk it into the basket.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        basket = objects.fixture(spec, "basket")
        self.backboard(basket)
        self.ring(basket)
        ball = objects.free_body(spec, "object")
        objects.loose(ball, type=objects.SPHERE, size=[BALL, 0, 0], mass=0.1, rgba=ORANGE, conaffinity=3)
        for quat in ([1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]):
            objects.looks(ball, type=objects.CYLINDER, size=[BALL + 0.0002, 0.0007, 0], quat=quat, rgba=objects.BLACK)

    @staticmethod
    def backboard(basket: mujoco.MjsBody) -> None:
        """A board on a pole."""
        objects.solid(
            basket, name="board", type=objects.BOX, pos=[0, 0, 0.29], size=[0.1, 0.01, 0.07], rgba=objects.WHITE
        )
        objects.solid(basket, name="pole", type=objects.CAPSULE, fromto=[0, 0, 0.01, 0, 0, 0.23], size=[0.007, 0, 0])
        objects.looks(basket, type=objects.CYLINDER, size=[0.04, 0.005, 0], pos=[0, 0, 0.005], rgba=objects.STEEL)
        for pos, size in (
            ((0, 0.265), (0.035, 0.003)),
            ((0, 0.325), (0.035, 0.003)),
            ((-0.032, 0.295), (0.003, 0.03)),
            ((0.032, 0.295), (0.003, 0.03)),
        ):
            objects.looks(
                basket,
                type=objects.BOX,
                pos=[pos[0], -0.0101, pos[1]],
                size=[size[0], 0.0005, size[1]],
                rgba=objects.RED,
            )

    @staticmethod
    def ring(basket: mujoco.MjsBody) -> None:
        """In contacts a square of four capsules, as wide inside as the ring that is drawn; with a net to look at.

        It meets the ball alone: one draw in twenty puts the ball so near that a Panda's wrist would not get past the
        ring to grasp it.
        """
        x, y, z = HOOP
        corners = [(x + a * RING, y + b * RING, z) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
        for number in range(4):
            ends = [*corners[number], *corners[(number + 1) % 4]]
            objects.solid(basket, type=objects.CAPSULE, fromto=ends, size=[TUBE, 0, 0], group=3, contype=2)
        around = [(math.cos(turn), math.sin(turn)) for turn in (math.tau * step / 16 for step in range(16))]
        for (a, b), (c, d) in zip(around, around[1:] + around[:1], strict=True):
            ends = [x + RING * a, y + RING * b, z, x + RING * c, y + RING * d, z]
            objects.looks(basket, type=objects.CAPSULE, fromto=ends, size=[TUBE, 0, 0], rgba=ORANGE)
            for e, f in ((a, b), (c, d)):
                strand = [x + RING * a, y + RING * b, z, x + 0.03 * e, y + 0.03 * f, z - 0.07]
                objects.looks(basket, type=objects.CAPSULE, fromto=strand, size=[0.001, 0, 0], rgba=objects.WHITE)
        objects.looks(basket, type=objects.BOX, pos=[x, -0.02, z], size=[0.014, 0.012, 0.004], rgba=ORANGE)

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal + jnp.array(HOOP), {"object": start}, {"basket": goal})

    def error(self, world: World, state: TaskState) -> Array:
        """From the ball to above the ring, heights counting double."""
        missing = world["object1_pos"] - state.goal - jnp.array([0.0, 0.0, ABOVE_HOOP])
        return distance(missing * jnp.array([1.0, 1.0, 2.0]), 0.0)

    def script(self, seen: Seen) -> Aim:
        """Fetch it, lift it before the ring, and hold it over that, a little before the middle, free of the board."""
        above = seen.goal + jnp.array([0.0, BOARD_FRONT - HAND, ABOVE_HOOP + 0.015])
        before = seen.grip.at[1].min(seen.goal[1] - BEFORE_RING)
        way = jnp.where(seen.grip[2] < above[2] - 0.01, at_height(before, above[2] + 0.01), above)
        return fetch(seen, seen.object, then=Aim(way, CLOSE))
