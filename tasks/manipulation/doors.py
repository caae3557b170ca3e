"""A door in a frame: pull it open by its handle, push it shut."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.rotations import quat_rotate, quat_rotate_inverse, yaw_from_quat
from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.rewards import distance, reach, share
from tasks.manipulation.skills import CLOSE, OPEN, Aim, Seen, aside, at_height, first, over, push, raised
from tasks.manipulation.tabletop import LEFT, Memory, Placement, Tabletop

# m, Meta-World's measures. The frame's origin is its middle, 15 cm above the table; the leaf's is on its hinge.
FRAME = (0.22, 0.106, 0.15)  # half its extents
POST, LINTEL = 0.016, 0.012  # half the breadth of what it is made of
HINGE = (-0.185, -0.1, 0.0)  # in the frame
LEAF_X, LEAF = 0.185, (0.18, 0.01, 0.123)  # from the hinge to the leaf's middle; half its extents
BAR_X, BAR_Y, BAR_HALF, BAR_RADIUS = 0.381, -0.12, 0.075, 0.02  # from the hinge; half the length, with its round ends
STEM_X, STEM_RADIUS = 0.325, 0.013  # from the hinge
HANDLE = (0.376, -0.107, 0.0)  # from the hinge: what is observed
OPENED = -2.0  # rad, the hinge's limit

LEAF_MASS, HANDLE_MASS = 1.8, 0.4  # kg; Meta-World's 2.23 together
DAMPING = 2.0  # N m s/rad; Meta-World
OAK = (0.66, 0.52, 0.35, 1.0)

# For the scripts, m from the handle's point in the leaf's frame: where a finger is that touches bar or leaf.
BEHIND_BAR, BEFORE_BAR, BEHIND_LEAF = 0.019, -0.048, 0.132  # its middle, across the door
BY_STEM = -0.046  # along the bar: where it is pushed
ON_LEAF = (-0.11, 0.115)  # tcp, along and up: fingers reach 16 mm below the leaf's edge; the hand clears the frame
FINGER = 0.0475  # m along y from the tcp to the middle of an open finger, which is 15 mm thick
AJAR = -0.35  # rad at which there is room for the hand behind the door
LEAD = 0.1  # m by which a push aims ahead, at most


def frame(spec: mujoco.MjSpec, shut: bool = False) -> mujoco.MjsBody:
    """A fixture `door`: two posts, lintels and a back. Where it stays shut, one block stands for it and its leaf."""
    body = objects.fixture(spec, "door")
    width, depth, height = FRAME
    if shut:
        objects.solid(body, name="block", type=objects.BOX, size=FRAME, group=3)
    part = objects.looks if shut else objects.solid
    for side in (-1, 1):
        post = {"size": [POST, depth, height], "pos": [side * (width - POST), 0, 0]}
        part(body, type=objects.BOX, rgba=objects.WHITE, **post)
    beam = {"size": [width - 2 * POST, depth, LINTEL], "rgba": objects.WHITE}
    part(body, type=objects.BOX, pos=[0, 0, height - LINTEL], **beam)
    objects.looks(body, type=objects.BOX, pos=[0, 0, LINTEL - height], **beam)
    back = {"size": [width - 2 * POST, 0.006, height - LINTEL], "pos": [0, depth - 0.006, 0]}
    objects.looks(body, type=objects.BOX, rgba=objects.STEEL, **back)
    for z in (-0.085, 0.085):
        barrel = {"size": [0.007, 0.018, 0], "pos": [HINGE[0] - 0.004, HINGE[1] - 0.010, z]}
        objects.looks(body, type=objects.CYLINDER, rgba=objects.STEEL, **barrel)
    return body


def leaf(door: mujoco.MjsBody, shut: bool = False, height: float = 0.0) -> mujoco.MjsBody:
    """The leaf of a door in its frame, with two panels, and a bar for a handle, at a height in m; on the hinge."""
    body = door.add_body(name="leaf", pos=HINGE)
    board = {"size": LEAF, "pos": [LEAF_X, 0, 0], "rgba": objects.PINE, "mass": LEAF_MASS}
    (objects.looks if shut else objects.solid)(body, type=objects.BOX, **board)
    for z in (-0.06, 0.06):
        panel = {"size": [0.105, LEAF[1] + 0.0015, 0.045], "pos": [LEAF_X - 0.035, 0, z]}
        objects.looks(body, type=objects.BOX, rgba=OAK, **panel)
    inner = BAR_HALF - BAR_RADIUS
    for radius, start, end in (
        (STEM_RADIUS, (STEM_X, 0.0), (STEM_X, BAR_Y)),
        (BAR_RADIUS, (BAR_X - inner, BAR_Y), (BAR_X + inner, BAR_Y)),
    ):
        rod = {"fromto": [*start, height, *end, height], "size": [radius, 0, 0], "mass": HANDLE_MASS / 2}
        objects.solid(body, type=objects.CAPSULE, rgba=objects.STEEL, **rod)
    rosette = {"size": [0.028, 0.004, 0], "pos": [STEM_X, -LEAF[1] - 0.003, height], "quat": [1, 1, 0, 0]}
    objects.looks(body, type=objects.CYLINDER, rgba=objects.STEEL, **rosette)
    return body


class DoorTask(Tabletop):
    """What opening and closing share: a door on a vertical hinge, and its handle."""

    ranges = Ranges(Box((0.0, 0.85, 0.15), (0.1, 0.95, 0.15)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "turn": 5.0}
    reached = 0.08
    """m; Meta-World."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A frame, and a door that turns in it."""
        door = leaf(frame(spec))
        hinge = {"axis": [0, 0, 1], "range": [OPENED, 0], "damping": [DAMPING, 0, 0]}
        door.add_joint(name="hinge", type=mujoco.mjtJoint.mjJNT_HINGE, **hinge)
        door.add_site(name="handle", pos=HANDLE, group=4)
        objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "handle")
        objects.mark(spec, door, "bar_pos", (BAR_X, BAR_Y, 0.0))

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within `reached`."""
        return self.error(world, memory) <= self.reached


class DoorOpen(DoorTask):
    """Task: pull a door open. Randomised: where it stands.

    Success: the handle's x within 8 cm of the goal's, a right angle away; further open it is none.
    """

    instruction = (
        "Open the door.",
        "Pull the door open by its handle until it is at the goal.",
        "Swing the door open to a right angle.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """The door where it was drawn, closed."""
        goal = start + jnp.array([-0.3, -0.45, 0.0])
        return Placement(goal, {"hinge": jnp.zeros(())}, {"door": start})

    def error(self, world: World, memory: Memory) -> Array:
        """From the handle to the goal, along x."""
        return jnp.abs(world["object1_pos"][0] - memory.goal[0])

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The fingertips at the bar, the handle near the goal."""
        return {
            "reach": reach(world, world["bar_pos"], 0.06),
            "turn": share(self.error(world, memory), 0.49, self.reached),
        }

    def script(self, seen: Seen) -> Aim:
        """Pull it ajar by its bar; then reach behind it and push, until the handle is where it should be.

        One way alone does not do: with the bar, the hand would come too near to the robot.
        """
        lead = jnp.clip(seen.object[0] - seen.goal[0], -LEAD, LEAD)
        return first((yaw_from_quat(seen.quat) > AJAR, self.pull(seen, lead)), (True, self.press(seen, lead)))

    def pull(self, seen: Seen, lead: Array) -> Aim:
        """Hook the far finger of the open hand behind the bar: nearer to the door there is no room for the hand."""
        hook = jnp.array([0.0, BEHIND_BAR, 0.0])
        behind, touching, ahead = (
            seen.object + quat_rotate(seen.quat, hook.at[1].add(by)) - jnp.array([0.0, FINGER, 0.0])
            for by in (0.02, 0.0, -lead)
        )
        way = over(seen, behind, behind[2] + 0.045, aside(seen.tcp, behind) > 0.035)
        hooked = (aside(seen.tcp, touching) < 0.05) & (seen.tcp[2] < touching[2] + 0.02)
        return Aim(jnp.where(hooked, ahead, way), OPEN)

    def press(self, seen: Seen, lead: Array) -> Aim:
        """Over the leaf, and against its upper edge from behind, with closed fingers and the hand above the leaf."""
        push_at = jnp.array([ON_LEAF[0], BEHIND_LEAF, ON_LEAF[1]])
        beyond, behind, ahead = (
            seen.object + quat_rotate(seen.quat, push_at.at[1].add(by)) for by in (0.06, 0.02, -lead)
        )
        across = quat_rotate_inverse(seen.quat, seen.tcp - seen.object)[1]
        above, before = seen.tcp[2] - behind[2], across < -HANDLE[1]
        way = first(
            (before & (above < -0.015), at_height(seen.tcp, behind[2] + 0.055)),
            (before | ((above > 0.01) & (across < BEHIND_LEAF - 0.015)), raised(beyond, 0.04)),
            (above > 0.01, behind),
            (True, ahead),
        )
        return Aim(way, CLOSE)


class DoorClose(DoorTask):
    """Task: push a door shut that is open at a right angle. Randomised: where it stands.

    Success: the handle within 8 cm of where it is when the door is shut.
    """

    hand_start = LEFT  # Meta-World's too: the hand is before the door that is open
    instruction = (
        "Close the door.",
        "Push the door shut by its handle.",
        "Swing the open door back into its frame.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """The door where it was drawn, open at a right angle."""
        goal = start + jnp.array([0.2, -0.2, 0.0])
        return Placement(goal, {"hinge": jnp.asarray(-math.pi / 2)}, {"door": start})

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The fingertips at the bar, the handle near the goal."""
        return {
            "reach": reach(world, world["bar_pos"], 0.06),
            "turn": share(self.error(world, memory), 0.565, self.reached),
        }

    def script(self, seen: Seen) -> Aim:
        """Push with closed fingers against the bar, before its stem."""
        lead = jnp.minimum(distance(seen.object, seen.goal), LEAD)
        ways = (jnp.stack([BY_STEM, BEFORE_BAR + by, 0.0]) for by in (-0.03, lead))
        start, end = (seen.object + quat_rotate(seen.quat, way) for way in ways)
        return push(seen, start, end, clear=0.0)
