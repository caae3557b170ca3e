"""Robots: a model file, its interpretation, and its description in `robot.toml` beside it."""

from embodied.robot.description import NAME, Description
from embodied.robot.named import named_robots, robot_file
from embodied.robot.picture import draw
from embodied.robot.robot import Joint, Kind, Robot
from embodied.robot.rotors import Airframe, Rotor
from embodied.robot.scene import joint_places, reachable_points, robot_scene
from embodied.robot.standard import forms_of, standard_model

__all__ = [
    "NAME",
    "Airframe",
    "Description",
    "Joint",
    "Kind",
    "Robot",
    "Rotor",
    "draw",
    "forms_of",
    "joint_places",
    "named_robots",
    "reachable_points",
    "robot_file",
    "robot_scene",
    "standard_model",
]
