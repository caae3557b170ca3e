"""`Parameter`: one unknown number of a robot's twin, and how its value enters the model."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import mujoco
import numpy as np

from embodied.errors import EmbodiedError, ModelError, UnknownNameError, listing

OFF_BOUND = 0.1
"""Spreads between a start and a bound: where friction or damping begins at zero, Gauss-Newton may never leave it."""


class CalibrationError(EmbodiedError):
    """A calibration that cannot be made, read or applied."""


class Kind(StrEnum):
    """Kind of a parameter. All but the last two groups are values in a MuJoCo model."""

    MASS = "mass"
    """kg of a body; its inertia scales along, as that of a body of another density."""
    INERTIA = "inertia"
    """Factor on a body's moments of inertia about its centre of mass."""
    COM_X = "com_x"
    """m, centre of mass in the body's frame; likewise y and z."""
    COM_Y = "com_y"
    COM_Z = "com_z"
    PAYLOAD = "payload"
    """kg fixed to a body at a site: a point mass."""
    FRICTION = "friction"
    """N m, Coulomb friction of a joint."""
    FRICTION_TIME = "friction_time"
    """s within which dry friction brings a slow joint to rest: `solreffriction[0]`. MuJoCo's friction creeps, that of
    most robots, and of other simulators, hardly does."""
    DAMPING = "damping"
    """N m s/rad, viscous friction of a joint."""
    ARMATURE = "armature"
    """kg m^2, rotor inertia seen from the joint."""
    STRENGTH = "strength"
    """Factor on the force of an actuator, gains and bias together."""
    STIFFNESS = "stiffness"
    """N m/rad, proportional gain of a position servo."""
    SERVO_DAMPING = "servo_damping"
    """N m s/rad, velocity gain of a position servo."""

    ENCODER_BIAS = "encoder_bias"
    """rad that a joint's encoder reads too much; its servo is misled alike."""
    DELAY = "delay"
    """s from the time a command is logged until it acts, of those that arrive."""
    LOSS = "loss"
    """Share of the commands that never arrive; the one before stays in force."""

    DRONE_MASS = "drone_mass"
    """kg."""
    DRONE_INERTIA = "drone_inertia"
    """Factor on all moments of inertia."""
    THRUST = "thrust"
    """Factor on the thrust of every rotor."""
    THRUST_SHAPE = "thrust_shape"
    """Factor on the linear part of the thrust curve, with the thrust at hover kept."""
    TORQUE = "torque"
    """Factor on the reaction torque of every rotor."""
    SPEED_UP = "speed_up"
    """Factor on the rate at which rotors speed up."""
    SPEED_DOWN = "speed_down"
    """Factor on the rate at which rotors slow down."""
    DRAG_XY = "drag_xy"
    """N s/m, drag along the body's x and y."""
    DRAG_Z = "drag_z"
    """N s/m."""
    PROPELLER_INERTIA = "propeller_inertia"
    """kg m^2 of each propeller about its axis: it resists turning, and pushes the body back when it speeds up."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One unknown. Calibration starts from `nominal` and stays within the bounds."""

    kind: Kind
    target: str
    """Name of the body, joint or actuator; of several that share the value, a pattern; empty for what the whole robot
    has once."""
    nominal: float
    """Value in the model, without any log."""
    lower: float
    upper: float
    spread: float
    """Standard deviation of the prior, which is normal about `nominal`. It has no effect on what the log identifies,
    and keeps at its nominal value what the log does not."""
    unit: str = "1"
    free: bool = True
    """Whether it is estimated; otherwise it stays at `nominal`."""
    known: bool = False
    """Whether `nominal` was measured elsewhere, or is to count as if it had been."""
    shared: tuple[str, ...] = ()
    """Names of the bodies, joints or actuators that have this one value together; empty: `target` alone."""

    def __post_init__(self) -> None:
        if not (self.lower <= self.nominal <= self.upper and self.lower < self.upper and self.spread > 0):
            raise CalibrationError(
                f"parameter '{self.name}': nominal {self.nominal:g} in [{self.lower:g}, {self.upper:g}], spread "
                f"{self.spread:g}; expected lower <= nominal <= upper, lower < upper and a positive spread"
            )

    @property
    def name(self) -> str:
        """`target.kind`, or the kind alone: unique in a twin."""
        return f"{self.target}.{self.kind.value}" if self.target else self.kind.value

    @property
    def assumed(self) -> bool:
        """Whether it is neither estimated nor known: it stays at `nominal`, but all else may be wrong by its spread."""
        return not (self.free or self.known)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of all that have the value."""
        return self.shared or (self.target,)

    @property
    def start(self) -> float:
        """Initial value of the estimation: the nominal value, a little off a bound it may lie on."""
        margin = min(OFF_BOUND * self.spread, (self.upper - self.lower) / 2)
        return min(max(self.nominal, self.lower + margin), self.upper - margin)


COMMANDS = (
    Parameter(Kind.DELAY, "", 0.0, 0.0, 0.05, 0.02, "s"),
    Parameter(Kind.LOSS, "", 0.0, 0.0, 0.5, 0.1),
)
"""Parameters of the command channel of any robot."""


def _named(spec: mujoco.MjSpec, kind: str, name: str) -> Any:
    """The body, joint, actuator or site of this name."""
    found = getattr(spec, kind)(name)
    if found is None:
        known = spec.bodies if kind == "body" else getattr(spec, f"{kind}s")
        raise UnknownNameError(kind, name, [other.name for other in known if other.name])
    return found


def _scale_inertia(body: Any, factor: float) -> None:
    """Moments and products alike: a positive multiple of a valid inertia is one."""
    _require_inertia(body)
    if np.isfinite(body.fullinertia).all():
        body.fullinertia = np.asarray(body.fullinertia) * factor
    else:
        body.inertia = np.asarray(body.inertia) * factor


def _require_inertia(body: Any) -> None:
    if not (body.explicitinertial and body.mass > 0):
        raise ModelError(f"body '{body.name}' has no inertial element; calibration needs one to change its mass")


def state_inertia(spec: mujoco.MjSpec, names: Iterable[str]) -> None:
    """Write mass and inertia into bodies that have them of their shapes alone, in place: then they can be changed."""
    implied = [body for name in names if (body := spec.body(name)) is not None and not body.explicitinertial]
    if not implied:
        return
    model = spec.compile()
    for body in implied:
        if model.body_mass[body.id] > 0:
            body.explicitinertial = True
            body.mass, body.ipos = model.body_mass[body.id], model.body_ipos[body.id]
            body.inertia, body.iquat = model.body_inertia[body.id], model.body_iquat[body.id]
            body.fullinertia = np.full(6, np.nan)


def _set_mass(spec: mujoco.MjSpec, name: str, value: float) -> None:
    body = _named(spec, "body", name)
    _require_inertia(body)
    _scale_inertia(body, value / body.mass)
    body.mass = value


def _add_payload(spec: mujoco.MjSpec, name: str, value: float) -> None:
    """Add a point mass at a site to the mass, centre of mass and inertia of the site's body."""
    if not value:
        return
    site = _named(spec, "site", name)
    body, place = site.parent, np.asarray(site.pos, float)
    _require_inertia(body)
    mass, centre = body.mass, np.array(body.ipos, float)
    whole = mass + value
    apart = place - centre
    # About the common centre of mass, in the body's frame: Steiner's share of both.
    added = mass * value / whole * (apart @ apart * np.eye(3) - np.outer(apart, apart))
    inertia = inertia_of(body) + added
    body.mass, body.ipos = whole, centre + value / whole * apart
    body.iquat, body.inertia = [1.0, 0.0, 0.0, 0.0], np.zeros(3)
    body.fullinertia = [*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]


def inertia_of(body: Any) -> np.ndarray:
    """(3, 3) kg m^2 about the body's centre of mass, along the axes of the body's frame."""
    full = np.asarray(body.fullinertia)
    if np.isfinite(full).all():
        xx, yy, zz, xy, xz, yz = full
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.asarray(body.iquat, float))
    turn = turn.reshape(3, 3)
    return turn @ np.diag(np.asarray(body.inertia)) @ turn.T


def _set_joint(field: str) -> Callable[[mujoco.MjSpec, str, float], None]:
    """Write a number, or the first of several."""

    def apply(spec: mujoco.MjSpec, name: str, value: float) -> None:
        joint = _named(spec, "joint", name)
        # Damping is a polynomial of the speed's magnitude; its first coefficient is the viscous one.
        vector = np.ndim(getattr(joint, field)) > 0
        setattr(joint, field, [value, *np.ravel(getattr(joint, field))[1:]] if vector else value)

    return apply


def _set_entries(kind: str, *rows: tuple[str, int, float]) -> Callable[[mujoco.MjSpec, str, float], None]:
    """Write `sign * value` into entries of a body's or an actuator's fields."""

    def apply(spec: mujoco.MjSpec, name: str, value: float) -> None:
        part = _named(spec, kind, name)
        for field, index, sign in rows:
            numbers = np.array(getattr(part, field), float)
            numbers[index] = sign * value
            setattr(part, field, numbers)

    return apply


def _scale_actuator(spec: mujoco.MjSpec, name: str, value: float) -> None:
    actuator = _named(spec, "actuator", name)
    for field in ("gainprm", "biasprm"):
        setattr(actuator, field, np.array(getattr(actuator, field), float) * value)


APPLY: Mapping[Kind, Callable[[mujoco.MjSpec, str, float], None]] = {
    Kind.MASS: _set_mass,
    Kind.INERTIA: lambda spec, name, value: _scale_inertia(_named(spec, "body", name), value),
    Kind.COM_X: _set_entries("body", ("ipos", 0, 1.0)),
    Kind.COM_Y: _set_entries("body", ("ipos", 1, 1.0)),
    Kind.COM_Z: _set_entries("body", ("ipos", 2, 1.0)),
    Kind.PAYLOAD: _add_payload,
    Kind.FRICTION: _set_joint("frictionloss"),
    Kind.FRICTION_TIME: _set_joint("solref_friction"),
    Kind.DAMPING: _set_joint("damping"),
    Kind.ARMATURE: _set_joint("armature"),
    Kind.STRENGTH: _scale_actuator,
    Kind.STIFFNESS: _set_entries("actuator", ("gainprm", 0, 1.0), ("biasprm", 1, -1.0)),
    Kind.SERVO_DAMPING: _set_entries("actuator", ("biasprm", 2, -1.0)),
}
"""Setters of values in a model. Other kinds act outside of it: `delay`, `loss`, `encoder_bias`, all of a drone's."""
INERTIAL = (Kind.MASS, Kind.INERTIA, Kind.COM_X, Kind.COM_Y, Kind.COM_Z)
"""Kinds that change a body's inertia, which must be stated for that."""
FACTORS = (Kind.STRENGTH, Kind.INERTIA)
"""Kinds whose values multiply what stands in the model."""
ORDER = (Kind.INERTIA, Kind.STRENGTH, Kind.PAYLOAD)
"""Kinds that go last, in this order, upon what the others set."""


def apply(spec: mujoco.MjSpec, parameters: Sequence[Parameter], values: Sequence[float] | np.ndarray) -> None:
    """Write values into a spec, in place. What derives from them follows when the spec is compiled.

    Raises:
        UnknownNameError: the spec lacks a body, joint or actuator.
        ModelError: a body's inertia is not explicit.
    """
    pairs = [pair for pair in zip(parameters, values, strict=True) if pair[0].kind in APPLY]
    turn = lambda pair: ORDER.index(pair[0].kind) if pair[0].kind in ORDER else -1  # noqa: E731
    for parameter, value in sorted(pairs, key=turn):
        for name in parameter.members:
            APPLY[parameter.kind](spec, name, float(value))


def read(model: mujoco.MjModel, kind: Kind, target: str) -> float:
    """The nominal value of a parameter in a compiled model."""
    readers: Mapping[Kind, Callable[[], float]] = {
        Kind.MASS: lambda: model.body(target).mass[0],
        Kind.COM_X: lambda: model.body(target).ipos[0],
        Kind.COM_Y: lambda: model.body(target).ipos[1],
        Kind.COM_Z: lambda: model.body(target).ipos[2],
        Kind.FRICTION: lambda: model.joint(target).frictionloss[0],
        Kind.DAMPING: lambda: np.ravel(model.joint(target).damping)[0],
        Kind.FRICTION_TIME: lambda: model.dof_solref[model.joint(target).dofadr[0], 0],
        Kind.ARMATURE: lambda: model.joint(target).armature[0],
        Kind.STIFFNESS: lambda: model.actuator(target).gainprm[0],
        Kind.SERVO_DAMPING: lambda: -model.actuator(target).biasprm[2],
    }
    return float(readers[kind]()) if kind in readers else float(kind in FACTORS)


def choose(
    parameters: Sequence[Parameter], free: Sequence[str], fix: Sequence[str], known: Mapping[str, float]
) -> tuple[Parameter, ...]:
    """The parameters with some freed, some fixed and some set, by patterns such as `*.mass`.

    Raises:
        UnknownNameError: a pattern fits none.
        CalibrationError: a known value lies outside the bounds.
    """
    names = [parameter.name for parameter in parameters]
    for pattern in (*free, *fix, *known):
        if not fnmatch.filter(names, pattern):
            raise UnknownNameError("parameter", pattern, names)
    chosen = []
    for parameter in parameters:
        if any(fnmatch.fnmatchcase(parameter.name, pattern) for pattern in free):
            parameter = dataclasses.replace(parameter, free=True)
        if any(fnmatch.fnmatchcase(parameter.name, pattern) for pattern in fix):
            parameter = dataclasses.replace(parameter, free=False, known=True)
        for pattern, value in known.items():
            if fnmatch.fnmatchcase(parameter.name, pattern):
                if not (math.isfinite(value) and parameter.lower <= value <= parameter.upper):
                    bounds = f"[{parameter.lower:g}, {parameter.upper:g}]"
                    raise CalibrationError(f"'{parameter.name}' = {value:g} {parameter.unit} is outside {bounds}")
                parameter = dataclasses.replace(parameter, nominal=value, free=False, known=True)
        chosen.append(parameter)
    if not any(parameter.free for parameter in chosen):
        raise CalibrationError(f"no parameter is left to estimate of {listing(names)}")
    return tuple(chosen)
