# ruff: noqa: D101 -- each class is its base on one robot, and inherits its docstring
"""Unitree's quadrupeds and their tasks. Masses, inertias, motor constants and their origin are in the MJCF files."""

from __future__ import annotations

from tasks.locomotion.getup import Getup
from tasks.locomotion.joystick import Joystick, RoughJoystick
from tasks.locomotion.robots import quadruped
from tasks.locomotion.two_feet import Footstand, Handstand

GO1 = quadruped("go1", foot_radius=0.023, height=0.278)
GO2 = quadruped("go2", foot_radius=0.022, height=0.2868)


class Go1Joystick(Joystick):
    robot = GO1


class Go1RoughJoystick(RoughJoystick):
    robot = GO1


class Go1Getup(Getup):
    robot = GO1


class Go1Handstand(Handstand):
    robot = GO1


class Go1Footstand(Footstand):
    robot = GO1


class Go2Joystick(Joystick):
    robot = GO2


class Go2RoughJoystick(RoughJoystick):
    robot = GO2


class Go2Getup(Getup):
    robot = GO2


class Go2Handstand(Handstand):
    robot = GO2


class Go2Footstand(Footstand):
    robot = GO2
