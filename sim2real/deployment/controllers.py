"""Controllers: a policy's control step with what it remembers, and with the plans of a policy that sees."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from embodied.errors import EmbodiedError
from sim2real.contract.contract import COMMAND, STATE, DeployablePolicy, PlanningPolicy, Source
from sim2real.contract.planner import IMAGE, PLANNED, Planner, PolicyCamera
from sim2real.graphs.golden import advance, begin
from sim2real.robots.attitude import rotate_inverse
from sim2real.robots.base import Measurement, RobotError


def _velocity_b(measured: Measurement) -> np.ndarray | None:
    """(3,) m/s, body frame."""
    if measured.linvel is None or measured.orientation is None:
        return None
    return rotate_inverse(measured.orientation, measured.linvel)


SAME = ("joint_pos", "joint_vel", "gyro", "accelerometer", "orientation", "position")
PARTS_OF: Mapping[str, Callable[[Measurement], np.ndarray | None]] = {
    **{part: operator.attrgetter(part) for part in SAME},
    "linvel_w": operator.attrgetter("linvel"),
    "linvel": _velocity_b,
}
"""Source of a step -> the same numbers of a measurement."""

STILL = 0.2  # rad (m of a slide) that a joint may move while a camera shows the same picture to the last bit

Decision = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Observation, action, and target (A,)."""


def controller_of(policy: DeployablePolicy, instruction: str = "") -> Controller:
    """A controller for a policy.

    Raises:
        EmbodiedError: there is an instruction, and the policy takes none.
    """
    if (planner := policy.contract.step.planner) is not None:
        return PlanningController(cast(PlanningPolicy, policy), planner, instruction)
    if instruction:
        raise EmbodiedError(f"instruction '{instruction}': the policy of '{policy.contract.task}' takes none")
    return Controller(policy)


class Controller:
    """Runs a policy's control step, once in each control period, and keeps what it remembers."""

    def __init__(self, policy: DeployablePolicy) -> None:
        self._policy, self._step = policy, policy.contract.step
        self._state: dict[str, np.ndarray] = {}

    def reset(self) -> None:
        """Forget what was remembered."""
        self._state = {}

    def decide(self, measured: Measurement, command: np.ndarray) -> Decision:
        """Observation, action and target that follow from a measurement and the operator's command (k,).

        Raises:
            RobotError: the robot does not measure what is needed.
        """
        given = {source.name: reading(measured, source) for source in self._step.sources}
        given |= self._commands(measured, command)
        state = self._state or self._begin(measured, given)
        outputs = self._policy.step({**given, **state, **self._planned(measured, {**given, **state})})
        self._state = advance(self._step, outputs)
        return tuple(np.asarray(outputs[name], float) for name in ("observation", "action", "target"))  # type: ignore[return-value]

    def _planned(self, measured: Measurement, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs that a planner gives."""
        del measured, given
        return {}

    def _commands(self, measured: Measurement, command: np.ndarray) -> dict[str, np.ndarray]:
        """Commands of the operator where there are any, else of the measurement."""
        given, start = {}, 0
        for one in self._step.commands:
            name = f"{COMMAND}{one.name}"
            if len(command):
                given[name] = np.asarray(command[start : start + one.size], np.float32)
            elif name in measured.readings:
                given[name] = np.asarray(measured.readings[name], np.float32)
            else:
                raise RobotError(f"command '{name}' is missing: {one.meaning}; give it by --command")
            start += one.size
        return given

    def _begin(self, measured: Measurement, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        state = begin(self._step, given)
        for one in (one for one in self._step.remembered if one.given):
            name = f"{STATE}{one.name}"
            if name not in measured.readings:
                raise RobotError(f"'{name}' is missing before the first step: {one.given}; give it by --readings")
            state[name] = np.asarray(measured.readings[name], np.float32)
        return state


class PlanningController(Controller):
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
        """Image of a camera.

        Raises:
            RobotError: there is no such camera, or it shows the same while the robot moves.
        """
        if (image := measured.readings.get(f"{IMAGE}{camera.name}")) is None:
            raise RobotError(
                f"the policy sees through '{camera.name}' ({camera.width} x {camera.height} pixels, fixed to "
                f"{camera.body}), and this robot has no such camera; give '{IMAGE}{camera.name}' by --readings"
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
        value = PARTS_OF[source.name](measured)
    if value is None:
        raise RobotError(
            f"the policy needs '{source.name}' ({source.meaning}, {source.unit}), which this robot does not measure; "
            "give it an estimate"
        )
    return np.asarray(value, np.float32)
