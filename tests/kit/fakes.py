"""Robots and what they are made of, without any: they do as they are told, and remember every target they were sent.

`FakeRobot` lives on a simulated clock; `Device` has the interface of LeRobot's robots.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from sim2real.contract.contract import (
    COMMAND,
    NEXT,
    STATE,
    Actuator,
    Command,
    Contract,
    Joint,
    Number,
    Remembered,
    Source,
    Step,
    Term,
)
from sim2real.robots.base import Measurement, Robot

T = TypeVar("T")
LOWER, UPPER = -1.0, 1.0  # rad


def given(value: T | None) -> T:
    """A value that must be there, such as a part of a measurement."""
    assert value is not None
    return value


def leg() -> Contract:
    """Three servos and an IMU."""
    actuators = tuple(
        Actuator(f"m{i}", "rad", 0.2, 0.5, 0.5, LOWER, UPPER, 50.0, 30.0, 0.5, 20.0, f"j{i}") for i in range(3)
    )
    joints = tuple(Joint(f"j{i}", 0.0, LOWER, UPPER, 20.0) for i in range(3))
    terms = (
        Term("joint_pos", 3, "rad", source="joint_pos"),
        Term("gyro", 3, "rad/s", source="gyro"),
        Term("last_action", 3, "1"),
        Term("command", 1, "1"),
    )
    step = Step(
        sources=(Source("joint_pos", 3, "rad", "joint angles"), Source("gyro", 3, "rad/s", "angular velocity")),
        commands=(Command("speed", 1, "speed", (0.0,), (), (Number("speed", "1", -1.0, 1.0),)),),
        remembered=(Remembered("last_action", 3, (0.0, 0.0, 0.0)),),
        action_size=3,
    )
    return Contract("test/leg", "leg", 50.0, 500.0, actuators, joints, terms, step, max_tilt=1.2)


class FakeRobot(Robot):
    """Joints follow their targets with a lag of 50 ms; `change` may spoil each measurement, `delay` each cycle."""

    name = "fake"

    def __init__(self, contract: Contract | None = None) -> None:
        """At rest at zero."""
        self.contract = contract or leg()
        self.time, self.q = 0.0, np.zeros(len(self.contract.joints))
        self.target: np.ndarray | None = None
        self.sent: list[tuple[float, np.ndarray]] = []
        self.damped: list[float] = []
        self.change: Callable[[Measurement], Measurement] = lambda measured: measured
        self.delay: Callable[[float], float] = lambda time: 0.0
        self.closed = False

    def now(self) -> float:
        """s."""
        return self.time

    def sleep_until(self, when: float) -> None:
        """Move until then."""
        self.advance(max(0.0, when - self.time) + self.delay(when))

    def advance(self, seconds: float) -> None:
        """Move."""
        self.time += seconds
        if self.target is not None:
            self.q = self.q + (self.target - self.q) * (1 - math.exp(-seconds / 0.05))

    def read(self) -> Measurement:
        """Joints, and an IMU whose last digits move."""
        wiggle = 1e-3 * math.sin(1e3 * self.time)
        quat = np.array([1.0, wiggle, 0.0, 0.0])
        speed = np.zeros(3) if self.target is None else (self.target - self.q) / 0.05
        gyro = np.array([wiggle, 0.0, 0.0])
        measured = Measurement(
            self.time, joint_pos=self.q.copy(), joint_vel=speed, gyro=gyro, orientation=quat / np.linalg.norm(quat)
        )
        return self.change(measured)

    def write(self, target: np.ndarray) -> None:
        """Remember and follow."""
        self.target = np.array(target)
        self.sent.append((self.time, self.target))

    def damp(self) -> None:
        """Stop following."""
        self.target = None
        self.damped.append(self.time)

    def close(self) -> None:
        """Damp."""
        self.damp()
        self.closed = True


@dataclasses.dataclass
class Sway:
    """A policy that moves all joints to and fro; `change` may spoil what it gives."""

    contract: Contract
    change: Callable[[float, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] = lambda t, a, g: (a, g)
    steps: int = 0
    seen: list[np.ndarray] = dataclasses.field(default_factory=list)

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """One step; what it sees is joint_pos, gyro, the last action and the command."""
        names = ("joint_pos", "gyro", f"{STATE}last_action", f"{COMMAND}speed")
        observation = np.concatenate([inputs.get(name, np.zeros(0)) for name in names])
        self.seen.append(observation)
        time = self.steps * self.contract.period
        self.steps += 1
        action = 0.8 * np.sin(2 * np.pi * time) * np.ones(self.contract.action_size)
        action, target = self.change(time, action, self._target(action))
        state = {f"{STATE}{one.name}{NEXT}": action[: one.size] for one in self.contract.step.remembered}
        return {"observation": observation, "action": action, "target": target, **state}

    def _target(self, action: np.ndarray) -> np.ndarray:
        contract = self.contract
        target = contract.row("offset") + contract.row("up") * action
        return np.clip(target, contract.row("lower"), contract.row("upper"))


class Sink:
    """A log in state: channel -> rows of (time, values, names, unit)."""

    def __init__(self) -> None:
        """Empty."""
        self.rows: dict[str, list[tuple[float, np.ndarray, tuple[str, ...], str]]] = {}

    def add(self, channel: str, time: float, values: np.ndarray, names: tuple[str, ...], unit: str = "") -> None:
        """One row."""
        assert len(values) == len(names)
        self.rows.setdefault(channel, []).append((time, np.array(values), names, unit))


class Bus:
    """Motors' torque."""

    def __init__(self) -> None:
        self.enabled: list[bool] = []

    def disable_torque(self) -> None:
        self.enabled.append(False)

    def enable_torque(self) -> None:
        self.enabled.append(True)


class Device:
    """Motors in degrees that are at once where they are told to be, and tremble."""

    def __init__(self, motors: tuple[str, ...] = ("j0", "j1", "j2"), bus: bool = True) -> None:
        self.at = {f"{motor}.pos": 0.0 for motor in motors}
        self.sent: list[dict[str, float]] = []
        self.log: list[str] = []
        if bus:
            self.bus = Bus()

    def connect(self) -> None:
        self.log.append("connect")

    def get_observation(self) -> dict[str, Any]:
        tremble = 0.01 * math.sin(len(self.log) + 10 * len(self.sent))
        return {**{key: value + tremble for key, value in self.at.items()}, "camera": object()}

    def send_action(self, action: dict[str, float]) -> None:
        self.sent.append(action)
        self.at |= action

    def disconnect(self) -> None:
        self.log.append("disconnect")
