"""Recovery of hidden parameters by calibration, from logs of robots with sensor noise and a delay of about 10 ms.

Every trial draws a robot: friction, damping, armature, masses, delay (and encoder biases, or a drone's constants)
anywhere in a wide range about the nominal model. Its log is calibrated from the nominal model. Reported are relative
errors, how often the 95 % intervals hold the truth, held-out errors over the noise, and times; and for logs of another
engine, PyBullet, the held-out error after calibration as a share of that before.

python -m benchmarks.calibration --json FILE
"""

import dataclasses
import fnmatch
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from benchmarks import calibration_logs as logs
from sim2real import calibrate as cal
from sim2real.identification.calibration import Calibration, improvement
from sim2real.identification.parameters import Kind
from sim2real.identification.simulate import Twin
from sim2real.logs.log import WXYZ, XYZ, Channel, Log
from sim2real.twins import crazyflie, panda
from sim2real.twins.named import make_twin

WITHIN = 0.05
LEG = ("FR_hip", "FR_thigh", "FR_calf")
RELATIVE = (Kind.ENCODER_BIAS, Kind.LOSS, Kind.PAYLOAD)
"""Kinds whose errors are not relative to their values, which may be zero."""
SECONDS = {"go1": 20.0, "panda": 24.0, "crazyflie": 30.0}
"""s of log of each robot; a quarter is held out."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    robots: tuple[str, ...] = ("go1", "panda", "crazyflie")
    """Which."""
    trials: int = 50
    """Robots drawn of each."""
    bullet: int = 5
    """Logs of a Go1's leg from PyBullet."""
    finer: int = 1
    """Physics steps of the hidden robot for each of the twin's (joints only): above 1, time runs otherwise for both."""
    seed: int = 0
    json: Path | None = None
    """File for the results; written after every trial."""


def main(settings: Settings) -> None:
    """Measure and print."""
    results: dict[str, Any] = {}
    command = cli.command_line("benchmarks.calibration")
    runs: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
        robot: (settings.trials, functools.partial(trial, robot, finer=settings.finer)) for robot in settings.robots
    }
    runs["go1 in pybullet"] = (settings.bullet, bullet_trial)
    for robot, (count, run) in runs.items():
        rows: list[dict[str, Any]] = []
        for number in range(settings.seed, settings.seed + count):
            rows.append(run(number))
            results[robot] = summary(rows)
            cli.write_result(settings.json, command, {"settings": shown(settings), "results": results})
        if rows:
            show(robot, results[robot])


def shown(settings: Settings) -> dict[str, Any]:
    """The settings without the path."""
    return {name: value for name, value in dataclasses.asdict(settings).items() if name != "json"}


def twin_of(robot: str) -> Twin:
    """The twin of a robot, before any log."""
    if robot == "go1":
        return make_twin("go1", logs.empty(("joint_pos", "joint_vel"), LEG))
    if robot == "panda":
        return panda.twin(logs.empty(("joint_pos", "joint_vel", "joint_torque"), panda.JOINTS))
    names = {"command": crazyflie.ROTORS, "orientation": WXYZ, **dict.fromkeys(("position", "linvel", "gyro"), XYZ)}
    return crazyflie.twin(
        Log({name: Channel(np.arange(2.0), np.zeros((2, len(n))), n, "rpm") for name, n in names.items()})
    )


def log_of(robot: str, twin: Any, truth: np.ndarray, seed: int, finer: int = 1) -> Log:
    """The log of a robot with values `truth`."""
    if robot == "crazyflie":
        return logs.drone_log(twin, truth, SECONDS[robot], seed)
    motion = {"go1": logs.GO1_LEG, "panda": logs.PANDA_ARM}[robot]
    return logs.joint_log(twin, truth, motion, SECONDS[robot], seed, finer=finer)


def trial(robot: str, seed: int, finer: int = 1) -> dict[str, Any]:
    """One robot drawn, logged and calibrated."""
    twin = twin_of(robot)
    rng = np.random.default_rng([seed, 1])
    truth = logs.draw(twin.parameters, rng)
    # Motors are as strong as modelled: no motion separates their strength from all masses together.
    known = {"*.strength": 1.0}
    if robot == "crazyflie":
        # The drone has its own mass, which was weighed.
        truth[0] = twin.parameters[0].nominal * rng.uniform(0.9, 1.25)
        known = {Kind.DRONE_MASS.value: float(truth[0])}
    result, _ = cal.calibrate(log_of(robot, twin, truth, seed, finer), twin, cal.Settings(known=known))
    row = {**compared(result, truth), **errors_of(result), "seconds": result.took, "converged": result.converged}
    wrong = max((abs(e) for e in row["error"].values()), default=0.0)
    cli.show(f"{robot} {seed}: {result.took:.1f} s, worst identified parameter {100 * wrong:.2f} % off")
    return row


def compared(result: Calibration, truth: np.ndarray) -> dict[str, Any]:
    """Relative errors, whether the intervals hold the truth, and which parameters the log did not decide."""
    true = dict(zip((e.name for e in result.estimates), truth, strict=True))
    free = result.free
    decided = [e for e in free if e.identified]
    return {
        "error": {e.name: e.value / true[e.name] - 1 for e in decided if e.parameter.kind not in RELATIVE},
        "inside": {e.name: bool(e.interval[0] <= true[e.name] <= e.interval[1]) for e in free},
        "width": {e.name: 1.96 * e.sd / true[e.name] for e in free if e.parameter.kind not in RELATIVE},
        "unidentified": [e.name for e in free if not e.identified],
    }


def errors_of(result: Calibration) -> dict[str, Any]:
    """Held-out errors at .5 s: over the sensors' noise, and as a share of those before."""
    half = [e for e in result.errors if e.horizon == 0.5]
    noise = logs.NOISE[result.robot]
    # Orientation is compared by a vector of three components, each with the noise of one.
    return {
        "over_noise": {e.channel: e.after / noise[e.channel] for e in half},
        "fitted_over_noise": {e.channel: e.fitted / noise[e.channel] for e in half},
        "left": {e.channel: improvement(result.errors, e.channel, 0.5) for e in half},
    }


def summary(trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over all trials: errors and coverage by kind of parameter, held-out errors, times."""
    names = sorted({name for row in trials for name in row["inside"]})
    kinds = sorted({name.rpartition(".")[2] for name in names})
    by_kind = {}
    for kind in kinds:
        mine = [name for name in names if fnmatch.fnmatchcase(name, kind) or name.endswith(f".{kind}")]
        errors = np.abs([row["error"][n] for row in trials for n in mine if n in row["error"]])
        inside = [row["inside"][n] for row in trials for n in mine]
        missing = sum(n in row["unidentified"] for row in trials for n in mine)
        by_kind[kind] = {
            "estimates": len(inside),
            "identified": len(inside) - missing,
            "median_error": float(np.median(errors)) if len(errors) else None,
            "p95_error": float(np.percentile(errors, 95)) if len(errors) else None,
            "within_5_percent": float(np.mean(errors <= WITHIN)) if len(errors) else None,
            "coverage": float(np.mean(inside)),
        }
    by_parameter = {}
    for name in names:
        errors = np.abs([row["error"][name] for row in trials if name in row["error"]])
        by_parameter[name] = {
            "identified": sum(name not in row["unidentified"] for row in trials),
            "within_5_percent": float(np.mean(errors <= WITHIN)) if len(errors) else None,
            "median_error": float(np.median(errors)) if len(errors) else None,
            "coverage": float(np.mean([row["inside"][name] for row in trials])),
        }
    channels = trials[0]["over_noise"]
    inside = [value for row in trials for value in row["inside"].values()]
    return {
        "trials": len(trials),
        "converged": sum(row["converged"] for row in trials),
        "coverage": float(np.mean(inside)),
        "kinds": by_kind,
        "parameters": by_parameter,
        "held_out_over_noise": {c: float(np.mean([row["over_noise"][c] for row in trials])) for c in channels},
        "held_out_start_fitted_over_noise": {
            c: float(np.mean([row["fitted_over_noise"][c] for row in trials])) for c in channels
        },
        "held_out_left": {c: float(np.mean([row["left"][c] for row in trials])) for c in channels},
        "held_out_left_worst": {c: float(max(row["left"][c] for row in trials)) for c in channels},
        "seconds_median": float(np.median([row["seconds"] for row in trials])),
        "seconds_worst": float(max(row["seconds"] for row in trials)),
    }


def bullet_trial(seed: int) -> dict[str, Any]:
    """A Go1's leg drawn, logged in PyBullet and calibrated."""
    twin: Any = twin_of("go1")
    truth = logs.draw(twin.parameters, np.random.default_rng([seed, 2]))
    log = logs.bullet_log(twin, truth, logs.GO1_LEG, SECONDS["go1"], seed)
    result, _ = cal.calibrate(log, twin, cal.Settings(known={"*.strength": 1.0}))
    row = {**compared(result, truth), **errors_of(result), "seconds": result.took, "converged": result.converged}
    cli.show(f"pybullet {seed}: {result.took:.1f} s, error left {100 * row['left']['joint_pos']:.1f} %")
    return row


def show(robot: str, result: Mapping[str, Any]) -> None:
    """Print a summary."""
    percent = lambda value: "-" if value is None else f"{100 * value:.1f} %"  # noqa: E731
    rows = {
        kind: f"error {percent(row['median_error'])} median, {percent(row['p95_error'])} p95; within 5 %: "
        f"{percent(row['within_5_percent'])}; coverage {percent(row['coverage'])}; identified "
        f"{row['identified']} of {row['estimates']}"
        for kind, row in result["kinds"].items()
    }
    rows["coverage"] = percent(result["coverage"])
    rows["held-out .5 s error over noise"] = ", ".join(f"{c} {v:.3f}" for c, v in result["held_out_over_noise"].items())
    rows["the same, starts fitted"] = ", ".join(
        f"{c} {v:.3f}" for c, v in result["held_out_start_fitted_over_noise"].items()
    )
    rows["held-out .5 s error left"] = ", ".join(f"{c} {percent(v)}" for c, v in result["held_out_left"].items())
    rows["time"] = f"{result['seconds_median']:.1f} s, worst {result['seconds_worst']:.1f} s"
    cli.show(cli.table(f"{robot}, {result['trials']} trials", rows))


if __name__ == "__main__":
    main(tyro.cli(Settings))
