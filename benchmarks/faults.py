"""Outcome of forty faults on three simulated robots: what latches, after what time, and what reached the motors.

A fault begins after 2 s of the policy's time. For each: the step that latched, seconds from the fault to the latch, and
targets that were not finite or outside the actuators' limits and reached the robot (there must be none). Faults that no
chain can see in what it measures are in the list, too: they show what happens then, by the task's own failure.

python -m benchmarks.faults --runs 5 --json FILE
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from benchmarks.deploy_standin import FAULT, FaultyRobot, Spoil, Spoilt, dropped, first, frozen, paused
from sim2real.bundles.policies import load
from sim2real.contract.contract import DeployablePolicy
from sim2real.robots.base import Measurement
from sim2real.robots.simulation.simulated import SimulatedOptions

DEGREES = 180 / np.pi
COMMANDS: Mapping[str, tuple[float, ...]] = {
    "locomotion/go1-joystick-flat": (0.5, 0.0, 0.0),
    "swarm/hover": (0.0, 0.0, 2.0),
    "manipulation/reach": (),
}
"""Robot's task -> command under which the faults happen."""

Change = Callable[[np.ndarray], np.ndarray]
Begin = Callable[[FaultyRobot], None]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = tuple(COMMANDS)
    """Tasks whose shipped policy is deployed."""
    only: tuple[str, ...] = ()
    """Faults, by what their names hold; by default all."""
    runs: int = 5
    """Of each fault, with seeds from 0."""
    json: Path | None = None
    """File for the results."""


def part(name: str, change: Change) -> Begin:
    """A fault of one part of the measurement, where the robot has it."""

    def begin(robot: FaultyRobot) -> None:
        def measure(measured: Measurement) -> Measurement:
            spoilt = measured
            if (value := getattr(measured, name, None)) is not None:
                spoilt = dataclasses.replace(spoilt, **{name: change(np.array(value, float))})
            if name in measured.readings:
                own = change(np.array(measured.readings[name], float))
                spoilt = dataclasses.replace(spoilt, readings={**spoilt.readings, name: own})
            return spoilt

        robot.measure = measure

    return begin


def held(name: str, place: int) -> Begin:
    """One number of a part stays what it was when the fault began."""
    kept: dict[int, float] = {}

    def begin(robot: FaultyRobot) -> None:
        kept.clear()

        def change(value: np.ndarray) -> np.ndarray:
            value[place] = kept.setdefault(place, float(value[place]))
            return value

        part(name, change)(robot)

    return begin


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


def swapped(value: np.ndarray) -> np.ndarray:
    value[[0, 1]] = value[[1, 0]]
    return value


def put(place: int, number: float) -> Change:
    def change(value: np.ndarray) -> np.ndarray:
        value[place] = number
        return value

    return change


FAULTS: Mapping[str, Begin] = {
    **{f"encoder {i} frozen": held("joint_pos", i) for i in range(6)},
    "encoder 0 not a number": part("joint_pos", put(0, np.nan)),
    "encoder 1 infinite": part("joint_pos", put(1, np.inf)),
    "encoder 0 jumps by 2 rad": part("joint_pos", lambda q: q + 2.0 * (np.arange(len(q)) == 0)),
    "encoder 2 off by 0.3 rad": part("joint_pos", lambda q: q + 0.3 * (np.arange(len(q)) == 2)),
    "encoders in degrees": part("joint_pos", lambda q: q * DEGREES),
    "two encoders swapped": part("joint_pos", swapped),
    "encoders turned round": part("joint_pos", lambda q: -q),
    "joint speeds infinite": part("joint_vel", put(0, np.inf)),
    "joint speeds of 100 rad/s": part("joint_vel", lambda v: v + 100.0),
    "joint speeds zero": part("joint_vel", lambda v: 0.0 * v),
    "gyro frozen": part("gyro", lambda v: np.array([0.1, 0.2, 0.3])),
    "gyro not a number": part("gyro", put(0, np.nan)),
    "gyro in degrees": part("gyro", lambda v: v * DEGREES),
    "gyro turned round": part("gyro", lambda v: -v),
    "orientation frozen": part("orientation", lambda q: np.array([1.0, 0.0, 0.0, 0.0])),
    "orientation xyzw": part("orientation", lambda q: q[[1, 2, 3, 0]]),
    "orientation of length 0": part("orientation", lambda q: 0.0 * q),
    "orientation of length 2": part("orientation", lambda q: 2.0 * q),
    "orientation upside down": part("orientation", lambda q: np.array([0.0, 1.0, 1e-3 * q[0], 0.0])),
    "position not a number": part("position", put(2, np.nan)),
    "position 10 m away": part("position", lambda p: p + 10.0),
    "all sensors frozen": frozen,
    "measurements dropped": dropped,
    "half of the measurements lost": lossy(0.5),
    "nine of ten measurements lost": lossy(0.9),
    "clock 1 s back": clock(lambda time: time - 1.0),
    "clock 1 s ahead": clock(lambda time: time + 1.0),
    "clock not a number": clock(lambda time: np.nan),
    "cycles 25 ms late": paused(0.025),
    "one pause of 0.3 s": paused(0.3),
    "object not seen": part("object1_pos", lambda p: p * np.nan),
}
"""Faults of what the chain measures."""

OUTPUTS: Mapping[str, Spoil] = {
    "policy not a number": lambda action, target: (action * np.nan, target * np.nan),
    "target infinite": lambda action, target: (action, first(target, np.inf)),
    "target beyond its limit": lambda action, target: (action, first(target, 9.0)),
    "target of -1e300": lambda action, target: (action, first(target, -1e300)),
    "actions of 1e6": lambda action, target: (action + 1e6, target),
}
"""Faults of the policy's output."""


def main(settings: Settings) -> None:
    """Measure and print a line for each fault."""
    rows: dict[str, dict[str, Any]] = {}
    every = (*FAULTS, *OUTPUTS, "operator's stop")
    chosen = [name for name in every if not settings.only or any(word in name for word in settings.only)]
    for task in settings.tasks:
        policy = load(task)
        for name in chosen:
            runs = [tried(policy, task, name, seed) for seed in range(settings.runs)]
            row = rows[f"{task}, {name}"] = summed(runs)
            cli.show(f"{task}, {name}: {row}")
    unsafe = sum(row["unsafe_targets"] for row in rows.values())
    cli.write_result(
        settings.json,
        cli.command_line("benchmarks.faults"),
        {"kinds": len(chosen), "runs": settings.runs, "unsafe_targets": unsafe, "results": rows},
    )


def summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Over all runs of a fault: which step latched, how often, the longest time, and the rest in sum."""
    steps: dict[str, int] = {}
    for run in runs:
        steps[run["step"] or "none"] = steps.get(run["step"] or "none", 0) + 1
    latched = [run["seconds"] for run in runs if run["step"]]
    return {
        "latched_by": steps,
        "longest_seconds": max(latched, default=None),
        "unsafe_targets": sum(run["unsafe"] for run in runs),
        "failed": sum(run["failed"] for run in runs),
    }


def tried(policy: DeployablePolicy, task: str, name: str, seed: int) -> dict[str, Any]:
    """One run."""
    robot = FaultyRobot(policy, "mujoco", SimulatedOptions(realtime=False, seed=seed))
    acting: Any = policy
    if name in FAULTS:
        FAULTS[name](robot)
    elif name in OUTPUTS:
        acting = Spoilt(robot, OUTPUTS[name])
    stop = (lambda: "key" if robot.acting else "") if name == "operator's stop" else str
    try:
        run = robot.deploy(np.array(COMMANDS.get(task, ())), 2 * FAULT, acting, stop)
    except (IndexError, TypeError):  # this robot has no such part
        return {"step": "", "seconds": 0.0, "unsafe": 0, "failed": False}
    return {
        "step": run.report.step,
        "seconds": round(run.report.seconds - FAULT, 3),
        "unsafe": run.outside,
        "failed": bool(run.task.failed),
    }


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
