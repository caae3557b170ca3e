"""`rigid`: free rigid bodies in closed form, without contact: drone swarms, from one to a million.

Integrates exactly as MuJoCo's semi-implicit Euler does for free joints: velocities first, then positions from
the new velocities, orientation along the exponential map. The body frame must be the inertial frame: the step is then
MuJoCo's to the last term, and open-loop flight agrees.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.task import Task
from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.engines.base import substeps_model
from embodied.errors import EngineError
from embodied.math.rotations import quat_multiply, quat_rotate, quat_rotate_inverse

VARIABLE = ("body_mass", "body_inertia")
"""Model fields that an episode may vary on this engine."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RigidState:
    """The bodies of one environment. The body frame lies at the centre of mass along the principal axes."""

    time: Array
    """() s since the episode began."""
    pos: Array
    """(bodies, 3) m, world frame."""
    quat: Array
    """(bodies, 4) wxyz, body -> world."""
    vel: Array
    """(bodies, 3) m/s, world frame."""
    angvel: Array
    """(bodies, 3) rad/s, body frame."""
    felt: Array
    """(bodies, 3) m/s^2, body frame: what an accelerometer felt in the last step (force over mass, no gravity)."""
    mass: Array
    """(bodies,) kg."""
    inertia: Array
    """(bodies, 3) kg m^2, principal."""


class RigidEngine:
    """One environment of free bodies as pure functions of `RigidState`; vmapped by the simulator."""

    name: ClassVar[str] = "rigid"
    fused: ClassVar[Literal[True]] = True

    def __init__(self, task: Task[Any], num_envs: int) -> None:
        """Check that the model is one this engine can move.

        Raises:
            EngineError: the model has other joints, actuators, offset inertias or unsupported sensors.
        """
        del num_envs
        self.model = substeps_model(task.model, task.timing.physics_dt)
        self._dt = task.timing.physics_dt
        self._gravity = np.asarray(self.model.opt.gravity, np.float32)
        self._layout = SensorLayout.from_model(self.model)
        self._bodies = _moving_bodies(self.model)
        self._slots = {int(body): slot for slot, body in enumerate(self._bodies)}
        self._sensors = tuple(self._sensor(index) for index in range(self.model.nsensor))

    def start(self, start: ResetState[Any]) -> RigidState:
        if unknown := sorted(set(start.model) - set(VARIABLE)):
            raise EngineError(f"engine rigid cannot vary the model fields {unknown}; it can vary {list(VARIABLE)}")
        count = len(self._bodies)
        joints, speeds = start.qpos.reshape(count, 7), start.qvel.reshape(count, 6)
        mass = jnp.asarray(start.model.get("body_mass", self.model.body_mass), jnp.float32)[self._bodies]
        inertia = jnp.asarray(start.model.get("body_inertia", self.model.body_inertia), jnp.float32)[self._bodies]
        return RigidState(
            time=jnp.zeros(()),
            pos=joints[:, :3],
            quat=joints[:, 3:],
            vel=speeds[:, :3],
            angvel=speeds[:, 3:],
            felt=jnp.zeros((count, 3)),
            mass=mass,
            inertia=inertia,
        )

    def step(self, physics: RigidState, control: Control, substeps: int) -> RigidState:
        wrench = control.wrench
        wrench = jnp.zeros((self.model.nbody, 6)) if wrench is None else wrench
        if substeps == 1:
            return self._advance(physics, rows(wrench, self._bodies))
        return jax.lax.fori_loop(0, substeps, lambda _, p: self._advance(p, rows(wrench, self._bodies)), physics)

    def _advance(self, physics: RigidState, wrench: Array) -> RigidState:
        """One physics step under world-frame wrenches (bodies, 6).

        A batch axis in the last place was no faster: `vmap` moves it to the front.
        """
        force, torque = wrench[:, :3], wrench[:, 3:]
        # The barriers keep XLA's CPU compiler from computing shared parts of stacked vectors again for every element.
        torque_b = jax.lax.optimization_barrier(jax.vmap(quat_rotate_inverse)(physics.quat, torque))
        # Newton-Euler: v' = F/m + g, w' = J^-1 (tau - w x J w).
        gyroscopic = jnp.cross(physics.angvel, physics.inertia * physics.angvel)
        angvel = physics.angvel + self._dt * (torque_b - gyroscopic) / physics.inertia
        turn = jax.lax.optimization_barrier(jax.vmap(small_turn)(angvel * self._dt))
        vel = physics.vel + self._dt * (force / physics.mass[:, None] + self._gravity)
        return dataclasses.replace(
            physics,
            time=physics.time + self._dt,
            pos=physics.pos + self._dt * vel,
            quat=jax.vmap(turned)(physics.quat, turn),
            vel=vel,
            angvel=angvel,
            felt=jax.vmap(quat_rotate_inverse)(physics.quat, force) / physics.mass[:, None],
        )

    def world(self, physics: RigidState) -> World:
        readings = [read(physics) for read in self._sensors]
        return World(
            time=physics.time,
            qpos=jnp.concatenate([physics.pos, physics.quat], axis=1).reshape(-1),
            qvel=jnp.concatenate([physics.vel, physics.angvel], axis=1).reshape(-1),
            sensordata=jnp.concatenate(readings) if readings else jnp.zeros((0,)),
            layout=self._layout,
        )

    def overflow(self, physics: RigidState) -> Array:
        """Never: there are no contacts."""
        del physics
        return jnp.zeros((), bool)

    def _sensor(self, index: int) -> Any:
        """A function that reads sensor `index` from a state."""
        model = self.model
        kind = mujoco.mjtSensor(model.sensor_type[index])
        name = model.sensor(index).name or f"#{index}"
        if model.sensor_refid[index] != -1:
            raise EngineError(f"engine rigid: the sensor {name!r} is relative to another frame, which it cannot read")
        body, pos, quat = _attachment(model, index, name)
        if body not in self._slots:
            raise EngineError(f"engine rigid: the sensor {name!r} is not on a free body")
        if kind not in READERS:
            known = ", ".join(sorted(kind.name.removeprefix("mjSENS_").lower() for kind in READERS))
            raise EngineError(f"engine rigid cannot read the sensor {name!r} of type {kind.name}; it reads {known}")
        slot, reader = self._slots[body], READERS[kind]
        mount = Mount(np.asarray(pos, np.float32), np.asarray(quat, np.float32), self._gravity)
        return lambda physics: reader(
            jax.tree.map(lambda leaf: leaf[slot], dataclasses.replace(physics, time=physics.mass)), mount
        )


def rows(array: Array, ids: np.ndarray) -> Array:
    """`array[ids]`, as a slice where the ids are consecutive: a gather would cost more than the physics."""
    first, last = int(ids[0]), int(ids[-1])
    return array[first : last + 1] if last - first + 1 == len(ids) else array[ids]


def small_turn(vector: Array) -> Array:
    """The quaternion (4,) wxyz of a rotation vector (3,) rad, by power series.

    Exact to float32 up to 2 rad, which at 500 Hz is 1,000 rad/s; sines and roots would cost twice the whole step.
    """
    square = jnp.sum(vector**2) / 4  # (angle / 2)^2
    sinc = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    cosine = 1 - square / 2 * (1 - square / 12 * (1 - square / 30 * (1 - square / 56)))
    return jnp.concatenate([cosine[None], vector * sinc / 2])


def turned(quat: Array, turn: Array) -> Array:
    """`quat` after a turn in its own frame, scaled to unit length so that rounding does not build up."""
    product = jax.lax.optimization_barrier(quat_multiply(quat, turn))
    return product * jax.lax.rsqrt(jnp.sum(product**2))


@dataclasses.dataclass(frozen=True)
class Mount:
    """Place of a sensor on its body."""

    pos: np.ndarray
    """(3,) m, body frame."""
    quat: np.ndarray
    """(4,) wxyz, sensor -> body."""
    gravity: np.ndarray
    """(3,) m/s^2, world frame."""

    def orientation(self, body: RigidState) -> Array:
        """(4,) wxyz, sensor -> world."""
        return (
            body.quat if np.array_equal(self.quat, [1, 0, 0, 0]) else quat_multiply(body.quat, jnp.asarray(self.quat))
        )

    def velocity(self, body: RigidState) -> Array:
        """(3,) m/s of the sensor, world frame."""
        if not self.pos.any():
            return body.vel
        return body.vel + quat_rotate(body.quat, jnp.cross(body.angvel, jnp.asarray(self.pos)))


def _position(body: RigidState, mount: Mount) -> Array:
    return body.pos + quat_rotate(body.quat, jnp.asarray(mount.pos)) if mount.pos.any() else body.pos


def _axis(index: int) -> Any:
    return lambda body, mount: quat_rotate(mount.orientation(body), jnp.eye(3)[index])


def _accelerometer(body: RigidState, mount: Mount) -> Array:
    if mount.pos.any():
        raise EngineError("engine rigid reads accelerometers at the centre of mass only")
    return quat_rotate_inverse(jnp.asarray(mount.quat), body.felt)


S = mujoco.mjtSensor
READERS: dict[mujoco.mjtSensor, Any] = {
    S.mjSENS_FRAMEPOS: _position,
    S.mjSENS_FRAMEQUAT: lambda body, mount: mount.orientation(body),
    S.mjSENS_FRAMEXAXIS: _axis(0),
    S.mjSENS_FRAMEYAXIS: _axis(1),
    S.mjSENS_FRAMEZAXIS: _axis(2),
    S.mjSENS_FRAMELINVEL: lambda body, mount: mount.velocity(body),
    S.mjSENS_FRAMEANGVEL: lambda body, mount: quat_rotate(body.quat, body.angvel),
    S.mjSENS_VELOCIMETER: lambda body, mount: quat_rotate_inverse(mount.orientation(body), mount.velocity(body)),
    S.mjSENS_GYRO: lambda body, mount: quat_rotate_inverse(jnp.asarray(mount.quat), body.angvel),
    S.mjSENS_ACCELEROMETER: _accelerometer,
}
"""Sensor type -> its reading from one body's state, in MuJoCo's own unit and frame."""


def _attachment(model: mujoco.MjModel, index: int, name: str) -> tuple[int, np.ndarray, np.ndarray]:
    """The body a sensor is attached to, with position and orientation in that body's frame."""
    kind, target = mujoco.mjtObj(model.sensor_objtype[index]), int(model.sensor_objid[index])
    if kind in (mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_XBODY):
        return target, np.zeros(3), np.array([1.0, 0, 0, 0])
    if kind == mujoco.mjtObj.mjOBJ_SITE:
        return int(model.site_bodyid[target]), model.site_pos[target], model.site_quat[target]
    raise EngineError(f"engine rigid: the sensor {name!r} is attached to a {kind.name}; it can be a body or a site")


def _moving_bodies(model: mujoco.MjModel) -> np.ndarray:
    """Ids of the free bodies in the order of `qpos`.

    Raises:
        EngineError: something in the model is not a free body without offset inertia or actuator.
    """
    free = mujoco.mjtJoint.mjJNT_FREE
    if others := [model.joint(i).name or f"#{i}" for i in range(model.njnt) if model.jnt_type[i] != free]:
        raise EngineError(f"engine rigid moves free bodies only; these joints are not free: {others}")
    if model.nu:
        raise EngineError(f"engine rigid moves bodies by wrenches only; the model has {model.nu} actuators")
    bodies = np.asarray(model.jnt_bodyid)
    for body in bodies:
        if np.abs(model.body_ipos[body]).max() > 1e-9 or abs(abs(model.body_iquat[body, 0]) - 1) > 1e-9:
            raise EngineError(
                f"engine rigid needs the inertia of body {model.body(int(body)).name!r} at its frame's origin and "
                f"along its axes; it lies at {model.body_ipos[body].tolist()} m, turned by "
                f"{model.body_iquat[body].tolist()} (wxyz)"
            )
    return bodies
