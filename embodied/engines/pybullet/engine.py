"""`pybullet`: Bullet's rigid-body solver, one world per environment: an independent engine for sim2sim.

Bullet shares nothing with MuJoCo but the description of the robot: its own articulated-body dynamics, collision
detection, and hard contacts by sequential impulses, where MuJoCo's are soft. What Bullet lacks is replaced:

- actuators, joint springs and damping are torques computed at every physics step (`embodied.engines.servos`);
- dry friction of joints is a motor with target speed zero and the friction as its strength;
- where servo and damping of a joint would overshoot if their force were held for a step, the joint is driven by a motor
  of Bullet's, solved together with the contacts: it aims at the speed at which the force is balanced, with the force
  that is left at the present speed. The same holds for damped slides with armature, which reach their speed at once:
  such a slide's body carries a tenth of the armature as mass, 100 g at most, the rest is left out;
- two joints that are coupled are geared; gravity is compensated by torques; mocap bodies are placed directly;
- armature is added to the inertia of the link about the joint's axis, and its wrong effect on the link's parents is
  cancelled by forces (`embodied.engines.pybullet.rotors`);
- solref, solimp and contact margins have no counterpart: contacts and limits are as hard as Bullet makes them. Sliding
  friction is MuJoCo's for every pair (`embodied.engines.pybullet.contacts`); torsional and rolling friction are left
  out.

Worlds are built anew at every reset, so that an episode has its own masses, frames and shapes and nothing of the last.
Accelerations, touch and forces are those of the last physics step; before the first, bodies fall freely untouched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import mujoco
import numpy as np

from embodied.core.task import Task
from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.engines import servos
from embodied.engines.base import numpy_world, substeps_model
from embodied.engines.pybullet import model
from embodied.engines.pybullet.rotors import Rotors
from embodied.engines.pybullet.world import BulletWorld
from embodied.engines.sensors import Bodies, Forces, SensorReader, at_rest, rotate
from embodied.engines.servos import Efforts, Servos
from embodied.errors import EngineError

MOST_WORLDS = 1000  # Bullet has room for 1,024 clients in a process
LARGEST = 1e8  # m, rad, m/s, rad/s: beyond it a world has left the numbers that Bullet can add up
VARIABLE = model.VARIABLE | frozenset(servos.FIELDS)
"""Model fields that an episode may vary on this engine."""


@dataclasses.dataclass(frozen=True)
class Drive:
    """Drives of the joints of all environments at one instant."""

    servos: Efforts
    """By force."""
    speed: np.ndarray
    """(num_envs, nv) m/s, rad/s, at which motors aim: of the joints that `Servos.overshooting` names."""
    strength: np.ndarray
    """(num_envs, nv) N, N m, strength of these motors."""


class PybulletEngine:
    """`num_envs` Bullet worlds with a task's model, stepped one after another."""

    name: ClassVar[str] = "pybullet"
    fused: ClassVar[Literal[False]] = False

    def __init__(self, task: Task[Any], num_envs: int) -> None:
        """Open the worlds; they are empty until the first `reset`.

        Raises:
            EngineError: pybullet is not installed, or there is something in the model that it cannot simulate.
        """
        pb = import_pybullet()
        if num_envs > MOST_WORLDS:
            raise EngineError(f"engine pybullet opens one world per environment, {MOST_WORLDS} at most, not {num_envs}")
        self.num_envs = num_envs
        self.model = substeps_model(task.model, task.timing.physics_dt)
        self._servos = Servos.from_model(self.model, self.name)
        by_motors = model.by_motors(self.model, self._servos.overshooting)
        self._servos = dataclasses.replace(self._servos, overshooting=by_motors)
        model.check(self.model, self._servos.overshooting)
        self._extra_mass = model.extra_mass(self.model, self._servos.overshooting)
        self.model.body_mass[:] += self._extra_mass
        self._reader = SensorReader(self.model, self.name, np)
        touch = self.model.sensor_type == int(mujoco.mjtSensor.mjSENS_TOUCH)
        self._touch_sites = self.model.sensor_objid[touch]
        self._layout = SensorLayout.from_model(self.model)
        self._folder = tempfile.TemporaryDirectory(prefix="embodied-bullet-")
        self._worlds = [BulletWorld(pb, Path(self._folder.name)) for _ in range(num_envs)]
        self._models = [self.model] * num_envs
        self._rotors = [Rotors(self.model)] * num_envs
        self._fields: dict[str, np.ndarray] = {}
        self._unwatched = at_rest(self.model)
        self._time = np.zeros(num_envs)
        self._qpos = np.tile(self.model.qpos0, (num_envs, 1))
        self._qvel = np.zeros((num_envs, self.model.nv))
        self._ctrl = np.zeros((num_envs, self.model.nu))
        self._mocap_bodies = np.flatnonzero(self.model.body_mocapid >= 0)
        self._mocap_bodies = self._mocap_bodies[np.argsort(self.model.body_mocapid[self._mocap_bodies])]
        self._mocap_pos = np.tile(self.model.body_pos[self._mocap_bodies], (num_envs, 1, 1))
        self._mocap_quat = np.tile(self.model.body_quat[self._mocap_bodies], (num_envs, 1, 1))
        self._compensated = bool(self.model.body_gravcomp.any())
        self._dragged = model.dragged(self.model)
        self._sensordata = np.zeros((num_envs, self.model.nsensordata), np.float32)

    def reset(self, ids: np.ndarray, start: ResetState[Any]) -> None:
        for row, index in enumerate(ids):
            for name, values in start.model.items():
                self._field(name)[index] = values[row]
            if start.mocap_pos is not None:
                self._mocap_pos[index] = start.mocap_pos[row]
                self._mocap_quat[index] = self.model.body_quat[self._mocap_bodies]
            self._build(index, np.asarray(start.qpos[row], float), np.asarray(start.qvel[row], float))
            self._time[index] = 0.0
            self._ctrl[index] = 0.0
            if self._alive(index):
                self._sensordata[index] = self._at_start(index)

    def _field(self, name: str) -> np.ndarray:
        """The per-environment values of one model field, (num_envs, ...).

        Raises:
            EngineError: an episode cannot vary it.
        """
        if name not in VARIABLE:
            raise EngineError(f"engine pybullet cannot vary the model field {name!r}; it can vary {sorted(VARIABLE)}")
        if name not in self._fields:
            self._fields[name] = np.repeat(np.asarray(getattr(self.model, name), float)[None], self.num_envs, axis=0)
        return self._fields[name]

    def _build(self, index: int, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Build a world from its environment's model fields, at a state."""
        if self._fields or len(self._mocap_bodies):
            model = self.model.__copy__()
            for name, values in self._fields.items():
                getattr(model, name)[...] = values[index]
            model.body_mass[:] += self._extra_mass * ("body_mass" in self._fields)
            model.body_pos[self._mocap_bodies] = self._mocap_pos[index]
            model.body_quat[self._mocap_bodies] = self._mocap_quat[index]
            self._models[index] = model
        self._qpos[index], self._qvel[index] = qpos, qvel
        if self._alive(index):
            self._worlds[index].build(self._models[index], self._servos.overshooting)
            self._worlds[index].set_state(qpos, qvel)
            self._rotors[index] = Rotors(self._models[index])
            self._rotors[index].begin(qpos, qvel)
        else:
            self._lose(index)

    def _alive(self, index: int) -> bool:
        """Whether an environment's state consists of numbers."""
        return bool(
            (np.abs(self._qpos[index]) < LARGEST).all() and (np.abs(self._qvel[index]) < LARGEST).all()
        )  # NaN compares false

    def _lose(self, index: int) -> None:
        """Mark an environment as diverged: it stands still at NaN until its next reset."""
        self._qpos[index] = np.nan
        self._sensordata[index] = np.nan

    def _at_start(self, index: int) -> np.ndarray:
        """Sensors (nsensordata,) before the first step: bodies fall freely, nothing is touched or driven."""
        bodies = self._worlds[index].bodies()
        falling = dataclasses.replace(bodies, vel=bodies.vel - self.model.opt.timestep * self.model.opt.gravity)
        zero = np.zeros(self.model.nv)
        forces = Forces(falling, np.zeros(self.model.nu), zero, np.zeros(len(self._touch_sites)))
        return self._reader(bodies, self._qpos[index], self._qvel[index], forces)

    def step(self, control: Control, substeps: int) -> None:
        """Advance every environment; see `HostEngine.step`."""
        if control.ctrl is not None:
            self._ctrl[...] = control.ctrl
        self._move_mocap(control)
        alive = [index for index in range(self.num_envs) if self._alive(index)]
        felt: dict[int, tuple[Bodies, Any]] = {}
        efforts = None
        for substep in range(substeps):
            efforts = self._efforts()
            last = substep == substeps - 1
            for index in alive:
                wrench = None if control.wrench is None else np.asarray(control.wrench[index], float)
                before = self._advance(index, efforts, wrench, last)
                if before is None:
                    self._lose(index)
                elif last:
                    felt[index] = before, self._worlds[index].touch(self._touch_sites, before)
            alive = [index for index in alive if self._alive(index)]
        self._time += substeps * self.model.opt.timestep
        if alive and efforts is not None:
            before, touch = (stacked(parts) for parts in zip(*(felt[index] for index in alive), strict=True))
            bodies = stacked([self._worlds[index].bodies() for index in alive])
            forces = Forces(before, efforts.servos.actuator[alive], efforts.servos.driven[alive], touch)
            self._sensordata[alive] = self._reader(bodies, self._qpos[alive], self._qvel[alive], forces)

    def _move_mocap(self, control: Control) -> None:
        """Move mocap bodies to the poses of a control, in the environments where they are elsewhere."""
        pos = self._mocap_pos if control.mocap_pos is None else np.asarray(control.mocap_pos, float)
        quat = self._mocap_quat if control.mocap_quat is None else np.asarray(control.mocap_quat, float)
        if pos is self._mocap_pos and quat is self._mocap_quat:
            return
        changed = (pos != self._mocap_pos).any((1, 2)) | (quat != self._mocap_quat).any((1, 2))
        self._mocap_pos, self._mocap_quat = pos.copy(), quat.copy()
        for index in np.flatnonzero(changed).tolist():
            if self._alive(index):
                self._worlds[index].move_mocap(self._mocap_bodies, pos[index], quat[index])

    def _advance(self, index: int, efforts: Drive, wrench: np.ndarray | None, watched: bool) -> Bodies | None:
        """One physics step of one environment.

        Returns:
            The bodies at its beginning if `watched`; None if the environment diverged.
        """
        world, rotors = self._worlds[index], self._rotors[index]
        qpos, qvel = self._qpos[index], self._qvel[index].copy()
        by_motors = self._servos.overshooting
        torque = efforts.servos.driven[index] + efforts.servos.passive[index]
        # The correction below needs the motors' forces, too; the world has them already.
        moved = np.where(by_motors, np.sign(efforts.speed[index] - qvel) * efforts.strength[index], 0.0)
        torque = np.where(by_motors, 0.0, torque)
        if self._compensated:
            torque = torque + rotors.compensation(qpos)
        wrench = wrench if wrench is not None and wrench.any() else None
        turns = {}
        if rotors.active:
            correction = rotors.forces(qpos, qvel, torque + moved)
            torque = torque + correction
            turns = rotors.wrenches(correction, qpos)
        before = world.bodies() if wrench is not None or watched or self._dragged else self._unwatched
        if self._dragged:
            wrench = model.drag(self.model, self._dragged, before, qvel, wrench)
        motors = efforts.speed[index], efforts.strength[index]
        world.step(torque, motors, turns, wrench, None if wrench is None else centres(before))
        self._qpos[index], self._qvel[index] = world.state()
        if not self._alive(index):
            return None
        if rotors.active:
            rotors.observe(self._qvel[index] - qvel, self.model.opt.timestep)
        return before

    def _efforts(self) -> Drive:
        """Drives of the joints at the present states, (num_envs, ...)."""
        fields: dict[str, Any] = {name: self._fields.get(name, getattr(self.model, name)) for name in servos.FIELDS}
        now = self._servos(np, fields, self._qpos, self._qvel, self._ctrl)
        zero = np.zeros_like(self._qvel)
        if not self._servos.overshooting.any():
            return Drive(now, zero, zero)
        speed, strength = self._servos.balance(fields, self._qpos, self._qvel, self._ctrl)
        return Drive(now, speed, strength)

    def world(self, ids: np.ndarray | None = None) -> World:
        """The joints and sensors of all environments, or of some, as float32; see `HostEngine.world`."""
        rows = slice(None) if ids is None else ids
        return numpy_world(self._time[rows], self._qpos[rows], self._qvel[rows], self._sensordata[rows], self._layout)

    def overflow(self) -> bool:
        """Never: Bullet's buffers grow."""
        return False

    def close(self) -> None:
        for world in self._worlds:
            world.close()
        self._worlds.clear()
        self._folder.cleanup()

    def state(self) -> dict[str, np.ndarray]:
        """The state and the per-environment model fields."""
        return self.snapshot() | {f"model.{name}": values.copy() for name, values in self._fields.items()}

    def snapshot(self) -> dict[str, np.ndarray]:
        """Time, positions and velocities, held controls, what `Rotors` remember, mocap bodies, and the sensors."""
        others = np.stack([rotors.others for rotors in self._rotors])
        mocap = [poses.reshape(self.num_envs, -1) for poses in (self._mocap_pos, self._mocap_quat)]
        return {
            "state": np.concatenate([self._time[:, None], self._qpos, self._qvel, self._ctrl, others, *mocap], axis=1),
            "sensordata": self._sensordata.copy(),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Take back what `state` gave, to rounding: worlds are built anew, and Bullet finds their contacts again."""
        for key, values in state.items():
            if key.startswith("model."):
                self._field(key.removeprefix("model."))[...] = values
        sizes = [1, self.model.nq, self.model.nv, self.model.nu, self.model.nv, 3 * self.model.nmocap]
        parts = np.split(np.asarray(state["state"], float), np.cumsum(sizes), axis=1)
        time, qpos, qvel, ctrl, others, mocap_pos, mocap_quat = parts
        self._time[...], self._ctrl[...] = time[:, 0], ctrl
        self._mocap_pos = mocap_pos.reshape(self._mocap_pos.shape).copy()
        self._mocap_quat = mocap_quat.reshape(self._mocap_quat.shape).copy()
        for index in range(self.num_envs):
            self._build(index, qpos[index], qvel[index])
            self._rotors[index].others = others[index].copy()
        self._sensordata[...] = state["sensordata"]


def stacked(parts: Sequence[Any]) -> Any:
    """Dataclasses of arrays, or of such dataclasses, joined along a new first axis."""
    first = parts[0]
    if not dataclasses.is_dataclass(first):
        return np.stack(parts)
    names = [field.name for field in dataclasses.fields(first)]
    return type(first)(**{name: stacked([getattr(part, name) for part in parts]) for name in names})


def centres(bodies: Bodies) -> np.ndarray:
    """(nbody, 3) m, centres of mass, world frame."""
    return bodies.pos + rotate(np, bodies.quat, bodies.ipos)


def import_pybullet() -> Any:
    """The module pybullet, without the line that it prints when it is imported.

    Raises:
        EngineError: it is not installed.
    """
    try:
        with quiet():
            import pybullet  # pyright: ignore[reportMissingImports] - has no wheels for newer Pythons
    except ImportError as error:
        raise EngineError(
            f"engine pybullet is not installed ({error}); pip install pybullet (wheels: Linux, Python 3.11)"
        ) from None
    return pybullet


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discard what compiled code prints."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
