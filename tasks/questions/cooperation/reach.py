"""What a Panda reaches with its hand down, in closed form.

Joints 3 and 5 rest at zero, so that the arm stays in the upright plane through its first axis and the point; two links
and a level wrist remain. The arm reaches more with its elbow swung aside: here a point counts as reached only so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tasks.manipulation.common.panda import FINGERTIP, FLANGE, JOINT_LIMITS, LINKS

SHOULDER = float(LINKS[0, 3])  # m, height of joint 2 over the foot; `panda.LINKS`
UPPER, ELBOW = float(LINKS[2, 3]), float(LINKS[3, 2])  # m, along the upper arm and aside to joint 4; `panda.LINKS`
FOREARM = float(LINKS[4, 3])  # m, along the forearm, from as far aside; `panda.LINKS`
WRIST = float(LINKS[6, 2])  # m, level, from joint 6 to the hand's axis; `panda.LINKS`
HAND = FLANGE + FINGERTIP  # m, from joint 7's frame down to the tcp
RADIAL = -math.pi / 4  # rad, joint 7 with which the fingers open across the plane; `panda.HOME`


def joints_at(point: Sequence[float] | np.ndarray) -> np.ndarray | None:
    """Joints that put the tcp at a point, the hand straight down, the elbow up.

    Args:
        point: (3,) m, in the frame of the arm's foot: x forward, z up.

    Returns:
        (7,) rad within `JOINT_LIMITS`; None where there are none.

    Source: Craig, "Introduction to Robotics", section 4.4 (two links by the law of cosines).
    """
    x, y, z = (float(value) for value in point)
    out, up = math.hypot(x, y) - WRIST, z + HAND - SHOULDER
    first, second = math.hypot(UPPER, ELBOW), math.hypot(FOREARM, ELBOW)
    distance = math.hypot(out, up)
    if out <= 0 or not abs(first - second) < distance < first + second:
        return None
    towards = math.atan2(out, up)
    # Angles of the two links from the vertical, and of the housings that carry them.
    upper = towards - math.acos((distance**2 + first**2 - second**2) / (2 * distance * first))
    lower = towards + math.acos((distance**2 + second**2 - first**2) / (2 * distance * second))
    lift, level = upper - math.atan2(ELBOW, UPPER), lower + math.atan2(ELBOW, FOREARM)
    joints = np.array([math.atan2(y, x), lift, 0.0, lift - level, 0.0, level, RADIAL])
    return joints if (joints >= JOINT_LIMITS[:, 0]).all() and (joints <= JOINT_LIMITS[:, 1]).all() else None


def ring(height: float, step: float = 0.001) -> tuple[float, float]:
    """m, the least and the greatest distance from the foot's axis that is reached at a height of the tcp over the foot.

    Searched in steps; (inf, -inf) where nothing is reached.
    """
    reached = [r for r in np.arange(0.0, 1.0, step) if joints_at((r, 0.0, height)) is not None]
    return (float(min(reached)), float(max(reached))) if reached else (math.inf, -math.inf)
