"""Robots of one's own: a model file, what was understood of it, and what its owner says in `robot.toml`."""

from embodied.robot.description import NAME, Description
from embodied.robot.picture import draw
from embodied.robot.robot import Joint, Kind, Robot

__all__ = ["NAME", "Description", "Joint", "Kind", "Robot", "draw"]
