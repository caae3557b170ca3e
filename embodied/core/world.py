"""Inputs of a task (`World`), its outputs (`Control`) and the beginning of an episode (`ResetState`).

All three describe ONE environment, without a batch axis; engines and `Env` add the leading `(num_envs,)`.
Units are SI and radians, quaternions are wxyz, z points up.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.errors import UnknownNameError

StateT = TypeVar("StateT")
"""State of a task: a frozen dataclass of arrays, see `ResetState.task_state`."""


@dataclasses.dataclass(frozen=True)
class SensorLayout:
    """Slices of a model's named sensors in the flat sensor array. Static and hashable."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def from_model(cls, model: mujoco.MjModel) -> SensorLayout:
        """The layout of `model.sensordata`; unnamed sensors keep their place but cannot be read."""
        return cls(
            names=tuple(model.sensor(i).name for i in range(model.nsensor)),
            starts=tuple(int(start) for start in model.sensor_adr),
            sizes=tuple(int(size) for size in model.sensor_dim),
        )

    @functools.cached_property
    def slices(self) -> dict[str, slice]:
        """Name -> slice of the last axis of the sensor array."""
        rows = zip(self.names, self.starts, self.sizes, strict=True)
        return {name: slice(start, start + size) for name, start, size in rows if name}


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["time", "qpos", "qvel", "sensordata"], meta_fields=["layout"]
)
@dataclasses.dataclass(frozen=True)
class World:
    """Everything a task may know of the simulation: its joints and its named sensors, as a robot would.

    Position and velocity sensors describe this instant; force and acceleration sensors describe the last
    physics step, which is what a sampled force sensor reports.
    """

    time: Array
    """() s since the episode began."""
    qpos: Array
    """(nq,) generalised positions in MuJoCo's order: m, rad, free-joint quaternions wxyz."""
    qvel: Array
    """(nv,) generalised velocities: m/s, rad/s; a free joint's angular part is in the body frame."""
    sensordata: Array
    """(nsensordata,) all sensors, flat; read them by name with `world["gyro"]`."""
    layout: SensorLayout

    def __getitem__(self, sensor: str) -> Array:
        """The reading of one named sensor, shape (size,), in the unit and frame MuJoCo gives it.

        Raises:
            UnknownNameError: no such sensor; lists those that exist.
        """
        try:
            return self.sensordata[..., self.layout.slices[sensor]]
        except KeyError:
            raise UnknownNameError("sensor", sensor, self.layout.slices) from None

    @classmethod
    def zeros(cls, model: mujoco.MjModel) -> World:
        """A world of a model's sizes, to find out shapes."""
        zeros = lambda size: jnp.zeros((size,), jnp.float32)  # noqa: E731
        layout = SensorLayout.from_model(model)
        return cls(jnp.zeros(()), zeros(model.nq), zeros(model.nv), zeros(model.nsensordata), layout)

    @classmethod
    def posed(cls, model: mujoco.MjModel, qpos: Any, qvel: Any, mocap_pos: Any = None) -> World:
        """Readings of C MuJoCo for a model with these joints, (nq,) and (nv,): to try rewards and outcomes on a pose.

        `mocap_pos`: (nmocap, 3) m, where the mocap bodies stand; by default where the model has them.
        """
        data = mujoco.MjData(model)
        data.qpos, data.qvel = qpos, qvel
        if mocap_pos is not None:
            data.mocap_pos = mocap_pos
        mujoco.mj_forward(model, data)
        pos, vel, sensed = (jnp.asarray(array, jnp.float32) for array in (data.qpos, data.qvel, data.sensordata))
        return cls(jnp.zeros(()), pos, vel, sensed, SensorLayout.from_model(model))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Control:
    """Inputs of the engine for one physics step. `None` leaves a part at zero (or as it was)."""

    ctrl: Array | None = None
    """(nu,) actuator inputs, in each actuator's own unit."""
    wrench: Array | None = None
    """(nbody, 6) force (N) and torque (N m) on each body at its centre of mass, world frame."""
    mocap_pos: Array | None = None
    """(nmocap, 3) m, world frame."""
    mocap_quat: Array | None = None
    """(nmocap, 4) wxyz, world frame."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ResetState(Generic[StateT]):
    """Beginning of an episode: a fresh state, the task's state and this episode's physical parameters."""

    qpos: Array
    """(nq,) as in `World`."""
    qvel: Array
    """(nv,) as in `World`."""
    task_state: StateT
    """The task's own frozen dataclass: goal, command, phase, last action ..."""
    model: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    """MjModel field -> this episode's value, in the field's own shape (see `embodied.core.randomization`)."""
    mocap_pos: Array | None = None
    """(nmocap, 3) m, world frame: where mocap bodies stand, so that the first observation has them there. Engines that
    keep none read them again from `Control.mocap_pos`. `None`: where the model has them."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Outcome:
    """Whether the task is solved at this instant, and whether the episode has failed (and ends now)."""

    success: Any
    """() bool; separate from reward. A task that needs a history keeps it in its state."""
    failure: Any
    """() bool; a failure ends the episode without bootstrapping. A time limit is not a failure."""
