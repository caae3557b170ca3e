"""Standing at a command of zero: episodes that ask for nothing else, and how far the robot creeps in them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from embodied.math.rotations import yaw_from_quat

SETTLING = 1.0  # s after the start, and after a push, that do not count as standing
MINUTE = 60.0  # s


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Standing:
    """What an episode's robot has crept since it began to stand."""

    asked: Array
    """() bool, whether the command is zero from the beginning of the episode to its end."""
    pose: Array
    """(3,) m, m and rad: position and heading after the last step, world frame."""
    moved: Array
    """(3,) m, m and rad: net displacement while it stood undisturbed."""
    undisturbed: Array
    """() s since the start or the last push."""
    calm: Array
    """() s that `moved` took."""
    change: Array
    """(2,) m/min and rad/min: what this step adds to the sum over steps whose mean is the rate of creeping."""


def pose_of(position: Array, quat: Array) -> Array:
    """(3,) m, m and rad: place and heading of a trunk at `position` (3,) m with orientation `quat` (4,) wxyz."""
    return jnp.append(position[:2], yaw_from_quat(quat))


def started(asked: Array, pose: Array) -> Standing:
    """Standing at the start of an episode, at the trunk's `pose` (3,)."""
    return Standing(asked, pose, jnp.zeros(3), jnp.zeros(()), jnp.zeros(()), jnp.zeros(2))


def advanced(before: Standing, pose: Array, pushed: Array, steps: Array, dt: float) -> Standing:
    """Standing after a control step of `dt` s, the `steps`-th of the episode, with the trunk at `pose` (3,).

    `pushed`: () bool, whether a push acts on it.
    """
    undisturbed = jnp.where(pushed, 0.0, before.undisturbed + dt)
    step = pose - before.pose
    step = step.at[2].set(jnp.arctan2(jnp.sin(step[2]), jnp.cos(step[2])))
    stands = undisturbed > SETTLING
    moved = before.moved + jnp.where(stands, step, 0.0)
    calm = before.calm + dt * stands
    change = steps * rate(moved, calm) - (steps - 1) * rate(before.moved, before.calm)
    return Standing(before.asked, pose, moved, undisturbed, calm, change)


def rate(moved: Array, calm: Array) -> Array:
    """(2,) m/min and rad/min: the net displacement `moved` (3,) by the time `calm` that it took; zeros before."""
    distance = jnp.sqrt(moved[0] ** 2 + moved[1] ** 2)
    return MINUTE * jnp.stack([distance, jnp.abs(moved[2])]) / jnp.maximum(calm, 1.0)


def metrics(standing: Standing) -> dict[str, Array]:
    """`drift` in m/min and `turning` in degrees/min at a command of zero; NaN in an episode that asks for more.

    Of a step they are what the episode's mean needs to become the net displacement by the time.
    """
    drift, turning = jnp.where(standing.asked, standing.change, jnp.nan)
    return {"drift": drift, "turning": jnp.degrees(turning)}


UNITS = {"drift": "m/min", "turning": "degrees/min"}
"""Units of `metrics`."""
