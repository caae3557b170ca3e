"""A lever that locks a door: turn it down, and up again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.rotations import quat_rotate
from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.doors import FINGER, HINGE, LEAF, frame, leaf
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.rewards import reach, share
from tasks.manipulation.skills import OPEN, Aim, Seen, push
from tasks.manipulation.tabletop import BACK, Memory, Placement, Tabletop

# m, Meta-World's measures.
PIVOT = (0.0, -0.118, 0.061)  # of the lever, in the door's frame
LEVER_POS, LEVER = (0.042, -0.024, 0.0), (0.05, 0.019, 0.01)  # from the pivot; half its extents
LOCKED_POINT, UNLOCKED_POINT = (0.09, -0.04, 0.01), (0.09, -0.04, -0.01)  # from the pivot: what is observed
BAR_HEIGHT = -0.05  # of the door's handle, in the frame
RANGE = (-0.1, 1.7)  # rad; Meta-World's 0 to 1.57 give way to its hand

# m from the pivot, ours: the lever has a grip towards the robot, as a Panda's hand, 10 cm wide either way, does not
# come as near to the door as the lever is.
GRIP_X, GRIP_END, GRIP_RADIUS = 0.08, -0.14, 0.012
GRIP_Y = -0.11  # where the script touches it

LEVER_MASS, GRIP_MASS = 0.2, 0.05  # kg, aluminium and plastic; Meta-World's 1 g together would be lighter than cork
DAMPING = 2.0  # N m s/rad; Meta-World
ARMATURE = 0.03  # kg m^2, ours: contacts go soft where it is small beside the damping times the time step
LEAD = 0.1  # m by which a push aims ahead, at most


class LockTask(Tabletop):
    """What locking and unlocking share: a door that is shut, and a lever on it that turns on an axis along y."""

    ranges = Ranges(Box((-0.1, 0.8, 0.15), (0.1, 0.85, 0.15)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "turn": 5.0}
    hand_start = BACK  # at Meta-World's (0, .6) the hand would begin inside lever and door
    reached = 0.02
    """m; Meta-World."""
    point: ClassVar[tuple[float, float, float]]
    """m from the lever's pivot: what is observed."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """A frame, a door that does not turn, a lever that does."""
        door = frame(spec, shut=True)
        leaf(door, shut=True, height=BAR_HEIGHT)
        plate = {"size": [0.047, 0.004, 0.047], "pos": [PIVOT[0], HINGE[1] - LEAF[1] - 0.003, PIVOT[2]]}
        objects.looks(door, type=objects.BOX, rgba=objects.STEEL, **plate)
        lever = door.add_body(name="lever", pos=PIVOT, gravcomp=1)  # a lock's catch would hold it where it is
        turn = {"axis": [0, 1, 0], "range": RANGE, "damping": [DAMPING, 0, 0], "armature": ARMATURE}
        lever.add_joint(name="lever", type=mujoco.mjtJoint.mjJNT_HINGE, **turn)
        arm = {"size": LEVER, "pos": LEVER_POS, "mass": LEVER_MASS}
        objects.solid(lever, type=objects.BOX, rgba=objects.RED, **arm)
        ends = [GRIP_X, LEVER_POS[1], 0, GRIP_X, GRIP_END + GRIP_RADIUS, 0]
        grip = {"fromto": ends, "size": [GRIP_RADIUS, 0, 0], "mass": GRIP_MASS}
        objects.solid(lever, type=objects.CAPSULE, rgba=objects.BLACK, **grip)
        boss = {"size": [0.022, 0.022, 0], "pos": [0, -0.012, 0], "quat": [1, 1, 0, 0]}
        objects.looks(lever, type=objects.CYLINDER, rgba=objects.STEEL, **boss)
        lever.add_site(name="point", pos=self.point, group=4)
        objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "point")
        objects.mark(spec, lever, "grip_pos", (GRIP_X, GRIP_Y, 0.0))

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within `reached`."""
        return self.error(world, memory) <= self.reached

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The fingertips at the grip, the lever turned."""
        return {
            "reach": reach(world, world["grip_pos"], 0.06),
            "turn": share(self.error(world, memory), 0.11, self.reached),
        }

    def grip(self, seen: Seen) -> Array:
        """The tcp (3) m with the far finger of the open hand at the grip, so that its body passes before the lever."""
        ahead = quat_rotate(seen.quat, jnp.array([GRIP_X, GRIP_Y, 0.0]) - jnp.array(self.point))
        return seen.object + ahead - jnp.array([0.0, FINGER, 0.0])


class DoorLock(LockTask):
    """Task: turn a lever down, from lying to hanging. Randomised: where its door stands.

    Success: the lever's point within 2 cm of the goal's height.
    """

    point = LOCKED_POINT
    instruction = (
        "Lock the door.",
        "Turn the red lever on the door down.",
        "Press the lever of the lock until it hangs.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """The door where it was drawn, its lever lying."""
        goal = start + jnp.array([0.0, -0.158, -0.039])
        return Placement(goal, {"lever": jnp.zeros(())}, {"door": start})

    def error(self, world: World, memory: Memory) -> Array:
        """From the lever's point to the goal, along z."""
        return jnp.abs(world["object1_pos"][2] - memory.goal[2])

    def script(self, seen: Seen) -> Aim:
        """Press on the grip from above, and follow it around."""
        grip = self.grip(seen)
        start, end = (grip + quat_rotate(seen.quat, jnp.array([0.0, 0.0, off])) for off in (0.05, 0.021 - LEAD))
        return Aim(push(seen, start, end).tcp, OPEN)


class DoorUnlock(LockTask):
    """Task: turn a lever up, from hanging to lying. Randomised: where its door stands.

    Success: the lever's point within 2 cm of the goal's x.
    """

    point = UNLOCKED_POINT
    instruction = (
        "Unlock the door.",
        "Turn the red lever on the door up.",
        "Push the lever of the lock to the right until it lies.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """The door where it was drawn, its lever hanging."""
        goal = start + jnp.array([0.1, -0.158, 0.061])
        return Placement(goal, {"lever": jnp.asarray(math.pi / 2)}, {"door": start})

    def error(self, world: World, memory: Memory) -> Array:
        """From the lever's point to the goal, along x."""
        return jnp.abs(world["object1_pos"][0] - memory.goal[0])

    def script(self, seen: Seen) -> Aim:
        """Push the grip to the right from its left side, and lift it by the fingers' friction; stop when it lies."""
        grip = self.grip(seen)
        lead = jnp.clip(seen.goal[0] - 0.01 - seen.object[0], 0.0, LEAD)
        start, end = (grip + jnp.stack([ahead - 0.023, 0.0, -0.005]) for ahead in (-0.03, lead))
        return Aim(push(seen, start, end).tcp, OPEN)
