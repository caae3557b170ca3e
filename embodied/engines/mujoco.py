"""`mujoco`: C MuJoCo on a thread pool (`mujoco.batch.Batch`), bit-identical at any number of threads.

The default without a GPU, and the reference that the other engines are tested against.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from embodied.core.task import Task
from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.engines.base import POST_CONSTRAINT, data_fields, numpy_world, of_last_step, substeps_model
from embodied.errors import EngineError, whole_number

OVERFLOW_WARNINGS = (mujoco.mjtWarning.mjWARN_CONTACTFULL, mujoco.mjtWarning.mjWARN_CNSTRFULL)
STEP_ONLY = int(mujoco.mjtStage.mjSTAGE_NONE)
SENSORS_CURRENT = int(mujoco.mjtStage.mjSTAGE_VEL)  # what must follow a step for `HostEngine`'s promise on sensors


class MujocoEngine:
    """`num_envs` simulations of a task's model on `threads` threads (0: one per core)."""

    name: ClassVar[str] = "mujoco"
    fused: ClassVar[Literal[False]] = False

    def __init__(self, task: Task[Any], num_envs: int, threads: int = 0) -> None:
        """Allocate the simulations; they hold the model's default state until the first `reset`."""
        threads, self.num_envs = whole_number("threads", threads, 0), num_envs
        self.model = substeps_model(task.model, task.timing.physics_dt)
        # Auto-reset would hide a divergence from the NaN triage: the environment would be back at its reference
        # pose without a report.
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        if self.model.ntree == 1:
            # One tree is one island; looking for it would cost 5 to 8 % of the physics.
            self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
        fields = data_fields(self.model)
        self._late = {name: part for name, part in fields.items() if name in POST_CONSTRAINT}
        # Contact forces lie in the arena, which a batch keeps for each simulation only if it is persistent.
        self.batch = Batch(self.model, num_envs, threads, persistent=bool(self._late))
        self._bound = [(part, self.batch.bind(name)) for name, part in fields.items() if name not in self._late]
        self._scratch = mujoco.MjData(self.model) if self._late else None
        self._layout = SensorLayout.from_model(self.model)
        self._current = ~of_last_step(self.model)
        # Computing the new state's stages overwrites what the step left, which user sensors have to see first.
        self._in_one_call = not (fields and self._current.any())
        self._fields: dict[str, np.ndarray] = {}
        self._warnings = self._overflow_counts()
        self._out_of_memory = False
        self._outputs = self.batch.bind("sensordata")
        self._sensordata = np.zeros(self._outputs.shape, np.float32)

    def reset(self, ids: np.ndarray, start: ResetState[Any]) -> None:
        if not len(ids):
            return
        batch = self.batch
        self._write_fields(ids, start)
        batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        batch.qpos[ids] = start.qpos
        batch.qvel[ids] = start.qvel
        if start.mocap_pos is not None:
            batch.mocap_pos[ids] = start.mocap_pos
        self._run(lambda: batch.forward(ids))
        self._sense(ids)

    def _write_fields(self, ids: np.ndarray, start: ResetState[Any]) -> None:
        """Give the environments `ids` their episode's model fields and recompute what derives from them."""
        for name, values in start.model.items():
            if name not in self._fields:
                self._fields[name] = self._expand(name)
            self._fields[name][ids] = values
        if any(name in mujoco.MjModel._setconst_inputs for name in start.model):
            self.batch.set_const(ids)

    def _expand(self, name: str) -> np.ndarray:
        """The live per-environment array of one model field."""
        try:
            return self.batch.expand(name)
        except (ValueError, AttributeError) as error:
            raise EngineError(f"engine mujoco cannot vary the model field {name!r} per environment: {error}") from None

    def step(self, control: Control, substeps: int) -> None:
        batch = self.batch
        if control.ctrl is not None:
            batch.ctrl[...] = control.ctrl
        if control.wrench is not None:
            batch.xfrc_applied[...] = control.wrench
        if control.mocap_pos is not None:
            batch.mocap_pos[...] = control.mocap_pos
        if control.mocap_quat is not None:
            batch.mocap_quat[...] = control.mocap_quat
        stage = SENSORS_CURRENT if self._in_one_call and self._current.any() else STEP_ONLY
        self._run(lambda: batch.step(nstep=substeps, stage=stage))
        self._sense()
        if not self._in_one_call:
            self._run(lambda: batch.forward(stage=SENSORS_CURRENT))
            self._sensordata[:, self._current] = self._outputs[:, self._current]

    def _sense(self, ids: np.ndarray | None = None) -> None:
        """Take the sensors of all environments, or of `ids` (k,), user sensors included, as the last call left them.

        Contact wrenches (`cfrc_ext`) need `mj_rnePostConstraint`, which a batch never calls: each environment's data is
        fetched for it.
        """
        rows = slice(None) if ids is None else ids
        self._sensordata[rows] = self._outputs[rows]
        for part, values in self._bound:
            self._sensordata[rows, part] = values[rows].reshape(-1, part.stop - part.start)
        if self._scratch is None:
            return
        # One at a time, about 15 microseconds each (an ant's control step costs 200): the batch has no call for it.
        for i in range(self.num_envs) if ids is None else ids.tolist():
            data = self.batch.get_data(i, self._scratch)
            mujoco.mj_rnePostConstraint(self.model, data)
            for name, part in self._late.items():
                self._sensordata[i, part] = getattr(data, name).ravel()

    def world(self, ids: np.ndarray | None = None) -> World:
        """The joints and sensors of all environments, or of some, as float32; see `HostEngine.world`."""
        batch, rows = self.batch, slice(None) if ids is None else ids
        return numpy_world(batch.time[rows], batch.qpos[rows], batch.qvel[rows], self._sensordata[rows], self._layout)

    def _run(self, call: Callable[[], None]) -> None:
        """Make a call in which single simulations may fail without affecting the others."""
        try:
            call()
        except SimulationError as error:
            # Those simulations kept their state; a NaN makes the triage count and restart them.
            self.batch.qpos[error.ids] = np.nan
            self._out_of_memory |= any("out of memory" in self.batch.error(int(i)) for i in error.ids)

    def overflow(self) -> bool:
        """Whether MuJoCo warned of a full contact or constraint buffer since the last call."""
        counts = self._overflow_counts()
        rose = bool((counts > self._warnings).any()) or self._out_of_memory
        self._warnings, self._out_of_memory = counts, False
        return rose

    def _overflow_counts(self) -> np.ndarray:
        """Number of times that each environment's buffers have been full, (num_envs, kinds)."""
        return self.batch.warning[:, [int(kind) for kind in OVERFLOW_WARNINGS], 1].copy()

    def data(self, index: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Model and data of one environment as they are now, contacts and forces computed; the next call reuses both.

        For people to look at: it computes the dynamics once more, about as long as a physics step.
        """
        model, data = self._inspected
        for name, values in self._fields.items():
            getattr(model, name)[...] = values[index]
        if any(name in mujoco.MjModel._setconst_inputs for name in self._fields):
            mujoco.mj_setConst(model, data)
        self.batch.get_data(index, data)
        mujoco.mj_forward(model, data)
        return model, data

    @functools.cached_property
    def _inspected(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        model = copy.copy(self.model)
        return model, mujoco.MjData(model)

    def close(self) -> None:
        del self.batch

    def state(self) -> dict[str, np.ndarray]:
        """The integration state, the sensors and the per-environment model fields."""
        return self.snapshot() | {f"model.{name}": values.copy() for name, values in self._fields.items()}

    def snapshot(self) -> dict[str, np.ndarray]:
        """The integration state and the sensors."""
        return {"state": self.batch.state.copy(), "sensordata": self._sensordata.copy()}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Take back what `state` gave."""
        for key, values in state.items():
            if key.startswith("model."):
                name = key.removeprefix("model.")
                if name not in self._fields:
                    self._fields[name] = self._expand(name)
                self._fields[name][...] = values
        if self._fields:
            self.batch.set_const()
        self.batch.state[...] = state["state"]
        self._sensordata[...] = state["sensordata"]
