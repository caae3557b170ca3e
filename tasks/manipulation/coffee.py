"""A coffee machine and a cup: press the machine's button, push the cup to it, pull the cup away."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.world import World
from tasks.manipulation import objects
from tasks.manipulation.draws import Box, Ranges
from tasks.manipulation.rewards import near, reach, share
from tasks.manipulation.skills import CLOSE, OPEN, Aim, Seen, aside, at_height, carry, fetch, first, over, push, raised
from tasks.manipulation.tabletop import BACK, Memory, Placement, Tabletop

MACHINE_SIDE, MACHINE_BACK = 0.1, 0.098  # m from its origin to its sides and its back; Meta-World
HEAD_FRONT = -0.16  # m from its origin, y: in Meta-World -.183, where the wrist above the cup would touch it
HEAD_LOW = 0.2  # m: the hand passes below it with the fingers above a cup's rim; Meta-World .23, with a spout below it
MACHINE_TOP = 0.34  # m; Meta-World's .37 is above the hand's body, 20 cm along y, when the fingers are at the button
CUP_AHEAD = 0.22  # m from the machine's origin to a cup that stands before it, along -y; Meta-World

BUTTON = (0.0, -0.22, 0.3)  # m, the face, from the machine's origin; Meta-World
BUTTON_RADIUS, BUTTON_HALF = 0.032, 0.03  # m, radius and half the length; Meta-World
BUTTON_SIDE = 0.03  # m, half an edge of the box that stands for it in contacts
BUTTON_TRAVEL = 0.03  # m; Meta-World: at its end the face has come to the goal
BUTTON_MASS = 0.1  # kg; Meta-World
PRESSED = 0.02  # m between face and goal within which it is pressed; Meta-World
TOUCH = (0.0, -0.015, 0.02)  # m from the face's middle to the tcp when closed fingers touch it, the hand above the top

CUP_RADIUS, CUP_HEIGHT = 0.028, 0.066  # m; Meta-World
CUP_SIDE = 0.026  # m, half an edge of the box that stands for it in contacts
CUP_MASS = 0.11  # kg; Meta-World
HANDLE = 0.041  # m from the cup's axis to the middle of its handle
GRIP = 0.04  # m, height of the tcp at which the hand's body, 37 mm higher, is above the rim
CLEAR_RIM = 0.042  # m above GRIP from which the hand goes down: the fingertips, 9 mm below the tcp, clear the rim
ABOVE_RIM = 0.073  # m, height of the tcp above which the fingertips touch no cup on the table
LIFTED = 0.055  # m, height of the tcp at which the cup is off the table
REACHED = 0.07  # m between cup and goal; Meta-World

CHARCOAL = (0.20, 0.21, 0.24, 1.0)
COFFEE = (0.24, 0.13, 0.07, 1.0)
GLASS = (0.62, 0.78, 0.86, 1.0)
FORTH = (0.0, 1.0, 0.0)

APART = 0.15  # m from start to goal, at least; Meta-World
AT_MACHINE = Box((-0.05, 0.7, 0.0), (0.05, 0.75, 0.0))
AWAY = Box((-0.1, 0.55, 0.0), (0.1, 0.65, 0.0))
"""m, where the cup is drawn; Meta-World."""


class CoffeeButton(Tabletop):
    """Task: press the button of a coffee machine, below which a cup stands. Randomised: where the machine stands.

    Success: the button's face within 2 cm of the goal, along y.
    """

    hand_start = BACK
    ranges = Ranges(Box((-0.1, 0.8, 0.0), (0.1, 0.9, 0.0)))
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "press": 5.0}
    instruction = (
        "Press the button of the coffee machine.",
        "Push the coffee machine's round button in.",
        "Start the coffee machine by pressing its button.",
    )

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """The machine, and a cup that stands fast."""
        machine = coffee_machine(spec)
        long_button(machine)
        cup(machine.add_body(name="cup", pos=[0, -CUP_AHEAD, 0]), objects.solid)
        objects.watch(spec, 1, mujoco.mjtObj.mjOBJ_SITE, "face")

    def place(self, start: Array, goal: Array) -> Placement:
        """The machine where it was drawn; the goal is where the face is when the button is in."""
        del goal
        return Placement(start + jnp.asarray(BUTTON).at[1].add(BUTTON_TRAVEL), fixtures={"machine": start})

    def error(self, world: World, memory: Memory) -> Array:
        """From the button's face to the goal, along y."""
        return jnp.abs(world["object1_pos"][1] - memory.goal[1])

    def solved(self, world: World, memory: Memory) -> Array:
        """What is left is within 2 cm."""
        return self.error(world, memory) <= PRESSED

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The closed fingers at the button, the button on its way in."""
        return {
            "reach": reach(world, world["object1_pos"] + jnp.asarray(TOUCH), 0.01),
            "press": share(self.error(world, memory), BUTTON_TRAVEL, PRESSED),
        }

    def script(self, seen: Seen) -> Aim:
        """Up before the machine, forward to the button, then straight on, nearly to the end of the travel."""
        touch = jnp.asarray(TOUCH)
        ready, end = seen.object.at[1].add(-0.03) + touch, seen.goal.at[1].add(-0.005) + touch
        low = seen.tcp[2] < ready[2] - 0.03
        return first((low, Aim(over(seen, ready, ready[2], low), CLOSE)), (True, push(seen, ready, end, clear=0.0)))


class CupTask(Tabletop):
    """What coffee-push and coffee-pull share: a cup, a goal on the table, and the formula of success."""

    hand_start = BACK
    stages: ClassVar[Mapping[str, float]] = {"reach": 2.0, "move": 5.0}

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """The machine, and a cup."""
        flat_button(coffee_machine(spec))
        cup(objects.free_body(spec, "cup"), objects.loose)

    def solved(self, world: World, memory: Memory) -> Array:
        """The foot of the cup is within 7 cm of the goal."""
        return self.error(world, memory) <= REACHED

    def progress(self, world: World, memory: Memory) -> Mapping[str, Array]:
        """The hand at the cup, the cup near the goal."""
        return {
            "reach": reach(world, raised(world["object1_pos"], GRIP), 0.01),
            "move": near(self.error(world, memory), REACHED),
        }

    def script(self, seen: Seen) -> Aim:
        """Take the cup by its sides, from just above the rim, and lead it along, barely off the table."""
        grip = raised(seen.object, GRIP)
        lead = Aim(carry(seen, at_height(seen.goal, LIFTED), LIFTED), CLOSE)
        # Open fingers have 12 mm on either side of the cup: only above it may they be farther off.
        beside = (seen.tcp[2] > ABOVE_RIM) & (aside(seen.tcp, grip) > 0.006) & (seen.opening > 0.9)
        above = Aim(raised(grip, CLEAR_RIM), OPEN)
        return first((beside, above), (True, fetch(seen, grip, lead, CLEAR_RIM)))


class CoffeePush(CupTask):
    """Task: push a cup to the coffee machine. Randomised: the cup, and the goal with the machine behind it.

    Success: the cup's foot within 7 cm of the goal.
    """

    ranges = Ranges(AWAY, AT_MACHINE, APART)
    instruction = (
        "Push the cup to the coffee machine.",
        "Slide the cup under the coffee machine's button.",
        "Move the cup over the table until it stands before the coffee machine.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """The cup where it was drawn, the machine behind the goal."""
        return Placement(goal, {"cup": start}, {"machine": goal.at[1].add(CUP_AHEAD)})


class CoffeePull(CupTask):
    """Task: pull a cup away from the coffee machine. Randomised: the cup with the machine behind it, and the goal.

    Success: the cup's foot within 7 cm of the goal.
    """

    ranges = Ranges(AT_MACHINE, AWAY, APART)
    instruction = (
        "Pull the cup away from the coffee machine.",
        "Slide the cup from the coffee machine to the target.",
        "Move the cup over the table until it stands on the goal, away from the machine.",
    )

    def place(self, start: Array, goal: Array) -> Placement:
        """The cup where it was drawn, the machine behind it."""
        return Placement(goal, {"cup": start}, {"machine": start.at[1].add(CUP_AHEAD)})


def cup(body: mujoco.MjsBody, shape: Callable[..., mujoco.MjsGeom]) -> None:
    """A round cup with its foot at the body's origin and its handle towards x; `shape` is `solid` or `loose`."""
    half = CUP_HEIGHT / 2
    shape(body, name="cup", type=objects.BOX, size=[CUP_SIDE, CUP_SIDE, half], pos=[0, 0, half], mass=CUP_MASS, group=3)
    shape(body, name="handle", type=objects.BOX, size=[0.013, 0.004, 0.021], pos=[HANDLE, 0, half], mass=0, group=3)
    objects.disc(body, CUP_RADIUS - 0.005, 0.003, [0, 0, 0.003], objects.BLUE)
    objects.disc(body, CUP_RADIUS, half - 0.002, [0, 0, half + 0.002], objects.BLUE)
    objects.disc(body, CUP_RADIUS - 0.0025, 0.001, [0, 0, CUP_HEIGHT - 0.0007], objects.WHITE)
    objects.disc(body, CUP_RADIUS - 0.004, 0.001, [0, 0, CUP_HEIGHT - 0.0004], COFFEE)
    bends = (
        (0.026, 0.054),
        (0.042, 0.054),
        (0.050, 0.046),
        (0.050, 0.028),
        (0.042, 0.017),
        (0.026, 0.017),
    )
    for (x1, z1), (x2, z2) in itertools.pairwise(bends):
        ends = [x1, 0, z1, x2, 0, z2]
        objects.looks(body, type=objects.CAPSULE, size=[0.004, 0, 0], fromto=ends, rgba=objects.BLUE)


def coffee_machine(spec: mujoco.MjSpec) -> mujoco.MjsBody:
    """A fixture `machine` without its button, its foot at the origin, its front towards -y."""
    machine = objects.fixture(spec, "machine")
    body = between((-MACHINE_SIDE, -MACHINE_BACK, 0), (MACHINE_SIDE, MACHINE_BACK, MACHINE_TOP))
    head = between((-MACHINE_SIDE, HEAD_FRONT, HEAD_LOW), (MACHINE_SIDE, -MACHINE_BACK, MACHINE_TOP))
    objects.solid(machine, name="machine", **body, rgba=CHARCOAL)
    objects.solid(machine, name="machine_head", **head, group=3)
    dress(machine)
    return machine


def long_button(machine: mujoco.MjsBody) -> None:
    """A button that goes in along y; the site `face` is the middle of its face."""
    button = machine.add_body(name="button", pos=BUTTON)
    button.add_joint(
        name="button",
        type=mujoco.mjtJoint.mjJNT_SLIDE,
        axis=[0, 1, 0],
        range=[0, BUTTON_TRAVEL],
        damping=[1, 0, 0],
        solref_limit=[0.0125, 1],
    )
    half, middle = [BUTTON_SIDE, BUTTON_HALF, BUTTON_SIDE], [0, BUTTON_HALF, 0]
    objects.solid(button, name="button", type=objects.BOX, size=half, pos=middle, mass=BUTTON_MASS, group=3)
    objects.disc(button, BUTTON_RADIUS, BUTTON_HALF - 0.002, [0, BUTTON_HALF + 0.002, 0], objects.RED, axis=FORTH)
    objects.disc(button, BUTTON_RADIUS - 0.003, 0.003, [0, 0.003, 0], objects.RED, axis=FORTH)  # a chamfer
    button.add_site(name="face")


def flat_button(machine: mujoco.MjsBody) -> None:
    """A button to look at: above a cup before the machine, the wrist is where the face of a long one would be."""
    objects.disc(machine, BUTTON_RADIUS, 0.005, [0, HEAD_FRONT, BUTTON[2]], objects.RED, axis=FORTH)


def dress(machine: mujoco.MjsBody) -> None:
    """What makes it a coffee machine to look at: the visible head, spouts, a tray, steel plates, lights, a tank."""
    plates = (
        ((-0.1, HEAD_FRONT, 0.23), (0.1, -0.098, MACHINE_TOP), CHARCOAL),  # the head
        ((-0.09, HEAD_FRONT - 0.001, 0.245), (0.09, HEAD_FRONT, 0.33), objects.STEEL),  # its front
        ((-0.09, -0.15, MACHINE_TOP), (0.09, 0.045, MACHINE_TOP + 0.001), objects.STEEL),  # the top
        ((-0.08, -0.099, 0.02), (0.08, -0.098, 0.215), objects.STEEL),  # behind the cup
        ((-0.07, -0.165, 0), (0.07, -0.098, 0.004), objects.BLACK),  # the tray
        ((-0.085, 0.05, 0.05), (0.085, 0.0995, 0.32), GLASS),  # the tank, at the back
        ((-0.085, 0.05, 0.32), (0.085, 0.101, 0.3415), objects.BLACK),  # its lid
    )
    for low, high, rgba in plates:
        objects.looks(machine, **between(low, high), rgba=rgba)
    objects.disc(machine, 0.030, 0.006, [0, -0.128, 0.225], objects.STEEL)
    for x in (-0.012, 0.012):
        objects.disc(machine, 0.007, 0.011, [x, -0.128, 0.211], objects.BLACK)
    objects.disc(machine, BUTTON_RADIUS + 0.008, 0.003, [0, HEAD_FRONT, BUTTON[2]], objects.BLACK, axis=FORTH)
    for x in (-0.07, 0.07):
        objects.disc(machine, 0.005, 0.002, [x, HEAD_FRONT, BUTTON[2]], objects.GREEN, axis=FORTH)


def between(low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    """A box from one corner to the opposite one, (3) m each: type, middle and half its extents."""
    middle, half = ([(b + sign * a) / 2 for a, b in zip(low, high, strict=True)] for sign in (1, -1))
    return {"type": objects.BOX, "pos": middle, "size": half}
