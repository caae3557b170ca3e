"""Pushes: horizontal forces on a body that come and go at random times."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.randomization import Range, Term


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Push:
    """The present or next push, a field of the task's state."""

    force: Array
    """(2,) N, world frame, while it lasts."""
    wait: Array
    """() s until it begins; negative once it has."""
    remaining: Array
    """() s it still lasts."""

    @property
    def active(self) -> Array:
        return self.wait <= 0

    def wrench(self, bodies: int, body: int) -> Array:
        """(bodies, 6) N and N m for `Control.wrench` of a model of so many bodies, on body number `body`."""
        force = jnp.where(self.active, self.force, 0.0)
        return jnp.zeros((bodies, 6)).at[body, :2].set(force)


@dataclasses.dataclass(frozen=True)
class Pushes:
    """Pushes: a horizontal force on a body that would give a free robot a change of velocity."""

    speed: float = 0.5
    """m/s, largest change of velocity; 0 switches pushes off."""
    interval: tuple[float, float] = (5.0, 10.0)
    """s between pushes."""
    duration: tuple[float, float] = (0.05, 0.2)
    """s that a push lasts."""

    def term(self) -> Term:
        """The variation `push` that a task declares."""
        ranges = (
            Range("change of velocity of a free robot", 0.0, self.speed, "m/s"),
            Range("wait before it", *self.interval, "s"),
            Range("duration", *self.duration, "s"),
        )
        return Term("push", "horizontal force now and then, in any direction", ranges=ranges)

    def draw(self, mass: float, key: Array, varied: frozenset[str]) -> Push:
        """A push to come, in `reset`, for a robot of `mass` kg; one without force where the task does not vary it."""
        return self.drawn(mass, jax.random.uniform(key, (4,)), varied)

    def drawn(self, mass: float, uniform: Array, varied: frozenset[str]) -> Push:
        """The same from numbers (4,) in [0, 1) that the task drew: force = mass * speed / duration."""
        wait = self.interval[0] + uniform[0] * (self.interval[1] - self.interval[0])
        duration = self.duration[0] + uniform[1] * (self.duration[1] - self.duration[0])
        angle = 2 * jnp.pi * uniform[2]
        size = mass * ("push" in varied) * self.speed * uniform[3] / duration
        return Push(force=size * jnp.stack([jnp.cos(angle), jnp.sin(angle)]), wait=wait, remaining=duration)

    def advanced(self, push: Push, mass: float, dt: float, key: Array, varied: frozenset[str]) -> Push:
        """The push after `dt` s, in `post_step`; a new one is drawn when it is over."""
        wait = push.wait - dt
        remaining = jnp.where(push.active, push.remaining - dt, push.remaining)
        following = self.draw(mass, key, varied)
        current = Push(push.force, wait, remaining)
        return jax.tree.map(lambda new, old: jnp.where(remaining <= 0, new, old), following, current)
