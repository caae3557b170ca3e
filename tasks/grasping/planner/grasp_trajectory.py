"""Grasp trajectories: the hand's shapes before and after closing, and the palm's way to the object and up.

The fingers' servos push towards a closed shape that lies inside the object: how far inside decides the force. The
palm's way is that of G-PAYN's demonstrations: straight to the grasp, close, lift.
"""

from __future__ import annotations

import dataclasses
import enum

import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.math.rotations import quat_rotate
from tasks.grasping.hands.hand import Hand, Pose, closing, pinching, poses
from tasks.grasping.planner.fingertips import fingertips_of, pressing_of

BACK = 0.08  # m, from the grasp to the pre-grasp, along the approach (G-PAYN: 5 or 10 cm)
LIFT = 0.13  # m, by which a grasp must leave room to lift
ROOM = 0.008  # m, between each pad of the preshape and the object
SQUEEZE = 0.02  # m, by which a finger's target is inside of the object: LEAP's then presses with some 5 N
APPROACHING, SETTLING, CLOSING = 10, 4, 24  # control steps
FIRM = 1.5  # N, on the thumb and on a finger, with which something small is held: more would squeeze it out
RISE = 0.008  # m per control step: 16 cm/s
OPPOSED = 0.05  # m, the thumb's: it alone bears up against three fingers, and what is between them stays in place


class GraspType(enum.Enum):
    """Parts of the hand that touch the object."""

    WRAP = "wrap"
    """Fingers and palm, all around it."""
    PINCH = "pinch"
    """The tips of index, middle finger and thumb."""
    FINGERTIPS = "fingertips"
    """All tips, the thumb's opposite the others, opened as far as the object needs."""


@dataclasses.dataclass(frozen=True, eq=False)
class GraspTrajectory:
    """The preshape of a hand and the closed shape that its fingers move to."""

    type: GraspType
    preshape: Pose
    closed: Pose

    def targets(self, closure: float) -> np.ndarray:
        """(m,) rad of the servos: 0 at the preshape, 1 closed, clipped beyond."""
        start, end = self.preshape.targets, self.closed.targets
        return start + float(np.clip(closure, 0.0, 1.0)) * (end - start)


def wrap(hand: Hand) -> GraspTrajectory:
    """A power grasp."""
    return GraspTrajectory(GraspType.WRAP, poses(hand).opened, poses(hand).closed)


def pinch(hand: Hand) -> GraspTrajectory:
    """A precision grasp with two fingers and the thumb."""
    return GraspTrajectory(GraspType.PINCH, poses(hand).pinch, poses(hand).pinched)


def fingertips(hand: Hand, width: float) -> GraspTrajectory:
    """A precision grasp with all fingers of something that is `width` m wide."""
    tips = fingertips_of(hand)
    pressing = pressing_of(hand, (OPPOSED - SQUEEZE) / 2)
    return GraspTrajectory(GraspType.FINGERTIPS, tips.pose(width + 2 * ROOM), pressing.pose(width - SQUEEZE - OPPOSED))


@dataclasses.dataclass(frozen=True)
class Setpoint:
    """Target of the palm and of the fingers in one control step."""

    pos: Array
    """(3,) m, of the palm, in the world."""
    targets: Array
    """(m,) rad, of the fingers' servos."""


def approach_direction(palm: Array) -> Array:
    """(3,) unit, the way the palm comes to a pose (7,): its z axis, in the world."""
    return quat_rotate(palm[3:], jnp.array([0.0, 0.0, 1.0]))


def palm_path(palm: Array, step: Array) -> tuple[Array, Array]:
    """Target (3,) m of the palm after `step` control steps, and the closure of the fingers, 0 open to 1 closed.

    `palm`: (7,) m and wxyz, pose of the palm in the grasp.
    """
    left = jnp.clip(1.0 - (step + 1.0) / APPROACHING, 0.0, 1.0)
    closure = (step + 1.0 - APPROACHING - SETTLING) / CLOSING
    risen = jnp.clip(RISE * (step + 1.0 - APPROACHING - SETTLING - CLOSING), 0.0, LIFT)
    return palm[:3] - left * BACK * approach_direction(palm) + jnp.array([0.0, 0.0, 1.0]) * risen, closure


def setpoint(hand: Hand, palm: Array, pinch: Array, step: Array) -> Setpoint:
    """Target after `step` control steps.

    `palm` as for `palm_path`; `pinch` () bool: a pinch of index, middle finger and thumb rather than a power grasp.
    """
    pos, closure = palm_path(palm, step)
    return Setpoint(pos, jnp.where(pinch, pinching(hand, closure), closing(hand, closure)))


def is_firm(touch: Array) -> Array:
    """() bool, whether something is held between the thumb and a finger; `touch` (fingers,) N, the thumb last."""
    return (touch[-1] > FIRM) & (jnp.max(touch[:-1]) > FIRM)
