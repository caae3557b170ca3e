"""Velocity commands of a legged robot, renewed at random times."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array


@dataclasses.dataclass(frozen=True)
class CommandConfig:
    """Velocity commands: each component U(-limit, limit) or zero, renewed at random times."""

    limits: tuple[float, float, float] = (1.5, 0.8, 1.2)
    """Largest forward (m/s), sideways (m/s) and turning (rad/s) speed."""
    keep: tuple[float, float, float] = (0.9, 0.25, 0.5)
    """Probability that each component is not zero."""
    interval: float = 5.0
    """s, mean time between commands (exponentially distributed)."""


def draw_command(config: CommandConfig, uniform: Array) -> Array:
    """A command (3,) from `uniform` (6,): forward and sideways m/s, turning rad/s, in the heading's frame."""
    speed = (2 * uniform[:3] - 1) * jnp.asarray(config.limits)
    return jnp.where(uniform[3:] < jnp.asarray(config.keep), speed, 0.0)


def renew_command(config: CommandConfig, command: Array, dt: float, key: Array) -> Array:
    """The command after `dt` s: the same, or with probability dt / interval a new one."""
    uniform = jax.random.uniform(key, (7,))
    return jnp.where(uniform[6] < dt / config.interval, draw_command(config, uniform[:6]), command)
