"""How a script takes an object by a planned grasp: there, close the fingers, lift (G-PAYN's demonstrations)."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jax import Array

from embodied.math.rotations import quat_rotate
from tasks.grasping.hands.hand import Hand, closing, pinching
from tasks.grasping.planner.planner import BACK, LIFT

APPROACHING, SETTLING, CLOSING = 10, 4, 24  # control steps
FIRM = 1.5  # N, on the thumb and on a finger, with which something small is held: more would squeeze it out
RISE = 0.008  # m per control step: 16 cm/s


@dataclasses.dataclass(frozen=True)
class Aim:
    """Where the hand shall be now."""

    pos: Array
    """(3,) m, of the palm, in the world."""
    targets: Array
    """(m,) rad, of the fingers' servos."""


def approach_of(palm: Array) -> Array:
    """(3,) unit, the way the palm comes to a pose (7,): its z axis, in the world."""
    return quat_rotate(palm[3:], jnp.array([0.0, 0.0, 1.0]))


def course(palm: Array, step: Array) -> tuple[Array, Array]:
    """Where the palm is after so many control steps, (3,) m, and how far the fingers are closed, 0 before and 1 after;
    `palm` (7,) m and wxyz, its pose in the grasp."""
    left = jnp.clip(1.0 - (step + 1.0) / APPROACHING, 0.0, 1.0)
    closure = (step + 1.0 - APPROACHING - SETTLING) / CLOSING
    risen = jnp.clip(RISE * (step + 1.0 - APPROACHING - SETTLING - CLOSING), 0.0, LIFT)
    return palm[:3] - left * BACK * approach_of(palm) + jnp.array([0.0, 0.0, 1.0]) * risen, closure


def aim(hand: Hand, palm: Array, pinch: Array, step: Array) -> Aim:
    """Where the script is after so many control steps; `palm` as for `course`; `pinch` () bool, whether it is one of
    index, middle finger and thumb."""
    pos, closure = course(palm, step)
    return Aim(pos, jnp.where(pinch, pinching(hand, closure), closing(hand, closure)))


def firm(touch: Array) -> Array:
    """() bool, whether something is held between the thumb and a finger; `touch` (fingers,) N, the thumb last."""
    return (touch[-1] > FIRM) & (jnp.max(touch[:-1]) > FIRM)
