"""Options of the lifting tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from embodied.core import randomization

RAISED = 0.1  # m, by which an object must be raised
HELD = 1.0  # s, for which it must stay there
SPARE = 0.03  # m, above which nothing more is earned by rising
OTHER_VARIATIONS: Mapping[str, str] = {
    "place": "the object U(-config.vary.place, place) m in x and y and U(-yaw, yaw) rad off where it was seen",
    "observation_noise": "noise on joints and on the object's position, see config.noise",
}
"""What differs between episodes besides the object and the model's own fields: name -> description."""


@dataclasses.dataclass(frozen=True)
class Noise:
    """Observation noise, our choice."""

    joint_pos: float = 0.02
    """rad, half-width, uniform."""
    object_pos: float = 0.005
    """m, half-width, uniform: of the position that the camera tracks."""


@dataclasses.dataclass(frozen=True)
class Variation:
    """What every episode draws, besides an object and one of its planned grasps; our choice."""

    place: float = 0.005
    """m, half-width: how far the object stands from where it was seen, along x and along y."""
    yaw: float = 0.05
    """rad, half-width: how far it is turned about the vertical from how it was seen."""
    friction: tuple[float, float] = (0.8, 1.2)
    """Factor on the object's friction; on fingertips theirs counts, which is 1."""
    mass: tuple[float, float] = (0.8, 1.2)
    """Factor on its mass and inertia."""
    joint_friction: tuple[float, float] = (0.5, 2.0)
    """Factor on each finger joint's friction torque."""
    motor_strength: tuple[float, float] = (0.9, 1.1)
    """Factor on each finger servo's stiffness and damping."""

    def __post_init__(self) -> None:
        """Check that every range is one."""
        if self.place < 0 or self.yaw < 0:
            raise ValueError(f"vary.place={self.place}, vary.yaw={self.yaw}; expected 0 or more")
        names = ("friction", "mass", "joint_friction", "motor_strength")
        randomization.require_ranges("vary", {name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms: the proportions of G-PAYN's, a tenth of its scale."""

    touching: float = 0.1
    """Fingers that begin to touch something, less those that cease."""
    lifting: float = 100.0
    """m by which the object rises, times the share of fingers that touch, from two on; and by which it falls."""
    approach: float = 10.0
    """m by which the palm comes nearer to where the object's centre was seen, until the first touch."""
    raised: float = 0.5
    """In every step in which the object is held above 10 cm, by half of the fingers or more."""
    action: float = -0.001
    """Squared action."""
    lost: float = -1.0
    """Once, when the object is pushed away."""


@dataclasses.dataclass(frozen=True)
class LiftConfig:
    """Options of the lifting tasks."""

    objects: str = "train"
    """train, held-out, household or all; or the name of one object."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """What every episode draws anew."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""
