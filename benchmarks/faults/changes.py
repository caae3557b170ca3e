"""Changes of what the sensors of a simulated robot tell, of which faults are made."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable

import numpy as np

from benchmarks.deploy_standin import FaultyRobot
from sim2real.contract.contract import Contract
from sim2real.robots.attitude import rotate_inverse
from sim2real.robots.base import Measurement

Change = Callable[[np.ndarray], np.ndarray]
Begin = Callable[[FaultyRobot], None]


def value_of(measured: Measurement, name: str) -> np.ndarray | None:
    """A part of a measurement, or a reading."""
    value = getattr(measured, name, None)
    value = measured.readings.get(name) if value is None else value
    return None if value is None or not np.size(value) else np.array(value, float)


def replaced(measured: Measurement, name: str, value: np.ndarray) -> Measurement:
    """The measurement with another value of a part, and of the reading of that name."""
    if getattr(measured, name, None) is not None:
        measured = dataclasses.replace(measured, **{name: value})
    if name in measured.readings:
        measured = dataclasses.replace(measured, readings={**measured.readings, name: value})
    return measured


def body_velocity(measured: Measurement, linvel: np.ndarray) -> Measurement:
    """With another velocity in the world, which policies may read in the body's frame."""
    assert measured.orientation is not None
    inside = rotate_inverse(measured.orientation / np.linalg.norm(measured.orientation), linvel)
    known = {"linvel": inside, "linvel_w": linvel}
    own = {name: value for name, value in known.items() if name in measured.readings}
    return dataclasses.replace(measured, linvel=linvel, readings={**measured.readings, **own})


def part(name: str, change: Change) -> Begin:
    """A fault of one part of the measurement, where the robot has it."""

    def begin(robot: FaultyRobot) -> None:
        def measure(measured: Measurement) -> Measurement:
            value = value_of(measured, name)
            return measured if value is None else replaced(measured, name, change(value))

        robot.measure = measure

    return begin


def held(name: str, place: int) -> Begin:
    """One number of a part stays what it was when the fault began."""

    def begin(robot: FaultyRobot) -> None:
        kept: dict[int, float] = {}

        def change(value: np.ndarray) -> np.ndarray:
            value[place] = kept.setdefault(place, float(value[place]))
            return value

        part(name, change)(robot)

    return begin


def stuck(*names: str, place: int | None = None) -> Begin:
    """Parts, or one number of each, stay what they were when the fault began, with the noise of training."""

    def begin(robot: FaultyRobot) -> None:
        kept: dict[str, np.ndarray] = {}
        rng, contract = np.random.default_rng(0), robot.policy.contract

        def measure(measured: Measurement) -> Measurement:
            for name in names:
                if (value := value_of(measured, name)) is None:
                    continue
                noisy = kept.setdefault(name, value) + noise_of(contract, name) * rng.standard_normal(value.shape)
                if name == "orientation":
                    noisy /= np.linalg.norm(noisy)
                if place is not None:
                    noisy, alone = value, noisy
                    noisy[place] = alone[place]
                moved = body_velocity(measured, noisy) if name == "linvel" else replaced(measured, name, noisy)
                measured = moved
            return measured

        robot.measure = measure

    return begin


def stuck_exactly(name: str) -> Begin:
    """A part stays what it was when the fault began, to the last bit."""

    def begin(robot: FaultyRobot) -> None:
        kept: list[np.ndarray] = []

        def change(value: np.ndarray) -> np.ndarray:
            kept.append(value)
            return kept[0]

        part(name, change)(robot)

    return begin


def noise_of(contract: Contract, name: str) -> float:
    """Standard deviation of a sensor's noise in training; a little where there was none."""
    known = {term.source: term.noise for term in contract.terms if term.source}
    known["linvel"] = known.get("linvel", known.get("linvel_w", 0.0))
    return (known.get(name, 0.0) or 1e-4) / (2 if name == "orientation" else 1)


def late(seconds: float, *names: str) -> Begin:
    """Parts are those of an earlier measurement, with the time of the newest."""

    def begin(robot: FaultyRobot) -> None:
        before: collections.deque[Measurement] = collections.deque(maxlen=round(seconds / robot.policy.contract.period))

        def sense(measured: Measurement) -> Measurement:
            before.append(measured)
            return measured

        def measure(measured: Measurement) -> Measurement:
            for name in names:
                if (value := value_of(before[0], name)) is not None:
                    moved = body_velocity(measured, value) if name == "linvel" else replaced(measured, name, value)
                    measured = moved
            return measured

        camera = robot.sense
        robot.sense, robot.measure = lambda measured: sense(camera(measured)), measure

    return begin


def both(*faults: Begin) -> Begin:
    """Several faults at once."""

    def begin(robot: FaultyRobot) -> None:
        changes = []
        for fault in faults:
            fault(robot)
            changes.append(robot.measure)

        def measure(measured: Measurement) -> Measurement:
            for change in changes:
                measured = change(measured)
            return measured

        robot.measure = measure

    return begin


def drifting(name: str, rate: np.ndarray) -> Begin:
    """A part moves away from the truth, so much a second."""

    def begin(robot: FaultyRobot) -> None:
        since: list[float] = []

        def measure(measured: Measurement) -> Measurement:
            since.append(measured.time)
            value = value_of(measured, name)
            if value is None:
                return measured
            away = rate * (measured.time - since[0])
            if name == "orientation":
                half = away[-1] / 2
                return replaced(measured, name, multiplied(np.array([np.cos(half), 0, 0, np.sin(half)]), value))
            return replaced(measured, name, value + np.resize(away, len(value)))

        robot.measure = measure

    return begin


def multiplied(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(4,) product of two quaternions wxyz."""
    (w, *v), (other, *u) = first, second
    v, u = np.array(v), np.array(u)
    return np.array([w * other - v @ u, *(w * u + other * v + np.cross(v, u))])


def in_world(change: Change) -> Begin:
    """A fault of the velocity."""

    def begin(robot: FaultyRobot) -> None:
        def measure(measured: Measurement) -> Measurement:
            return measured if measured.linvel is None else body_velocity(measured, change(np.array(measured.linvel)))

        robot.measure = measure

    return begin


def in_body(robot: FaultyRobot) -> None:
    """The velocity is the body's where the world's is expected."""

    def measure(measured: Measurement) -> Measurement:
        if measured.linvel is None or measured.orientation is None:
            return measured
        return body_velocity(measured, rotate_inverse(measured.orientation, measured.linvel))

    robot.measure = measure


def clock(change: Callable[[float], float]) -> Begin:
    """A fault of the measurement's time."""

    def begin(robot: FaultyRobot) -> None:
        robot.measure = lambda measured: dataclasses.replace(measured, time=change(measured.time))

    return begin


def lossy(share: float) -> Begin:
    """Measurements are lost, so many of all."""

    def begin(robot: FaultyRobot) -> None:
        rng, kept = np.random.default_rng(0), [None]

        def measure(measured: Measurement) -> Measurement:
            if kept[0] is None or rng.random() >= share:
                kept[0] = measured  # type: ignore[call-overload]
            return kept[0]  # type: ignore[return-value]

        robot.measure = measure

    return begin


def permuted(*order: int) -> Change:
    """Numbers in another order: those of each group of `len(order)` groups of equal size."""

    def change(value: np.ndarray) -> np.ndarray:
        size = len(value) // len(order)
        groups = value[: size * len(order)].reshape(len(order), size)
        return np.concatenate([groups[list(order)].reshape(-1), value[size * len(order) :]])

    return change


def swapped(value: np.ndarray) -> np.ndarray:
    value[[0, 1]] = value[[1, 0]]
    return value


def put(place: int, number: float) -> Change:
    def change(value: np.ndarray) -> np.ndarray:
        value[place] = number
        return value

    return change


def scaled(place: int, factor: float) -> Change:
    def change(value: np.ndarray) -> np.ndarray:
        value[place] *= factor
        return value

    return change
