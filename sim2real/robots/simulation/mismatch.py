"""`ModelMismatch`: parameters in which a simulated robot differs from the model its policy was trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated

import mujoco
import numpy as np

from embodied.errors import EmbodiedError
from embodied.storage.bounds import Bound, Bounded

SPREAD: Mapping[str, float] = {
    "mass": 0.1,  # payload, battery, cables
    "friction": 0.4,  # floors
    "motor_strength": 0.1,  # battery voltage, worn motors and propellers
    "joint_friction": 0.5,  # gearboxes, cold or worn
    "joint_damping": 0.5,
    "armature": 0.2,
    "encoder_bias": 0.02,  # rad
}
"""Half-width of each scale (rad for `encoder_bias`) in a draw of size 1: about what legged robots are calibrated to."""

A_SCALE = Bound("from 0.001 to 1000", lambda scale: 1e-3 <= scale <= 1e3)


@dataclasses.dataclass(frozen=True)
class ModelMismatch(Bounded):
    """Scales on the model's parameters; 1 everywhere is the model itself."""

    mass: Annotated[float, A_SCALE] = 1.0
    """Of every body, with its inertia."""
    friction: Annotated[float, A_SCALE] = 1.0
    """Sliding friction of the floor."""
    motor_strength: Annotated[float, A_SCALE] = 1.0
    """Stiffness and damping of servos; thrust of rotors."""
    joint_friction: Annotated[float, A_SCALE] = 1.0
    """Dry friction of every joint."""
    joint_damping: Annotated[float, A_SCALE] = 1.0
    """Viscous friction of every joint."""
    armature: Annotated[float, A_SCALE] = 1.0
    """Reflected inertia of every motor."""
    encoder_bias: tuple[float, ...] = ()
    """rad, of every joint; empty: none."""

    @classmethod
    def draw(cls, size: float, joints: int, seed: int) -> ModelMismatch:
        """Scales U(1 - size * spread, 1 + size * spread), `SPREAD` of each, for a robot with so many joints."""
        if not 0 <= size < 2:
            raise EmbodiedError(f"mismatch={size}; expected a size in [0, 2), where 0 is the model itself")
        rng = np.random.default_rng([seed, 1])
        drawn = {name: 1 + size * spread * rng.uniform(-1, 1) for name, spread in SPREAD.items()}
        bias = size * SPREAD["encoder_bias"] * rng.uniform(-1, 1, joints)
        return cls(**{**drawn, "encoder_bias": tuple(float(value) for value in bias)})  # type: ignore[arg-type]

    def times(self, other: ModelMismatch) -> ModelMismatch:
        """Product of the scales; the encoder bias of the first that has one."""
        scales = {
            field.name: getattr(self, field.name) * getattr(other, field.name)
            for field in dataclasses.fields(self)
            if field.name != "encoder_bias"
        }
        return ModelMismatch(**scales, encoder_bias=self.encoder_bias or other.encoder_bias)

    def fields(self, model: mujoco.MjModel) -> dict[str, np.ndarray]:
        """MjModel field -> values of this robot; only the fields that differ."""
        friction = model.geom_friction.copy()
        friction[model.geom_bodyid == 0, 0] *= self.friction
        values = {
            "body_mass": model.body_mass * self.mass,
            "body_inertia": model.body_inertia * self.mass,
            "geom_friction": friction,
            "actuator_gainprm": model.actuator_gainprm * self.motor_strength,
            "actuator_biasprm": model.actuator_biasprm * self.motor_strength,
            "dof_frictionloss": model.dof_frictionloss * self.joint_friction,
            "dof_damping": model.dof_damping * self.joint_damping,
            "dof_armature": model.dof_armature * self.armature,
        }
        return {name: value for name, value in values.items() if not np.array_equal(value, getattr(model, name))}

    def text(self) -> str:
        """All scales that are not 1, in a line."""
        names = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        said = [f"{name} x {value:.3f}" for name, value in names.items() if name != "encoder_bias" and value != 1]
        if any(self.encoder_bias):
            said.append(f"encoder_bias up to {max(map(abs, self.encoder_bias)):.3f} rad")
        return ", ".join(said) or "nothing"
