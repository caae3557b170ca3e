"""Actuators and passive joint forces by MuJoCo's formulas, for engines that take nothing but joint torques.

One description serves numpy and JAX: the functions take the array namespace as `xp`. Leading axes of
environments are allowed everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from embodied.errors import EngineError

FIELDS = (
    "actuator_gainprm",
    "actuator_biasprm",
    "actuator_gear",
    "actuator_ctrlrange",
    "actuator_forcerange",
    "jnt_actfrcrange",
    "jnt_stiffness",
    "qpos_spring",
    "dof_damping",
    "dof_frictionloss",
)
"""Model fields that these formulas read, each of which an episode may vary."""

BIAS = mujoco.mjtBias
TINY = 1e-9  # N s/m, N m s/rad: less damping than that is none
SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


@dataclasses.dataclass(frozen=True)
class Efforts:
    """Forces of actuators and joints at one instant."""

    actuator: Any
    """(..., nu) force of each actuator before its gear, N or N m."""
    driven: Any
    """(..., nv) force of all actuators on each degree of freedom, N or N m."""
    springs: Any
    """(..., nv) joint springs, N or N m."""
    damping: Any
    """(..., nv) viscous damping of the joints, N or N m."""

    @property
    def passive(self) -> Any:
        """(..., nv) springs and viscous damping, N or N m; dry friction is not among them."""
        return self.springs + self.damping


@dataclasses.dataclass(frozen=True)
class Servos:
    """The constant part of a model's actuators and joints: which acts on which."""

    dt: float
    """s per physics step."""
    moments: np.ndarray
    """(nu, nv) arms of each actuator's transmission before its gear, 1 for a joint, m or rad per that of the degree."""
    lengths: np.ndarray
    """(nu, nq) the same for positions: a transmission's length is linear in them."""
    joints: np.ndarray
    """(k,) ids of the hinges and slides."""
    joint_dofs: np.ndarray
    """(k,) their degrees of freedom."""
    joint_positions: np.ndarray
    """(k,) their addresses in qpos."""
    limited_ctrl: np.ndarray
    """(nu,) bool."""
    limited_force: np.ndarray
    """(nu,) bool."""
    limited_joint: np.ndarray
    """(k,) bool, whether the actuators' sum on the joint is limited."""
    biased: np.ndarray
    """(nu,) bool, whether the actuator has an affine bias, as position servos have."""
    inertia: np.ndarray
    """(nv,) kg m^2 or kg, of each degree of freedom at the reference pose."""
    overshooting: np.ndarray
    """(nv,) bool: hinges and slides so damped, by servos and by themselves, that a force held for a step would carry
    them beyond the speed at which it is balanced (of the nominal model, at the reference pose)."""
    size: int
    """nv."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel, engine: str) -> Servos:
        """Look up which actuator acts on which joints.

        Raises:
            EngineError: an actuator is not a motor, position or velocity servo on a hinge, a slide or a fixed tendon of
                them; names it.
        """
        for actuator in range(model.nu):
            if problem := _problem(model, actuator):
                name = model.actuator(actuator).name or f"#{actuator}"
                raise EngineError(
                    f"engine {engine} cannot drive the actuator {name!r}: {problem}; it drives motors, position and "
                    "velocity servos on hinges, slides and fixed tendons"
                )
        moments, lengths = np.zeros((model.nu, model.nv)), np.zeros((model.nu, model.nq))
        for actuator in range(model.nu):
            for joint, arm in _arms(model, actuator):
                moments[actuator, model.jnt_dofadr[joint]] += arm
                lengths[actuator, model.jnt_qposadr[joint]] += arm
        joints = np.flatnonzero(np.isin(model.jnt_type, SCALAR))
        return cls(
            dt=float(model.opt.timestep),
            moments=moments,
            lengths=lengths,
            joints=joints,
            joint_dofs=model.jnt_dofadr[joints],
            joint_positions=model.jnt_qposadr[joints],
            limited_ctrl=model.actuator_ctrllimited.astype(bool),
            limited_force=model.actuator_forcelimited.astype(bool),
            limited_joint=model.jnt_actfrclimited[joints].astype(bool),
            biased=model.actuator_biastype == int(BIAS.mjBIAS_AFFINE),
            inertia=model.dof_M0.copy(),
            overshooting=model.opt.timestep * _damping_of(model, moments) > model.dof_M0,
            size=model.nv,
        )

    def __call__(self, xp: Any, fields: Mapping[str, Any], qpos: Any, qvel: Any, ctrl: Any) -> Efforts:
        """The forces at a state.

        Args:
            xp: Array namespace, numpy or `jax.numpy`.
            fields: Model field -> values, those of `FIELDS` at least, each with the leading axes or without.
            qpos: (..., nq) m, rad.
            qvel: (..., nv) m/s, rad/s.
            ctrl: (..., nu) actuator inputs.

        Source: MuJoCo's documentation, "Actuation model": force = gain ctrl + b0 + b1 length + b2 velocity.
        """
        speed = self._speed_at(xp, fields, qvel)
        slope = xp.where(self.biased, fields["actuator_biasprm"][..., 2], 0.0)
        force = self._at_rest(xp, fields, qpos, ctrl) + slope * speed
        force = _clipped(xp, force, fields["actuator_forcerange"], self.limited_force)
        springs, damping = self._springs(fields, qpos), self._damping(fields, qvel)
        return Efforts(force, self._driven(xp, fields, force), springs @ self._spread, damping @ self._spread)

    def balance(
        self, fields: Mapping[str, np.ndarray], qpos: np.ndarray, qvel: np.ndarray, ctrl: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Speeds to which actuators, springs, damping and dry friction drive the `overshooting` joints, and the forces.

        The remaining force on a joint falls with the joint's speed; with servos at their largest force, by the damping
        alone. Several servos on a joint are taken as one, which is their sum.

        Returns:
            Speeds (..., nv) m/s, rad/s, at which no force remains; forces (..., nv) N, N m, not negative, that
            remain at the present speeds. Zeros for all other degrees of freedom.
        """
        rest, gear = self._at_rest(np, fields, qpos, ctrl), fields["actuator_gear"][..., 0]
        slope = np.where(self.biased, -fields["actuator_biasprm"][..., 2], 0.0)
        limits = fields["actuator_forcerange"]
        most = self._driven(np, fields, _clipped(np, rest, limits, self.limited_force))
        present = rest - slope * self._speed_at(np, fields, qvel)
        present = self._driven(np, fields, _clipped(np, present, limits, self.limited_force))
        damping, friction = fields["dof_damping"], fields["dof_frictionloss"]
        spring = self._springs(fields, qpos) @ self._spread
        speed = _beyond((gear * rest) @ self.moments + spring, friction)
        speed = speed / np.maximum(damping + (slope * gear**2) @ self.moments**2, TINY)
        fastest = np.abs(_beyond(most + spring, friction)) / np.maximum(damping, TINY)
        speed = np.clip(speed, -fastest, fastest)
        left = np.abs(present + spring - damping * qvel - friction * np.sign(qvel))
        zero = np.zeros(self.size)
        return np.where(self.overshooting, speed, zero), np.where(self.overshooting, np.maximum(left, friction), zero)

    def speed_feedback(self, xp: Any, fields: Mapping[str, Any], force: Any) -> Any:
        """(..., nv) N s/m or N m s/rad, damping of each degree of freedom by its servos.

        A servo whose force (..., nu) is at its limit adds none.
        """
        gear, bias = fields["actuator_gear"][..., 0], fields["actuator_biasprm"][..., 2]
        low, high = (fields["actuator_forcerange"][..., side] for side in (0, 1))
        free = ~self.limited_force | ((force > low) & (force < high))
        speed = -xp.where(self.biased & free, bias, 0.0) * gear**2
        return xp.sum(speed[..., None] * self.moments**2, axis=-2)

    def _speed_at(self, xp: Any, fields: Mapping[str, Any], qvel: Any) -> Any:
        """(..., nu) of each actuator's length, m/s or rad/s."""
        # Sums of products, not matrix products: on a GPU those may be rounded to 10 bits.
        return fields["actuator_gear"][..., 0] * xp.sum(qvel[..., None, :] * self.moments, axis=-1)

    def _at_rest(self, xp: Any, fields: Mapping[str, Any], qpos: Any, ctrl: Any) -> Any:
        """(..., nu) force of each actuator were its joints at rest, before its limits."""
        bias = fields["actuator_biasprm"]
        length = fields["actuator_gear"][..., 0] * xp.sum(qpos[..., None, :] * self.lengths, axis=-1)
        input_ = _clipped(xp, ctrl, fields["actuator_ctrlrange"], self.limited_ctrl)
        affine = xp.where(self.biased, bias[..., 0] + bias[..., 1] * length, 0.0)
        return fields["actuator_gainprm"][..., 0] * input_ + affine

    def _driven(self, xp: Any, fields: Mapping[str, Any], force: Any) -> Any:
        """(..., nv) the actuators' forces (..., nu) on the degrees of freedom, within the joints' limits."""
        # Sums by a matrix: several actuators may drive one joint.
        driven = (fields["actuator_gear"][..., 0] * force) @ self.moments
        limits = fields["jnt_actfrcrange"][..., self.joints, :]
        return _clipped(xp, driven[..., self.joint_dofs], limits, self.limited_joint) @ self._spread

    @functools.cached_property
    def _spread(self) -> np.ndarray:
        """(k, nv) zeros and ones: which degree of freedom each hinge and slide is."""
        spread = np.zeros((len(self.joints), self.size))
        spread[np.arange(len(self.joints)), self.joint_dofs] = 1.0
        return spread

    def _springs(self, fields: Mapping[str, Any], qpos: Any) -> Any:
        """(..., k) springs of the hinges and slides."""
        stretch = qpos[..., self.joint_positions] - fields["qpos_spring"][..., self.joint_positions]
        return -fields["jnt_stiffness"][..., self.joints] * stretch

    def _damping(self, fields: Mapping[str, Any], qvel: Any) -> Any:
        """(..., k) damping of the hinges and slides.

        It is that of an implicit step of the joint alone, so that no coefficient is too large for the step.
        """
        damping = fields["dof_damping"][..., self.joint_dofs]
        damping = damping / (1.0 + self.dt * damping / self.inertia[self.joint_dofs])
        return -damping * qvel[..., self.joint_dofs]


def add_rotor(inertia: np.ndarray, quat: np.ndarray, axis: np.ndarray, armature: float) -> tuple[Any, Any]:
    """A body's inertia with a joint's armature added about the joint's axis.

    MuJoCo's armature resists the joint's speed; a rigid link's inertia resists its speed in the world. The two
    are equal where the parent does not turn.

    Args:
        inertia: (3,) kg m^2, principal.
        quat: (4,) wxyz, principal axes -> body.
        axis: (3,) unit vector, body frame.
        armature: kg m^2.

    Returns:
        The principal inertia (3,) kg m^2 and its axes (4,) wxyz, principal axes -> body.
    """
    frame = np.zeros(9)
    mujoco.mju_quat2Mat(frame, quat)
    frame = frame.reshape(3, 3)
    values, vectors = np.linalg.eigh(frame @ np.diag(inertia) @ frame.T + armature * np.outer(axis, axis))
    vectors[:, 2] *= np.sign(np.linalg.det(vectors))  # a rotation, not a reflection
    result = np.zeros(4)
    mujoco.mju_mat2Quat(result, vectors.flatten())
    return values, result


def _clipped(xp: Any, value: Any, limits: Any, limited: np.ndarray) -> Any:
    """`value` (..., k) within `limits` (..., k, 2) where `limited` (k,)."""
    return xp.where(limited, xp.clip(value, limits[..., 0], limits[..., 1]), value)


def _beyond(force: np.ndarray, friction: np.ndarray) -> np.ndarray:
    """Remainder of a force after dry friction."""
    return np.sign(force) * np.maximum(np.abs(force) - friction, 0.0)


def _damping_of(model: mujoco.MjModel, moments: np.ndarray) -> np.ndarray:
    """(nv,) N s/m, N m s/rad: damping of each degree of freedom by servos and joints."""
    servo = np.where(model.actuator_biastype == int(BIAS.mjBIAS_AFFINE), -model.actuator_biasprm[:, 2], 0.0)
    scalar = np.zeros(model.nv, bool)
    scalar[model.jnt_dofadr[np.isin(model.jnt_type, SCALAR)]] = True
    return np.where(scalar, model.dof_damping, 0.0) + (servo * model.actuator_gear[:, 0] ** 2) @ moments**2


def _arms(model: mujoco.MjModel, actuator: int) -> list[tuple[int, float]]:
    """The joints that an actuator moves, each with its arm: a joint by itself, or those of a fixed tendon."""
    target = int(model.actuator_trnid[actuator, 0])
    if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT:
        return [(target, 1.0)]
    wraps = slice(model.tendon_adr[target], model.tendon_adr[target] + model.tendon_num[target])
    return [(int(j), float(arm)) for j, arm in zip(model.wrap_objid[wraps], model.wrap_prm[wraps], strict=True)]


def _problem(model: mujoco.MjModel, actuator: int) -> str:
    """Reason why an actuator is not supported; empty if it is."""
    transmission = model.actuator_trntype[actuator]
    by_tendon = transmission == mujoco.mjtTrn.mjTRN_TENDON
    if transmission != mujoco.mjtTrn.mjTRN_JOINT and not by_tendon:
        return f"its transmission is {_name(mujoco.mjtTrn, transmission)}"
    if by_tendon:
        first = model.tendon_adr[model.actuator_trnid[actuator, 0]]
        if model.wrap_type[first] != mujoco.mjtWrap.mjWRAP_JOINT:
            return "its tendon is spatial"
    for joint, _ in _arms(model, actuator):
        if int(model.jnt_type[joint]) not in SCALAR:
            return f"its joint is of type {_name(mujoco.mjtJoint, model.jnt_type[joint])}"
    if model.actuator_dyntype[actuator] != mujoco.mjtDyn.mjDYN_NONE:
        return f"it has the activation dynamics {_name(mujoco.mjtDyn, model.actuator_dyntype[actuator])}"
    if model.actuator_gaintype[actuator] != mujoco.mjtGain.mjGAIN_FIXED:
        return f"its gain is {_name(mujoco.mjtGain, model.actuator_gaintype[actuator])}"
    if mujoco.mjtBias(int(model.actuator_biastype[actuator])) not in (BIAS.mjBIAS_NONE, BIAS.mjBIAS_AFFINE):
        return f"its bias is {_name(mujoco.mjtBias, model.actuator_biastype[actuator])}"
    return ""


def _name(enum: Any, value: int) -> str:
    """`mjJNT_HINGE` -> `hinge`."""
    return enum(int(value)).name.split("_", 1)[1].lower()
