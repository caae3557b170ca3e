"""A block swept to the table's side, or into a hole."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.world import World
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.rewards import distance
from tasks.manipulation.common.skills import CLOSE, OPEN, SKIM, Aim, Seen, aside, at_height, carry, fetch, first
from tasks.manipulation.common.tabletop import Placement, TaskState
from tasks.manipulation.rigid_objects.holes import BOARD, HOLE
from tasks.manipulation.rigid_objects.pucks import OPEN_GROUND, REST, Push

FAR_SIDE = (0.5, 0.01)  # m, x and z of the goal; Meta-World
HOLE_GOAL = (0.0, 0.84, 0.02)  # m, middle of the hole; Meta-World
OVER_BOARD = BOARD + SKIM  # m, height of the grip at which the block is a finger's breadth above the board


class Sweep(Push):
    """Task: sweep a block over the table to its right side. Randomised: the block, and with it the goal.

    Success: the block's middle within 5 cm of the goal, 20 cm before the table's edge.
    """

    ranges = Ranges(OPEN_GROUND)
    language = Language.of(
        "Sweep the block to the right side of the table.",
        "Move the green block across the table to the target on the right.",
        "Bring the block straight over to the marked spot near the right edge.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        objects.block(spec)
        self.mark_goal(spec)

    def place(self, start: Array, goal: Array) -> Placement:
        del goal
        return super().place(start, jnp.stack([jnp.asarray(FAR_SIDE[0]), start[1], jnp.asarray(FAR_SIDE[1])]))


class SweepInto(Push):
    """Task: sweep a block into a hole. Randomised: the block.

    Success: the block's middle within 5 cm of the hole's, seen from above.
    """

    ranges = Ranges(Box((-0.1, 0.6, BOARD + REST), (0.1, 0.7, BOARD + REST)))
    language = Language.of(
        "Sweep the block into the hole.",
        "Push the green block over the board until it drops into the hole.",
        "Get the block into the square hole in the board.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        objects.slab(spec, BOARD, *HOLE)
        objects.block(spec)

    def place(self, start: Array, goal: Array) -> Placement:
        del goal
        return Placement(jnp.asarray(HOLE_GOAL), {"object": start})

    def error(self, world: World, state: TaskState) -> Array:
        """From the block to the goal, seen from above."""
        return distance(world["object1_pos"][:2], state.goal[:2])

    def script(self, seen: Seen) -> Aim:
        """Lead it along, barely off the board, and let go where it falls into the middle of the hole."""
        above, off = at_height(seen.goal, OVER_BOARD), aside(seen.object, seen.goal)
        inside = (off < 0.04) & (seen.object[2] < BOARD)
        return first(
            (inside | ((off < 0.015) & (aside(seen.motion, jnp.zeros(3)) < 0.003)), Aim(above, OPEN)),
            (True, fetch(seen, seen.object, then=Aim(carry(seen, above, OVER_BOARD), CLOSE))),
        )
