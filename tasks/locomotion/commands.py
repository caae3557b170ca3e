"""What a legged robot is told to do, and what disturbs it: velocity commands and pushes that come and go."""

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


@dataclasses.dataclass(frozen=True)
class PushConfig:
    """Pushes: a horizontal force on the trunk that would give a free robot a change of velocity."""

    speed: float = 0.5
    """m/s, largest change of velocity; 0 switches pushes off."""
    interval: tuple[float, float] = (5.0, 10.0)
    """s between pushes."""
    duration: tuple[float, float] = (0.05, 0.2)
    """s that a push lasts."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Push:
    """The present or next push."""

    force: Array
    """(2,) N, world frame, while it lasts."""
    wait: Array
    """() s until it begins; negative once it has."""
    remaining: Array
    """() s it still lasts."""

    @property
    def active(self) -> Array:
        return self.wait <= 0


def draw_command(config: CommandConfig, uniform: Array) -> Array:
    """A command (3,) from `uniform` (6,): forward and sideways m/s, turning rad/s, in the heading's frame."""
    speed = (2 * uniform[:3] - 1) * jnp.asarray(config.limits)
    return jnp.where(uniform[3:] < jnp.asarray(config.keep), speed, 0.0)


def renew_command(config: CommandConfig, command: Array, dt: float, key: Array) -> Array:
    """The command after `dt` s: the same, or with probability dt / interval a new one."""
    uniform = jax.random.uniform(key, (7,))
    return jnp.where(uniform[6] < dt / config.interval, draw_command(config, uniform[:6]), command)


def draw_push(config: PushConfig, mass: float, uniform: Array) -> Push:
    """A push to come, from `uniform` (4,), for a robot of `mass` kg: force = mass * speed / duration."""
    wait = config.interval[0] + uniform[0] * (config.interval[1] - config.interval[0])
    duration = config.duration[0] + uniform[1] * (config.duration[1] - config.duration[0])
    angle = 2 * jnp.pi * uniform[2]
    size = mass * config.speed * uniform[3] / duration
    return Push(force=size * jnp.stack([jnp.cos(angle), jnp.sin(angle)]), wait=wait, remaining=duration)


def advance_push(config: PushConfig, push: Push, mass: float, dt: float, key: Array) -> Push:
    """The push after `dt` s; a new one is drawn when it is over."""
    wait = push.wait - dt
    remaining = jnp.where(push.active, push.remaining - dt, push.remaining)
    following = draw_push(config, mass, jax.random.uniform(key, (4,)))
    current = Push(push.force, wait, remaining)
    return jax.tree.map(lambda new, old: jnp.where(remaining <= 0, new, old), following, current)
