"""Success of policies on simulated robots, behind the safety chain; and the outcome of every fault.

Success is the task's: for Go1 no fall and a mean planar velocity error under 0.2 m/s, for hover 2 s within 10 cm and
slower than 0.1 m/s at the end. Time is simulated but for `jitter`, which measures this machine's punctuality.

python -m benchmarks.deploy_standin --runs 32 --json FILE
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from embodied.env.registry import join_content
from sim2real.bundles.policies import load
from sim2real.contract.contract import DeployablePolicy
from sim2real.deployment.loop import Loop, LoopSettings, Progress
from sim2real.deployment.record import Report
from sim2real.deployment.safety import Safety
from sim2real.deployment.team import run_together
from sim2real.robots import registry
from sim2real.robots.base import Measurement, Phase, Robot, TaskResult
from sim2real.robots.simulation.simulated import SimulatedOptions, SimulatedRobot

CONDITIONS: Mapping[str, dict[str, float]] = {
    "model": {},
    "mismatch": {"mismatch": 1.0},
    "late": {"latency": 0.01},
    "lossy": {"loss": 0.05},
    "late and lossy": {"latency": 0.01, "loss": 0.05},
    "all": {"mismatch": 1.0, "latency": 0.01, "loss": 0.05},
}
"""Imperfections of the robot besides sensor noise at the level of training."""
KEEP = (0.9, 0.25, 0.5)  # probability that each part of a velocity command is not zero, as in the task
FAULT = 2.0  # s of the policy's time, when faults begin
GO1 = "locomotion/go1-joystick-flat"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    policies: tuple[str, ...] = (GO1, "swarm/hover")
    """Bundles, or tasks with a shipped policy."""
    engines: tuple[str, ...] = ("mujoco", "pybullet")
    """Of the simulated robots."""
    conditions: tuple[str, ...] = tuple(CONDITIONS)
    """Names in `CONDITIONS`."""
    runs: int = 32
    """Runs of each, with seeds from 0."""
    seconds: float = 0.0
    """s that the policy runs; 0: the task's episode."""
    soft_start: float | None = None
    """s from the measured pose to the stance; by default deployment's own, 0: the policy begins where the robot is."""
    faults: bool = True
    """Also try every fault on the walking Go1."""
    jitter: float = 10.0
    """s in real time for the jitter of the loop; 0: none."""
    json: Path | None = None
    """File for the results."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One deployment."""

    report: Report
    """For a team, of the first of its robots that was latched, or of its first."""
    task: TaskResult
    outside: int
    """Targets that reached a robot and were not finite or outside its limits."""


def main(settings: Settings) -> None:
    """Measure and print."""
    results: dict[str, Any] = {"success": {}, "load_average": os.getloadavg()[0]}
    for name in settings.policies:
        policy = load(name)
        for engine in settings.engines:
            for condition in settings.conditions:
                row = rate(policy, engine, CONDITIONS[condition], settings)
                results["success"][f"{policy.contract.task} on {engine}, {condition}"] = row
                cli.show(f"{policy.contract.task} on {engine}, {condition}: {row}")
    if settings.faults:
        results["faults"] = faults()
        cli.show(cli.table("faults", {name: str(row) for name, row in results["faults"].items()}))
    if settings.jitter:
        results["jitter"] = jitter(settings.jitter)
        cli.show(cli.table("jitter", {name: str(value) for name, value in results["jitter"].items()}))
    cli.write_result(settings.json, cli.command_line("benchmarks.deploy_standin"), results)


def rate(policy: DeployablePolicy, engine: str, options: dict[str, float], settings: Settings) -> dict[str, Any]:
    """Success and what went wrong over all runs."""
    runs = []
    seconds = settings.seconds or join_content()[policy.contract.task].load()().timing.episode_seconds
    for seed in range(settings.runs):
        robot = FaultyRobot(policy, engine, SimulatedOptions(realtime=False, seed=seed, **options))  # type: ignore[arg-type]
        runs.append(robot.deploy(commanded(policy, seed), seconds, soft_start=settings.soft_start))
    metrics = {
        f"mean_{name}": float(np.mean([run.task.metrics[name] for run in runs])) for name in runs[0].task.metrics
    }
    clips: dict[str, int] = {}
    for run in runs:
        for name, count in run.report.clips.items():
            clips[name] = clips.get(name, 0) + count
    compute = np.concatenate([run.report.timing.compute for run in runs])
    return {
        "runs": len(runs),
        "success": float(np.mean([run.task.success and not run.report.reason for run in runs])),
        "failed": float(np.mean([run.task.failed for run in runs])),
        "latched": {
            run.report.step: sum(r.report.step == run.report.step for r in runs) for run in runs if run.report.step
        },
        "outside_limits": sum(run.outside for run in runs),
        "clipped_cycles": clips,
        **metrics,
        "compute_p50_s": float(np.quantile(compute, 0.5)),
        "compute_p99_s": float(np.quantile(compute, 0.99)),
    }


def commanded(policy: DeployablePolicy, seed: int) -> np.ndarray:
    """A command of the task's distribution: a velocity, or hover's own point; none for what the task draws itself."""
    if policy.contract.task == "swarm/hover":
        return np.array([0.0, 0.0, 2.0])
    numbers = policy.contract.command
    if not numbers or not all(number.unit.endswith("/s") for number in numbers):
        return np.zeros(0)
    rng = np.random.default_rng([seed, 3])
    limits = np.array([number.upper for number in numbers])
    return limits * rng.uniform(-1, 1, len(limits)) * (rng.random(len(limits)) < KEEP)


class FaultyRobot(Robot):
    """A simulated robot that counts targets outside the limits, and to which a fault can be done."""

    name = "faulty"

    def __init__(
        self, policy: DeployablePolicy, engine: str, options: SimulatedOptions, robot: Robot | None = None
    ) -> None:
        """Connect, or take a robot that is."""
        self.policy = policy
        first = robot or registry.connect(engine, policy.contract, options)
        assert isinstance(first, SimulatedRobot)
        self.robot = first
        self.in_place = first.in_place
        self.others = () if robot else tuple(FaultyRobot(policy, engine, options, one) for one in first.team[1:])
        """Of its team."""
        self.outside, self.damped_at = 0, np.inf
        self.acting = False
        self.fault_at = FAULT
        self.sense: Callable[[Measurement], Measurement] = lambda measured: measured
        self.truth: Callable[[Measurement], object] = lambda measured: None
        self.measure: Callable[[Measurement], Measurement] = lambda measured: measured
        self.pause: Callable[[], float] = lambda: 0.0
        self._low, self._high = policy.contract.row("lower"), policy.contract.row("upper")

    def now(self) -> float:
        """s."""
        return self.robot.now()

    def sleep_until(self, when: float) -> None:
        """Simulate until then, or longer."""
        self.robot.sleep_until(when + (self.pause() if self.acting else 0.0))

    def read(self) -> Measurement:
        """A measurement, spoilt if there is a fault."""
        measured = self.sense(self.robot.read())
        self.truth(measured)
        return self.measure(measured) if self.acting else measured

    def write(self, target: np.ndarray) -> None:
        """Count what must not be."""
        self.outside += not (np.isfinite(target) & (target >= self._low) & (target <= self._high)).all()
        self.robot.write(target)

    def damp(self) -> None:
        """Remember when."""
        self.damped_at = self.now() if self.acting else self.damped_at
        self.robot.damp()

    def close(self) -> None:
        """Damp."""
        self.robot.close()

    def enter(self, phase: Phase) -> None:
        self.robot.enter(phase)

    def deploy(
        self,
        command: np.ndarray,
        seconds: float,
        policy: DeployablePolicy | None = None,
        stop: Any = str,
        soft_start: float | None = None,
        evaluated: bool = True,
    ) -> Run:
        """Run the policy, or another, and have the task evaluated, which takes a second to compile."""
        if evaluated:
            self.robot.prepare(command)

        def watch(progress: Progress) -> None:
            self.acting = progress.phase is Phase.RUN and progress.seconds >= self.fault_at - 1e-6

        times = LoopSettings(seconds=seconds, damp=0.1, soft_start=soft_start)
        acting, safety = policy or self.policy, Safety.of(self.policy.contract)
        loops = [Loop(robot, acting, command, times, safety=safety, stop=stop) for robot in self.others]
        reports = run_together([Loop(self, acting, command, times, safety=safety, stop=stop, watch=watch), *loops])
        report = next((report for report in reports if report.reason), reports[0])
        outside = sum(robot.outside for robot in (self, *self.others))
        return Run(report, self.robot.task_result() or TaskResult(False, False, 0.0, {}), outside)


Spoil = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Action and target -> those that are given instead."""


class Spoilt:
    """A policy whose action and target are changed once the fault begins."""

    def __init__(self, robot: FaultyRobot, change: Spoil) -> None:
        """Around the robot's own policy."""
        self.contract, self._robot, self._change = robot.policy.contract, robot, change

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """All outputs, those two spoilt."""
        outputs = dict(self._robot.policy.step(inputs))
        if self._robot.acting:
            action, target = (np.array(outputs[name], float) for name in ("action", "target"))
            outputs["action"], outputs["target"] = self._change(action, target)
        return outputs


def first(values: np.ndarray, value: float) -> np.ndarray:
    """Values with the first replaced."""
    return np.concatenate([[value], values[1:]])


def sensor(**parts: Any) -> Callable[[FaultyRobot], None]:
    """A fault of sensors: parts replaced by functions of themselves."""

    def begin(robot: FaultyRobot) -> None:
        robot.measure = lambda measured: dataclasses.replace(
            measured, **{name: change(getattr(measured, name)) for name, change in parts.items()}
        )

    return begin


def frozen(robot: FaultyRobot) -> None:
    """All sensors repeat themselves, with new times."""
    kept: list[Measurement] = []

    def measure(measured: Measurement) -> Measurement:
        kept.append(measured)
        return dataclasses.replace(kept[0], time=measured.time)

    robot.measure = measure


def dropped(robot: FaultyRobot) -> None:
    """No measurement arrives any more."""
    kept: list[Measurement] = []

    def measure(measured: Measurement) -> Measurement:
        kept.append(measured)
        return kept[0]

    robot.measure = measure


def paused(seconds: float) -> Callable[[FaultyRobot], None]:
    """Every cycle begins late."""

    def begin(robot: FaultyRobot) -> None:
        robot.pause = lambda: seconds

    return begin


SENSOR_FAULTS: Mapping[str, Callable[[FaultyRobot], None]] = {
    "NaN from the gyro": sensor(gyro=lambda value: first(value, np.nan)),
    "infinite joint speed": sensor(joint_vel=lambda value: first(value, np.inf)),
    "an encoder jumps by 2 rad": sensor(joint_pos=lambda value: value + first(np.zeros(len(value)), 2.0)),
    "all sensors frozen": frozen,
    "gyro frozen": sensor(gyro=lambda value: np.array([0.1, 0.2, 0.3])),
    "measurements dropped": dropped,
    "cycles 25 ms late": paused(0.025),
    "one pause of 0.3 s": paused(0.3),
}
POLICY_FAULTS: Mapping[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "NaN from the policy": lambda action, target: (action * np.nan, target * np.nan),
    "infinity from the policy": lambda action, target: (action, first(target, np.inf)),
    "a target beyond its limit": lambda action, target: (action, first(target, 9.0)),
    "a target of -1e300": lambda action, target: (action, first(target, -1e300)),
    "actions of 1e6": lambda action, target: (action + 1e6, target),
}


def faults() -> dict[str, dict[str, Any]]:
    """Fault -> which step caught it, how long after it began, and what reached the robot."""
    policy = load(GO1)
    rows: dict[str, dict[str, Any]] = {}
    for name in (*SENSOR_FAULTS, *POLICY_FAULTS, "operator's stop"):
        robot = FaultyRobot(policy, "mujoco", SimulatedOptions(realtime=False))
        acting = robot.policy
        if name in SENSOR_FAULTS:
            SENSOR_FAULTS[name](robot)
        elif name in POLICY_FAULTS:
            acting = Spoilt(robot, POLICY_FAULTS[name])
        stop = (lambda robot=robot: "key" if robot.acting else "") if name == "operator's stop" else str
        run = robot.deploy(np.array([0.5, 0.0, 0.0]), 2 * FAULT, acting, stop)
        rows[name] = {
            "latched_by": run.report.step,
            # The fault is there from the cycle after `FAULT` on: 0 cycles if that one already sent nothing.
            "cycles_sent_meanwhile": round((run.report.seconds - FAULT) * policy.contract.control_hz) - 2,
            "outside_limits": run.outside,
        }
    return rows


def jitter(seconds: float) -> dict[str, Any]:
    """The loop's punctuality in real time, with the safety chain but without its deadline counter."""
    from sim2real.deployment.safety import SafetyConfig

    policy = load(GO1)
    robot = registry.connect("mujoco", policy.contract, SimulatedOptions())
    patient = Safety.of(policy.contract, SafetyConfig(max_age=10.0, max_late=10.0, max_frozen=10.0, misses=1e9))
    times = LoopSettings(seconds=seconds, damp=0.1)
    report = Loop(robot, policy, np.zeros(3), times, safety=patient).run()
    return report.timing.summary() | {"load_average": os.getloadavg()[0], "nice": os.nice(0)}


if __name__ == "__main__":
    main(tyro.cli(Settings))
