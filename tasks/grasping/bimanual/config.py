"""Options that the tasks with hands on carriages share."""

from __future__ import annotations

import dataclasses

from embodied.core import randomization


@dataclasses.dataclass(frozen=True)
class Noise:
    """Observation noise: encoders, touch sensors and a good tracker of objects; our choice."""

    joint_pos: float = 0.02
    """rad, half-width, uniform."""
    object_pos: float = 0.003
    """m, half-width, uniform."""
    object_quat: float = 0.02
    """Standard deviation of each part of the object's quaternion."""
    object_linvel: float = 0.05
    """m/s, half-width, uniform."""


@dataclasses.dataclass(frozen=True)
class Variation:
    """Ranges, smallest and largest, from which every episode draws."""

    friction: tuple[float, float] = (0.6, 1.0)
    """Sliding friction of the object on everything."""
    object_mass: tuple[float, float] = (0.8, 1.2)
    """Factor on the object's mass and inertia."""
    object_centre: tuple[float, float] = (-0.003, 0.003)
    """m by which the object's centre of mass is shifted along each axis."""
    joint_friction: tuple[float, float] = (0.5, 2.0)
    """Factor on the friction torque of each of the hands' joints."""
    motor_strength: tuple[float, float] = (0.8, 1.2)
    """Factor on stiffness and damping of each of the hands' servos."""

    def __post_init__(self) -> None:
        """Check that every range is one."""
        randomization.require_ranges("vary", dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class HandlingConfig:
    """Options that all such tasks have."""

    finger_speed: float = 8.0
    """rad/s at which an action of 1 moves a finger servo's target."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """What every episode draws anew."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""

    def __post_init__(self) -> None:
        """Check the speed."""
        if not self.finger_speed > 0:
            raise ValueError(f"finger_speed={self.finger_speed} rad/s; expected a positive number")
