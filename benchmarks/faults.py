"""Outcome of every kind of fault on three simulated robots: what latches, after what time, and what reached the motors.

A fault begins while the robot moves. For each: the step that latched, seconds from the fault to the latch, targets that
were not finite or outside the actuators' limits and reached the robot (there must be none), and runs in which the robot
fell or left its workspace and nothing latched. Faults that no chain can see in what it measures are in the list, too:
they show what happens then.

An object is seen by a camera, whose noise these runs have beside that of the training. `--clean` flies without a fault
instead and counts what latches: false alarms.

python -m benchmarks.faults --workers 2 --json FILE
python -m benchmarks.faults --workers 2 --clean 25 --json FILE
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import multiprocessing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from benchmarks.deploy_standin import FaultyRobot, Spoil, Spoilt, commanded, dropped, first, frozen, paused
from embodied.env.registry import join_content
from sim2real.bundles.policies import load
from sim2real.contract.contract import Contract, DeployablePolicy
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.deployment.safety import Cycle, State
from sim2real.deployment.safety_limits import Limits, SafetyConfig
from sim2real.deployment.safety_steps import inside, upright
from sim2real.robots.attitude import rotate_inverse
from sim2real.robots.base import Measurement
from sim2real.robots.simulation.simulated import SimulatedOptions

DEGREES = 180 / np.pi
LEGGED = 12  # joints of a robot with four legs of three
CAMERA = 1e-3  # m and rad, noise of a camera's estimate of an object
Change = Callable[[np.ndarray], np.ndarray]
Begin = Callable[[FaultyRobot], None]


@dataclasses.dataclass(frozen=True)
class Scene:
    """A robot in motion."""

    command: tuple[float, ...]
    fault_at: float
    """s of the policy's time."""
    seconds: float
    """s that the policy runs after the fault, where nothing latches."""


SCENES: Mapping[str, Scene] = {
    "locomotion/go1-joystick-flat": Scene((0.5, 0.0, 0.3), 2.0, 12.0),
    "swarm/hover": Scene((0.0, 0.0, 2.0), 0.5, 8.0),
    "manipulation/reach": Scene((), 0.3, 4.0),
}
CLEAN = ("locomotion/go1-joystick-flat", "swarm/hover", "manipulation/reach", "grasping/leap-rotate-z")
"""Tasks whose shipped policies run without a fault."""
PARTS = 10  # of the minutes without a fault, each with seeds of its own
RESTART = 20.0  # s of a run without a fault, at most; an episode, where that is shorter


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = ()
    """Tasks whose shipped policy is deployed; by default those of the faults, or of the runs without."""
    only: tuple[str, ...] = ()
    """Faults, by what their names hold; by default all."""
    runs: int = 5
    """Of each fault, with seeds from 0."""
    clean: float = 0.0
    """minutes of each task without a fault, instead of faults."""
    workers: int = 1
    """Processes that measure at the same time."""
    json: Path | None = None
    """File for the results."""


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


JOINTS = ("joint_pos", "joint_vel")
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
    # Of here on plausible numbers, which only what the other sensors tell contradicts.
    "object frozen": stuck_exactly("object1_pos"),
    "object jumps by 0.3 m": part("object1_pos", lambda p: p + np.array([0.3, 0.0, 0.0])),
    "encoder 1 stuck, with noise": stuck("joint_pos", place=1),
    "encoder and speed 1 stuck, with noise": stuck(*JOINTS, place=1),
    "encoders stuck, with noise": stuck("joint_pos"),
    "encoders and speeds stuck, with noise": stuck(*JOINTS),
    "joint speed 1 stuck, with noise": stuck("joint_vel", place=1),
    "joint speeds stuck, with noise": stuck("joint_vel"),
    "orientation stuck, with noise": stuck("orientation"),
    "gyro stuck, with noise": stuck("gyro"),
    "position stuck, with noise": stuck("position"),
    "velocity stuck, with noise": stuck("linvel"),
    "encoders replayed from 0.3 s before": late(0.3, "joint_pos"),
    "joints replayed from 0.3 s before": late(0.3, *JOINTS),
    "joints replayed from 1 s before": late(1.0, *JOINTS),
    "legs 0 and 1 swapped": both(*(part(name, permuted(1, 0, 2, 3)) for name in JOINTS)),
    "legs 0 and 2 swapped": both(*(part(name, permuted(2, 1, 0, 3)) for name in JOINTS)),
    "legs 0 and 3 swapped": both(*(part(name, permuted(3, 1, 2, 0)) for name in JOINTS)),
    "joint speeds of legs 0 and 1 swapped": part("joint_vel", permuted(1, 0, 2, 3)),
    "sign of encoder 0": part("joint_pos", scaled(0, -1.0)),
    "sign of joint speed 1": part("joint_vel", scaled(1, -1.0)),
    "sign of encoder and speed 0": both(*(part(name, scaled(0, -1.0)) for name in JOINTS)),
    "sign of encoder and speed 1": both(*(part(name, scaled(1, -1.0)) for name in JOINTS)),
    "joint speeds in degrees/s": part("joint_vel", lambda v: v * DEGREES),
    "joint speeds halved": part("joint_vel", lambda v: v / 2),
    "velocity in the body's frame": in_body,
    "velocity turned by 90 degrees": in_world(lambda v: v[[1, 0, 2]] * [-1, 1, 1]),
    "velocity turned round": in_world(lambda v: -v),
    "position turned by 90 degrees": part("position", lambda p: p[[1, 0, 2]] * [-1, 1, 1]),
    "orientation late by 0.3 s": late(0.3, "orientation"),
    "position late by 0.5 s": late(0.5, "position"),
    "gyro's x and y swapped": part("gyro", swapped),
    "encoder 1 drifts by 0.1 rad/s": drifting("joint_pos", np.array([0.0, 0.1, *np.zeros(10)])),
    "heading drifts by 0.1 rad/s": drifting("orientation", np.array([0.0, 0.0, 0.1])),
    "position drifts by 0.1 m/s": drifting("position", np.array([0.1, 0.0, 0.0])),
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
STOP = "operator's stop"


def main(settings: Settings) -> None:
    """Measure and print a line for each fault, or for each part of the runs without one."""
    command = cli.command_line("benchmarks.faults")
    every = (*FAULTS, *OUTPUTS, STOP)
    chosen = [name for name in every if not settings.only or any(word in name for word in settings.only)]
    jobs = [(task, name, settings.runs) for task in settings.tasks or SCENES for name in chosen]
    if settings.clean:
        jobs = [(task, part, settings.clean / PARTS) for task in settings.tasks or CLEAN for part in range(PARTS)]
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(settings.workers, context) as pool:
        found: dict[str, Any] = {}
        measured = pool.map(alarms if settings.clean else outcome, *zip(*jobs, strict=True))
        for (task, what, _), row in zip(jobs, measured, strict=True):
            if row is not None:
                found[f"{task}, {what}"] = row
                cli.show(f"{task}, {what}: {row}")
    if settings.clean:
        summary = {
            name: sum(row[name] for row in found.values()) for name in ("minutes", "alarms", "falls", "restarts")
        }
    else:
        sums = {name: sum(row[name] for row in found.values()) for name in ("unsafe_targets", "unlatched_falls")}
        kinds = len({name.partition(", ")[2] for name in found})
        summary = {"kinds": kinds, "runs": settings.runs, **sums, "longest_seconds": longest(found)}
    cli.write_result(settings.json, command, {**summary, "results": found})


@functools.cache
def policy_of(task: str) -> DeployablePolicy:
    """The policy shipped for a task, loaded once a worker."""
    return load(task)


def outcome(task: str, name: str, runs: int) -> dict[str, Any] | None:
    """All runs of a fault; None where the robot lacks what it spoils."""
    tries = [tried(policy_of(task), task, name, seed) for seed in range(runs)]
    return None if None in tries else summed([run for run in tries if run])


def longest(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Step -> s from a fault to its latch, the longest of all runs."""
    found: dict[str, float] = {}
    for row in rows.values():
        for step, seconds in row["seconds"].items():
            found[step] = max(found.get(step, 0.0), seconds)
    return found


def summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Over all runs of a fault: which step latched, how often, after how long at most, and the rest in sum."""
    steps = collections.Counter(run["step"] or "none" for run in runs)
    latched: dict[str, float] = {}
    for run in runs:
        if run["step"]:
            latched[run["step"]] = max(latched.get(run["step"], 0.0), run["seconds"])
    return {
        "latched_by": dict(steps),
        "seconds": latched,
        "longest_seconds": max(latched.values(), default=None),
        "unsafe_targets": sum(run["unsafe"] for run in runs),
        "unlatched_falls": sum(run["fell"] for run in runs),
    }


def tried(policy: DeployablePolicy, task: str, name: str, seed: int) -> dict[str, Any] | None:
    """One run; None where the robot has no such part."""
    scene = SCENES[task]
    robot = FaultyRobot(policy, "mujoco", SimulatedOptions(realtime=False, seed=seed))
    robot.fault_at, robot.sense = scene.fault_at, seen_by_camera(policy.contract, seed)
    acting: Any = policy
    if name in FAULTS:
        if not hits(robot, name):
            return None
        FAULTS[name](robot)
    elif name in OUTPUTS:
        acting = Spoilt(robot, OUTPUTS[name])
    stop = (lambda: "key" if robot.acting else "") if name == STOP else str
    fallen = falls_of(robot)
    seconds = scene.fault_at + scene.seconds
    run = robot.deploy(np.array(scene.command), seconds, acting, stop, evaluated=False)
    return {
        "step": run.report.step,
        "seconds": round(run.report.seconds - scene.fault_at, 3),
        "unsafe": run.outside,
        "fell": bool(fallen) and not run.report.step,
    }


def falls_of(robot: FaultyRobot) -> list[float]:
    """Times at which the true sensors show a robot that fell or left its workspace; it grows while the robot runs."""
    fallen: list[float] = []
    limits = Limits.of(robot.policy.contract, SafetyConfig())

    def judge(measured: Measurement) -> None:
        cycle = Cycle(measured.time, measured)
        if upright(limits, State(), cycle) or inside(limits, State(), cycle):
            fallen.append(measured.time)

    robot.truth = judge
    return fallen


ANYWHERE = ("lost", "dropped", "cycles", "pause")
"""In names of faults that any robot may have, though the first measurement does not show them."""


def hits(robot: FaultyRobot, name: str) -> bool:
    """Whether the robot has the part that a fault spoils."""
    if "legs" in name and len(robot.policy.contract.joints) != LEGGED:
        return False
    camera = robot.sense
    FAULTS[name](robot)
    measured = robot.sense(robot.robot.read())
    try:
        return robot.measure(measured) is not measured or any(word in name for word in ANYWHERE)
    except IndexError:  # it has fewer joints
        return False
    finally:
        robot.sense = camera


def seen_by_camera(contract: Contract, seed: int) -> Callable[[Measurement], Measurement]:
    """What adds a camera's noise to the places of objects."""
    rng, places = np.random.default_rng([seed, 5]), Limits.of(contract, SafetyConfig()).things
    newest: list[Measurement] = [Measurement(-np.inf)]

    def see(measured: Measurement) -> Measurement:
        if measured.time > newest[0].time:
            seen = {name: np.asarray(measured.readings[name], float) for name in places if name in measured.readings}
            noisy = {name: value + CAMERA * rng.standard_normal(value.shape) for name, value in seen.items()}
            newest[0] = dataclasses.replace(measured, readings={**measured.readings, **noisy}) if noisy else measured
        return newest[0]

    return see


def alarms(task: str, part: int, minutes: float) -> dict[str, Any]:
    """Runs without a fault, each with another seed and command, until they make so many minutes.

    A robot that fell by its policy's doing is latched rightly: a fall, and no alarm.
    """
    policy, seconds, seed = policy_of(task), 0.0, 1000 * part
    latched: dict[str, list[str]] = {"alarms": [], "falls": []}
    episode = min(RESTART, join_content()[task].load()().timing.episode_seconds)
    while seconds < 60 * minutes:
        robot = FaultyRobot(policy, "mujoco", SimulatedOptions(realtime=False, seed=seed))
        robot.sense, fallen = seen_by_camera(policy.contract, seed), falls_of(robot)
        report = Loop(robot, policy, commanded(policy, seed), LoopSettings(seconds=episode, damp=0.1)).run()
        if report.reason:
            latched["falls" if fallen else "alarms"].append(f"seed {seed}, {report.step}: {report.reason}")
        seconds, seed = seconds + report.seconds, seed + 1
    counts = {what: len(reasons) for what, reasons in latched.items()}
    return {"minutes": seconds / 60, "restarts": seed - 1000 * part, **counts, "reasons": latched}


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
