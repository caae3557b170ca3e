"""Reciprocal collision avoidance: velocity obstacles, by sampling velocities."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.entity_rows import COLUMNS, Kind

HEADINGS, SPEEDS = 16, (0.35, 0.7, 1.0)  # velocities that are tried, beside the wished one and standing still
HORIZON = 3.0  # s; what would be touched later does not matter yet
APART, ASIDE = 0.35, 0.1  # m between the middles of two drones, of air beside columns, that count as touching
TEAMMATES, OBSTACLES = 1.0, 0.2  # m, of 1 / (s until they touch) against m/s off the wished velocity
KEEP_RIGHT = 0.05  # m/s that a turn to the left counts more than one to the right
SMOOTH = 0.05  # m/s, of what a velocity costs: one that costs so much more counts a third, so that a policy can imitate
SOON = 0.02  # s until touching, at least
KINDS = tuple(Kind)


def tried(fastest: float) -> np.ndarray:
    """(2, candidates) m/s along the floor."""
    angle = 2 * np.pi * np.arange(HEADINGS) / HEADINGS
    around = np.stack([np.cos(angle), np.sin(angle)])
    return np.concatenate([np.zeros((2, 1)), *(fastest * speed * around for speed in SPEEDS)], 1).astype(np.float32)


def avoiding(rows: Array, velocity: Array, wished: Array, fastest: float) -> Array:
    """Velocities (A, 2) m/s along the floor, near the wished ones, that lead to no collision soon.

    Van den Berg, Lin and Manocha ("Reciprocal velocity obstacles for real-time multi-agent navigation", ICRA 2008): of
    some velocities the one with the least `weight / time until touching + distance from the wished velocity`, where
    each of two drones is to change the half of what is needed: to fly at v, it looks at 2 v - its velocity. Here the
    mean of all that are tried, those with the least cost weighing most (a softmax), which does not jump between equals.

    Args:
        rows: (A, rows, WIDTH) entities around the drones: team-mates, which avoid as well, and columns, which do not.
        velocity: (A, 2) m/s.
        wished: (A, 2) m/s.
        fastest: m/s.
    """
    fixed = jnp.broadcast_to(tried(fastest), (len(rows), 2, 1 + HEADINGS * len(SPEEDS)))
    choice = jnp.concatenate([wished[:, :, None], fixed], 2)  # (A, 2, candidates)
    off = choice - wished[:, :, None]
    turn = wished[:, :1] * choice[:, 1] - wished[:, 1:] * choice[:, 0]
    cost = jnp.sqrt(jnp.sum(off**2, 1) + 1e-12) + KEEP_RIGHT * (turn > 1e-3)
    offset, moving = rows[..., COLUMNS["offset"]], rows[..., COLUMNS["velocity"]]  # relative to the drone's own
    size, kinds = rows[..., COLUMNS["size"]], rows[..., COLUMNS["kind"]]
    team = kinds[..., KINDS.index(Kind.TEAMMATE), None] > 0
    reach = jnp.where(team, APART, size + ASIDE)
    # Rows move relative to the drone: their velocity minus the change of the drone's own velocity, or minus twice that.
    change = jnp.where(team[..., None], 2.0, 1.0) * (choice - velocity[:, :, None])[:, None]  # (A, rows, 2, candidates)
    time = until_touching(offset[..., :2, None], moving[..., :2, None] - change, reach)
    weight = jnp.where(team, TEAMMATES, OBSTACLES) * jnp.any(kinds > 0, -1, keepdims=True)
    danger = jnp.maximum(1 / time - 1 / HORIZON, 0.0) * weight
    share = jax.nn.softmax(-(cost + jnp.max(danger, 1)) / SMOOTH, -1)
    return jnp.sum(share[:, None] * choice, -1)


def until_touching(offset: Array, velocity: Array, reach: Array) -> Array:
    """(..., k) s until something at (..., 2, k) m that moves by (..., 2, k) m/s is within `reach` (..., k) m: infinite
    if never; if it is within already, the less the faster it comes nearer."""
    x, y = offset[..., 0, :], offset[..., 1, :]
    u, v = velocity[..., 0, :], velocity[..., 1, :]
    closing = -(x * u + y * v)
    square = x**2 + y**2
    gap = square - reach**2
    root = closing**2 - (u**2 + v**2) * gap
    ahead = jnp.where(root > 0, gap / (closing + jnp.sqrt(jnp.maximum(root, 0.0)) + 1e-6), jnp.inf)
    within = 0.1 * jnp.exp(-closing / jnp.sqrt(square + 1e-9))
    return jnp.where(closing > 0, jnp.maximum(jnp.where(gap > 0, ahead, within), SOON), jnp.inf)
