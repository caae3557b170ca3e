"""Uniform numbers turned into points, directions and orientations.

Each function maps numbers in [0, 1) that a task drew in one call: every separate draw in JAX costs compile time,
and rejection sampling does not vectorise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from embodied.math.rotations import quat_from_rotation_vector, quat_from_yaw, quat_multiply


def direction(uniform: Array) -> Array:
    """A direction (3,), uniform on the sphere, from `uniform` (2,): Archimedes' hat-box theorem."""
    height = 2 * uniform[0] - 1
    angle = 2 * jnp.pi * uniform[1]
    radius = jnp.sqrt(jnp.maximum(1 - height**2, 0.0))
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), height])


def between(limits: tuple[float, float], uniform: Array) -> Array:
    """`uniform`, of any shape, stretched from [0, 1) to between two limits."""
    low, high = limits
    return low + (high - low) * uniform


def ball(uniform: Array) -> Array:
    """A point (3,), uniform in the unit ball, from `uniform` (3,)."""
    return jnp.cbrt(uniform[2]) * direction(uniform[:2])


def tilted(uniform: Array, max_angle: ArrayLike) -> Array:
    """An orientation (4,) wxyz tilted by U(0, max_angle) rad about a random horizontal axis, at a random heading.

    `uniform` is (3,): tilt, axis, heading.
    """
    angle, axis = uniform[0] * max_angle, 2 * jnp.pi * uniform[1]
    tilt = quat_from_rotation_vector(angle * jnp.stack([jnp.cos(axis), jnp.sin(axis), jnp.zeros_like(axis)]))
    return quat_multiply(tilt, quat_from_yaw(2 * jnp.pi * uniform[2]))


def coarse_noise(key: Array, count: int) -> Array:
    """(count,) uniform noise of mean 0 and standard deviation 1, in steps of 5e-5.

    Two numbers are cut from every random word: where noise is drawn at every step for many environments, drawing
    random words is what costs.
    """
    words = jax.random.bits(key, ((count + 1) // 2,), jnp.uint32)
    halves = jnp.concatenate([words & 0xFFFF, words >> 16])[:count].astype(jnp.float32)
    # A uniform variable on [-1, 1] has variance 1/3.
    return jnp.sqrt(3.0) * ((halves + 0.5) / 32768.0 - 1.0)
