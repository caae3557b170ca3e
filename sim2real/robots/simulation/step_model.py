"""A simulated robot of any task whose policy is deployed as a whole control step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from embodied.core.task import Task
from embodied.core.world import Control, ResetState, World
from embodied.errors import EmbodiedError
from sim2real.contract.contract import COMMAND, STATE, Contract
from sim2real.graphs.control import nominal
from sim2real.graphs.describe_step import robot_contract
from sim2real.graphs.reference import with_numbers
from sim2real.graphs.tracing.sources import JOINT_POS, JOINT_VEL, Sources
from sim2real.robots.base import Measurement
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.photographer import Photographer
from sim2real.robots.simulation.same_robot import check_same


class StepModel:
    """The task's own model, moved by the targets of a step; it also says what the task would tell the policy."""

    in_place = True

    def __init__(
        self, kind: type[Task[Any]], contract: Contract, mismatch: ModelMismatch, own: Mapping[str, str]
    ) -> None:
        config = dataclasses.replace(kind.config_type(), **own)
        self.task: Task[Any] = nominal(kind(config))
        self.agents = self.task.agents or 1
        if self.agents > 1 and not self.task.setpoints:
            raise EmbodiedError(
                f"'{contract.task}' is a team of {self.agents} moved by controls, and nobody says which are whose; a "
                "team of setpoints can be simulated, this one by python -m embodied.evaluate"
            )
        check_same(contract, robot_contract(self.task, contract))
        self.every_step = bool(self.task.setpoints)
        self._mismatch, self._contract = mismatch, contract
        self._sources = Sources(self.task.model, [joint.name for joint in contract.joints])
        self._state: Any = None
        self._apply = jax.jit(self.task.apply_action)
        self._seen_by = jax.jit(self.task.seen_by)
        self._photographer = None if contract.step is None else Photographer.of(self.task, contract.step.planner)
        self._rest = np.array([actuator.offset for actuator in contract.actuators])
        self._bias = np.asarray(mismatch.encoder_bias) if mismatch.encoder_bias else np.zeros(len(contract.joints))

    def start(self, seed: int) -> ResetState[Any]:
        start = jax.jit(self.task.reset)(jax.random.key(seed))
        self._state = start.task_state
        fields = self._mismatch.fields(self.task.model)
        return dataclasses.replace(start, model={**start.model, **fields})

    @property
    def state(self) -> Any:
        """The task's state at the start."""
        return self._state

    def commanded(self, command: np.ndarray) -> tuple[Task[Any], Callable[[Any], Any]]:
        """What is told is a part of the task's state; without a command the task's own draws stay."""
        if not len(command):
            return self.task, lambda state: state
        assert self._contract.step is not None
        told, start = {}, 0
        for one in self._contract.step.told:
            told[one.name] = (one.places, command[start : start + one.size])
            start += one.size
        return self.task, lambda state: with_numbers(state, told)

    def control(self, world: World, targets: Sequence[np.ndarray | None]) -> Control:
        """Inputs of the actuators, or what the robots' own controllers make of setpoints; None damps."""
        if self.task.setpoints:
            rows = np.array([self._rest if target is None else target for target in targets])
            command = jnp.asarray(rows if self.task.agents else rows[0], jnp.float32)
            control, self._state = self._apply(world, self._state, command)
            return jax.tree.map(lambda leaf: np.asarray(leaf)[None], control)
        (target,) = targets
        ctrl: Any = np.array(self._damped(world) if target is None else target)[None]
        mocap = self.task.mocap_positions(self._state)
        return Control(ctrl=ctrl, mocap_pos=None if mocap is None else np.asarray(mocap)[None])  # type: ignore[arg-type]

    def _damped(self, world: World) -> np.ndarray:
        """Servos aim where they are; motors rest."""
        model, ctrl = self.task.model, self._rest.copy()
        for number, actuator in enumerate(self._contract.actuators):
            if actuator.joint:
                ctrl[number] = world.qpos[model.joint(actuator.joint).qposadr[0]]
        return ctrl

    def measure(
        self, world: World, time: float, rng: np.random.Generator, noise: float, state: Any, agent: int = 0
    ) -> Measurement:
        """Every source without noise: how noisy an estimator is, the task does not say."""
        del rng, noise
        begun, state = self._state, self._state if state is None else state
        if self.agents > 1:
            _, begun = self._seen_by(world, begun, agent)
            world, state = self._seen_by(world, state, agent)
        parts = (np.asarray(part, float) for part in (world.qpos, world.qvel, world.sensordata))
        readings = self._sources.values(*parts)
        readings[JOINT_POS] = readings[JOINT_POS] + self._bias
        assert self._contract.step is not None
        for one in self._contract.step.told:
            value = _leaf(state, one.name).reshape(-1)
            readings[f"{COMMAND}{one.name}"] = value[list(one.places)] if one.places else value
        for one in self._contract.step.remembered:
            if one.told:
                readings[f"{STATE}{one.name}"] = _leaf(begun, one.name).reshape(-1)
        joints = (
            {} if not self._contract.joints else {"joint_pos": readings[JOINT_POS], "joint_vel": readings[JOINT_VEL]}
        )
        if self._photographer is None:
            return Measurement(time, **joints, readings=readings)
        return Measurement(time, **joints, readings=self._photographer.beside(readings, world, state))


def _leaf(state: Any, path: str) -> np.ndarray:
    for name in path.split("."):
        state = getattr(state, name)
    return np.asarray(state, float)
