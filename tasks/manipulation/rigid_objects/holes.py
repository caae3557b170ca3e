"""A board with a hole over the table: pick-out-of-hole and hand-insert."""

from __future__ import annotations

import mujoco

from embodied.core.facets import Language
from tasks.manipulation.common import objects
from tasks.manipulation.common.carrying import CarryTask, set_down
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.skills import CLOSE, Aim, Seen, aside, at_height, carry, fetch, over
from tasks.manipulation.common.tabletop import FLOORLESS

REST = 0.02  # m, height of the middle of puck or block on the table below the board

WIDE_BOARD = 0.054  # m thick; Meta-World
WIDE_HOLE = ((-0.15, 0.65), (0.15, 0.95))  # m, corners; Meta-World
OUT = 0.10  # m, height of the grip at which puck and fingertips are well above the board

BOARD = 0.05  # m thick; Meta-World
HOLE = ((-0.08, 0.76), (0.08, 0.92))  # m, corners; Meta-World
OVER_BOARD = 0.12  # m, height of the grip at which the block in the hand clears the board by 5 cm
FARTHEST = 0.865  # m, y of the grip: with more, the arm would not get down to the table, nor the open fingers


class PickOutOfHole(CarryTask):
    """Task: take a puck out of a hole and bring it to a point in the air. Randomised: the point.

    Success: the puck's middle within 7 cm of the point.
    """

    workspace = FLOORLESS
    ranges = Ranges(Box((0.0, 0.75, REST), (0.0, 0.75, REST)), Box((-0.1, 0.5, 0.15), (0.1, 0.6, 0.3)), 0.15)
    reached = 0.07
    clear = 0.08
    language = Language.of(
        "Take the puck out of the hole and bring it to the goal.",
        "Grasp the blue puck in the hole and hold it at the target point.",
        "Lift the puck out of the recess and carry it to the marked spot in the air.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        objects.slab(spec, WIDE_BOARD, *WIDE_HOLE)
        objects.puck(spec)

    def script(self, seen: Seen) -> Aim:
        """Fetch it, lift it above the board, and carry it to the goal."""
        return fetch(seen, seen.object, then=Aim(carry(seen, seen.goal, OUT), CLOSE))


class HandInsert(CarryTask):
    """Task: put a block into a hole. Randomised: the block, and where in the hole.

    Success: the block's middle within 5 cm of a point 2 cm below the hole's bottom.
    """

    workspace = FLOORLESS
    ranges = Ranges(
        Box((-0.1, 0.6, BOARD + REST), (0.1, 0.7, BOARD + REST)), Box((-0.04, 0.8, -0.02), (0.04, 0.88, -0.02)), 0.15
    )
    reached = 0.05
    clear = BOARD + 2 * REST
    language = Language.of(
        "Put the block into the hole.",
        "Pick up the green block and insert it into the opening.",
        "Grasp the block and lower it into the recess in the board.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        objects.slab(spec, BOARD, *HOLE)
        objects.block(spec)

    def script(self, seen: Seen) -> Aim:
        """Fetch it, carry it over the hole, and set it down on the bottom."""
        goal = at_height(seen.goal.at[1].min(FARTHEST), REST + 0.002)
        away = aside(seen.object, goal)
        way = over(seen, goal, OVER_BOARD, away > 0.02)
        return set_down(seen, seen.object, way, (away < 0.025) & (seen.object[2] < REST + 0.006))
