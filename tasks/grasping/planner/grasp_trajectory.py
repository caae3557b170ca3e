"""How the fingers close around something: from which shape to which, in a power grasp, a pinch, between all fingertips.

Servos push towards the shape after, which lies inside what is grasped: how far inside decides the force.
"""

from __future__ import annotations

import dataclasses
import enum

import numpy as np

from tasks.grasping.hands.hand import Hand, Pose, poses
from tasks.grasping.planner.fingertips import fingertips_of, pressing_of

ROOM = 0.008  # m, between each pad and the object before
SQUEEZE = 0.02  # m, by which a finger's target is inside of the object: LEAP's then presses with some 5 N
OPPOSED = 0.05  # m, the thumb's: it alone bears up against three fingers, and what is between them stays in place


class Kind(enum.Enum):
    """What of the hand touches the object."""

    WRAP = "wrap"
    """Fingers and palm, all around it."""
    PINCH = "pinch"
    """The tips of index, middle finger and thumb."""
    FINGERTIPS = "fingertips"
    """All tips, the thumb's opposite the others, opened as far as the object needs."""


@dataclasses.dataclass(frozen=True, eq=False)
class Closing:
    """Two shapes of a hand, between which its fingers close."""

    kind: Kind
    before: Pose
    after: Pose

    def targets(self, closure: float) -> np.ndarray:
        """(m,) rad of the servos: 0 before, 1 after, clipped beyond."""
        start, end = self.before.targets, self.after.targets
        return start + float(np.clip(closure, 0.0, 1.0)) * (end - start)


def wrap(hand: Hand) -> Closing:
    """A power grasp."""
    return Closing(Kind.WRAP, poses(hand).opened, poses(hand).closed)


def pinch(hand: Hand) -> Closing:
    """A precision grasp with two fingers and the thumb."""
    return Closing(Kind.PINCH, poses(hand).pinch, poses(hand).pinched)


def fingertips(hand: Hand, width: float) -> Closing:
    """A precision grasp with all fingers of something that is `width` m wide."""
    tips = fingertips_of(hand)
    pressing = pressing_of(hand, (OPPOSED - SQUEEZE) / 2)
    return Closing(Kind.FINGERTIPS, tips.pose(width + 2 * ROOM), pressing.pose(width - SQUEEZE - OPPOSED))
