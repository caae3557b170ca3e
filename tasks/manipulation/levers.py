"""A lever on a tower, to be lifted."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.objects import BLACK, BOX, CAPSULE, RED, SPHERE, STEEL, WHITE
from tasks.manipulation.rewards import distance, near, share
from tasks.manipulation.skills import Aim, Seen, push
from tasks.manipulation.tabletop import Memory
from tasks.manipulation.turning import AHEAD, BEHIND, QUARTER, TurningTask

# m, from the middle of the lever's foot; Meta-World.
AXIS = (0.12, 0.0, 0.25)
LEVER = 0.2  # length from axis to knob
ROD_RADIUS, BALL_RADIUS = 0.012, 0.03
TOWER = (0.041, 0.083)  # half its extents
TOLERANCE = 0.1309  # rad from upright; Meta-World

SHOULDER = (0.0, 0.1, 0.1034)
"""m from the tcp to the far end of the hand's upper edge, which gets under a lever."""
CROUCHED = (0.0, 0.7022086, 0.0, -2.8432374, 0.0, 3.5453146, -0.7853982)
"""rad, the tcp at (0, .4, .1). At `BACK`, 5 cm higher, the hand would stand in the nearest ball."""


class LeverPull(TurningTask):
    """Task: lift a lever until it stands upright. Randomised: where its tower stands.

    Success: the lever within 7.5 degrees of upright.
    """

    hand_start = CROUCHED
    ranges = Ranges(Box((-0.1, 0.7, 0.0), (0.1, 0.8, 0.0)))
    hinge = AXIS
    axis = (1.0, 0.0, 0.0)
    limits = (-1.75, 0.0)
    friction = 0.5
    point = (0.0, -LEVER, 0.0)
    target = (AXIS[0], AXIS[1], AXIS[2] + LEVER)
    instruction = (
        "Pull the lever up.",
        "Lift the lever by its red knob until it stands upright.",
        "Raise the lever a quarter turn, from level to vertical.",
    )

    def build(self, foot: mujoco.MjsBody, turner: mujoco.MjsBody) -> None:
        """A tower with a round head, and beside it a rod with a ball."""
        (x, y), height = TOWER, AXIS[2]
        objects.solid(foot, type=BOX, size=[x, y, 0.15], pos=[0, 0, 0.15], group=3)
        objects.looks(foot, type=BOX, size=[x, y, height / 2], pos=[0, 0, height / 2], rgba=WHITE)
        objects.disc(foot, y, x - 0.0005, (0, 0, height), WHITE, axis=(1, 0, 0))
        objects.looks(foot, type=BOX, size=[0.05, 0.092, 0.013], pos=[0, 0, 0.013], rgba=BLACK)
        objects.disc(turner, 0.016, 0.046, (-0.035, 0, 0), STEEL, axis=(1, 0, 0))
        objects.disc(turner, 0.038, 0.016, (0, 0, 0), STEEL, axis=(1, 0, 0))
        rod = [0, 0, 0, 0, -LEVER, 0]
        objects.solid(turner, type=CAPSULE, size=[ROD_RADIUS, 0, 0], fromto=rod, mass=0.08, rgba=STEEL)
        objects.solid(turner, type=SPHERE, size=[BALL_RADIUS, 0, 0], pos=rod[3:], mass=0.08, rgba=RED)

    def solved(self, world: World, memory: Memory) -> Array:
        """By the angle."""
        return jnp.abs(self.angle(world) + QUARTER) <= TOLERANCE

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The hand's shoulder at the ball, the lever lifted."""
        shoulder = world["tcp_pos"] + jnp.asarray(SHOULDER)
        return {
            "reach": near(distance(shoulder, world["object1_pos"]), BALL_RADIUS + 0.01),
            "turn": share(-self.angle(world), 0.0, QUARTER - TOLERANCE),
        }

    def script(self, seen: Seen) -> Aim:
        """Get the hand's shoulder under the ball, and lift it around the hinge."""
        pivot = seen.goal - jnp.array([0.0, 0.0, LEVER])
        offset = seen.object - pivot
        angle = jnp.arctan2(offset[2], -offset[1])

        def touching(angle: Array, gap: float) -> Array:
            along, below, zero = LEVER - 0.01, BALL_RADIUS + gap, jnp.zeros(())
            y, z = -jnp.cos(angle), jnp.sin(angle)
            return pivot + jnp.stack([zero, along * y - below * z, along * z + below * y]) - jnp.asarray(SHOULDER)

        return push(seen, touching(angle, BEHIND), touching(jnp.minimum(angle + AHEAD, QUARTER), 0.0), clear=0.0)
