"""What turns on a hinge and stays as it is left: a faucet and a dial; a lever is in `levers.py`."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.objects import BLACK, BOX, CAPSULE, RED, STEEL, WHITE
from tasks.manipulation.rewards import distance, reach, share
from tasks.manipulation.skills import Aim, Seen, push, raised
from tasks.manipulation.tabletop import BACK, MIDDLE, Memory, Placement, Tabletop

QUARTER = math.pi / 2
AHEAD = 0.5  # rad by which the hand is led ahead of what it turns
BEHIND = 0.03  # m that the hand comes down behind its place in contact

# m, from the middle of the faucet's foot; Meta-World.
KNOB_HEIGHT = 0.124
KNOB_RADIUS, POST_RADIUS = 0.032, 0.017
BAR_NEAR, BAR_END, BAR_RADIUS = 0.065, 0.175, 0.017  # from the hinge along the bar

# m, from the middle of the dial's foot; Meta-World.
DIAL_RADIUS, DIAL_HEIGHT = 0.05, 0.036
RIB = (0.015, 0.046, 0.015)  # half its extents


class TurningTask(Tabletop):
    """What these tasks and the lever's share: something on a hinge, and a point on it with a place to be turned to."""

    hand_start = BACK
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "turn": 5.0}
    hinge: ClassVar[tuple[float, float, float]]
    """m from the foot."""
    axis: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 1.0)
    limits: ClassVar[tuple[float, float]]
    """rad."""
    damping: ClassVar[float] = 2.0
    """N m s/rad; Meta-World."""
    friction: ClassVar[float]
    """N m, dry: what is turned stays as it is left."""
    point: ClassVar[tuple[float, float, float]]
    """m from the hinge, what is observed; Meta-World."""
    target: ClassVar[tuple[float, float, float]]
    """m from the foot, the goal; Meta-World."""
    reached = 0.07
    """m within which the goal is reached; Meta-World."""

    @abc.abstractmethod
    def build(self, foot: mujoco.MjsBody, turner: mujoco.MjsBody) -> None:
        """Shapes of what stands fast, and of what turns."""

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """What stands fast, and on it what turns."""
        foot = objects.fixture(spec, "foot")
        turner = foot.add_body(name="turner", pos=self.hinge)
        brake = {"frictionloss": self.friction, "solimp_friction": [0.999, 0.999, 0.001, 0.5, 2]}  # else it creeps
        hinge = {"axis": self.axis, "range": self.limits, "damping": [self.damping, 0, 0], **brake, **objects.STOP}
        turner.add_joint(name="hinge", type=mujoco.mjtJoint.mjJNT_HINGE, **hinge)
        self.build(foot, turner)
        turner.add_site(name="point", pos=self.point, group=4)
        objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "point")

    def place(self, start: Array, goal: Array) -> Placement:
        """As it was drawn, at its zero."""
        return Placement(start + jnp.asarray(self.target), {}, {"foot": start})

    def angle(self, world: World) -> Array:
        """() rad, of the hinge."""
        return world.qpos[self.model.joint("hinge").qposadr[0]]

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within `reached`."""
        return self.error(world, memory) <= self.reached


def sweep(seen: Seen, pivot: Array, arm: float, gap: float, end: float) -> Aim:
    """Turn what is on an upright hinge, by pushing with closed fingers from zero to an angle (rad, from -y to +x).

    `pivot`: (3) m, a point of the hinge, at the height of the tcp; `arm`: m from it to where the fingers push; `gap`:
    m from the line of hinge and observed point to the tcp when the fingers touch.
    """
    side = math.copysign(1.0, end)
    offset = seen.object - pivot
    angle = jnp.arctan2(offset[0], -offset[1])

    def touching(angle: Array, gap: float) -> Array:
        x, y = jnp.sin(angle), -jnp.cos(angle)
        return pivot + jnp.stack([arm * x + side * gap * y, arm * y - side * gap * x, jnp.zeros(())])

    ahead = side * jnp.minimum(side * angle + AHEAD, abs(end))
    return push(seen, touching(angle, gap + BEHIND), touching(ahead, gap))


class FaucetTask(TurningTask):
    """What opening and closing a faucet share."""

    hinge = (0.0, 0.0, KNOB_HEIGHT)
    limits = (-2.2, 2.2)
    friction = 0.2
    offset = (0.0, 0.0, 0.0)
    """m, added to the point before it is measured; Meta-World."""

    def build(self, foot: mujoco.MjsBody, turner: mujoco.MjsBody) -> None:
        """A post with a spout, on top of it a knob with a bar."""
        top = KNOB_HEIGHT - 0.02
        post = [0, 0, POST_RADIUS, 0, 0, top]
        objects.solid(foot, type=CAPSULE, size=[1.2 * POST_RADIUS, 0, 0], fromto=post, group=3)
        objects.disc(foot, 0.046, 0.006, (0, 0, 0.006), STEEL)
        objects.disc(foot, 0.040, 0.009, (0, 0, 0.009), STEEL)
        objects.disc(foot, POST_RADIUS, top / 2, (0, 0, top / 2), STEEL)
        for spout in ([0, 0, 0.07, 0, 0.10, 0.10], [0, 0.10, 0.10, 0, 0.12, 0.07]):
            objects.looks(foot, type=CAPSULE, size=[0.012, 0, 0], fromto=spout, rgba=STEEL)
        objects.disc(turner, KNOB_RADIUS, 0.02, (0, 0, 0), STEEL)
        objects.disc(turner, KNOB_RADIUS - 0.01, 0.0205, (0, 0, 0), WHITE)
        objects.looks(turner, type=CAPSULE, size=[0.012, 0, 0], fromto=[0, 0, 0, 0, -BAR_NEAR, 0], rgba=STEEL)
        bar = [0, -BAR_NEAR, 0, 0, -BAR_END, 0]
        objects.solid(turner, type=CAPSULE, size=[BAR_RADIUS, 0, 0], fromto=bar, mass=0.27, rgba=RED)

    def error(self, world: World, memory: Memory) -> Array:
        """From the point, and its offset, to the goal."""
        return distance(world["object1_pos"] + jnp.asarray(self.offset), memory.goal)

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The fingertips at the bar's end, the bar turned."""
        return {
            "reach": reach(world, world["object1_pos"], 0.03),
            "turn": share(self.error(world, memory), 0.25, self.reached),
        }

    def script(self, seen: Seen) -> Aim:
        """Push the bar from its side, a quarter turn."""
        pivot = seen.goal - jnp.array([self.target[0], 0.0, 0.005])
        return sweep(seen, pivot, 0.15, 0.016, math.copysign(QUARTER, self.target[0]))


class FaucetOpen(FaucetTask):
    """Task: turn a faucet's bar to the right, counterclockwise. Randomised: where the faucet stands.

    Success: the point 4 cm left of and 3 cm above the bar's left side, near its end, within 7 cm of 17.5 cm right of
    the hinge; so the bar turned by 79 to 111 degrees.
    """

    ranges = Ranges(Box((-0.05, 0.8, 0.0), (0.05, 0.85, 0.0)))
    point = (-0.015, -0.175, -0.01)
    offset = (-0.04, 0.0, 0.03)
    target = (0.175, 0.0, 0.125)
    instruction = (
        "Open the faucet.",
        "Turn the red bar of the faucet to the right.",
        "Swing the faucet's handle counterclockwise by a quarter turn.",
    )


class FaucetClose(FaucetTask):
    """Task: turn a faucet's bar to the left, clockwise. Randomised: where the faucet stands.

    Success: the bar's right side, near its end, within 7 cm of 17.5 cm left of the hinge; so the bar turned by 73 to
    117 degrees.
    """

    ranges = Ranges(Box((-0.1, 0.8, 0.0), (0.1, 0.85, 0.0)))
    point = (0.015, -0.175, -0.01)
    target = (-0.175, 0.0, 0.125)
    instruction = (
        "Close the faucet.",
        "Turn the red bar of the faucet to the left.",
        "Swing the faucet's handle clockwise by a quarter turn.",
    )


class DialTurn(TurningTask):
    """Task: turn a dial. Randomised: where it stands.

    Success: a point on its rim, at the bottom of its axis, within 7 cm of 3 cm above and behind that axis; so the dial
    turned by 78 degrees or more, either way.
    """

    hand_start = MIDDLE
    ranges = Ranges(Box((-0.1, 0.7, 0.0), (0.1, 0.8, 0.0)))
    hinge = (0.0, 0.0, 0.0)
    limits = (-math.pi, math.pi)
    damping = 1.0
    friction = 0.1
    point = (0.0, -0.05, 0.0)
    target = (0.0, 0.03, 0.03)
    instruction = (
        "Turn the dial.",
        "Rotate the red knob by more than a quarter turn.",
        "Push the dial's rib around until it points away from the robot.",
    )

    def build(self, foot: mujoco.MjsBody, turner: mujoco.MjsBody) -> None:
        """A disc with a rib across, on a plate with a scale. For contacts the disc is a block that does not turn."""
        half, top = 0.8 * DIAL_RADIUS, DIAL_HEIGHT / 2
        objects.solid(foot, type=BOX, size=[half, half, top], pos=[0, 0, top], group=3)
        objects.disc(foot, 0.072, 0.003, (0, 0, 0.003), WHITE)
        for tick in range(12):
            angle = tick * math.pi / 6
            mark: Sequence[float] = [0.061 * math.sin(angle), -0.061 * math.cos(angle), 0.006]
            size = [0.0015, 0.006, 0.0008]
            objects.looks(foot, type=BOX, size=size, pos=mark, euler=[0, 0, angle], rgba=BLACK)
        objects.disc(turner, DIAL_RADIUS, top, (0, 0, top), STEEL)
        objects.disc(turner, DIAL_RADIUS - 0.004, 0.001, (0, 0, DIAL_HEIGHT), BLACK)
        rib = [0, 0, DIAL_HEIGHT + RIB[2]]
        objects.solid(turner, type=BOX, size=RIB, pos=rib, mass=0.37, rgba=RED)
        pointer = [0, -RIB[1] + 0.012, DIAL_HEIGHT + 2 * RIB[2]]
        objects.looks(turner, type=BOX, size=[0.0025, 0.01, 0.0006], pos=pointer, rgba=WHITE)

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The fingertips at the rib's near end, the dial turned."""
        rib = raised(world["object1_pos"], DIAL_HEIGHT + RIB[2])
        return {"reach": reach(world, rib, 0.03), "turn": share(jnp.abs(self.angle(world)), 0.0, math.radians(78))}

    def script(self, seen: Seen) -> Aim:
        """Push the rib's near end to the left, and on around the hinge."""
        pivot = seen.goal - jnp.asarray(self.target) + jnp.array([0.0, 0.0, 0.052])
        return sweep(seen, pivot, 0.035, 0.027, -2.2)
