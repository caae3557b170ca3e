"""Multirotors: places and strengths of their rotors, and the rigid body that they carry."""

from embodied.robot.rotors.airframe import find_airframe
from embodied.robot.rotors.places import has_rotors, without_rotors
from embodied.robot.rotors.rotor import GRAVITY, Airframe, Rotor

__all__ = ["GRAVITY", "Airframe", "Rotor", "find_airframe", "has_rotors", "without_rotors"]
