"""Sensors from the motion of bodies, with MuJoCo's semantics, for engines that have no sensors of their own.

Position and velocity sensors are exact functions of the state. The accelerometer is the change of its site's
velocity over the last physics step, less gravity; touch and actuator forces come from the engine. One
description serves numpy and JAX (`xp`), with any leading axes of environments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.errors import EngineError
from embodied.math.tracing import traced_once

S = mujoco.mjtSensor
O = mujoco.mjtObj  # noqa: E741


@dataclasses.dataclass(frozen=True)
class Bodies:
    """Pose and motion of every body of a model, the world's included."""

    pos: Any
    """(..., nbody, 3) m, origin of the body frame (MuJoCo's xpos), world frame."""
    quat: Any
    """(..., nbody, 4) wxyz, body -> world."""
    vel: Any
    """(..., nbody, 3) m/s of the body frame's origin, world frame."""
    angvel: Any
    """(..., nbody, 3) rad/s, world frame."""
    ipos: Any
    """(..., nbody, 3) m, centre of mass in the body frame."""
    iquat: Any
    """(..., nbody, 4) wxyz, principal axes -> body."""


@dataclasses.dataclass(frozen=True)
class Forces:
    """Forces that were felt in the last physics step."""

    before: Bodies
    """The bodies at its beginning."""
    actuator: Any
    """(..., nu) N or N m."""
    driven: Any
    """(..., nv) force of the actuators on each degree of freedom, N or N m."""
    touch: Any
    """(..., touch sensors) N, in the order of the model's sensors."""
    user: Any = None
    """(..., numbers of the user sensors), in their order; of engines that fill them in."""


@dataclasses.dataclass(frozen=True)
class Frames:
    """Pose and motion of each frame sensor's own frame."""

    pos: Any
    """(..., k, 3) m, world frame."""
    quat: Any
    """(..., k, 4) wxyz, sensor -> world."""
    vel: Any
    """(..., k, 3) m/s, world frame."""
    angvel: Any
    """(..., k, 3) rad/s, world frame."""

    def part(self, first: int, end: int) -> Frames:
        """Those of some of the k sensors."""
        rows = slice(first, end)
        return Frames(
            self.pos[..., rows, :], self.quat[..., rows, :], self.vel[..., rows, :], self.angvel[..., rows, :]
        )


NEXT, AFTER = np.array([1, 2, 0]), np.array([2, 0, 1])


def cross(xp: Any, a: Any, b: Any) -> Any:
    """`a` x `b`, (..., 3); `numpy.cross` takes ten times as long on a few vectors."""
    if xp is np:  # half the time of the general way, which JAX compiles better
        return a.take(NEXT, -1) * b.take(AFTER, -1) - a.take(AFTER, -1) * b.take(NEXT, -1)
    return _cross(a, b)


@traced_once()
def _cross(a: Array, b: Array) -> Array:
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    return jnp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def rotate(xp: Any, quat: Any, vector: Any) -> Any:
    """`vector` (..., 3) turned by unit quaternions (..., 4) wxyz from body to world."""
    w, u = quat[..., :1], quat[..., 1:]
    turned = 2.0 * cross(xp, u, vector)
    return vector + w * turned + cross(xp, u, turned)


def rotate_inverse(xp: Any, quat: Any, vector: Any) -> Any:
    """`vector` (..., 3) turned from world to body."""
    return rotate(xp, quat * np.array([-1.0, 1.0, 1.0, 1.0]), vector)


def multiply(xp: Any, a: Any, b: Any) -> Any:
    """The rotation `b` followed by the rotation `a`, (..., 4) wxyz."""
    aw, au, bw, bu = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    scalar = aw * bw - xp.sum(au * bu, axis=-1, keepdims=True)
    return xp.concatenate([scalar, aw * bu + bw * au + cross(xp, au, bu)], axis=-1)


def at_rest(model: mujoco.MjModel) -> Bodies:
    """The bodies at the reference pose without motion: the world's row is right, the others are placeholders."""
    count = model.nbody
    quat = np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
    return Bodies(
        np.zeros((count, 3)), quat, np.zeros((count, 3)), np.zeros((count, 3)), model.body_ipos, model.body_iquat
    )


def _axis(index: int) -> Callable[..., Any]:
    return lambda xp, now, _before, _change: rotate(xp, now.quat, xp.asarray(np.eye(3)[index]))


FRAME_READERS: dict[mujoco.mjtSensor, Callable[..., Any]] = {
    S.mjSENS_FRAMEPOS: lambda xp, now, before, change: now.pos,
    S.mjSENS_FRAMEQUAT: lambda xp, now, before, change: now.quat,
    S.mjSENS_FRAMEXAXIS: _axis(0),
    S.mjSENS_FRAMEYAXIS: _axis(1),
    S.mjSENS_FRAMEZAXIS: _axis(2),
    S.mjSENS_FRAMELINVEL: lambda xp, now, before, change: now.vel,
    S.mjSENS_FRAMEANGVEL: lambda xp, now, before, change: now.angvel,
    S.mjSENS_VELOCIMETER: lambda xp, now, before, change: rotate_inverse(xp, now.quat, now.vel),
    S.mjSENS_GYRO: lambda xp, now, before, change: rotate_inverse(xp, now.quat, now.angvel),
    # MuJoCo evaluates accelerations at the beginning of a step.
    S.mjSENS_ACCELEROMETER: lambda xp, now, before, change: rotate_inverse(xp, before.quat, change),
}
"""Sensor type -> reading (..., k, size) from frames now and before the last step, and acceleration felt (..., k, 3)."""

OTHERS = (
    S.mjSENS_JOINTPOS,
    S.mjSENS_JOINTVEL,
    S.mjSENS_ACTUATORFRC,
    S.mjSENS_JOINTACTFRC,
    S.mjSENS_TOUCH,
    S.mjSENS_USER,
)


class SensorReader:
    """Reads all sensors of a model at once; the constant part is prepared here."""

    def __init__(
        self, model: mujoco.MjModel, engine: str, xp: Any, refused: tuple[mujoco.mjtSensor, ...] = (S.mjSENS_USER,)
    ) -> None:
        """Sort the sensors by type; `refused` are types that the engine cannot fill in.

        Raises:
            EngineError: a sensor of a type, or on an object, that cannot be read; names it and lists what can.
        """
        self._xp = xp
        self._dt = float(model.opt.timestep)
        self._gravity = np.asarray(model.opt.gravity)
        readable = [kind for kind in (*FRAME_READERS, *OTHERS) if kind not in refused]
        types = [S(int(kind)) for kind in model.sensor_type]
        for index, kind in enumerate(types):
            _check(model, index, kind, readable, engine)
        self._frames = {kind: _ids(types, kind) for kind in FRAME_READERS if kind in types}
        mounted = [ids for ids in self._frames.values() if len(ids)]
        self._mounts = _Mounts.of(model, np.concatenate(mounted)) if mounted else None
        self._felt = S.mjSENS_ACCELEROMETER in self._frames
        objects = lambda kind: model.sensor_objid[_ids(types, kind)]  # noqa: E731
        self._positions = model.jnt_qposadr[objects(S.mjSENS_JOINTPOS)]
        self._velocities = model.jnt_dofadr[objects(S.mjSENS_JOINTVEL)]
        self._actuators = objects(S.mjSENS_ACTUATORFRC)
        self._driven = model.jnt_dofadr[objects(S.mjSENS_JOINTACTFRC)]
        order = [*self._frames.values(), *(_ids(types, kind) for kind in OTHERS)]
        flat = [np.arange(model.sensor_adr[i], model.sensor_adr[i] + model.sensor_dim[i]) for ids in order for i in ids]
        self._place = np.argsort(np.concatenate([np.zeros(0, int), *flat]))
        self._low, self._high = _cutoffs(model)

    def __call__(self, bodies: Bodies, qpos: Any, qvel: Any, forces: Forces) -> Any:
        """The flat sensor array (..., nsensordata), in MuJoCo's units and frames."""
        xp = self._xp
        leading = qpos.shape[:-1]
        parts = []
        if self._mounts is not None:
            # All at once: for a few vectors, numpy takes as long as for one.
            all_now = self._mounts.frames(xp, bodies)
            all_before = self._mounts.frames(xp, forces.before) if self._felt else all_now
            first = 0
            for kind, ids in self._frames.items():
                now, before = (frames.part(first, first + len(ids)) for frames in (all_now, all_before))
                first += len(ids)
                change = (now.vel - before.vel) / self._dt - self._gravity if kind == S.mjSENS_ACCELEROMETER else None
                parts.append(FRAME_READERS[kind](xp, now, before, change).reshape(*leading, -1))
        parts += [
            qpos[..., self._positions],
            qvel[..., self._velocities],
            forces.actuator[..., self._actuators],
            forces.driven[..., self._driven],
            forces.touch,
        ]
        if forces.user is not None:
            parts.append(forces.user)
        return xp.clip(xp.concatenate(parts, axis=-1)[..., self._place], self._low, self._high)


@dataclasses.dataclass(frozen=True)
class _Mounts:
    """Places of the sensors of one type on their bodies."""

    body: np.ndarray
    """(k,) body ids."""
    inertial: np.ndarray
    """(k, 1) bool, in the body's inertial frame (which an episode may move) instead of `pos` and `quat`."""
    pos: np.ndarray
    """(k, 3) m, body frame."""
    quat: np.ndarray
    """(k, 4) wxyz, sensor -> body."""

    @classmethod
    def of(cls, model: mujoco.MjModel, ids: np.ndarray) -> _Mounts:
        rows = [_mount(model, O(int(model.sensor_objtype[i])), int(model.sensor_objid[i])) for i in ids]
        body, inertial, pos, quat = zip(*rows, strict=True)
        return cls(np.array(body), np.array(inertial)[:, None], np.array(pos), np.array(quat))

    def frames(self, xp: Any, bodies: Bodies) -> Frames:
        pos = xp.where(self.inertial, bodies.ipos[..., self.body, :], self.pos)
        quat = xp.where(self.inertial, bodies.iquat[..., self.body, :], self.quat)
        carrier, angvel = bodies.quat[..., self.body, :], bodies.angvel[..., self.body, :]
        arm = rotate(xp, carrier, pos)
        return Frames(
            pos=bodies.pos[..., self.body, :] + arm,
            quat=multiply(xp, carrier, quat),
            vel=bodies.vel[..., self.body, :] + cross(xp, angvel, arm),
            angvel=angvel,
        )


def _mount(model: mujoco.MjModel, kind: mujoco.mjtObj, target: int) -> tuple[int, bool, np.ndarray, np.ndarray]:
    """Body, whether in its inertial frame, position and orientation in the body frame."""
    identity = np.array([1.0, 0.0, 0.0, 0.0])
    if kind == O.mjOBJ_SITE:
        return int(model.site_bodyid[target]), False, model.site_pos[target].copy(), model.site_quat[target].copy()
    if kind == O.mjOBJ_GEOM:
        return int(model.geom_bodyid[target]), False, model.geom_pos[target].copy(), model.geom_quat[target].copy()
    return target, kind == O.mjOBJ_BODY, np.zeros(3), identity


def _check(
    model: mujoco.MjModel, index: int, kind: mujoco.mjtSensor, readable: list[mujoco.mjtSensor], engine: str
) -> None:
    """Raise for a sensor that cannot be read."""
    name = model.sensor(index).name or f"#{index}"
    if kind not in readable:
        known = ", ".join(sorted(kind.name.removeprefix("mjSENS_").lower() for kind in readable))
        raise EngineError(
            f"engine {engine} cannot read the sensor {name!r} of type "
            f"{kind.name.removeprefix('mjSENS_').lower()}; it reads {known}"
        )
    if model.sensor_refid[index] != -1:
        raise EngineError(f"engine {engine}: the sensor {name!r} is relative to another frame, which it cannot read")
    objects = (O.mjOBJ_BODY, O.mjOBJ_XBODY, O.mjOBJ_SITE, O.mjOBJ_GEOM)
    owner = O(int(model.sensor_objtype[index]))
    if kind in FRAME_READERS and owner not in objects:
        attached = owner.name.removeprefix("mjOBJ_").lower()
        raise EngineError(
            f"engine {engine}: the sensor {name!r} is attached to a {attached}; it can be a body, xbody, site or geom"
        )


def _ids(types: list[mujoco.mjtSensor], kind: mujoco.mjtSensor) -> np.ndarray:
    return np.array([index for index, other in enumerate(types) if other == kind], int)


def _cutoffs(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value (nsensordata,) of each entry of the sensor array."""
    cutoff = np.where(model.sensor_cutoff > 0, model.sensor_cutoff, np.inf)
    bounded = model.sensor_datatype == int(mujoco.mjtDataType.mjDATATYPE_REAL)
    positive = model.sensor_datatype == int(mujoco.mjtDataType.mjDATATYPE_POSITIVE)
    high = np.where(bounded | positive, cutoff, np.inf)
    low = np.where(bounded, -cutoff, -np.inf)
    return np.repeat(low, model.sensor_dim), np.repeat(high, model.sensor_dim)
