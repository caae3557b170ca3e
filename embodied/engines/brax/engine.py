"""`brax`: Brax's pipeline of generalized coordinates, `brax.generalized`, on the same MuJoCo model.

Parts that are Brax's, and ours:

- Brax's: kinematics, motions of links, joint-space inertia and bias forces (`brax.kinematics`, `.generalized.dynamics`,
  `.mass`); the rows of contacts, as friction pyramids, and of limits, with solref and solimp (`.constraint`);
  integration by semi-implicit Euler with implicit damping (`.integrator`). Collision detection is Brax's by name
  (`brax.contact`), which calls MJX's.
- Ours: the model as Brax has it, that is links, ball joints, bodies without joints, mocap bodies (`model.py`,
  `coordinates.py`); actuators, springs, gravity compensation, wrenches, sensors (`embodied.engines.servos`,
  `.sensors`); the rows of dry friction and coupled joints, and the solver of all rows (`constraints.py`, `solver.py`).

So it shares the constraint model and the collisions with MuJoCo, and nothing else but the description of the robot:
other code for the dynamics, another integrator (four steps in the place of one of Runge-Kutta), friction pyramids
where it specifies cones, another solver. Contacts of every pair slide with friction, `condim` 1 too, and have neither
torsional nor rolling friction, `impratio`, margin or gap.

Every joint is supported (free, ball, hinge, slide, several on one body), bodies without joints, mocap bodies, joint
equalities, fixed tendons as transmissions, and what MJX collides. Not: tendons with springs, limits or friction, other
equality constraints, height fields, fluids. Sensors are synthesised (`embodied.engines.sensors`). Accelerations and
forces are those of the last physics step; before the first, bodies fall freely untouched.

Inertia and bias forces are MuJoCo's to single precision (`tests/embodied/engines/brax`). Brax's pipelines `spring` and
`positional` are not used: their contacts are right for unit inertias only, they have one stiffness for N/m and N m/rad
and no rotor inertia, and they need many steps in the place of one of a Go1's.

125 of 134 tasks pass the engine's checks (brax_tasks.json). On two busy cores, 128 half-cheetahs make 3,710 environment
steps/s, and 9,791 on `mujoco` (bench_half_cheetah_brax.json, bench_half_cheetah_mujoco.json). The shipped half-cheetah
returns 8,099 here (evaluate_half_cheetah_brax.json) and the shipped ant 6,183 (evaluate_ant_brax.json). A half-cheetah
trained here for 250,000 steps returns 4,219 on `mujoco` (evaluate_half_cheetah_learned_on_brax_on_mujoco.json).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.randomization import DerivedConstants
from embodied.core.task import Task
from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.engines import servos
from embodied.engines.base import substeps_model
from embodied.engines.sensors import Bodies, Forces, SensorReader, rotate
from embodied.engines.servos import Servos
from embodied.errors import EngineError

RUNGE_KUTTA_STEPS = 4
"""Steps in the place of one, where the model sets Runge-Kutta: as often as that evaluates the dynamics. Gymnasium's
ant, trained on it at 10 ms, falls on C MuJoCo too if that takes single Euler steps."""
IMPLICIT = (int(mujoco.mjtIntegrator.mjINT_IMPLICIT), int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BraxState:
    """One environment."""

    time: Array
    """() s since the episode began."""
    qpos: Array
    qvel: Array
    sensordata: Array
    """(nsensordata,) as `World` describes."""
    fields: Mapping[str, Array]
    """This episode's own model fields."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Felt:
    """Quantities of a physics step that sensors of forces and accelerations read after it."""

    pos: Array
    """(nbody, 3) m, the bodies at its beginning."""
    quat: Array
    vel: Array
    angvel: Array
    actuator: Array
    """(nu,) N or N m."""
    driven: Array
    """(nv,) N or N m."""
    touch: Array
    """(touch sensors,) N."""
    user: Array
    """(numbers of the user sensors,)."""


class BraxEngine:
    """One environment of a task's model as pure functions of `BraxState`; vmapped by the simulator."""

    name: ClassVar[str] = "brax"
    fused: ClassVar[Literal[True]] = True

    def __init__(self, task: Task[Any], num_envs: int) -> None:
        """Load the model into Brax.

        Raises:
            EngineError: Brax is not installed, or does not support something in the model.
        """
        del num_envs
        try:
            from embodied.engines.brax import constraints, coordinates, data_fields, model, step
        except ImportError as error:
            raise EngineError(f"engine brax is not installed ({error}); pip install 'brax>=0.14.2'") from None
        self._model, self._step, self._data_fields = model, step, data_fields
        self._finer = RUNGE_KUTTA_STEPS if task.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4 else 1
        self.model = substeps_model(task.model, task.timing.physics_dt / self._finer)
        model.check(self.model)
        self._servos = Servos.from_model(self.model, self.name)
        self._reader = SensorReader(self.model, self.name, jnp, refused=())
        self._user = list(data_fields.readable(self.model))
        self._links = model.Links.from_model(self.model)
        self._coordinates = coordinates.Coordinates.from_model(self.model)
        self._joint_rows = constraints.JointRows.from_model(self.model)
        self._system = model.load(self.model, self._links)
        self._derive = DerivedConstants.from_model(self.model)
        self._layout = SensorLayout.from_model(self.model)
        self._sites = self.model.sensor_objid[self.model.sensor_type == int(mujoco.mjtSensor.mjSENS_TOUCH)]
        self._variable = frozenset((*model.VARIABLE, *servos.FIELDS))
        self._mocap = _mocap_of(self.model)

    def start(self, start: ResetState[Any]) -> BraxState:
        fields = self._derive(dict(start.model)) if start.model else {}
        if unknown := sorted(set(start.model) - self._variable):
            raise EngineError(
                f"engine brax cannot vary the model fields {unknown}; it can vary {sorted(self._variable)}"
            )
        qpos, qvel = jnp.asarray(start.qpos, jnp.float32), jnp.asarray(start.qvel, jnp.float32)
        place = self._mocap if start.mocap_pos is None else (start.mocap_pos, self._mocap[1])
        with jax.default_matmul_precision("float32"):
            system = self._episode_system(fields, place)
            _, state = self._step.motion(system, self._links, self._coordinates, qpos, qvel)
            now = self._bodies(state, place, fields)
            nothing, wrench = jnp.zeros(self.model.nv), jnp.zeros((self.model.nbody, 6))
            fall = now.vel - self.model.opt.timestep * np.asarray(self.model.opt.gravity)
            user = self._user_fields(now, nothing, wrench, None, fields)
            unfelt = self._nothing_felt()
            felt = dataclasses.replace(unfelt, pos=now.pos, quat=now.quat, vel=fall, angvel=now.angvel, user=user)
            return BraxState(jnp.zeros(()), qpos, qvel, self._sensors(now, qpos, qvel, felt), fields)

    def step(self, physics: BraxState, control: Control, substeps: int) -> BraxState:
        ctrl = jnp.zeros(self.model.nu) if control.ctrl is None else control.ctrl
        wrench = jnp.zeros((self.model.nbody, 6)) if control.wrench is None else control.wrench
        place = (
            self._mocap[0] if control.mocap_pos is None else control.mocap_pos,
            self._mocap[1] if control.mocap_quat is None else control.mocap_quat,
        )
        with jax.default_matmul_precision("float32"):
            system = self._episode_system(physics.fields, place)
            advance = lambda _, carry: self._advance(system, physics.fields, place, ctrl, wrench, *carry[:2])  # noqa: E731
            begin = physics.qpos, physics.qvel, self._nothing_felt()
            steps = substeps * self._finer
            qpos, qvel, felt = advance(0, begin) if steps == 1 else jax.lax.fori_loop(0, steps, advance, begin)
            _, state = self._step.motion(system, self._links, self._coordinates, qpos, qvel)
            now = self._bodies(state, place, physics.fields)
            sensordata = self._sensors(now, qpos, qvel, felt)
        time = physics.time + steps * self.model.opt.timestep
        return BraxState(time, qpos, qvel, sensordata, physics.fields)

    def _episode_system(self, fields: Mapping[str, Array], place: tuple[Array, Array]) -> Any:
        """Brax's system with an episode's own fields, mocap bodies at `place`."""
        return self._links.placed(self._model.varied(self._system, self._links, fields), *place)

    def _advance(
        self,
        system: Any,
        fields: Mapping[str, Array],
        place: tuple[Array, Array],
        ctrl: Array,
        wrench: Array,
        qpos: Array,
        qvel: Array,
    ) -> tuple[Array, Array, Felt]:
        """One physics step from `qpos` and `qvel`."""
        system, state = self._step.motion(system, self._links, self._coordinates, qpos, qvel)
        now = self._bodies(state, place, fields)
        values = {name: jnp.asarray(fields.get(name, getattr(self.model, name))) for name in servos.FIELDS}
        efforts = self._servos(jnp, values, qpos, qvel, ctrl)
        damping = values["dof_damping"]
        force = efforts.driven + efforts.springs - damping * qvel
        force += self._step.outside(self._links, state, now, wrench + self._lift(fields))
        if self.model.opt.integrator in IMPLICIT:
            damping = damping + self._servos.speed_feedback(jnp, values, efforts.actuator)
        rows = self._joint_rows(fields, qpos, qvel)
        after, pushes = self._step.advance(system, self._links, state, rows, force, damping)
        touch = self._touch(pushes, now)
        user = self._user_fields(now, efforts.driven, wrench, pushes, fields)
        felt = Felt(now.pos, now.quat, now.vel, now.angvel, efforts.actuator, efforts.driven, touch, user)
        return *self._coordinates.after(qpos, after.q, after.qd), felt

    def _lift(self, fields: Mapping[str, Array]) -> Array:
        """(nbody, 6) N, gravity compensation."""
        value = lambda name: jnp.asarray(fields.get(name, getattr(self.model, name)))  # noqa: E731
        weight = -value("body_mass") * value("body_gravcomp")
        return weight[:, None] * np.append(self.model.opt.gravity, np.zeros(3))

    def _bodies(self, state: Any, place: tuple[Array, Array], fields: Mapping[str, Array]) -> Bodies:
        """All bodies where Brax has their links."""
        frame = (fields.get(name, getattr(self.model, name)) for name in ("body_ipos", "body_iquat"))
        return self._step.bodies(self._links, state, place, *frame)

    def _sensors(self, now: Bodies, qpos: Array, qvel: Array, felt: Felt) -> Array:
        """(nsensordata,) after a step that felt `felt`."""
        before = Bodies(felt.pos, felt.quat, felt.vel, felt.angvel, now.ipos, now.iquat)
        forces = Forces(before, felt.actuator, felt.driven, felt.touch, felt.user if self._user else None)
        return self._reader(now, qpos, qvel, forces)

    def _nothing_felt(self) -> Felt:
        """Placeholders of the right shapes."""
        count = self.model.nbody
        users = self.model.sensor_type == int(mujoco.mjtSensor.mjSENS_USER)
        vectors = jnp.zeros((count, 3))
        sizes = self.model.nu, self.model.nv, len(self._sites), int(self.model.sensor_dim[users].sum())
        return Felt(vectors, jnp.zeros((count, 4)), vectors, vectors, *map(jnp.zeros, sizes))

    def _user_fields(
        self, now: Bodies, driven: Array, wrench: Array, pushes: Any, fields: Mapping[str, Array]
    ) -> Array:
        """The numbers of the user sensors, in their order."""
        mass, inertia = (fields.get(name, getattr(self.model, name)) for name in ("body_mass", "body_inertia"))
        instant = self._data_fields.Instant(self.model, now, mass, inertia, driven, wrench, pushes)
        values = [self._data_fields.FIELDS[name](instant).ravel() for name in self._user]
        return jnp.concatenate([jnp.zeros(0), *values])

    def _touch(self, pushes: Any, now: Bodies) -> Array:
        """(touch sensors,) N: the normal forces of contacts of each site's body within the site's radius."""
        if pushes is None or not len(self._sites):
            return jnp.zeros(len(self._sites))
        owner = self.model.site_bodyid[self._sites]
        pos = now.pos[owner] + rotate(jnp, now.quat[owner], self.model.site_pos[self._sites])
        first, second = (jnp.asarray(self.model.geom_bodyid)[shape] for shape in (pushes.first, pushes.second))
        own = (first == owner[:, None]) | (second == owner[:, None])
        distance = jnp.linalg.norm(pushes.point[None] - pos[:, None], axis=-1)
        inside = distance < self.model.site_size[self._sites, :1] + jnp.abs(pushes.depth)
        return jnp.sum((own & inside) * pushes.normal, axis=1)

    def world(self, physics: BraxState) -> World:
        return World(physics.time, physics.qpos, physics.qvel, physics.sensordata, self._layout)

    def overflow(self, physics: BraxState) -> Array:
        """Never: Brax computes every possible contact."""
        del physics
        return jnp.zeros((), bool)


def _mocap_of(model: mujoco.MjModel) -> tuple[Array, Array]:
    """Poses of the model's mocap bodies: (nmocap, 3) m and (nmocap, 4) wxyz."""
    bodies = np.argsort(model.body_mocapid, kind="stable")[model.nbody - model.nmocap :]
    return jnp.asarray(model.body_pos[bodies], jnp.float32), jnp.asarray(model.body_quat[bodies], jnp.float32)
