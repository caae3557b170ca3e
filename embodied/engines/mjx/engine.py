"""`mjx`: MuJoCo in JAX, `impl="warp"` on NVIDIA GPUs and `impl="jax"` anywhere else.

Between control steps only the integration state is kept, and the working `mjx.Data` is rebuilt from a
template: the warp implementation shares some buffers between environments, which could not be reset one by
one, and a slim state makes checkpoints small.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.randomization import DerivedConstants
from embodied.core.task import Task
from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.engines.base import POST_CONSTRAINT, data_fields, of_last_step, sees_nvidia_gpu, substeps_model
from embodied.engines.mjx.buffers import room_for
from embodied.engines.mjx.stages import sensor_refresh
from embodied.engines.mjx.warp_library import import_warp
from embodied.errors import EngineError, UnknownNameError


class GraphMode(StrEnum):
    """Ways in which Warp's kernels become CUDA graphs on a GPU (`mujoco.mjx.warp.types.GraphMode`)."""

    NONE = "none"
    """Each kernel is launched by itself."""
    JAX = "jax"
    """JAX captures the graph, with the rest of the program."""
    WARP = "warp"
    """Warp captures it, anew whenever XLA moves its buffers."""
    WARP_STAGED = "warp_staged"
    """Warp captures it on copies of the buffers: XLA moves its own between calls, and the graph can be kept."""
    WARP_STAGED_EX = "warp_staged_ex"
    """The same with the copies captured as well."""


class Impl(StrEnum):
    """Implementations of MJX."""

    AUTO = "auto"
    WARP = "warp"
    JAX = "jax"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MjxState:
    """State that one environment's physics needs to go on."""

    time: Array
    """() s since the episode began."""
    qpos: Array
    qvel: Array
    act: Array
    """(na,) activations of stateful actuators."""
    warmstart: Array
    """(nv,) the last acceleration, from which the constraint solver starts."""
    sensordata: Array
    """(nsensordata,) as `World` describes."""
    fields: Mapping[str, Array]
    """This episode's own model fields."""
    overflow: Array
    """() bool, whether contacts or constraints were ever more than the buffers hold."""


class MjxEngine:
    """One environment of a task's model as pure functions of `MjxState`; vmapped by the simulator."""

    name: ClassVar[str] = "mjx"
    fused: ClassVar[Literal[True]] = True

    def __init__(
        self,
        task: Task[Any],
        num_envs: int,
        impl: Impl = Impl.AUTO,
        graph_mode: GraphMode = GraphMode.WARP_STAGED,
        contacts: int = 0,
        constraints: int = 0,
    ) -> None:
        """Put the model on JAX's default device.

        Args:
            task: The task whose model moves.
            num_envs: Number of environments that share Warp's buffers.
            impl: Implementation.
            graph_mode: Matters to `warp` on a GPU only.
            contacts: Contacts that `warp` has room for, per environment; 0: what `buffers.room_for` finds.
            constraints: Likewise rows of the constraint Jacobian.

        Raises:
            EngineError: MJX is not installed, or does not support something in the model, or a negative room.
        """
        mjx = self._mjx = import_mjx()
        if graph_mode not in [*GraphMode]:
            raise UnknownNameError("graph mode", graph_mode, GraphMode)
        if contacts < 0 or constraints < 0:
            raise EngineError(f"room for {contacts} contacts and {constraints} constraints; expected 0 or more of each")
        self.impl = pick_impl(impl)
        self.model = substeps_model(task.model, task.timing.physics_dt)
        self._data_fields = data_fields(self.model)
        options, changes, self._limits = {}, {}, {}
        if self.impl is Impl.WARP:
            options, changes = self._warp_options(GraphMode(graph_mode).name)
            room = room_for(self.model)
            self._limits["naconmax"] = (contacts or room.contacts) * num_envs
            self._limits["njmax"] = constraints or room.constraints
        try:
            known = known_to_mjx(self.model)
            self._device_model = mjx.put_model(known, impl=self.impl.value, **options).tree_replace(changes)
            self._template = mjx.make_data(known, impl=self.impl.value, **self._limits)
        except NotImplementedError as error:
            raise EngineError(f"engine mjx ({self.impl}) does not support this model: {error}") from None
        self._layout = SensorLayout.from_model(self.model)
        self._derive = DerivedConstants.from_model(self.model)
        self._of_last_step = of_last_step(self.model)
        self._refresh = sensor_refresh(known, warp=self.impl is Impl.WARP)

    def _warp_options(self, mode: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of `mjx.put_model`, and changes of its result."""
        import_warp()
        from mujoco.mjx.third_party.mujoco_warp import OverflowType
        from mujoco.mjx.warp import types as warp_types

        # Buffers of convex collision, height fields, contact sensors, sparse rows. That a solver stops at the
        # model's limit of iterations is no overflow, though Warp counts it as one.
        self._overflow_mask = int(OverflowType.ALL & ~(OverflowType.ITERATIONS | OverflowType.LS_ITERATIONS))
        options = {"graph_mode": getattr(warp_types.GraphMode, mode)} if jax.default_backend() == "gpu" else {}
        changes: dict[str, Any] = {"opt._impl.warn_overflow": 0}  # an error of ours, not lines that kernels print
        if POST_CONSTRAINT & set(self._data_fields):
            changes["opt._impl.run_rne_postconstraint"] = True
        return options, changes

    def start(self, start: ResetState[Any]) -> MjxState:
        fields = self._derive(dict(start.model))
        data = self._template.replace(qpos=start.qpos, qvel=start.qvel)
        if start.mocap_pos is not None:
            data = data.replace(mocap_pos=start.mocap_pos)
        model = self._with_props(self._episode_model(fields), data)
        data = self._with_force_sensors(model, self._mjx.forward(model, data), data)
        data = self._with_data_fields(model, data)
        return MjxState(
            time=jnp.zeros(()),
            qpos=start.qpos,  # not the data's: the JAX implementation normalises quaternions there, MuJoCo does not
            qvel=data.qvel,
            act=data.act,
            warmstart=data.qacc_warmstart,
            sensordata=data.sensordata,
            fields=fields,
            overflow=self._overflow(data),
        )

    def step(self, physics: MjxState, control: Control, substeps: int) -> MjxState:
        initial = self._controlled(physics, control)
        model = self._with_props(self._episode_model(physics.fields), initial)

        def substep(_: Any, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            data = self._with_force_sensors(model, self._mjx.step(model, carry[0]), carry[0])
            return data, carry[1] | self._overflow(data)

        carry = (initial, physics.overflow)
        # A loop of the captured step, not an unrolled program: compile time stays that of one step.
        data, overflow = substep(0, carry) if substeps == 1 else jax.lax.fori_loop(0, substeps, substep, carry)
        data = self._with_data_fields(model, data)
        sensordata = data.sensordata
        if self._refresh is not None:
            sensordata = jnp.where(self._of_last_step, sensordata, self._refresh(model, data).sensordata)
        return MjxState(
            time=data.time,
            qpos=data.qpos,
            qvel=data.qvel,
            act=data.act,
            warmstart=data.qacc_warmstart,
            sensordata=sensordata,
            fields=physics.fields,
            overflow=overflow,
        )

    def _with_force_sensors(self, model: Any, data: Any, before: Any) -> Any:
        """`data`, computed from the state `before`, with force and acceleration sensors filled in.

        MJX-JAX leaves them out where a model cannot have constraints: its `forward` returns early.
        """
        if self.impl is Impl.WARP or data._impl.efc_J.size:
            return data
        sensed = self._mjx.sensor_acc(model, data.replace(qpos=before.qpos, qvel=before.qvel))
        return data.replace(sensordata=sensed.sensordata)

    def _with_data_fields(self, model: Any, data: Any) -> Any:
        """`data` with the user sensors filled in: each holds the field of its name."""
        if not self._data_fields:
            return data
        source = data
        if self.impl is Impl.JAX and POST_CONSTRAINT & set(self._data_fields):
            source = self._mjx.rne_postconstraint(model, data)
        sensordata = data.sensordata
        for name, part in self._data_fields.items():
            field = getattr(source, name) if hasattr(source, name) else getattr(source._impl, name)
            sensordata = sensordata.at[part].set(field.ravel())
        return data.replace(sensordata=sensordata)

    def world(self, physics: MjxState) -> World:
        return World(physics.time, physics.qpos, physics.qvel, physics.sensordata, self._layout)

    def overflow(self, physics: MjxState) -> Array:
        return physics.overflow

    def _episode_model(self, fields: Mapping[str, Array]) -> Any:
        """The device model with this episode's fields."""
        return self._device_model.tree_replace(dict(fields)) if fields else self._device_model

    def _with_props(self, model: Any, data: Any) -> Any:
        """`model` with mocap bodies where `data` has them.

        MJX-JAX (3.17) moves them after the bodies that hang on them, which would stay behind at the model's place.
        """
        if self.impl is Impl.WARP or not self.model.nmocap:
            return model
        bodies = np.flatnonzero(self.model.body_mocapid >= 0)
        pos = model.body_pos.at[bodies].set(data.mocap_pos)
        quat = model.body_quat.at[bodies].set(data.mocap_quat)
        return model.tree_replace({"body_pos": pos, "body_quat": quat})

    def _controlled(self, physics: MjxState, control: Control) -> Any:
        """The working data at `physics` under `control`."""
        given = {
            "ctrl": control.ctrl,
            "xfrc_applied": control.wrench,
            "mocap_pos": control.mocap_pos,
            "mocap_quat": control.mocap_quat,
        }
        return self._template.replace(
            time=physics.time,
            qpos=physics.qpos,
            qvel=physics.qvel,
            act=physics.act,
            qacc_warmstart=physics.warmstart,
            **{name: value for name, value in given.items() if value is not None},
        )

    def _overflow(self, data: Any) -> Array:
        """() bool, whether the last step wanted more contacts or constraints than there is room for."""
        if self.impl is not Impl.WARP:  # MJX-JAX allocates every possible contact
            return jnp.zeros((), bool)
        inner = data._impl
        # The candidates of the broad phase live in a buffer of the same size.
        too_many_contacts = jnp.maximum(jnp.max(inner.nacon), jnp.max(inner.ncollision)) > self._limits["naconmax"]
        too_many_rows = jnp.max(inner.nefc) > self._limits["njmax"]
        return too_many_contacts | too_many_rows | jnp.any(inner.overflow & self._overflow_mask != 0)


def import_mjx() -> Any:
    """The module `mujoco.mjx`.

    Raises:
        EngineError: it is not installed.
    """
    # It warns at import that optional warp is missing, which does not matter here.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        from mujoco import mjx
    except ImportError as error:
        raise EngineError(f"engine mjx is not installed ({error}); pip install 'mujoco-mjx[warp]==3.17.*'") from None
    return mjx


def known_to_mjx(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy of `model` without options that MJX refuses needlessly.

    PGS becomes Newton: both minimise the same cost, and Newton gets further. The mid-phase of collisions need not be
    switched off, which Warp refuses: there is none. User sensors become clocks of the
    acceleration stage, which MJX leaves alone; the engine fills their places.
    """
    copy = model.__copy__()
    if copy.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
        copy.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    copy.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    users = copy.sensor_type == mujoco.mjtSensor.mjSENS_USER
    copy.sensor_type[users] = mujoco.mjtSensor.mjSENS_CLOCK
    copy.sensor_needstage[users] = mujoco.mjtStage.mjSTAGE_ACC
    return copy


def pick_impl(impl: Impl) -> Impl:
    """`warp` where JAX sees an NVIDIA GPU, else `jax`, unless one is given."""
    if impl is not Impl.AUTO:
        return Impl(impl)
    return Impl.WARP if sees_nvidia_gpu() else Impl.JAX
