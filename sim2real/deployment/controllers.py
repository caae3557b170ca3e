"""What turns a measurement into targets: a policy with its observation terms, or a whole control step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol, cast

import numpy as np

from embodied.errors import EmbodiedError
from sim2real.contract.contract import (
    COMMAND,
    STATE,
    Contract,
    DeployablePolicy,
    PlanningPolicy,
    Source,
    StepPolicy,
)
from sim2real.contract.planner import IMAGE, PLANNED, Planner, PolicyCamera
from sim2real.deployment.terms import Observer
from sim2real.graphs.golden import advance, begin
from sim2real.robots.base import Measurement, RobotError

PARTS_OF = {
    "joint_pos": "joint_pos",
    "joint_vel": "joint_vel",
    "gyro": "gyro",
    "accelerometer": "accelerometer",
    "orientation": "orientation",
    "position": "position",
    "linvel_w": "linvel",
}
"""Source of a step -> the part of a measurement that is the same."""

STILL = 0.2  # rad (m of a slide) that a joint may move while a camera shows the same picture to the last bit

Decision = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Observation, action, and target (A,)."""


class Controller(Protocol):
    """Decides, once for each control step."""

    def reset(self) -> None:
        """Forget what was remembered."""
        ...

    def decide(self, measured: Measurement, action: np.ndarray, command: np.ndarray) -> Decision:
        """What the policy makes of a measurement, its last action and the operator's command.

        Raises:
            RobotError: the robot does not measure what is needed.
        """
        ...


def controller_of(policy: DeployablePolicy, instruction: str = "") -> Controller:
    """What runs a policy.

    Raises:
        EmbodiedError: there is an instruction, and the policy is told nothing.
    """
    step = policy.contract.step
    if step is not None and step.planner is not None:
        return PlanningController(cast(PlanningPolicy, policy), step.planner, instruction)
    if instruction:
        raise EmbodiedError(f"instruction '{instruction}': the policy of '{policy.contract.task}' is told nothing")
    return ObservingController(policy) if step is None else StepController(cast(StepPolicy, policy))


class ObservingController:
    """Computes the observation terms of a contract and asks the policy."""

    def __init__(self, policy: DeployablePolicy) -> None:
        self._policy, self._observer = policy, Observer(policy.contract)

    def reset(self) -> None:
        self._observer.reset()

    def decide(self, measured: Measurement, action: np.ndarray, command: np.ndarray) -> Decision:
        observation = self._observer(measured, action, command)
        return observation, *self._policy.run(observation)


class StepController:
    """Runs a policy's whole control step and keeps what it remembers."""

    def __init__(self, policy: StepPolicy) -> None:
        assert policy.contract.step is not None
        self._policy, self._step = policy, policy.contract.step
        self._state: dict[str, np.ndarray] = {}

    def reset(self) -> None:
        self._state = {}

    def decide(self, measured: Measurement, action: np.ndarray, command: np.ndarray) -> Decision:
        del action  # the step remembers it
        given = {source.name: reading(measured, source) for source in self._step.sources} | self._told(
            measured, command
        )
        state = self._state or self._begin(measured, given)
        outputs = self._policy.step({**given, **state, **self._planned(measured, {**given, **state})})
        self._state = advance(self._step, outputs)
        return tuple(np.asarray(outputs[name], float) for name in ("observation", "action", "target"))  # type: ignore[return-value]

    def _planned(self, measured: Measurement, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs that a planner gives."""
        del measured, given
        return {}

    def _told(self, measured: Measurement, command: np.ndarray) -> dict[str, np.ndarray]:
        """By the operator where there is a command, else by whatever measures."""
        told, start = {}, 0
        for one in self._step.told:
            name = f"{COMMAND}{one.name}"
            if len(command):
                told[name] = np.asarray(command[start : start + one.size], np.float32)
            elif name in measured.readings:
                told[name] = np.asarray(measured.readings[name], np.float32)
            else:
                raise RobotError(f"nobody tells '{name}': {one.meaning}; say it by --command")
            start += one.size
        return told

    def _begin(self, measured: Measurement, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        state = begin(self._step, given)
        for one in self._step.remembered:
            name = f"{STATE}{one.name}"
            if one.told and name not in measured.readings:
                raise RobotError(f"nobody tells '{name}' before the first step: {one.told}; say it by --readings")
            if one.told:
                state[name] = np.asarray(measured.readings[name], np.float32)
        return state


class PlanningController(StepController):
    """A control step whose actions a network plans from images, once for several steps."""

    def __init__(self, policy: PlanningPolicy, planner: Planner, instruction: str = "") -> None:
        super().__init__(policy)
        self._planning, self._planner, self._instruction = policy, planner, instruction
        self._chunk: np.ndarray = np.zeros((0, policy.contract.action_size))
        self._shown: dict[str, _Shown] = {}

    def reset(self) -> None:
        super().reset()
        self._chunk, self._shown = self._chunk[:0], {}

    def _planned(self, measured: Measurement, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not len(self._chunk):
            nothing = {PLANNED: np.zeros(self._step.action_size, np.float32)}
            observation = np.asarray(self._policy.step({**given, **nothing})["observation"])
            images = {camera.name: self._image(measured, camera) for camera in self._planner.cameras}
            chunk = self._planning.plan(images, observation, self._instruction)
            self._chunk = np.asarray(chunk[: self._planner.execute], np.float32)
        action, self._chunk = self._chunk[0], self._chunk[1:]
        return {PLANNED: action}

    def _image(self, measured: Measurement, camera: PolicyCamera) -> np.ndarray:
        """What a camera shows.

        Raises:
            RobotError: there is no such camera, or it shows the same while the robot moves.
        """
        if (image := measured.readings.get(f"{IMAGE}{camera.name}")) is None:
            raise RobotError(
                f"the policy sees through '{camera.name}' ({camera.width} x {camera.height} pixels, fixed to "
                f"{camera.body}), and this robot has no such camera; say '{IMAGE}{camera.name}' by --readings"
            )
        before, pose = self._shown.get(camera.name), measured.joint_pos
        if before is None or pose is None or not np.array_equal(before.image, image):
            self._shown[camera.name] = _Shown(image, np.zeros(0) if pose is None else pose)
        elif (moved := float(np.abs(pose - before.joint_pos).max(initial=0))) > STILL:
            raise RobotError(
                f"camera '{camera.name}' shows the same picture to the last bit though a joint moved by {moved:.2f} "
                "rad: it is frozen"
            )
        return image


@dataclasses.dataclass(frozen=True)
class _Shown:
    """A picture, and where the joints were when it was first shown."""

    image: np.ndarray
    joint_pos: np.ndarray


def reading(measured: Measurement, source: Source) -> np.ndarray:
    """(size,) float32 of a source.

    Raises:
        RobotError: the robot does not measure it.
    """
    value = measured.readings.get(source.name)
    if value is None and source.name in PARTS_OF:
        value = getattr(measured, PARTS_OF[source.name])
    if value is None:
        raise RobotError(
            f"the policy needs '{source.name}' ({source.meaning}, {source.unit}), which this robot does not measure; "
            "give it an estimate"
        )
    return np.asarray(value, np.float32)


def command_size(contract: Contract) -> int:
    """Numbers of an operator's command."""
    return len(contract.command) if contract.step is None else sum(one.size for one in contract.step.told)
