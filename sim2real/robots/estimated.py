"""A robot with a user's estimator beside it: what it does not measure itself, such as where an object lies."""

from __future__ import annotations

import collections
import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError
from sim2real.contract.planner import IMAGE
from sim2real.robots.base import Measurement, Phase, Robot, RobotError, TaskResult

Estimator = Callable[[Measurement], Mapping[str, Any]]
"""Measurement -> inputs of a whole control step by name: numbers, `command.NAME`, `state.NAME` and images
`image.CAMERA`, (height, width, 3) uint8 RGB, included."""


def load_estimator(name: str) -> Estimator:
    """The function that `module:callable` names.

    Raises:
        EmbodiedError: there is none.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute) if module and attribute else None
    except (ImportError, AttributeError) as error:
        raise EmbodiedError(f"--readings {name!r} cannot be imported: {error}") from None
    if not hasattr(found, "__call__"):  # noqa: B004
        raise EmbodiedError(f"--readings {name!r}; expected module:callable, such as my_camera:objects")
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        raise EmbodiedError(f"--readings {name!r} is not called with a measurement: {error}") from None
    except ValueError:  # it does not say what it takes
        pass
    return found


class EstimatedRobot(Robot):
    """Another robot, whose measurements have an estimator's readings besides its own."""

    def __init__(self, robot: Robot, estimator: Estimator) -> None:
        self.robot, self.name, self._estimator = robot, robot.name, estimator
        self.setpoint_policy, self.rest_pose, self.in_place = robot.setpoint_policy, robot.rest_pose, robot.in_place

    def now(self) -> float:
        return self.robot.now()

    def sleep_until(self, when: float) -> None:
        self.robot.sleep_until(when)

    def read(self) -> Measurement:
        """The robot's measurement; a `RobotError` where the estimator gives something else than numbers by name."""
        measured = self.robot.read()
        found = self._estimator(measured)
        if not isinstance(found, Mapping):
            raise RobotError(f"the estimator gave {type(found).__name__}; expected a mapping of names to numbers")
        own = {name: _numbers(name, value) for name, value in found.items()}
        return dataclasses.replace(measured, readings=collections.ChainMap(own, measured.readings))  # type: ignore[arg-type]

    def write(self, target: np.ndarray) -> None:
        self.robot.write(target)

    def damp(self) -> None:
        self.robot.damp()

    def close(self) -> None:
        self.robot.close()

    def prepare(self, command: np.ndarray) -> None:
        self.robot.prepare(command)

    def enter(self, phase: Phase) -> None:
        self.robot.enter(phase)

    def task_result(self) -> TaskResult | None:
        return self.robot.task_result()


def _numbers(name: str, value: Any) -> np.ndarray:
    """An image as it is, anything else as float64."""
    return np.asarray(value) if name.startswith(IMAGE) else np.atleast_1d(np.asarray(value, float))
