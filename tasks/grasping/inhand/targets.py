"""Options of the tasks in which a hand turns a cube to one orientation after the other."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.math.rotations import quat_from_axis_angle, quat_multiply, random_quat
from tasks.grasping.inhand.base import InHandConfig

REACHED = 0.1  # rad from the target (Playground)
# A new target is where the last one goes in a second or so of turning: it starts with U(1, 5) rad/s about each axis
# and slows down by a fifth in every step of twice the control's time (Playground's LEAP hand): 1.5 rad on average.
KICK = (1.0, 5.0)  # rad/s


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per second but for the last two. The terms are those of Playground's LEAP hand and
    `progress`; where another weight is ours, its own stands behind."""

    orientation: float = 0.0
    """Closeness of the cube's orientation to the target, in [0, 1] (5)."""
    position: float = 0.5
    """Closeness of the cube to the middle of the hand, in [0, 1]."""
    lost: float = -600.0
    """Once, when the cube is dropped: so, one control step of it (-100)."""
    hand_pose: float = -0.1
    """Squared distance of the joints from home, rad^2 (-0.5)."""
    action_rate: float = -0.001
    """Squared change of the action, and squared change of that."""
    energy: float = -0.001
    """Power of the motors, W."""
    reached: float = 25.0
    """Once for every target that is reached (100)."""
    progress: float = 40.0
    """rad by which a step brought the cube closer to the target (Dactyl, arXiv:1808.00177: 1, beside 5 for reaching it
    and -20 for a drop). It pays at once for what `orientation` pays for little by little."""


@dataclasses.dataclass(frozen=True)
class ReorientConfig(InHandConfig):
    """Options of the reorientation tasks."""

    action_scale: float = 0.15
    """rad that an action of 1 moves a servo's target in one control step (Playground: 0.5; its noise throws cubes)."""
    within: float = REACHED
    """rad from a target at which it counts as reached: 0.1 (Playground) is hard to come upon by chance, so a curriculum
    begins with more (Dactyl, arXiv:1808.00177: 0.4)."""
    first: float = np.pi
    """rad from the cube at the start to its first target at most, and `within` at least; pi: any orientation."""
    patience: float = 0.0
    """s in which a target is to be reached; then another takes its place, as far from the cube as a first one. 0: any
    time. Training needs it, lest most of what it sees is a cube that is stuck."""
    kick: tuple[float, float] = KICK
    """rad/s about each axis, smallest and largest, with which a target moves on: proportional to how far."""
    curriculum: bool = False
    """Whether each environment's targets begin near, and move away and shrink to `first`, `kick` and `within` as they
    are reached; those that are missed bring them back. Training needs it, and some `patience`."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        """Check the angles."""
        super().__post_init__()
        if not 0 < self.within < np.pi:
            raise ValueError(f"within={self.within} rad; expected an angle between 0 and pi")
        if not self.within < self.first <= np.pi:
            raise ValueError(f"first={self.first} rad; expected an angle between within={self.within} and pi")
        if not 0 <= self.patience < np.inf:
            raise ValueError(f"patience={self.patience} s; expected 0 or more")
        if self.curriculum and not self.patience:
            raise ValueError("curriculum with patience=0.0 s; expected patience with targets that are missed")
        randomization.require_ranges("reorient", {"kick": self.kick})


# A level is held where every other target is reached.
RISE = 0.02  # by which it rises with a target that is reached
FALL = 0.02  # by which it falls with one that is missed, or with a cube that is lost
# Targets move away first; when they are as far as they will be, they are to be met more and more exactly.
LEVELS = (0.0, 0.6, 1.0)
NEAREST = 1.0  # rad, how far the first target is at most, on level 0
SLOWEST = (0.6, 1.0)  # rad/s, smallest and largest, with which a target moves on, on level 0
WIDEST = 0.4  # rad at which a target counts as reached up to the second of `LEVELS` (Dactyl's, arXiv:1808.00177)


class Difficulty(NamedTuple):
    """How hard targets are."""

    within: Array
    """() rad at which one counts as reached."""
    first: Array
    """() rad from the cube, at most, of one that follows no other; pi: any orientation."""
    kick: tuple[Array, Array]
    """() rad/s each, smallest and largest about each axis, with which one that was reached moves on."""


def difficulty(config: ReorientConfig, level: Array) -> Difficulty:
    """That of a level, () from 0 to 1: on level 1 it is what the config says, which below it nothing exceeds."""

    def along(*values: float) -> Array:
        return jnp.interp(level, jnp.array(LEVELS), jnp.array(values))

    first, within = config.first, config.within
    (slow, fast), (low, high) = SLOWEST, config.kick
    return Difficulty(
        within=along(max(WIDEST, within), max(WIDEST, within), within),
        first=along(min(NEAREST, first), first, first),
        kick=(along(min(slow, low), low, low), along(min(fast, high), high, high)),
    )


def next_level(config: ReorientConfig, level: Array, *, reached: Array, missed: Array) -> Array:
    """() the level after a control step; it stays at 1 where the config wants no curriculum."""
    if not config.curriculum:
        return level
    return jnp.clip(level + RISE * reached - FALL * missed, 0.0, 1.0)


def target_near(key: Array, cube: Array, hard: Difficulty) -> Array:
    """(4,) wxyz, a target for a cube that lies as `cube` (4,) wxyz: near it, or any orientation."""
    towards, size, anywhere = jax.random.split(key, 3)
    axis = jax.random.normal(towards, (3,))
    angle = jax.random.uniform(size, minval=hard.within, maxval=hard.first)
    near = quat_multiply(cube, quat_from_axis_angle(axis / jnp.linalg.norm(axis), angle))
    return jnp.where(hard.first >= math.pi, random_quat(anywhere), near)
