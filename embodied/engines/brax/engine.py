"""`brax`: Brax's maximal-coordinate pipelines, `spring` and `positional`, on the same MuJoCo model.

Every link is a rigid body of its own; joints are springs, or corrections of position, that pull links together, and
contacts are impulses. Kinematics and collision detection are Brax's; joints and contacts are answered by the engine's
own resolution (`embodied.engines.brax.steps` says why), with true masses, inertias and rotors. Joints give a little,
and each physics step is split into finer ones until they give no more than 2 mm under the model's weight
(`embodied.engines.brax.model`): 14 for a Go1 at 4 ms, 22 for half-cheetah at 10 ms, 2 for hopper and 4 for walker2d
at 2 ms.

What a model says about contact (solref, solimp, margins, torsional and rolling friction) does not apply. Joint
damping, springs, position servos and wrenches are MuJoCo's, computed at every finer step; dry friction is viscous
below the speed at which it would stop the joint within two finer steps, so a loaded joint creeps (a standing Go1 by
0.3 mm/s).

Not supported: bodies without joints (ant, humanoid), user sensors (they too), ball joints, tendons, equality
constraints. Sensors are synthesised (`embodied.engines.sensors`). Acceleration and actuator forces are those of the
last physics step, touch its mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.task import Task
from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.engines import servos
from embodied.engines.base import substeps_model
from embodied.engines.brax import model
from embodied.engines.sensors import Bodies, Forces, SensorReader, rotate
from embodied.engines.servos import Servos
from embodied.errors import EngineError

VARIABLE = frozenset((*model.VARIABLE, *servos.FIELDS))
"""Model fields that an episode may vary on this engine; `dof_armature` is taken and left without effect."""


class Pipeline(StrEnum):
    """Brax's pipelines."""

    POSITIONAL = "positional"
    SPRING = "spring"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BraxState:
    """One environment: the links are all bodies but the world's, in the model's order."""

    time: Array
    """() s since the episode began."""
    pos: Array
    """(links, 3) m, origins of the body frames, world frame."""
    quat: Array
    """(links, 4) wxyz, body -> world."""
    vel: Array
    """(links, 3) m/s of those origins, world frame."""
    angvel: Array
    """(links, 3) rad/s, world frame."""
    qpos: Array
    qvel: Array
    sensordata: Array
    """(nsensordata,) as `World` describes."""
    fields: Mapping[str, Array]
    """This episode's own model fields."""


class BraxEngine:
    """One environment of a task's model as pure functions of `BraxState`; vmapped by the simulator."""

    name: ClassVar[str] = "brax"
    fused: ClassVar[Literal[True]] = True

    def __init__(self, task: Task[Any], num_envs: int, pipeline: Pipeline = Pipeline.SPRING) -> None:
        """Load the model into Brax.

        Raises:
            EngineError: Brax is not installed, has no such pipeline, or does not support something in the model.
        """
        del num_envs
        if pipeline not in list(Pipeline):
            raise EngineError(f"engine brax has no pipeline {str(pipeline)!r}; it has {', '.join(Pipeline)}")
        self.pipeline = Pipeline(pipeline)
        self.model = substeps_model(task.model, task.timing.physics_dt)
        model.check(self.model)
        self._dt = float(self.model.opt.timestep)
        self._reader = SensorReader(self.model, self.name, jnp)
        try:
            from brax import kinematics
            from brax.base import Transform

            from embodied.engines.brax import joints, links, response, steps
        except ImportError as error:
            raise EngineError(f"engine brax is not installed ({error}); pip install 'brax>=0.14.2'") from None
        self._steps, self._joints, self._links, self._response = steps, joints, links, response
        self._kinematics, self._transform = kinematics, Transform
        system = model.load(self.model)
        self._table = joints.JointTable.from_model(self.model)
        self._rotors = response.Rotors.from_model(self.model, self._table)
        self.share, self.finer = model.answer(self.model, *self._stiffness(system))
        dt = self.model.opt.timestep / self.finer
        self._system = system.replace(
            opt=system.opt.replace(timestep=jnp.float32(dt)), joint_scale_pos=jnp.float32(self.share)
        )
        self._servos = Servos.from_model(substeps_model(self.model, dt), self.name)
        self._layout = SensorLayout.from_model(self.model)
        self._sites = self.model.sensor_objid[self.model.sensor_type == int(mujoco.mjtSensor.mjSENS_TOUCH)]

    def _stiffness(self, system: Any) -> tuple[np.ndarray, np.ndarray]:
        """See `embodied.engines.brax.links.stiffness`, at the reference pose."""

        def at_reference() -> tuple[Array, Array]:
            x, _ = self._kinematics.forward(system, self._coordinates(self.model.qpos0), jnp.zeros(self.model.nv))
            return self._links.stiffness(self._table, system, self._rotors, x)

        easy, taken_away = jax.jit(at_reference)()
        return np.asarray(easy), np.asarray(taken_away)

    def _coordinates(self, qpos: Any) -> Array:
        """Brax's coordinates (nq,) of MuJoCo's."""
        return jnp.asarray(qpos, jnp.float32) - self._table.reference

    def start(self, start: ResetState[Any]) -> BraxState:
        if unknown := sorted(set(start.model) - VARIABLE - {"dof_armature"}):
            raise EngineError(f"engine brax cannot vary the model fields {unknown}; it can vary {sorted(VARIABLE)}")
        fields = dict(start.model)
        qpos, qvel = jnp.asarray(start.qpos), jnp.asarray(start.qvel)
        x, _ = self._kinematics.forward(self._system, self._coordinates(qpos), jnp.zeros(self.model.nv))
        now = self._joints.joints(self._table, self._system, x, qpos)
        links = self._links.Links(x, *self._joints.motions(self._table, now, x, qvel))
        bodies = self._bodies(links, fields)
        falling = dataclasses.replace(bodies, vel=bodies.vel - self._dt * np.asarray(self.model.opt.gravity))
        nothing = jnp.zeros(self.model.nv)
        forces = Forces(falling, jnp.zeros(self.model.nu), nothing, jnp.zeros(len(self._sites)))
        sensordata = self._reader(bodies, qpos, qvel, forces)
        return BraxState(jnp.zeros(()), x.pos, x.rot, links.vel, links.angvel, qpos, qvel, sensordata, fields)

    def step(self, physics: BraxState, control: Control, substeps: int) -> BraxState:
        ctrl = jnp.zeros(self.model.nu) if control.ctrl is None else control.ctrl
        wrench = jnp.zeros((self.model.nbody, 6)) if control.wrench is None else control.wrench
        system = model.varied(self._system, physics.fields)
        advance = lambda _, state: self._advance(system, state, ctrl, wrench[1:])  # noqa: E731
        return advance(0, physics) if substeps == 1 else jax.lax.fori_loop(0, substeps, advance, physics)

    def _advance(self, system: Any, state: BraxState, ctrl: Array, wrench: Array) -> BraxState:
        """One physics step, in finer ones; touch is the mean over them."""
        fields = {name: state.fields.get(name, getattr(self.model, name)) for name in servos.FIELDS}
        start = self._links.Links(self._transform(pos=state.pos, rot=state.quat), state.vel, state.angvel)
        motors = jnp.zeros(self.model.nu), jnp.zeros(self.model.nv)

        def finer(_: Any, carry: Any) -> Any:
            links, near, _, touch = carry
            now = self._joints.joints(self._table, system, links.x, near)
            qvel = self._joints.rates(self._table, now, links.x, links.vel, links.angvel)
            efforts = self._servos(jnp, fields, now.qpos, qvel, ctrl)
            tau = efforts.driven + efforts.passive + self._dry_friction(fields["dof_frictionloss"], qvel)
            tau += self.model.dof_armature * self._joints.drift(self._table, now, links.angvel)
            answers = self._response.response(system, self._rotors, now, links.x)
            bodies = self._bodies(links, state.fields)
            step = self._steps.STEPS[self.pipeline]
            links, touching, force = step(system, self._table, now, answers, links, tau, wrench)
            touch = touch + self._touch(touching, force, bodies) / self.finer
            return links, now.qpos, (efforts.actuator, efforts.driven), touch

        carry = start, state.qpos, motors, jnp.zeros(len(self._sites))
        links, near, motors, touch = jax.lax.fori_loop(0, self.finer, finer, carry)
        now = self._joints.joints(self._table, system, links.x, near)
        qvel = self._joints.rates(self._table, now, links.x, links.vel, links.angvel)
        before, bodies = self._bodies(start, state.fields), self._bodies(links, state.fields)
        sensordata = self._reader(bodies, now.qpos, qvel, Forces(before, motors[0], motors[1], touch))
        time = state.time + self._dt
        return BraxState(
            time, links.x.pos, links.x.rot, links.vel, links.angvel, now.qpos, qvel, sensordata, state.fields
        )

    def _dry_friction(self, friction: Any, qvel: Array) -> Array:
        """(nv,) N, N m against the motion: at most `friction`, at most half of what stops the joint in this step."""
        stopping = 0.5 * qvel * self._servos.inertia / self._servos.dt
        return -jnp.clip(stopping, -jnp.asarray(friction), jnp.asarray(friction))

    def _touch(self, touching: Any, normal: Array | None, bodies: Bodies) -> Array:
        """(touch sensors,) N: the normal forces of contacts of each site's body within the site's radius."""
        if touching is None or normal is None or not len(self._sites):
            return jnp.zeros(len(self._sites))
        owner = self.model.site_bodyid[self._sites]
        pos = bodies.pos[owner] + rotate(jnp, bodies.quat[owner], self.model.site_pos[self._sites])
        link = owner[:, None] - 1
        own = (touching.first == link) | (touching.second == link)
        distance = jnp.linalg.norm(touching.point[None] - pos[:, None], axis=-1)
        inside = distance < self.model.site_size[self._sites, :1] + jnp.abs(touching.depth)
        return jnp.sum(jnp.where(own & inside, normal, 0.0), axis=1)

    def _bodies(self, links: Any, fields: Mapping[str, Array]) -> Bodies:
        """The links as bodies, the world's row included."""
        world = lambda rows, value: jnp.concatenate([jnp.asarray([value]), rows])  # noqa: E731
        zero = [0.0, 0.0, 0.0]
        return Bodies(
            pos=world(links.x.pos, zero),
            quat=world(links.x.rot, [1.0, 0.0, 0.0, 0.0]),
            vel=world(links.vel, zero),
            angvel=world(links.angvel, zero),
            ipos=fields.get("body_ipos", self.model.body_ipos),
            iquat=self.model.body_iquat,
        )

    def world(self, physics: BraxState) -> World:
        return World(physics.time, physics.qpos, physics.qvel, physics.sensordata, self._layout)

    def overflow(self, physics: BraxState) -> Array:
        """Never: Brax computes every possible contact."""
        del physics
        return jnp.zeros((), bool)
