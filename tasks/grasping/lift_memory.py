"""What an episode of the lifting tasks carries along."""

from __future__ import annotations

import dataclasses

import jax
from jax import Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """What an episode carries along."""

    item: Array
    """() int32, which of the task's objects."""
    palm: Array
    """(7,) where the palm shall be by the plan, in the world: m, wxyz."""
    pinch: Array
    """() bool, whether the plan is to take it between the fingertips."""
    shape: Array
    """(12,) the superquadric that the object was taken for: position m, quaternion wxyz, half axes m, exponents."""
    start: Array
    """(3,) m, where the object stood."""
    rest: Array
    """(7,) rad, the arm at the pre-grasp."""
    pos: Array
    """(3,) m, the palm's target."""
    quat: Array
    """(4,) wxyz, of it."""
    joints: Array
    """(7,) rad, targets of the arm's servos."""
    targets: Array
    """(m,) rad, targets of the fingers' servos."""
    action: Array
    """(6 + m,) the last action."""
    step: Array
    """() control steps since the episode began."""
    touched: Array
    """() bool, whether a finger has touched anything yet."""
    touching: Array
    """() fingers that touch something."""
    firm: Array
    """() bool, whether something was ever held between thumb and a finger; see `lift_script.FIRM`."""
    height: Array
    """() m, by which the object is raised."""
    distance: Array
    """() m, from the palm to where the object's centre was seen."""
    change: Array
    """(3,) by how much touching, height and distance changed in the last step."""
    held: Array
    """() s, for how long the object has been raised by 10 cm."""
