"""Robots of one's own: a model file, what was understood of it, and what its owner says in `robot.toml`."""

from embodied.robots.description import NAME, Description
from embodied.robots.picture import draw
from embodied.robots.robot import Joint, Kind, Robot

__all__ = ["NAME", "Description", "Joint", "Kind", "Robot", "draw"]
