"""`brax`: Brax's maximal-coordinate pipelines, `spring` and `positional`, on the same MuJoCo model.

Every link is a rigid body of its own; joints are springs, or corrections of position, that pull links together. Joints
therefore give a little, and what a model says about contact (solref, solimp, margins) does not apply. Joint damping,
springs, position servos and wrenches are MuJoCo's, computed here; dry friction is viscous below the speed at which
it would stop the joint within two steps; armature is added to the link's inertia. Brax's own parameters come from the
model's `custom` numerics, as Brax defines them, else from `embodied.engines.brax_model.NUMERICS`.

`spring` is the default: it keeps velocities, where `positional` takes them from positions and so loses digits in single
precision (0.01 m/s^2 of acceleration at 2 ms). Its joints are stable while dt < 2 sqrt(inertia / constraint_stiffness).

Sensors are synthesised (`embodied.engines.sensors`). Acceleration, touch and forces are those of the last physics step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.engines import brax_model, servos
from embodied.engines.base import substeps_model
from embodied.engines.sensors import Bodies, Forces, SensorReader, rotate
from embodied.engines.servos import Servos
from embodied.errors import EngineError
from embodied.task import Task
from embodied.world import Control, SensorLayout, Start, World

VARIABLE = frozenset((*brax_model.VARIABLE, *servos.FIELDS))
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
    """One environment of a task's model as pure functions of `BraxState`; vmapped by the stepper."""

    name: ClassVar[str] = "brax"
    fused: ClassVar[Literal[True]] = True
    compiler_options: Mapping[str, Any] = MappingProxyType({})

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
        brax_model.check(self.model)
        self._servos = Servos.from_model(self.model, self.name)
        self._reader = SensorReader(self.model, self.name, jnp)
        try:
            from embodied.engines import brax_steps
        except ImportError as error:
            raise EngineError(f"engine brax is not installed ({error}); pip install 'brax>=0.14.2'") from None
        self._brax = brax_steps
        self._system = brax_model.load(self.model)
        self._layout = SensorLayout.from_model(self.model)
        self._sites = self.model.sensor_objid[self.model.sensor_type == int(mujoco.mjtSensor.mjSENS_TOUCH)]

    def start(self, start: Start[Any]) -> BraxState:
        """The state at an episode's start; see `FusedEngine.start`."""
        if unknown := sorted(set(start.model) - VARIABLE - {"dof_armature"}):
            raise EngineError(f"engine brax cannot vary the model fields {unknown}; it can vary {sorted(VARIABLE)}")
        fields = dict(start.model)
        qpos, qvel = jnp.asarray(start.qpos), jnp.asarray(start.qvel)
        x, xd = self._brax.kinematics.forward(self._system, qpos, qvel)
        bodies = self._bodies(x.pos, x.rot, xd.vel, xd.ang, fields)
        falling = dataclasses.replace(bodies, vel=bodies.vel - self._servos.dt * np.asarray(self.model.opt.gravity))
        nothing = jnp.zeros(self.model.nv)
        forces = Forces(falling, jnp.zeros(self.model.nu), nothing, jnp.zeros(len(self._sites)))
        sensordata = self._reader(bodies, qpos, qvel, forces)
        return BraxState(jnp.zeros(()), x.pos, x.rot, xd.vel, xd.ang, qpos, qvel, sensordata, fields)

    def step(self, physics: BraxState, control: Control, substeps: int) -> BraxState:
        """Advance under one held control; see `FusedEngine.step`."""
        ctrl = jnp.zeros(self.model.nu) if control.ctrl is None else control.ctrl
        wrench = jnp.zeros((self.model.nbody, 6)) if control.wrench is None else control.wrench
        system = brax_model.varied(self._system, self.model, physics.fields)
        advance = lambda _, state: self._advance(system, state, ctrl, wrench[1:])  # noqa: E731
        return advance(0, physics) if substeps == 1 else jax.lax.fori_loop(0, substeps, advance, physics)

    def _advance(self, system: Any, state: BraxState, ctrl: Array, wrench: Array) -> BraxState:
        """One physics step."""
        fields = {name: state.fields.get(name, getattr(self.model, name)) for name in servos.FIELDS}
        efforts = self._servos(jnp, fields, state.qpos, state.qvel, ctrl)
        tau = efforts.driven + efforts.passive + self._dry_friction(fields["dof_frictionloss"], state.qvel)
        x = self._brax.Transform(pos=state.pos, rot=state.quat)
        xd = self._brax.Motion(vel=state.vel, ang=state.angvel)
        touching = self._brax.contacts(system, x)
        step = self._brax.STEPS[self.pipeline]
        x, xd, normal = step(system, x, xd, tau, wrench)
        qpos, qvel = self._brax.joint_coordinates(system, x, xd)
        before = self._bodies(state.pos, state.quat, state.vel, state.angvel, state.fields)
        bodies = self._bodies(x.pos, x.rot, xd.vel, xd.ang, state.fields)
        touch = self._touch(touching, normal, before)
        sensordata = self._reader(bodies, qpos, qvel, Forces(before, efforts.actuator, efforts.driven, touch))
        time = state.time + self._servos.dt
        return BraxState(time, x.pos, x.rot, xd.vel, xd.ang, qpos, qvel, sensordata, state.fields)

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
        first, second = touching.link_idx
        own = (first + 1 == owner[:, None]) | (second + 1 == owner[:, None])
        distance = jnp.linalg.norm(touching.pos[None] - pos[:, None], axis=-1)
        inside = distance < self.model.site_size[self._sites, :1] + jnp.abs(touching.dist)
        return jnp.sum(jnp.where(own & inside, normal, 0.0), axis=1)

    def _bodies(self, pos: Array, quat: Array, vel: Array, angvel: Array, fields: Mapping[str, Array]) -> Bodies:
        """The links as bodies, the world's row included."""
        world = lambda rows, value: jnp.concatenate([jnp.asarray([value]), rows])  # noqa: E731
        zero = [0.0, 0.0, 0.0]
        return Bodies(
            pos=world(pos, zero),
            quat=world(quat, [1.0, 0.0, 0.0, 0.0]),
            vel=world(vel, zero),
            angvel=world(angvel, zero),
            ipos=fields.get("body_ipos", self.model.body_ipos),
            iquat=self.model.body_iquat,
        )

    def world(self, physics: BraxState) -> World:
        """What the task may know; see `FusedEngine.world`."""
        return World(physics.time, physics.qpos, physics.qvel, physics.sensordata, self._layout)

    def overflow(self, physics: BraxState) -> Array:
        """Never: Brax computes every possible contact."""
        del physics
        return jnp.zeros((), bool)
