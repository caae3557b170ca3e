"""Third-party model files: only parsed, their meshes found, their faults fixed and reported."""

from embodied.robot.files.mjcf import compiled, driven_joints
from embodied.robot.files.model import COLLISIONS, PRIMITIVES, ModelFile, read_model
from embodied.robot.files.xml import content

__all__ = ["COLLISIONS", "PRIMITIVES", "ModelFile", "compiled", "content", "driven_joints", "read_model"]
