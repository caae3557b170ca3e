"""Base of tasks to lift a thing over an edge and bring it to its place: bins, boxes, shelves and holes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from embodied.core.world import World
from tasks.manipulation.common.rewards import both, grasp, near, reach, share
from tasks.manipulation.common.skills import CLOSE, OPEN, Aim, Seen, aside, at_height, fetch, first, raised
from tasks.manipulation.common.tabletop import Placement, Tabletop, TaskState


class CarryTask(Tabletop):
    """One free thing, drawn at `ranges.start`, with an edge between it and its goal."""

    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "lift": 1.0, "move": 4.0}
    clear: ClassVar[float]
    """m, height of the thing at which it passes over the edge."""
    grip: ClassVar[float] = 0.0
    """m from the thing's origin up to where it is grasped."""

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"object": start})

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """The hand at the thing; the thing held, high enough for the edge or beyond it, near the goal while so."""
        thing = world["object1_pos"]
        point = raised(thing, self.grip)
        held = grasp(world, point)
        beyond = share(aside(thing, state.goal), 1.5 * self.reached, self.reached)
        lifted = held * jnp.maximum(share(thing[2], self.ranges.start.low[2], self.clear), beyond)
        return {
            "reach": reach(world, point, 0.01),
            "grasp": held,
            "lift": lifted,
            "move": both(lifted, near(self.error(world, state), self.reached)),
        }


def set_down(seen: Seen, point: Array, way: Array, placed: Array) -> Aim:
    """Grasp what is at a point (3), lead the hand along a way (3); where it is placed, let go and rise by 4 cm."""
    return first(
        (placed, Aim(at_height(seen.grip, point[2] + 0.04), OPEN)), (True, fetch(seen, point, then=Aim(way, CLOSE)))
    )
