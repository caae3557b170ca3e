"""Whether a calibration's intervals hold the truth for logs of simulators that are not the twin.

Every log is of a robot drawn anew (`calibration_logs.draw`), simulated by one of `foreign_simulators`, with sensor
noise, a delay of 8 to 12 ms and, but in PyBullet, 5 % of the commands lost. It is calibrated from the nominal model,
knowing what a user would: that the leg's motors are as strong as modelled, and what the drone weighs. Reported are how
many 95 % intervals hold the truth, and how narrow they are: their widths over the errors, and over those of the prior.

python -m benchmarks.calibration_foreign --json FILE     # goes on where FILE ends
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from benchmarks import calibration as bench
from benchmarks import calibration_logs as logs
from benchmarks import foreign_simulators as foreign
from sim2real import calibrate as cal
from sim2real.identification.calibration import Calibration
from sim2real.identification.parameters import Kind
from sim2real.logs.log import Log


@dataclasses.dataclass(frozen=True)
class Simulator:
    """One source of logs."""

    robot: str
    log: Callable[[Any, np.ndarray, float, int], Log]
    """Of a twin, hidden values, seconds and a seed."""
    seconds: float
    """s of each log; a quarter is held out."""
    lost: float = 0.0
    """Share of commands."""
    without: tuple[Kind, ...] = ()
    """Parameters that the simulator lacks: their intervals are not counted."""


SIMULATORS: Mapping[str, Simulator] = {
    "leg": Simulator("go1", foreign.leg_log, 8.0, foreign.LOST),
    # Bullet's dry friction is hard: it has no time in which it stops a joint.
    "bullet": Simulator("go1", foreign.bullet_log, 8.0, without=(Kind.FRICTION_TIME,)),
    "drone": Simulator("crazyflie", foreign.drone_log, 12.0, foreign.LOST),
    "leg by the twin": Simulator("go1", lambda twin, truth, t, seed: own_leg(twin, truth, t, seed), 8.0),
    "drone by the twin": Simulator("crazyflie", logs.drone_log, 12.0),
}
"""The last two are the twin's own logs, for comparison."""


def own_leg(twin: Any, truth: np.ndarray, seconds: float, seed: int) -> Log:
    """A leg's log by the twin's own model."""
    return logs.joint_log(twin, truth, logs.GO1_LEG, seconds, seed)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    simulators: tuple[str, ...] = tuple(SIMULATORS)
    """Which."""
    trials: int = 50
    """Logs of each."""
    most: int = 0
    """Logs in this run; 0: all that the file lacks."""
    json: Path | None = None
    """File for the results, written after every log; logs that it has are not calibrated again."""


def main(settings: Settings) -> None:
    """Measure and print."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SIMULATORS}
    if settings.json and settings.json.exists():
        rows |= json.loads(settings.json.read_text(encoding="utf-8"))["logs"]
    # A log of each in turn, so that a run that is stopped has as many of each.
    missing = [(n, s) for s in range(settings.trials) for n in settings.simulators if s >= len(rows[n])]
    for name, seed in missing[: settings.most or None]:
        row = trial(SIMULATORS[name], seed)
        rows[name].append(row)
        inside = [v["inside"] for v in row["parameters"].values()]
        cli.show(f"{name} {seed}: {row['seconds']:.1f} s, {np.mean(inside):.2f} of {len(inside)} inside")
        document = {"results": {n: summary(r) for n, r in rows.items() if r}, "logs": rows}
        cli.write_result(settings.json, cli.command_line("benchmarks.calibration_foreign"), document)
    for name in settings.simulators:
        if rows[name]:
            show(name, summary(rows[name]))


def drawn(simulator: Simulator, seed: int) -> tuple[Any, np.ndarray, dict[str, float]]:
    """The twin, hidden values of all its parameters, and those that the calibration knows."""
    twin: Any = bench.twin_of(simulator.robot)
    rng = np.random.default_rng([seed, 1])
    truth = logs.draw(twin.parameters, rng)
    kinds = [parameter.kind for parameter in twin.parameters]
    truth[kinds.index(Kind.LOSS)] = simulator.lost
    if simulator.robot == "go1":
        return twin, truth, {"*.strength": 1.0}
    truth[kinds.index(Kind.DRONE_MASS)] *= rng.uniform(0.9, 1.25)
    return twin, truth, {Kind.DRONE_MASS.value: float(truth[kinds.index(Kind.DRONE_MASS)])}


def trial(simulator: Simulator, seed: int) -> dict[str, Any]:
    """One robot drawn, logged and calibrated."""
    twin, truth, known = drawn(simulator, seed)
    log = simulator.log(twin, truth, simulator.seconds, seed)
    result, _ = cal.calibrate(log, twin, cal.Settings(known=known))
    return {
        "seed": seed,
        "seconds": result.took,
        "converged": result.converged,
        "at_bounds": [e.name for e in result.estimates if e.at_bound],
        "parameters": compared(result, truth, simulator.without),
    }


def compared(result: Calibration, truth: np.ndarray, without: tuple[Kind, ...]) -> dict[str, dict[str, Any]]:
    """For each parameter that was estimated and that the robot has: error and interval in prior standard deviations."""
    pairs = [
        (estimate, true)
        for estimate, true in zip(result.estimates, truth, strict=True)
        if estimate.parameter.free and estimate.parameter.kind not in without
    ]
    return {
        e.name: {
            "true": float(true),
            "error": (e.value - true) / e.parameter.spread,
            "sd": e.sd / e.parameter.spread,
            "inside": bool(e.interval[0] <= true <= e.interval[1]),
            "identified": e.identified,
        }
        for e, true in pairs
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over all logs: coverage, and how informative the intervals are, of each parameter and of all."""
    names = list(rows[0]["parameters"])
    of = lambda name: [row["parameters"][name] for row in rows]  # noqa: E731
    every = [parameter for name in names for parameter in of(name)]
    return {
        "logs": len(rows),
        "converged": sum(row["converged"] for row in rows),
        "at_bounds": sum(bool(row["at_bounds"]) for row in rows),
        "seconds_median": float(np.median([row["seconds"] for row in rows])),
        **told(every),
        "parameters": {name: told(of(name)) for name in names},
    }


def told(parameters: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Coverage; half the interval over the error and over that of the prior, medians; share identified."""
    error, sd = (np.array([parameter[key] for parameter in parameters]) for key in ("error", "sd"))
    return {
        "coverage": float(np.mean([parameter["inside"] for parameter in parameters])),
        "half_width_over_error": float(np.median(1.96 * sd / np.maximum(np.abs(error), 1e-9))),
        "width_over_prior": float(np.median(sd)),
        "error_over_prior": float(np.median(np.abs(error))),
        "identified": float(np.mean([parameter["identified"] for parameter in parameters])),
    }


def show(name: str, result: Mapping[str, Any]) -> None:
    """Print a summary."""
    line = lambda row: (  # noqa: E731
        f"{100 * row['coverage']:.0f} % inside; half width {row['half_width_over_error']:.1f} errors, "
        f"{row['width_over_prior']:.3f} of the prior's; identified {100 * row['identified']:.0f} %"
    )
    rows = {parameter: line(row) for parameter, row in result["parameters"].items()}
    rows["all"] = line(result)
    cli.show(cli.table(f"{name}, {result['logs']} logs, {result['converged']} converged", rows))


if __name__ == "__main__":
    main(tyro.cli(Settings))
