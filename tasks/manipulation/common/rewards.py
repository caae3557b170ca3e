"""The vocabulary of staged rewards: how near, how well held, how high, each in [0, 1], to be summed by weights.

A task names the stages on the way to its success (reach, grasp, lift, move, insert, turn ...) and what each is worth;
`Tabletop` adds the success and sees to the scale: 10 exactly when solved, less otherwise. Distances fall off with a
long tail, as in Meta-World's rewards (version 2), so that there is some gradient from anywhere.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from embodied.core.world import World
from embodied.math.rewards import Sigmoid, tolerance

FULL = 10.0
"""Reward per control step of a solved task; Meta-World's, version 2."""
MARGIN = 0.2  # m, the distance at which `near` is 0.1: about what lies between the hand, an object and its goal
FIRM = 5.0  # N on each pad that count as a firm hold; the gripper presses with 70 at full effort


def distance(a: Array, b: ArrayLike) -> Array:
    """() m between two points (k); its gradient where they coincide is zero."""
    squared = jnp.sum(jnp.square(a - b))
    return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)


def near(distance: ArrayLike, within: float = 0.0, margin: float = MARGIN) -> Array:
    """1 up to a distance `within` (m, or rad), 0.1 at `margin` beyond it, falling off with a long tail."""
    return tolerance(distance, 0.0, within, margin, Sigmoid.LONG_TAIL)


def both(a: Array, b: Array) -> Array:
    """Conjunction of two numbers in [0, 1]: Hamacher's product ab / (a + b - ab), gentler than the plain one.

    Source: Klement, Mesiar and Pap, "Triangular Norms" (2000); Meta-World joins its terms by it.
    """
    total = a + b - a * b
    return jnp.where(total > 0, a * b / jnp.where(total > 0, total, 1.0), 0.0)


def hold(world: World) -> Array:
    """Firmness with which both pads press on something between them, in [0, 1]."""
    return jnp.clip(jnp.minimum(world["left_pad_touch"][0], world["right_pad_touch"][0]) / FIRM, 0.0, 1.0)


def reach(world: World, point: Array, within: float = 0.0) -> Array:
    """Closeness of the middle between the fingertips to a point (3) m."""
    return near(distance(world["tcp_pos"], point), within)


def grasp(world: World, point: Array, within: float = 0.03) -> Array:
    """Firmness of the hold on something at a point (3) m: pads that press elsewhere do not count."""
    return both(hold(world), near(distance(world["tcp_pos"], point), within, within))


def share(value: Array, start: ArrayLike, end: ArrayLike) -> Array:
    """Share of the way from one value to another, in [0, 1]: lifted, pressed, pulled, turned (m or rad)."""
    return jnp.clip((value - start) / (jnp.asarray(end) - start), 0.0, 1.0)
