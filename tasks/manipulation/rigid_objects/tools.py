"""A hammer that drives a nail, and a stick that pushes a thermos or pulls it by its handle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language
from embodied.core.world import World
from embodied.math.rotations import quat_rotate, quat_rotate_inverse
from tasks.manipulation.common import objects
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.rewards import both, distance, grasp, near, reach, share
from tasks.manipulation.common.skills import CLOSE, Aim, Seen, aside, at_height, carry, fetch, first
from tasks.manipulation.common.tabletop import BACK, Placement, Tabletop, TaskState

SLIDE = mujoco.mjtJoint.mjJNT_SLIDE

SHAFT_RADIUS, SHAFT_HALF = 0.02, 0.14  # m; Meta-World
HEAD_HALF = (0.036, 0.072, 0.036)  # m, of the box around both faces; Meta-World's faces have a radius of 3.8 cm
HEAD_X = 0.16  # m from the shaft's middle; Meta-World
FACE = (HEAD_X, HEAD_HALF[1], 0.0)  # m, hammer's frame: what meets the nail
SHAFT_MASS, HEAD_MASS = 0.08, 0.22  # kg, a light hammer; Meta-World: 1.1 together
HEEL = (HEAD_X - HEAD_HALF[0] + SHAFT_HALF, HEAD_HALF[2])  # m from the shaft's end to the head's edge, along and below
LEAN = math.acos(SHAFT_RADIUS / math.hypot(*HEEL)) - math.atan2(*HEEL)
"""rad, how the hammer leans where it lies on the shaft's end and the head."""
LYING = SHAFT_RADIUS + SHAFT_HALF * math.sin(LEAN)  # m, height of the shaft's middle then

BLOCK_POS, BLOCK_HALF = (0.24, 0.85, 0.11), (0.1, 0.1, 0.11)  # m; Meta-World
NAIL_POS = (0.24, 0.64, 0.11)  # m, the middle of its head; Meta-World
NAIL_RADIUS, NAIL_HALF = 0.03, 0.009  # m, of its head: 1 mm before the block when it is driven in; Meta-World
NAIL_MASS = 0.09  # kg; Meta-World
NAIL_TRAVEL, DRIVEN = 0.1, 0.09  # m, and what of it is success; Meta-World
NAIL_DAMPING, NAIL_FRICTION = 2.0, 4.0  # N s/m, Meta-World's; N, so that it stays where a blow has left it
BESIDE_NAIL = 0.012  # m beside the nail's axis at which the face may strike
WIND_UP = 0.04  # m before the nail where the face is brought in line
FOLLOW = 0.04  # m by which the hand leads a face that drives, or a stick that pushes: a third of a metre a second

STICK_HALF = (0.05, 0.02, 0.02)  # m; Meta-World
STICK_MASS = 0.1  # kg, pine's density; Meta-World's 20 g are cork's half
STICK_END = (STICK_HALF[0], 0.0, 0.0)  # m, stick's frame
LIFTED = 0.01  # m above where it lay; Meta-World
REACHED = 0.12  # m from the thermos's point to the goal; Meta-World
AT_GOAL = 0.043  # m, what of it is left along the table where the goal lies 11 cm lower

THERMOS_POS, THERMOS_RADIUS = (0.2, 0.6, 0.0), 0.06  # m; Meta-World
MIDDLE_HEIGHT = 0.132  # m, of what is observed; Meta-World
LOOP_Y = -0.09  # m from the thermos's axis to the middle of its handle's window; Meta-World
ASIDE = 0.09  # m, y by which the thermos of `StickPull` stands farther away; Meta-World
THERMOS_MASS = 1.5  # kg, a litre; Meta-World: 3.3
THERMOS_DAMPING, THERMOS_FRICTION = 1.0, 3.0  # N s/m, Meta-World's; N, .2 of its weight, which stops it when left alone
NECK_RADIUS, SHOULDER = 0.035, 0.19  # m, of the thermos above a height: the gripper passes beside it
THERMOS_TRAVEL = ((-0.4, 0.215), (-0.4, 0.4))  # m, x and y; Meta-World's .2 either way would end short of some goals


class Hammer(Tabletop):
    """Task: drive a nail into a block with a hammer. Randomised: the hammer.

    Success: the nail more than 9 of its 10 cm in.
    """

    ranges = Ranges(Box((-0.1, 0.4, LYING), (0.1, 0.5, LYING)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "move": 2.0, "press": 3.0}
    hand_start = BACK
    language = Language.of(
        "Hammer the nail into the block.",
        "Pick up the hammer and drive the nail into the wood.",
        "Grasp the hammer and hit the nail until it is all in.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        hammer = objects.free_body(spec, "hammer")
        hammer.quat = [math.cos(LEAN / 2), 0, -math.sin(LEAN / 2), 0]
        shaft = {"size": [SHAFT_RADIUS, 0, 0], "fromto": [-SHAFT_HALF, 0, 0, SHAFT_HALF, 0, 0], "mass": SHAFT_MASS}
        objects.loose(hammer, type=objects.CAPSULE, rgba=objects.PINE, **shaft)
        head = {"size": HEAD_HALF, "pos": [HEAD_X, 0, 0], "mass": HEAD_MASS}
        objects.loose(hammer, type=objects.BOX, group=3, **head)
        for start, end, radius in ((-0.072, -0.04, 0.036), (-0.04, 0.04, 0.024), (0.04, 0.072, 0.036)):
            along = [HEAD_X, start, 0, HEAD_X, end, 0]
            objects.looks(hammer, type=objects.CYLINDER, size=[radius], fromto=along, rgba=objects.STEEL)
        objects.mark(spec, hammer, "face", FACE)
        block = spec.worldbody.add_body(name="block", pos=BLOCK_POS)
        objects.solid(block, type=objects.BOX, size=BLOCK_HALF, rgba=objects.PINE)
        nail = spec.worldbody.add_body(name="nail", pos=NAIL_POS)
        # Friction that holds what is so light: with MuJoCo's default .9 the nail creeps 2 cm a second under half of it.
        resistance = {"frictionloss": NAIL_FRICTION, "solimp_friction": [0.99, 0.99, 0.001, 0.5, 2]}
        resistance["damping"] = [NAIL_DAMPING, 0, 0]
        nail.add_joint(name="nail", type=SLIDE, axis=[0, 1, 0], range=[0, NAIL_TRAVEL], **resistance)
        side = 0.85 * NAIL_RADIUS
        objects.solid(nail, type=objects.BOX, size=[side, NAIL_HALF, side], mass=NAIL_MASS, group=3)
        for start, end, radius in ((-NAIL_HALF, NAIL_HALF, NAIL_RADIUS), (0, 0.13, 0.01)):
            along = [0, start, 0, 0, end, 0]
            objects.looks(nail, type=objects.CYLINDER, size=[radius], fromto=along, rgba=objects.STEEL)
        objects.watch(spec, 2, mujoco.mjtObj.mjOBJ_XBODY, "nail")

    def place(self, start: Array, goal: Array) -> Placement:
        del goal
        return Placement(jnp.array(NAIL_POS) + jnp.array([0.0, NAIL_TRAVEL, 0.0]), {"hammer": start})

    def depth(self, world: World) -> Array:
        """() m that the nail is in."""
        return world.qpos[self.model.joint("nail").qposadr[0]]

    def error(self, world: World, state: TaskState) -> Array:
        del state
        return jnp.maximum(NAIL_TRAVEL - self.depth(world), 0.0)

    def solved(self, world: World, state: TaskState) -> Array:
        del state
        return self.depth(world) > DRIVEN

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        del state
        shaft, struck = world["object1_pos"], world["object2_pos"] - jnp.array([0.0, NAIL_HALF, 0.0])
        held = grasp(world, shaft)
        return {
            "reach": reach(world, shaft, 0.01),
            "grasp": held,
            "move": both(held, near(distance(world["face"], struck), BESIDE_NAIL)),
            "press": share(self.depth(world), 0.0, DRIVEN),
        }

    def script(self, seen: Seen) -> Aim:
        """Fetch it, bring its face before the nail, and drive on until the nail is in.

        The shaft is taken in its middle: nearer to the head, the hand would meet the block.
        """
        nail = seen.other - jnp.array([0.0, NAIL_HALF, 0.0])
        missing = nail - seen.object - quat_rotate(seen.quat, jnp.array(FACE))
        beside = jnp.sqrt(jnp.square(missing[0]) + jnp.square(missing[2]))
        ahead = first(
            (seen.other[1] > NAIL_POS[1] + NAIL_TRAVEL - 0.004, -0.01), (beside < BESIDE_NAIL, FOLLOW), (True, -WIND_UP)
        )
        way = carry(seen, seen.grip + missing.at[1].add(ahead), start=0.06)
        return fetch(seen, seen.object, then=Aim(way, CLOSE))


class StickTask(Tabletop):
    """Base of the two stick tasks: a stick, and a thermos that slides on the table without tipping."""

    taken: ClassVar[float] = 0.0
    """m along the stick from its middle, where the fingers take it."""
    point: ClassVar[float] = 0.0
    """m, y from the thermos's axis to what is observed of it."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        stick = objects.free_body(spec, "stick")
        objects.loose(stick, type=objects.BOX, size=STICK_HALF, mass=STICK_MASS, rgba=objects.PINE)
        tip = [0.008, STICK_HALF[1] + 0.0005, STICK_HALF[2] + 0.0005]
        objects.looks(stick, type=objects.BOX, size=tip, pos=[STICK_HALF[0] - 0.0075, 0, 0], rgba=objects.RED)
        objects.mark(spec, stick, "stick_end", STICK_END)
        objects.mark(spec, stick, "stick_taken", (self.taken, 0.0, 0.0))
        self.add_thermos(spec)

    def add_thermos(self, spec: mujoco.MjSpec) -> None:
        """Round to look at, a capsule in contacts; its handle, upright and two bars, is a window of 7 by 12 cm."""
        thermos = spec.worldbody.add_body(name="thermos", pos=THERMOS_POS)
        resistance = {"damping": [THERMOS_DAMPING, 0, 0], "frictionloss": THERMOS_FRICTION}
        for name, axis, travel in zip(("thermos_x", "thermos_y"), np.eye(3)[:2], THERMOS_TRAVEL, strict=True):
            thermos.add_joint(name=name, type=SLIDE, axis=axis, range=travel, **resistance)
        for radius, low, high, mass in (
            (THERMOS_RADIUS, 0.0, SHOULDER, THERMOS_MASS),
            (NECK_RADIUS, SHOULDER - NECK_RADIUS, 0.33, 0.0),
        ):
            ends = [0, 0, low + radius, 0, 0, high - radius]
            objects.solid(thermos, type=objects.CAPSULE, size=[radius, 0, 0], fromto=ends, mass=mass, group=3)
        bars = (
            ([0.01, 0.005, 0.068], [0, -0.135, MIDDLE_HEIGHT]),
            ([0.01, 0.04, 0.005], [0, LOOP_Y, 0.195]),
            ([0.01, 0.04, 0.005], [0, LOOP_Y, 0.069]),
        )
        for size, pos in bars:
            objects.solid(
                thermos, type=objects.BOX, size=size, pos=pos, mass=0.01, rgba=objects.BLACK, **objects.SMOOTH
            )
        rings = (
            (0.0, 0.03, 0.062, objects.BLACK),
            (0.03, 0.17, THERMOS_RADIUS, objects.GREEN),
            (0.17, 0.185, 0.05, objects.GREEN),
            (0.185, 0.24, NECK_RADIUS, objects.STEEL),
            (0.24, 0.33, NECK_RADIUS + 0.003, objects.BLACK),
        )
        for low, high, radius, rgba in rings:
            upright = [0, 0, low, 0, 0, high]
            objects.looks(thermos, type=objects.CYLINDER, size=[radius], fromto=upright, rgba=rgba)
        thermos.add_site(name="thermos", pos=[0, self.point, MIDDLE_HEIGHT])
        objects.watch(spec, 2, mujoco.mjtObj.mjOBJ_SITE, "thermos")

    def error(self, world: World, state: TaskState) -> Array:
        return distance(world["object2_pos"], state.goal)


class StickPush(StickTask):
    """Task: push a thermos away with a stick. Randomised: the stick, and the goal a little.

    Success: the thermos within 12 cm of the goal while both pads hold the stick off the table.
    """

    ranges = Ranges(
        Box((-0.08, 0.58, STICK_HALF[2]), (-0.03, 0.62, STICK_HALF[2])),
        Box((0.399, 0.55, MIDDLE_HEIGHT), (0.401, 0.6, MIDDLE_HEIGHT)),
        apart=0.1,
    )
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "lift": 1.0, "move": 4.0}
    language = Language.of(
        "Push the thermos to the goal with the stick.",
        "Pick up the stick and shove the thermos to the right with it.",
        "Grasp the wooden stick and use it to push the green thermos to the target.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"stick": start})

    def solved(self, world: World, state: TaskState) -> Array:
        """The thermos is at the goal, and the stick between two pads that press, off the table."""
        touched = jnp.minimum(world["left_pad_touch"][0], world["right_pad_touch"][0]) > 0.0
        stick = world["object1_pos"]
        inside = jnp.abs(quat_rotate_inverse(world["object1_quat"], world["tcp_pos"] - stick))
        between = jnp.all(inside < jnp.array(STICK_HALF) + 0.01)
        lifted = stick[2] > STICK_HALF[2] + LIFTED
        return (self.error(world, state) <= REACHED) & touched & between & lifted

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        stick = world["object1_pos"]
        held = grasp(world, stick)
        return {
            "reach": reach(world, stick, 0.01),
            "grasp": held,
            "lift": held * share(stick[2], STICK_HALF[2], STICK_HALF[2] + 0.05),
            "move": both(held, near(self.error(world, state), REACHED)),
        }

    def script(self, seen: Seen) -> Aim:
        """Fetch it, hold its end against the middle of the thermos, and push until that is close to the goal."""
        end = seen.object + quat_rotate(seen.quat, jnp.array(STICK_END))
        surface = at_height(seen.other.at[0].add(-THERMOS_RADIUS), 0.1)
        ahead = jnp.clip(seen.goal[0] - 0.05 - seen.other[0], 0.0, FOLLOW)
        way = seen.grip + surface - end
        return fetch(seen, seen.object, then=Aim(carry(seen, way.at[0].add(ahead)), CLOSE))


class StickPull(StickTask):
    """Task: put a stick through a thermos's handle, and pull the thermos along. Randomised: stick and goal.

    Success: the handle within 12 cm of the goal, which lies 11 cm lower, with the stick through it.
    """

    ranges = Ranges(
        Box((-0.1, 0.55, STICK_HALF[2]), (0.0, 0.65, STICK_HALF[2])),
        Box((0.35, 0.45, 0.02), (0.45, 0.55, 0.02)),
        apart=0.1,
    )
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "insert": 2.0, "pull": 3.0}
    taken = -0.02
    point = LOOP_Y
    language = Language.of(
        "Pull the thermos to the goal with the stick.",
        "Put the stick through the handle of the thermos and pull it to the target.",
        "Grasp the wooden stick, hook the green thermos by its handle and drag it along.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, {"stick": start, "thermos_y": jnp.asarray(ASIDE)})

    def solved(self, world: World, state: TaskState) -> Array:
        """The handle is at the goal, and the stick's end beyond it, in its window."""
        ahead = world["stick_end"] - world["object2_pos"]
        through = (ahead[0] >= 0.0) & (jnp.abs(ahead[1]) <= 0.04) & (jnp.abs(ahead[2]) <= 0.06)
        return (self.error(world, state) <= REACHED) & through

    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        taken, handle = world["stick_taken"], world["object2_pos"]
        held, missing = grasp(world, taken), jnp.abs(world["stick_end"] - handle)
        short = jnp.maximum(handle[0] - world["stick_end"][0], 0.0)
        inserted = both(held, near(distance(missing.at[0].set(short), 0.0), 0.04))
        return {
            "reach": reach(world, taken, 0.01),
            "grasp": held,
            "insert": inserted,
            "pull": both(inserted, near(aside(handle, state.goal), AT_GOAL)),
        }

    def script(self, seen: Seen) -> Aim:
        """Fetch it by its other end, put it through the handle, and lead handle and thermos along."""
        end = seen.object + quat_rotate(seen.quat, jnp.array(STICK_END))
        taken = seen.object + quat_rotate(seen.quat, jnp.array([self.taken, 0.0, 0.0]))
        missing = seen.other - end
        beside = jnp.max(jnp.abs(missing[1:]))
        far = aside(seen.other, seen.goal)
        # Never back, or the stick slips out.
        lead = (seen.goal - seen.other).at[0].max(0.0) * jnp.minimum(1.0, FOLLOW / far)
        through = (missing[0] < 0.0) & (beside < 0.045)
        way = first(
            (through & (far < 0.5 * AT_GOAL), jnp.zeros(3)),
            (through, lead.at[2].set(missing[2])),
            (beside < jnp.where(missing[0] < 0.03, 0.02, 0.008), missing.at[0].add(FOLLOW)),
            (True, missing.at[0].add(-0.04)),
        )
        return fetch(seen, taken, then=Aim(carry(seen, seen.grip + way), CLOSE))
