"""Grasps from above between all fingertips, the hand opened as far as the object needs.

The palm stays above, so nothing sweeps over the table: what is low is not flung away by closing fingers, and what is
nearly as wide as the hand is taken without turning it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tasks.grasping.hands.hand import Hand
from tasks.grasping.objects.shapes import matrix, quaternion
from tasks.grasping.planner.fingertips import TIP, fingertips_of
from tasks.grasping.planner.force_closure import Grasp, Grip, grasps
from tasks.grasping.planner.grasp_trajectory import ROOM, Closing, fingertips
from tasks.grasping.planner.superquadrics import Superquadric

MOST = 16  # grasps of one shape
RANKED = 48  # grasps from all sides among which those from above are
STEEP = (
    0.96  # cosine: approaches within 16 degrees of straight down are made straight; `grasps` leaves up to 14 degrees
)
CLEAR = 0.01  # m, between the palm and what is below it
BREADTH = 0.06  # m, half of what the fingers take along y


def fingertip_grasps(hand: Hand, shape: Superquadric) -> list[tuple[Closing, Grasp]]:
    """How the fingers close, and where the palm is then, best first.

    Args:
        hand: With its fingertips' shapes (`fingertips_of`).
        shape: The object, in the world, z up, on a table at z = 0.

    Returns:
        At most `MOST`; none where the shape is wider from every side than the hand opens.
    """
    tips = fingertips_of(hand)
    narrowest, widest = tips.reached
    reach, top = float(tips.middle[2]), float(shape.surface(200)[:, 2].max())
    # As deep as the shape's middle, or as the palm's distance from its top allows.
    low = max(shape.pos[2], TIP, top + CLEAR - reach)
    grip = Grip(width=widest + ROOM, depth=reach + TIP, palm=BREADTH, finger=2 * TIP)
    found = []
    for grasp in grasps(shape, grip, table=0.0, limit=RANKED).grasps:
        if grasp.approach[2] < -STEEP and narrowest <= grasp.width + 2 * ROOM <= widest:
            turn = upright(matrix(grasp.quat))
            x, y, z = (float(value) for value in np.array([*grasp.contacts.mean(0)[:2], low]) - turn @ tips.middle)
            w, i, j, k = (float(value) for value in quaternion(turn))
            placed = dataclasses.replace(grasp, pos=(x, y, z), quat=(w, i, j, k))
            found.append((fingertips(hand, grasp.width), placed))
    return found[:MOST]


def upright(turn: np.ndarray) -> np.ndarray:
    """The rotation (3, 3) with z straight down, and x level and as near as it can be to that of `turn`."""
    down = np.array([0.0, 0.0, -1.0])
    across = np.cross(down, turn[:, 0])
    across /= np.linalg.norm(across)
    return np.stack([np.cross(across, down), across, down], -1)
