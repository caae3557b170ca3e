"""A free puck, with and without a wall: reach, push and pick-place, with their variants."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import CommandRange, Language, Operator
from embodied.core.world import World
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.rewards import both, distance, grasp, near, reach, share
from tasks.manipulation.common.skills import (
    CLOSE,
    GRIP_ABOVE_TCP,
    OPEN,
    SKIM,
    Aim,
    Seen,
    at_height,
    carry,
    fetch,
    first,
    over,
    raised,
)
from tasks.manipulation.common.tabletop import Placement, Tabletop, TaskState

REST = 0.02  # m, height of the puck's middle on the table
WALL_POS = (0.1, 0.75, 0.06)  # m, its middle; Meta-World
WALL_HALF = (0.12, 0.01, 0.06)  # m; Meta-World
OVER_WALL = 0.19  # m, grip: a broad hand, 37 mm higher, and what hangs 2 cm below the grip clear its top at 12 cm
BESIDE_WALL = -0.1  # m, x of the grip: the hand is 3 cm wide either way, the wall begins at -2 cm
BEHIND_WALL = 0.865  # m, y of the grip: a broad hand reaches 10 cm forth and back, the wall ends at 76 cm
NEAREST = 0.635  # m, y of the grip: with more, the hand would touch the wall when it is low

APART = 0.15  # m from start to goal, at least; Meta-World
OPEN_GROUND = Box((-0.1, 0.6, REST), (0.1, 0.7, REST))
BEFORE_WALL = Box((-0.05, 0.6, REST), (0.05, 0.65, REST))
"""m, where the puck begins; Meta-World."""


class PuckTask(Tabletop):
    """Base of the seven puck tasks: one free thing, drawn on the table, and a goal."""

    reached = 0.07
    led: ClassVar[str] = "object1_pos"
    """Sensor of what shall be at the goal."""
    walled = False
    """Whether there is a wall between puck and goal."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        objects.puck(spec)
        self.mark_goal(spec)
        if self.walled:
            objects.wall(spec, WALL_POS, WALL_HALF)

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"object": start}, {} if self.config.hide_goal else {objects.GOAL: goal})

    @functools.cached_property
    def operator(self) -> Operator:
        """The goal, along the axes along which an episode draws it; none where it follows from where things stand.

        Measured is the position of the object, or the hand, that shall be there.
        """
        drawn = self.ranges.goal
        spans = () if drawn is None else zip("xyz", drawn.low, drawn.high, strict=True)
        ranges = [
            CommandRange(axis, "m", low, high, "goal", (i,)) for i, (axis, low, high) in enumerate(spans) if low < high
        ]
        places = jnp.array([command.index[0] for command in ranges], int)
        return dataclasses.replace(
            super().operator, ranges=tuple(ranges), measured=lambda world, state: world[self.led][places]
        )

    def _mocap_positions(self, state: TaskState) -> Array | None:
        """The mark, where there is one, stands at the goal, also where a user moves it."""
        if self.config.hide_goal or self._mark < 0:
            return super()._mocap_positions(state)
        return state.fixtures.at[self._mark].set(state.goal)

    @functools.cached_property
    def _mark(self) -> int:
        """Number of the goal's mark among the mocap bodies, -1 of a task whose goal is a hole or another thing."""
        body = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, objects.GOAL)
        return int(self.model.body_mocapid[body]) if body >= 0 else -1

    def mark_goal(self, spec: mujoco.MjSpec) -> None:
        """A mark for cameras, which nothing else shows the goal; none where it is to be hidden."""
        if not self.config.hide_goal:
            objects.goal(spec)


class Reach(PuckTask):
    """Task: bring the fingertips to a point in the air. Randomised: the point; a puck that is not in the way.

    Success: the tcp within 5 cm of the point.
    """

    ranges = Ranges(OPEN_GROUND, Box((-0.1, 0.8, 0.05), (0.1, 0.9, 0.3)), APART)
    stages: ClassVar[Mapping[str, float]] = {"reach": 7.0}
    reached = 0.05
    led = "tcp_pos"
    language = Language.of(
        "Reach the goal position.",
        "Move the gripper to the target point.",
        "Bring your fingertips to the marked spot in the air.",
    )

    def error(self, world: World, state: TaskState) -> Array:
        return distance(world["tcp_pos"], state.goal)

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        return {"reach": reach(world, state.goal, self.reached)}

    def script(self, seen: Seen) -> Aim:
        return Aim(raised(seen.goal, GRIP_ABOVE_TCP), OPEN)


class ReachWall(Reach):
    """Task: bring the fingertips to a point behind a wall. Randomised: the point, and a puck before the wall.

    Success: the tcp within 5 cm of the point.
    """

    ranges = Ranges(BEFORE_WALL, Box((-0.05, 0.85, 0.05), (0.05, 0.9, 0.3)), APART)
    walled = True
    language = Language.of(
        "Reach the goal position behind the wall.",
        "Move the gripper over the wall to the target point.",
        "Go past the wall and bring your fingertips to the marked spot.",
    )

    def script(self, seen: Seen) -> Aim:
        goal = raised(seen.goal, GRIP_ABOVE_TCP)
        return Aim(over(seen, goal, OVER_WALL, seen.grip[1] < goal[1] - 0.02), OPEN)


class Push(PuckTask):
    """Task: slide a puck over the table to a goal. Randomised: puck and goal.

    Success: the puck's middle within 5 cm of the goal.
    """

    ranges = Ranges(OPEN_GROUND, Box((-0.1, 0.8, REST), (0.1, 0.9, REST)), APART)
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "move": 5.0}
    reached = 0.05
    language = Language.of(
        "Push the puck to the goal.",
        "Slide the blue puck across the table to the target.",
        "Move the puck along the table until it lies on the goal.",
    )

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        return {"reach": reach(world, world["object1_pos"], 0.02), "move": near(self.error(world, state), self.reached)}

    def script(self, seen: Seen) -> Aim:
        """Take it between the fingers and lead it along, barely off the table."""
        return fetch(seen, seen.object, then=Aim(carry(seen, at_height(seen.goal, SKIM)), CLOSE))


class PushWall(Push):
    """Task: slide a puck around a wall to a goal behind it. Randomised: puck and goal.

    Success: the puck's middle within 7 cm of the goal.
    """

    ranges = Ranges(BEFORE_WALL, Box((-0.05, 0.85, REST), (0.05, 0.9, REST)), APART)
    reached = 0.07
    walled = True
    language = Language.of(
        "Push the puck around the wall to the goal.",
        "Slide the blue puck past the wall to the target.",
        "Get the puck to the goal behind the wall without lifting it.",
    )

    def script(self, seen: Seen) -> Aim:
        """Drag it along the wall's free end, until hand and puck are behind it."""
        goal, grip = seen.goal, seen.grip
        beside = jnp.stack([jnp.asarray(BESIDE_WALL), jnp.minimum(grip[1], NEAREST), jnp.asarray(REST)])
        beyond = jnp.stack([jnp.asarray(BESIDE_WALL), jnp.asarray(BEHIND_WALL), jnp.asarray(REST)])
        behind = goal.at[1].max(BEHIND_WALL)
        way = first(
            ((grip[0] > BESIDE_WALL + 0.03) & (grip[1] < WALL_POS[1]), beside),
            (grip[1] < BEHIND_WALL - 0.02, beyond),
            (True, behind),
        )
        return fetch(seen, before_wall(seen), then=Aim(carry(seen, at_height(way, SKIM)), CLOSE))


class PushBack(Push):
    """Task: slide a block over the table towards the robot. Randomised: block and goal.

    Success: the block's middle within 7 cm of the goal.
    """

    ranges = Ranges(Box((-0.1, 0.8, REST), (0.1, 0.85, REST)), Box((-0.1, 0.6, REST), (0.1, 0.7, REST)), APART)
    reached = 0.07
    language = Language.of(
        "Push the block back to the goal.",
        "Slide the green block towards the robot to the target.",
        "Pull the block back along the table until it lies on the goal.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        objects.block(spec)
        self.mark_goal(spec)


class PickPlace(PuckTask):
    """Task: pick up a puck and bring it to a point in the air. Randomised: puck and goal.

    Success: the puck's middle within 7 cm of the goal.
    """

    ranges = Ranges(OPEN_GROUND, Box((-0.1, 0.8, 0.05), (0.1, 0.9, 0.3)), APART)
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "lift": 1.0, "move": 4.0}
    language = Language.of(
        "Pick up the puck and bring it to the goal.",
        "Grasp the blue puck and hold it at the target point.",
        "Lift the puck from the table and carry it to the marked spot in the air.",
    )

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        puck = world["object1_pos"]
        held = grasp(world, puck)
        return {
            "reach": reach(world, puck, 0.01),
            "grasp": held,
            "lift": held * share(puck[2], REST, REST + 0.03),
            "move": both(held, near(self.error(world, state), self.reached)),
        }

    def script(self, seen: Seen) -> Aim:
        return fetch(seen, seen.object, then=Aim(carry(seen, seen.goal), CLOSE))


class PickPlaceWall(PickPlace):
    """Task: pick up a puck and bring it over a wall to a point behind it. Randomised: puck and goal.

    Success: the puck's middle within 7 cm of the goal.
    """

    ranges = Ranges(BEFORE_WALL, Box((-0.05, 0.85, 0.05), (0.05, 0.9, 0.3)), APART)
    walled = True
    language = Language.of(
        "Pick up the puck and bring it over the wall to the goal.",
        "Grasp the blue puck and carry it over the wall to the target point.",
        "Lift the puck across the wall and hold it at the marked spot.",
    )

    def script(self, seen: Seen) -> Aim:
        way = over(seen, seen.goal, OVER_WALL, seen.grip[1] < seen.goal[1] - 0.02)
        return fetch(seen, before_wall(seen), then=Aim(way, CLOSE))


def before_wall(seen: Seen) -> Array:
    """Grasp point of the puck, (3) m: a little nearer than its middle where the hand would touch the wall."""
    return seen.object.at[1].min(jnp.maximum(NEAREST, seen.grip[1]))
