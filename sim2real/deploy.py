"""`python -m sim2real.deploy`: run a policy on a robot, simulated or real, behind the safety chain."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard
from sim2real.bundles.policies import load
from sim2real.contract.contract import Contract, DeployablePolicy
from sim2real.deployment.loop import Loop, LoopSettings, Progress
from sim2real.deployment.operator_stop import OperatorStop
from sim2real.deployment.record import Report
from sim2real.deployment.safety import Safety, SafetyConfig
from sim2real.deployment.team import run_together
from sim2real.robots import registry
from sim2real.robots.base import Phase, TaskResult
from sim2real.robots.estimated import EstimatedRobot, load_estimator

O = TypeVar("O")  # noqa: E741  (options)

EXIT_TRIPPED = 3
EXIT_STOPPED = 4
DEFAULT_ROBOT = "mujoco"
LONGEST = 86_400.0  # s of a deployment: a day
MCAP = ".mcap"
SHOW_EVERY = 0.1  # s between updates of the progress line


@dataclasses.dataclass(frozen=True)
class Settings(Generic[O]):
    """Run a policy on a robot.

    Phases: check (everything is tried, nothing sent), soft start from the measured pose to the stance, run, damp. A
    safety chain stands between policy and robot; any trip damps the robot for good and says why. Enter, a line on
    standard input, Ctrl-C and SIGTERM stop it. Robots: mujoco and pybullet (simulated, with latency, noise, lost
    packets and a model mismatch), udp (any robot behind a bridge, see docs/udp.md), crazyflie, lerobot;
    --robot NAME --help shows a robot's own options. A simulated team is rehearsed as a whole, a loop for each of its
    robots; --log then writes a file for each. Examples:

        python -m sim2real.deploy bundle/ --robot mujoco --command .5 0 0 --log run.mcap
        python -m sim2real.deploy bundle/ --robot pybullet --latency .01 --loss .02 --mismatch 1 --seed 7
        python -m sim2real.deploy bundle/ --robot udp --address 192.168.123.10:9870 --seconds 30
        python -m sim2real.deploy bundle/ --robot crazyflie --uri radio://0/80/2M/E7E7E7E7E7 --command 0 0 1
        python -m sim2real.deploy locomotion/go1-joystick-flat --robot mujoco --no-realtime
        python -m sim2real.deploy swarm/formation --robot mujoco --no-realtime --latency .01 --loss .05
        python -m sim2real.deploy drawer/ --robot mujoco --instruction "open the drawer"
        python -m sim2real.deploy drawer/ --robot udp --address 10.0.0.7:9870 --readings my_cameras:images

    Exit codes: 0 ran to its end; 2 could not begin; 3 latched by the safety chain; 4 stopped by the operator.
    """

    bundle: tyro.conf.Positional[str]
    """A bundle's folder; or a task whose shipped policy is tried without one."""
    robot: str = DEFAULT_ROBOT
    """Robot to run it on; its options follow below."""
    seconds: float = 10.0
    """s that the policy runs."""
    command: tuple[float, ...] = ()
    """Operator's command, in the contract's order: for the joystick tasks forward m/s, left m/s, turn left rad/s;
    for hover the point x, y, z in m; for others the contract's `commands`. By default zeros; for a point the
    middle of the workspace; for a step what the simulated task draws."""
    instruction: str = ""
    """The instruction of a policy that follows one; by default the first it was trained on for its task."""
    readings: cli.Rare[str] = ""
    """`module:callable` that says what the robot does not measure, such as the place of an object: called with every
    measurement, it returns numbers by the names of the step's inputs."""
    soft_start: cli.Rare[float | None] = None
    """s from the measured pose to the stance; by default 2, and 0 of a drone with rotor thrusts."""
    log: Path | None = None
    """Write every cycle to this MCAP file, which sim2real.calibrate reads."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    driver: tyro.conf.OmitArgPrefixes[O] = None  # type: ignore[assignment]
    """The robot's own options."""
    safety: SafetyConfig = dataclasses.field(default_factory=SafetyConfig)
    """Thresholds of the safety chain."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST or (self.soft_start is not None and not 0 <= self.soft_start <= LONGEST):
            given = f"--seconds {self.seconds} and --soft-start {self.soft_start}"
            raise EmbodiedError(f"{given}: expected positive durations of at most {LONGEST:g} s")
        if self.log is not None and self.log.suffix.lower() != MCAP:
            raise EmbodiedError(f"--log {str(self.log)!r}: expected a file whose name ends in {MCAP}")
        for flag, path in (("--log", self.log), ("--json", self.json)):
            if path is not None and path.resolve().is_relative_to(Path(self.bundle).resolve()):
                raise EmbodiedError(f"{flag} {str(path)!r} lies in the bundle, which is sealed; choose another folder")


@dataclasses.dataclass(frozen=True)
class Result:
    """Report of a deployment, and the task's own result."""

    reports: tuple[Report, ...]
    """Of each robot."""
    task: TaskResult | None
    """None for hardware."""

    @property
    def report(self) -> Report:
        """Of the robot; for a team, of the first that was latched, or of its first."""
        return next((report for report in self.reports if report.reason), self.reports[0])

    @property
    def code(self) -> int:
        if not self.report.reason:
            return 0
        return EXIT_STOPPED if self.report.step == "operator" else EXIT_TRIPPED

    def summary(self) -> dict[str, Any]:
        task = {} if self.task is None else {"task": dataclasses.asdict(self.task)}
        team = {} if len(self.reports) == 1 else {"team": [report.summary() for report in self.reports]}
        return self.report.summary() | team | task


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    settings = parse(words)
    policy = load(settings.bundle)
    result = run(settings, policy)
    cli.show(cli.table(f"{policy.contract.task} on {settings.robot}", rows(result, policy.contract)))
    said = {"bundle": settings.bundle, "robot": settings.robot, "options": dataclasses.asdict(settings.driver)}
    cli.write_result(settings.json, cli.command_line("sim2real.deploy"), said | result.summary())
    return result.code


def parse(words: list[str]) -> Settings[Any]:
    name = DEFAULT_ROBOT
    for index, word in enumerate(words):
        if word == "--robot" and index + 1 < len(words):
            name = words[index + 1]
        name = word.removeprefix("--robot=") if word.startswith("--robot=") else name
    options = registry.options_of(name)
    defaults = Settings(tyro.MISSING, robot=name, driver=options)
    kind = Settings[type(options)]  # type: ignore[misc]
    return cli.parse(kind, words, "sim2real.deploy", defaults)


def run(settings: Settings[Any], policy: DeployablePolicy) -> Result:
    """Connect, deploy, and let go of the robot.

    Raises:
        EmbodiedError: it cannot begin: a command that does not fit, a robot that cannot be reached.
    """
    command = commanded(policy.contract, settings.command)
    with OperatorStop() as stop, contextlib.ExitStack() as stack:
        robot = registry.connect(settings.robot, policy.contract, settings.driver)
        robots = robot.team or (robot,)
        if robot.team and settings.command:
            team = f"the {len(robots)} robots of a team"
            raise EmbodiedError(f"--command {settings.command}: {team} get theirs from their task")
        if settings.readings:
            robots = tuple(EstimatedRobot(one, load_estimator(settings.readings)) for one in robots)
        for one in robots:
            stack.callback(one.close)
        robots[0].prepare(command)
        watch = ProgressLine(stack.enter_context(cli.Line(settings.robot, settings.seconds)))
        # No garbage collection while a robot waits: objects that exist by now are not scanned again.
        gc.collect()
        gc.freeze()
        stack.callback(gc.unfreeze)
        sinks = [stack.enter_context(recorder(settings, policy.contract, len(robots), n)) for n in range(len(robots))]
        loops = [
            Loop(
                one,
                one.setpoint_policy or policy,
                command,
                LoopSettings(seconds=settings.seconds, soft_start=settings.soft_start),
                safety=Safety.of(policy.contract, settings.safety),
                sink=sink,
                watch=watch if one is robots[0] else None,
                stop=stop,
                instruction=settings.instruction,
            )
            for one, sink in zip(robots, sinks, strict=True)
        ]
        reports = run_together(loops)
        for sink, report in zip(sinks, reports, strict=True):
            if sink is not None:
                sink.note("outcome", report.reason or "whole")
        return Result(tuple(reports), robot.task_result())


class ProgressLine:
    """Shows phase, time and clipped targets of a deployment in one line."""

    def __init__(self, line: cli.Line) -> None:
        self._line, self._phase, self._shown = line, Phase.CHECK, -np.inf

    def __call__(self, progress: Progress) -> None:
        if progress.phase is not self._phase:
            self._phase, self._shown = progress.phase, -np.inf
        if progress.phase < Phase.DAMP and progress.seconds - self._shown >= SHOW_EVERY:
            self._shown = progress.seconds
            clips = sum(progress.state.clips.values())
            done = progress.seconds if progress.phase is Phase.RUN else 0.0
            what = progress.phase.name.lower().replace("_", " ")
            self._line.update(done, f"{what} {progress.seconds:.1f} s, {clips} clips")


def commanded(contract: Contract, command: tuple[float, ...]) -> np.ndarray:
    """The operator's command (k,), by default the middle of what the policy was trained on.

    Empty without a command whose ranges are stated: then the robot or its estimator gives it.

    Raises:
        EmbodiedError: another number of values, or one that the policy was not trained for.
    """
    numbers, size = contract.command, contract.command_size
    if not command:
        return np.array([(number.lower + number.upper) / 2 for number in numbers])
    if len(command) != size:
        known = ", ".join(f"{one.name} ({one.size}: {one.meaning})" for one in contract.step.commands) or "nothing"
        raise EmbodiedError(f"--command has {len(command)} values; expected {size}: {known}")
    for number, value in zip(numbers, command, strict=False):
        if not number.lower <= value <= number.upper:
            raise EmbodiedError(
                f"--command: {number.name} is {value} {number.unit}; the policy was trained within "
                f"[{number.lower:g}, {number.upper:g}]"
            )
    return np.array(command, float)


@contextlib.contextmanager
def recorder(settings: Settings[Any], contract: Contract, robots: int, number: int) -> Iterator[Any]:
    """Log of a robot's cycles: `run.mcap`, for a team `run-0.mcap`, `run-1.mcap` ...; None without a log."""
    if settings.log is None:
        yield None
        return
    from sim2real.logs.mcap_log import Recorder

    options = {field.name: str(getattr(settings.driver, field.name)) for field in dataclasses.fields(settings.driver)}
    said = {"task": contract.task, "robot": contract.robot, "driver": settings.robot}
    said["policy"] = Path(settings.bundle).name
    numbers = {"control_hz": repr(contract.control_hz), "physics_hz": repr(contract.physics_hz)}
    path = settings.log if robots == 1 else settings.log.with_stem(f"{settings.log.stem}-{number}")
    with Recorder(path, {**said, **numbers, **{f"option {name}": text for name, text in options.items()}}) as sink:
        yield sink


def rows(result: Result, contract: Contract) -> dict[str, str]:
    report, timing = result.report, result.report.timing
    numbers = timing.summary()
    table = {"outcome": f"LATCHED in phase {report.phase.name.lower()}: {report.reason}" if report.reason else "whole"}
    if len(result.reports) > 1:
        whole = sum(one.whole for one in result.reports)
        table["robots"] = f"{len(result.reports)}, each with a loop of its own; {whole} whole"
    table["policy ran"] = f"{report.seconds:.2f} s of cycles at {contract.control_hz:g} Hz"
    if result.task is not None:
        table["task"] = "success" if result.task.success else "failed" if result.task.failed else "no success"
        table |= {f"mean {name.replace('_', ' ')}": f"{value:.3f}" for name, value in result.task.metrics.items()}
    table["clips"] = ", ".join(f"{name}: {count} cycles" for name, count in report.clips.items()) or "none"
    for name in ("late", "compute"):
        p50, p99, most = (1e3 * numbers[name][key] for key in ("p50", "p99", "max"))
        table[name] = f"p50 {p50:.3f} ms, p99 {p99:.3f} ms, max {most:.3f} ms"
    table["deadlines"] = f"{timing.missed} missed, {timing.skipped} skipped of {numbers['cycles']}"
    table["jitter"] = f"{timing.bars()}  (0 to 100 ms, log scale)"
    return table


if __name__ == "__main__":
    sys.exit(main())
