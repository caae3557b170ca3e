"""Scripted skills: fetch, carry, go around and over, push. A script is a table of cases; the first that holds is done.

Skills see one observation and keep no state: their progress is read from where the hand, the fingers and the object
are. So a script that lost the object begins again by itself, and can be learned from observations alone.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from embodied.robot.prepared.arm import HAND_ABOVE_TCP

T = TypeVar("T")

OPEN, CLOSE = -1.0, 1.0  # gripper efforts
GRIP_ABOVE_TCP = 0.0135  # m from Meta-World's tcp, 5 mm past the pads' ends, to where the scripts take things
HAND_ABOVE_GRIP = HAND_ABOVE_TCP - GRIP_ABOVE_TCP  # m
STEP = 0.01  # m that an action of 1 moves the hand's target in one control step; Meta-World
LAG = 4.0  # control steps (50 ms) by which the hand trails its target: see `kv` in panda.xml
GAIN = 0.25  # of the missing way, commanded in one step; with more, the hand trembles
ALIGNED = 0.015  # m beside a point above which the hand goes down on it
LOW = 0.012  # m above a point at which the fingers may close around it
RESTING = 0.02  # of the opening per step: fingers that close on nothing do so by .06
SKIM = 0.035  # m, height of the grip at which what lay on the table is a finger's breadth above it
CLEAR = 0.09  # m above a point that clears what stands there, before going down


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Seen:
    """One observation, taken apart; m, world frame, quaternions wxyz."""

    grip: Array
    """(3) the point between the pads, 8.5 mm above their ends, that the scripts lead."""
    motion: Array
    """(3) m that it moved in the last step."""
    opening: Array
    """() of the gripper, as `Tabletop.observe` shows it."""
    closing: Array
    """() by how much the opening shrank in the last step."""
    object: Array
    """(3) of the first object."""
    quat: Array
    """(4) of the first object."""
    other: Array
    """(3) of the second object."""
    other_quat: Array
    """(4) of the second object."""
    goal: Array
    """(3)."""

    @classmethod
    def of(cls, policy: Array) -> Seen:
        """Read the observation group `policy` (39), see `Tabletop.observe`."""
        now, before, goal = policy[:18], policy[18:36], policy[36:]
        return cls(
            grip=now[:3] - jnp.array([0.0, 0.0, HAND_ABOVE_GRIP]),
            motion=now[:3] - before[:3],
            opening=now[3],
            closing=before[3] - now[3],
            object=now[4:7],
            quat=now[7:11],
            other=now[11:14],
            other_quat=now[14:18],
            goal=goal,
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Aim:
    """Target of the hand, and the gripper's effort."""

    grip: Array
    """(3) m, where `Seen.grip` shall be."""
    effort: ArrayLike
    """() in [-1, 1]; 1 closes."""


def steer(seen: Seen, aim: Aim) -> Array:
    """The action (4) that leads the hand to an aim as fast as it goes, without overshoot.

    The target of the hand is about `LAG` steps ahead of it; of the way beyond, a part is commanded at a time.
    """
    missing = aim.grip - seen.grip - LAG * seen.motion
    missing = missing / jnp.maximum(1.0, jnp.max(jnp.abs(missing)) * GAIN / STEP)  # straight to the aim
    return jnp.clip(jnp.append(GAIN * missing / STEP, jnp.asarray(aim.effort, jnp.float32)), -1.0, 1.0)


def first(*cases: tuple[ArrayLike, T]) -> T:
    """The aim, or way point (3), of the first case whose condition () holds; the last condition is `True`."""
    chosen = cases[-1][1]
    for condition, value in reversed(cases[:-1]):
        holds = jnp.asarray(condition)
        chosen = jax.tree.map(lambda new, old, holds=holds: jnp.where(holds, new, old), value, chosen)
    return chosen


def raised(point: Array, by: ArrayLike) -> Array:
    """A point (3) moved up by some m."""
    return point + jnp.asarray(by) * jnp.array([0.0, 0.0, 1.0])


def at_height(point: Array, height: ArrayLike) -> Array:
    """A point (3) moved to a height in m."""
    return jnp.stack([point[0], point[1], jnp.asarray(height, jnp.float32)])


def aside(a: Array, b: Array) -> Array:
    """() m between two points, seen from above."""
    return jnp.sqrt(jnp.sum(jnp.square((a - b)[:2])) + 1e-12)


def fetch(seen: Seen, point: Array, then: Aim, clear: float = CLEAR) -> Aim:
    """Grasp what is at a point: from above, down, close; and `then`, with it between the fingers.

    It is held when the fingers have come to rest short of open, with the point between them. `clear`: m above the point
    at which the hand comes from the side.
    """
    off, over = aside(seen.grip, point), seen.grip[2] - point[2]
    # Fingers that have begun to close around something follow it further than open ones would.
    around = (off < jnp.where(seen.opening < 0.95, 2 * ALIGNED, ALIGNED)) & (jnp.abs(over) < 2 * LOW)
    held = around & (seen.opening < 0.9) & (seen.closing < RESTING)
    return first(
        (held, then),
        (around & (over < LOW), Aim(point, CLOSE)),
        (off < ALIGNED, Aim(point, OPEN)),
        (True, Aim(raised(point, clear), OPEN)),
    )


def push(seen: Seen, start: Array, end: Array, clear: float = CLEAR) -> Aim:
    """Push with closed fingers: from above to a point before the thing (3) m, down, then straight on to another.

    Both points may move with the thing that is pushed.
    """
    way = (end - start) / (jnp.sqrt(jnp.sum(jnp.square(end - start))) + 1e-6)
    gone = jnp.sum((seen.grip - start) * way)
    off = jnp.sqrt(jnp.sum(jnp.square(seen.grip - start - gone * way)) + 1e-12)
    return first(
        ((off < 2 * ALIGNED) & (gone > -ALIGNED), Aim(end, CLOSE)),
        (aside(seen.grip, start) < ALIGNED, Aim(start, CLOSE)),
        (True, Aim(raised(start, clear), CLOSE)),
    )


def carry(seen: Seen, goal: Array, start: ArrayLike = SKIM) -> Array:
    """The next point (3) on the way to a goal with something in the hand: off the table first, then straight.

    Things dragged over the table jam: a hand that is held up sinks, since an arm's servos are not equally stiff in all
    directions, and presses down what it holds. `start`: m, height of the grip at which nothing touches the table.
    """
    start = jnp.asarray(start, jnp.float32)
    return jnp.where(seen.grip[2] < start - 0.01, at_height(seen.grip, start + 0.01), goal)


def over(seen: Seen, goal: Array, height: ArrayLike, ahead: ArrayLike) -> Array:
    """The next point (3) on the way to a goal over an obstacle: up, across at a height, and down beyond it.

    `ahead`: () bool, whether the obstacle is still between hand and goal.
    """
    up = jnp.maximum(jnp.asarray(height, jnp.float32), goal[2])
    high = seen.grip[2] > up - 0.02
    across = jnp.where(high, at_height(goal, up), at_height(seen.grip, up + 0.02))
    return jnp.where(ahead, across, goal)
