"""Which orientation a cube is to be turned to next: how far off, how exactly, and how both grow harder."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from embodied.rotations import quat_from_axis_angle, quat_multiply, random_quat
from tasks.grasping.reorient_config import ReorientConfig

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
