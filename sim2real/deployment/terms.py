"""Observation terms, computed from what a robot measures: the same numbers as the task's own `observe`, without JAX.

A term is a small function of a measurement and of what the loop itself remembers. A test holds each of them against the
task it belongs to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from embodied.errors import UnknownNameError
from sim2real.contract.contract import Contract, ContractError, Term
from sim2real.robots.base import Measurement, RobotError

UP = np.array([0.0, 0.0, 1.0])
STANDING = 0.05  # m/s, rad/s: commands shorter than this mean to stand, as in the task


@dataclasses.dataclass(frozen=True)
class Moment:
    """One instant of a deployment: all that a term may read."""

    measured: Measurement
    action: np.ndarray
    """(A,) the last action, in [-1, 1]; zeros before the first."""
    command: np.ndarray
    """(k,) what the operator sets."""
    default: np.ndarray
    """(n,) rad, the contract's default pose."""
    phase: float = 0.0
    """rad, of the gait since the policy began."""

    def part(self, name: str) -> np.ndarray:
        """A part of the measurement; a `RobotError` where the robot does not measure it."""
        value = getattr(self.measured, name)
        if value is None:
            raise RobotError(f"the policy needs '{name}', which this robot does not measure; give it an estimate")
        return np.asarray(value, float)

    def in_body(self, vector_w: np.ndarray) -> np.ndarray:
        """(3,) a world vector in the body's frame."""
        return rotate_inverse(self.part("orientation"), vector_w)


def rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """(3,) `vector` turned by the inverse of the unit quaternion `quat` (4,) wxyz.

    Source: Diebel, "Representing attitude" (2006), equation 125.
    """
    w, axis = quat[0], -quat[1:]
    double = 2.0 * np.cross(axis, vector)
    return vector + w * double + np.cross(axis, double)


def clock(phase: float, command: np.ndarray) -> np.ndarray:
    """(4,) cosines, then sines, of the phases of the left and the right foot; stopped where the command is to stand."""
    phases = np.array([phase, phase + np.pi]) * (np.linalg.norm(command) > STANDING)
    return np.concatenate([np.cos(phases), np.sin(phases)])


TERMS: dict[str, Callable[[Moment], np.ndarray]] = {
    "gyro": lambda now: now.part("gyro"),
    "gravity": lambda now: -now.in_body(UP),
    "up": lambda now: now.in_body(UP),
    "linvel": lambda now: now.in_body(now.part("linvel")),
    "joint_offset": lambda now: now.part("joint_pos") - now.default,
    "joint_vel": lambda now: now.part("joint_vel"),
    "last_action": lambda now: now.action,
    "command": lambda now: now.command,
    "clock": lambda now: clock(now.phase, now.command),
    "to_command": lambda now: now.in_body(now.command - now.part("position")),
}
"""Source of a term -> what computes it. Vectors are in the body's frame; `to_command` takes the command as a point in
the world, m."""


class Observer:
    """Builds observations as a contract describes them, history included."""

    def __init__(self, contract: Contract) -> None:
        for term in contract.terms:
            if term.source not in TERMS:
                raise UnknownNameError("source of observations", term.source, TERMS)
        self.contract = contract
        self._default = contract.joint_row("default")
        self._past: dict[str, list[np.ndarray]] = {}
        self._steps = 0

    def reset(self) -> None:
        """Forget the history: the next observation fills it with what it sees."""
        self._past.clear()
        self._steps = 0

    def __call__(self, measured: Measurement, action: np.ndarray, command: np.ndarray) -> np.ndarray:
        """The observation (observation_size,), float32.

        Raises:
            RobotError: the robot does not measure what a term needs.
            ContractError: a term has another size than the contract says.
        """
        phase = 2 * np.pi * self.contract.gait_hz * self._steps * self.contract.period
        self._steps += 1
        now = Moment(measured, action, command, self._default, phase)
        return np.concatenate([self._remembered(term, TERMS[term.source](now)) for term in self.contract.terms]).astype(
            np.float32
        )

    def _remembered(self, term: Term, value: np.ndarray) -> np.ndarray:
        if value.shape != (term.size,):
            raise ContractError(f"term '{term.name}' has {value.shape} numbers; the contract says {term.size}")
        if term.history == 1:
            return value
        past = self._past.setdefault(term.name, [value] * term.history)
        past.append(value)
        del past[0]
        return np.concatenate(past)
