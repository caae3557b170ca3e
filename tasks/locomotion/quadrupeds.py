"""The tasks of a four-legged robot, made from its description."""

from __future__ import annotations

from typing import Any

from tasks.locomotion.getup import Getup
from tasks.locomotion.joystick import Joystick, RoughJoystick
from tasks.locomotion.legged import LeggedTask
from tasks.locomotion.robots import LeggedRobot
from tasks.locomotion.two_feet import Footstand, Handstand

BASES: tuple[type[LeggedTask[Any]], ...] = (Joystick, RoughJoystick, Getup, Handstand, Footstand)
"""Every task that any quadruped can be given."""


def tasks_of(robot: LeggedRobot) -> tuple[type[LeggedTask[Any]], ...]:
    """Each of `BASES` for one robot, in their order."""
    prefix = robot.name.capitalize()
    return tuple(
        type(f"{prefix}{base.__name__}", (base,), {"robot": robot, "__doc__": base.__doc__, "__module__": __name__})
        for base in BASES
    )
