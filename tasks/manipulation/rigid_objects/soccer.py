"""A ball to be shot into a goal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.skills import OPEN, Aim, Seen, aside, at_height, first, raised
from tasks.manipulation.common.tabletop import Placement
from tasks.manipulation.rigid_objects.pucks import APART, Push

BALL = 0.026  # m, its radius; Meta-World
BALL_MASS = 0.04  # kg; Meta-World
ROLLING = 1e-4  # N m s/rad, what slows a rolling ball: it comes to rest within 20 cm at .5 m/s. Meta-World's never does
PATCH = 0.0041  # m from the ball's middle to that of the sphere whose cap is a black patch on it
PATCH_RADIUS = 0.0222  # m, of that sphere: the patch is 18 mm wide and .3 mm high

GOAL_SIDE, GOAL_FRONT, GOAL_TOP = 0.0965, -0.0636, 0.16  # m, middle of its sides, its front, middle of its roof
GOAL_BACK, GOAL_ROOF = 0.047, 0.0135  # m, y of the net behind: on the ground (Meta-World 1 cm more), and under the roof
POST = 0.006  # m, radius of the posts, half the thickness of the nets; Meta-World
MESH = 6  # meshes of each net along and across

KICKING = 0.026  # m, height of the grip: the pads meet the ball at its middle
EDGE = (0.015, 0.053)  # m from the grip to the outer edges of the far one of the open fingers, to either side and ahead
STRAIGHT = 0.15  # of a way of 1 to the goal that may lead aside for the ball to be met by a finger's face, not an edge
INSIDE = 0.045  # m aside of the goal's middle: so far a ball that goes straight ahead counts
BEYOND = 0.03  # m that the hand is led beyond where it meets the ball: .4 m/s
PASSING = -0.115  # m, y from the goal at which a ball from the side passes before the post, with 2 cm to spare
BEFORE = 0.02  # m before the ball that the hand comes down
NEAREST = -0.185  # m, y of the grip from the goal at which a hand that reaches 10 cm forth may come down


class Soccer(Push):
    """Task: get a ball into a goal. Randomised: the ball and the goal.

    Success: the ball's middle within 7 cm of the goal's, on the ground.
    """

    ranges = Ranges(Box((-0.1, 0.6, BALL), (0.1, 0.7, BALL)), Box((-0.1, 0.8, 0.0), (0.1, 0.9, 0.0)), APART)
    reached = 0.07
    language = Language.of(
        "Push the ball into the goal.",
        "Kick the football into the net.",
        "Score a goal: roll the ball between the posts.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        ball(spec)
        soccer_goal(objects.fixture(spec, "goal"))

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"object": start}, {"goal": goal})

    def script(self, seen: Seen) -> Aim:
        """Come down behind the ball and roll it on; in the goal it is left alone."""
        touch, way = kick(seen)
        before = touch - BEFORE * way
        before = before.at[1].min(seen.goal[1] + NEAREST)
        ahead = jnp.sum((seen.grip - touch) * way)
        behind = (aside(seen.grip, touch + ahead * way) < 0.012 + 0.5 * jnp.maximum(-ahead, 0.0)) & (ahead < 0.012)
        return first(
            (seen.object[1] > seen.goal[1] - 0.03, Aim(seen.grip.at[1].min(seen.goal[1] + NEAREST), OPEN)),
            (behind & (seen.grip[2] < KICKING + 0.02), Aim(touch + BEYOND * way, OPEN)),
            (aside(seen.grip, before) < BEFORE, Aim(before, OPEN)),
            (True, Aim(raised(before, 0.07), OPEN)),
        )


def kick(seen: Seen) -> tuple[Array, Array]:
    """Position of the grip (3) m when the hand meets the ball, and direction (3) of the ball then.

    The far one of the open fingers pushes, since a broad hand cannot follow the ball between the posts. Its face
    sends the ball straight ahead, its edges also aside: away from where they touch the ball.
    """
    left = seen.goal - jnp.array([0.0, 0.02, 0.0]) - seen.object
    across = jnp.abs(left[0])
    round_post = (seen.goal[1] + PASSING - seen.object[1]) / jnp.maximum(across - GOAL_SIDE, 0.01)
    ahead = jnp.where(across > GOAL_SIDE, jnp.clip(round_post * across, 0.1 * across, left[1]), left[1])
    way = jnp.stack([left[0], ahead, jnp.asarray(0.0)])
    way = way / (jnp.sqrt(jnp.sum(jnp.square(way))) + 1e-6)
    straight = (jnp.abs(way[0]) < STRAIGHT) | (across < INSIDE)
    way = jnp.where(straight, jnp.array([0.0, 1.0, 0.0]), way)
    edge = jnp.stack([jnp.where(straight, 0.0, jnp.sign(way[0]) * EDGE[0]), jnp.asarray(EDGE[1]), jnp.asarray(0.0)])
    return at_height(seen.object - BALL * way - edge, KICKING), way


def ball(spec: mujoco.MjSpec) -> None:
    """A small football."""
    body = objects.free_body(spec, "object")
    spec.joint("object").damping = [ROLLING, 0, 0]
    objects.loose(body, type=objects.SPHERE, size=[BALL, 0, 0], mass=BALL_MASS, rgba=objects.WHITE, **objects.SMOOTH)
    golden = (1 + 5**0.5) / 2
    for a, b in itertools.product((-1, 1), (-golden, golden)):
        for corner in ((0, a, b), (a, b, 0), (b, 0, a)):  # of an icosahedron, where a football has its black patches
            pos = PATCH * np.array(corner) / np.linalg.norm(corner)
            objects.looks(body, type=objects.SPHERE, size=[PATCH_RADIUS, 0, 0], pos=pos, rgba=objects.BLACK)


def soccer_goal(body: mujoco.MjsBody) -> None:
    """Posts, crossbar and nets at the sides, above and behind; open to -y. In contacts the nets are boards."""
    tilt = np.arctan2(GOAL_BACK - GOAL_ROOF, GOAL_TOP)
    middle, deep = (GOAL_BACK + GOAL_FRONT) / 2, (GOAL_BACK - GOAL_FRONT) / 2
    roof, over = (GOAL_ROOF - GOAL_FRONT) / 2, (GOAL_ROOF + GOAL_FRONT) / 2
    hidden = {"type": objects.BOX, "group": 3}
    for side in (-GOAL_SIDE, GOAL_SIDE):
        objects.solid(body, pos=[side, middle, GOAL_TOP / 2], size=[POST, deep, GOAL_TOP / 2], **hidden)
    objects.solid(body, pos=[0, over, GOAL_TOP], size=[GOAL_SIDE, roof, POST], **hidden)
    objects.solid(
        body,
        pos=[0, (GOAL_BACK + GOAL_ROOF) / 2, GOAL_TOP / 2],
        size=[GOAL_SIDE, POST, GOAL_TOP / np.cos(tilt) / 2],
        quat=[np.cos(tilt / 2), np.sin(tilt / 2), 0, 0],
        **hidden,
    )
    left, right = (
        [(x, y, z) for y, z in ((GOAL_FRONT, 0), (GOAL_FRONT, GOAL_TOP), (GOAL_ROOF, GOAL_TOP), (GOAL_BACK, 0))]
        for x in (-GOAL_SIDE, GOAL_SIDE)
    )
    for a, b in ((left[0], left[1]), (left[1], right[1]), (right[1], right[0])):
        objects.looks(body, type=objects.CAPSULE, size=[POST, 0, 0], fromto=[*a, *b], rgba=objects.WHITE)
    for corners in (left, right, [left[1], left[2], right[2], right[1]], [left[2], left[3], right[3], right[2]]):
        net(body, corners)


def net(body: mujoco.MjsBody, corners: Sequence[Sequence[float]]) -> None:
    """A net to look at, between four corners (3) m, in order."""
    a, b, c, d = np.array(corners, float)
    for start, end, far_start, far_end in ((a, b, d, c), (a, d, b, c)):
        for part in np.linspace(0, 1, MESH + 1):
            ends = [*(start + part * (end - start)), *(far_start + part * (far_end - far_start))]
            objects.looks(body, type=objects.CAPSULE, size=[0.0008, 0, 0], fromto=ends, rgba=objects.WHITE)
