"""The protocol of physics engines, in its two kinds.

A *fused* engine is pure JAX for one environment: the simulator compiles task and physics into one program. A
*host* engine owns the state of N environments outside JAX and moves them in place; the simulator calls the
task's compiled functions before and after it. Both promise the same:

- the model's named sensors mean the same: position and velocity sensors are current, force and acceleration
  sensors describe the last physics step;
- a user sensor holds the MjData field of its name (`<user name="cfrc_ext" dim="84"/>`), flattened, as the last physics
  step left it: from the step's last evaluation of the dynamics, so Runge-Kutta's last stage, like MjData after
  `mj_step`; before the first step it describes the start. What a step leaves to `mj_rnePostConstraint` is included;
- an episode's own model fields (`ResetState.model`) act from its reset on, constants derived from them included;
- one environment's divergence never reaches another;
- more contacts than the engine has room for are reported by `overflow`, never swallowed.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import jax
import mujoco
import numpy as np
from jax import Array

from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.errors import EngineError

P = TypeVar("P")

POST_CONSTRAINT = frozenset({"cacc", "cfrc_int", "cfrc_ext"})  # MjData fields that only mj_rnePostConstraint computes


def first_device() -> Any:
    """JAX's default device, a `jax.Device`.

    Raises:
        EngineError: JAX was told to use a platform that is not there.
    """
    try:
        return jax.devices()[0]
    except (RuntimeError, AssertionError) as error:  # of a platform that is known, but has no device, it asserts
        platforms = os.environ.get("JAX_PLATFORMS", "")
        said = (str(error).splitlines() or ["it has none here"])[0]
        raise EngineError(f"JAX finds no device with JAX_PLATFORMS={platforms!r}: {said}; unset it") from None


def sees_nvidia_gpu() -> bool:
    """Whether JAX computes on an NVIDIA GPU. What torch sees is another matter: their builds may differ.

    Raises:
        EngineError: JAX was told to use a platform that is not there.
    """
    device = first_device()
    return device.platform in ("gpu", "cuda") and "nvidia" in device.device_kind.lower()


class FusedEngine(Protocol[P]):
    """Physics of ONE environment as pure functions over a pytree `P`."""

    name: ClassVar[str]
    fused: ClassVar[Literal[True]]

    def start(self, start: ResetState[Any]) -> P:
        """The state at an episode's start, sensors current."""
        ...

    def step(self, physics: P, control: Control, substeps: int) -> P:
        """Advance by `substeps` physics steps under one held control; sensors are current afterwards."""
        ...

    def world(self, physics: P) -> World:
        """The part of the state that the task may know."""
        ...

    def overflow(self, physics: P) -> Array:
        """() bool, whether a buffer of this environment was too small at any step so far."""
        ...


class HostEngine(Protocol):
    """Physics of `num_envs` environments behind numpy arrays with a leading axis of environments."""

    name: ClassVar[str]
    fused: ClassVar[Literal[False]]
    num_envs: int

    def reset(self, ids: np.ndarray, start: ResetState[Any]) -> None:
        """Start new episodes in the environments `ids` (k,) from a batch of k starts."""
        ...

    def step(self, control: Control, substeps: int) -> None:
        """Advance every environment by `substeps` physics steps under one held control."""
        ...

    def world(self, ids: np.ndarray | None = None) -> World:
        """The part of the state that tasks may know, of all environments or of `ids` (k,): float32, axis 0 first."""
        ...

    def overflow(self) -> bool:
        """Whether any environment's buffers were too small since the last call."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Everything a bit-exact resume needs, as named arrays with a leading axis of environments."""
        ...

    def snapshot(self) -> dict[str, np.ndarray]:
        """The part of `state` that a step changes; taken before every step, so it must be cheap."""
        ...

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `state` gave."""
        ...

    def close(self) -> None:
        """Release the worlds; nothing is called afterwards."""
        ...


def substeps_model(model: mujoco.MjModel, physics_dt: float) -> mujoco.MjModel:
    """A copy of `model` at the task's physics step."""
    copy = model.__copy__()
    copy.opt.timestep = physics_dt
    return copy


def numpy_world(
    time: np.ndarray, qpos: np.ndarray, qvel: np.ndarray, sensordata: np.ndarray, layout: SensorLayout
) -> World:
    """A batched world of a host engine's arrays, copied to float32; the task's compiled functions take it as it is."""

    def single(array: np.ndarray) -> Any:
        return array.astype(np.float32)

    return World(single(time), single(qpos), single(qvel), single(sensordata), layout)


def data_fields(model: mujoco.MjModel) -> dict[str, slice]:
    """MjData field -> its place in the sensor array, for the model's user sensors.

    Raises:
        EngineError: a user sensor names no such field, or its `dim` is not the field's size.
    """
    data = mujoco.MjData(model)
    fields: dict[str, slice] = {}
    for i in np.flatnonzero(model.sensor_type == mujoco.mjtSensor.mjSENS_USER):
        name, start, size = model.sensor(i).name, int(model.sensor_adr[i]), int(model.sensor_dim[i])
        field = getattr(data, name, None) if name else None
        if not isinstance(field, np.ndarray) or field.size != size:
            expected = f"{field.size} of it" if isinstance(field, np.ndarray) else "the name of an MjData array"
            raise EngineError(f"user sensor {name!r} reads {size} numbers; expected {expected}")
        fields[name] = slice(start, start + size)
    return fields


def of_last_step(model: mujoco.MjModel) -> np.ndarray:
    """(nsensordata,) bool, which readings describe the last physics step; the others are current."""
    late = (model.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC) | (model.sensor_type == mujoco.mjtSensor.mjSENS_USER)
    return np.repeat(late, model.sensor_dim)
