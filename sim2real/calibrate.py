"""From a robot's log to the parameters of its twin.

python -m sim2real.calibrate LOG --robot go1 --out twin/

Reads a log (MCAP, CSV, Parquet), estimates friction, inertia, delay and the like, and writes `calibration.json` and a
page with the interval of each value, what the log leaves open, and how much better the twin follows a part of the log
that was kept back.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from embodied.cli.outputs import check_file, check_folder
from embodied.errors import guard, listing
from embodied.storage.bounds import NOT_NEGATIVE, Bound, Bounded
from sim2real.checks.findings import Severity
from sim2real.contract.limits import limits_of
from sim2real.contract.model_files import is_file
from sim2real.identification import calibration as cb
from sim2real.identification import gauss_newton, parameters, search, shooting
from sim2real.identification import simulate as sm
from sim2real.identification.calibration import Calibration, OpenLoop
from sim2real.identification.calibration_page import page
from sim2real.identification.parameters import CalibrationError, Parameter
from sim2real.identification.simulate import Track, Twin, Windows
from sim2real.logs.log import Log
from sim2real.logs.read_log import read_log
from sim2real.preflight import preflight
from sim2real.twins.named import make_twin
from sim2real.twins.robot import Groups

HELD_OUT = Bound("more than 0 and less than 0.9", lambda share: 0 < share < 0.9)
STEP = Bound("0, or from 0.0001 to 0.1", lambda seconds: seconds == 0 or 1e-4 <= seconds <= 0.1)
HORIZONS = (0.25, 0.5, 1.0)  # s, ASAP (arXiv 2502.01143)
PAGE = "index.html"
EXIT_DOUBTFUL = 1
"""Exit code of a result that should not be trained on."""


@dataclasses.dataclass(frozen=True)
class Settings(Bounded):
    """Settings of a calibration."""

    free: tuple[str, ...] = ()
    """Parameters to estimate besides the usual ones; patterns such as "*.strength"."""
    fix: tuple[str, ...] = ()
    """Parameters to take for granted at their nominal values."""
    known: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Parameters with values known from elsewhere, such as a weighed mass."""
    held_out: Annotated[float, HELD_OUT] = 0.25
    """Share of the log, its end, that is kept back for measuring errors."""
    window: Annotated[float, NOT_NEGATIVE] = 0.0
    """s of each open-loop window of the fit, in which every channel needs two rows or more; 0: the twin's own."""
    timestep: Annotated[float, STEP] = 0.0
    """s per physics step. By default motions are integrated as exactly as can be, and parameters are the robot's own;
    with the step that a policy is trained with, as there: they then make up for what that step gets wrong."""
    search: search.Settings = dataclasses.field(default_factory=search.Settings)
    """CMA-ES before Gauss-Newton: for logs that start far from the nominal model."""
    fit: gauss_newton.Settings = dataclasses.field(default_factory=gauss_newton.Settings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command(Settings):
    """Estimate the parameters of a robot's twin from a log.

    Writes OUT/calibration.json and OUT/index.html, which says how sure each value is, what the log cannot tell, and how
    much better the twin follows a part of the log that was kept back. Exit code 1: written, but not to be trusted,
    since the fit did not converge or ran into bounds. Then train on it:

        python -m sim2real.calibrate run.mcap --robot crazyflie --known drone_mass 0.0331 --out twin/
        python -m embodied.train swarm/hover --calibration twin/
        python -m sim2real.calibrate run.mcap --robot a1/a1.urdf --out twin/
    """

    log: Annotated[Path, tyro.conf.Positional]
    """File: .mcap, .csv or .parquet. A table has `time` (s) and columns channel.column, as command.FR_hip (rad); before
    the header of a CSV file stand units, "# unit.command: rad"; where all cells of a channel are empty, it has no row
    then. MCAP has one topic for each channel, JSON objects of numbers. docs/sim2real.md, Logs, has examples."""
    robot: str
    """Which robot: crazyflie, g1, go1, go2, panda, or a MJCF or URDF file. Its log needs command and joint_pos (of all
    joints, panda; else of as many as there are); of a crazyflie command in rpm or N, position, orientation and gyro."""
    together: tuple[str, ...] = ()
    """Patterns of joints that share friction, damping, rotor inertia and strength, such as "*_hip"; by default those of
    a robot from a file do that are of the same place in each limb with the same motor."""
    apart: bool = False
    """Every joint of a robot from a file has its own."""
    out: Path
    """Folder for the result."""
    despite_errors: bool = False
    """Calibrate although `sim2real.preflight` finds errors in the log."""


def calibrate(
    log: Log,
    twin: Twin,
    settings: Settings = Settings(),
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[Calibration, Track]:
    """Calibrate `twin` by `log`.

    Raises:
        CalibrationError: the log is too short, or the twin cannot follow it.
        UnknownNameError: the log lacks a channel, or a pattern fits no parameter.
    """
    began = time.monotonic()
    chosen = parameters.choose(twin.parameters, settings.free, settings.fix, settings.known)
    changed: Any = twin.stepped(settings.timestep) if settings.timestep else twin
    twin = dataclasses.replace(changed, parameters=chosen)
    window = settings.window or twin.window
    log, middle, windows = sm.divided(log, twin, settings.held_out, window)
    starts = twin.starts(log, windows.begin)
    values = np.array([p.start if p.free else p.nominal for p in chosen])
    values = search.scan_delay(twin, values, starts, windows)
    if settings.search.generations:
        values = search.evolve(twin, values, starts, windows, settings.search, progress)
    fit = gauss_newton.fit(twin, windows, starts, values, settings.fit, progress)
    if names := at_bounds(chosen, fit):
        progress(f"{listing(names)} ran into a bound; once more from elsewhere")
        again = gauss_newton.fit(twin, windows, starts, elsewhere(chosen, values, fit), settings.fit, progress)
        fit = again if not at_bounds(chosen, again) or again.costs[-1] < fit.costs[-1] else fit
    values[list(fit.free)] = fit.values
    covariance = gauss_newton.covariance(twin, windows, fit)
    whole = gauss_newton.with_assumed(twin, fit, covariance)
    errors, track = held_out(twin, log, middle, values, noise_of(twin, windows, fit.noise))
    result = Calibration(
        robot=twin.name,
        estimates=cb.estimates(chosen, values, whole, gauss_newton.told(fit)),
        covariance=tuple(map(tuple, covariance.tolist())),
        unidentified=gauss_newton.unidentified(twin, fit),
        errors=errors,
        timestep=twin.timestep,
        seconds=float(len(windows) * window),
        took=time.monotonic() - began,
        converged=fit.converged and not at_bounds(chosen, fit),
    )
    return result, track


def at_bounds(known: Sequence[Parameter], fit: gauss_newton.Fit) -> list[str]:
    """Names of what a fit left at a bound other than zero: the model lacks something, or the bound is wrong."""
    found = [cb.Estimate(known[i], float(value), 0.0) for i, value in zip(fit.free, fit.values, strict=True)]
    return [estimate.name for estimate in found if estimate.at_bound]


def elsewhere(known: Sequence[Parameter], values: np.ndarray, fit: gauss_newton.Fit) -> np.ndarray:
    """(all,) start of a second fit: values at a bound begin half way to the other one."""
    begin = values.copy()
    names = at_bounds(known, fit)
    for i, value in zip(fit.free, fit.values, strict=True):
        parameter = known[i]
        if parameter.name in names:
            far = parameter.lower if parameter.upper - value < value - parameter.lower else parameter.upper
            begin[i] = (parameter.nominal + far) / 2
    return begin


def noise_of(twin: Twin, windows: Windows, noise: np.ndarray) -> dict[str, float]:
    """Channel -> root mean square residual of the fit in its unit; `noise` (M,) is in units of the accuracy."""
    parts = zip(twin.outputs, sm.slices(twin, windows), strict=True)
    return {o.channel: o.accuracy * float(np.sqrt(np.mean(noise[part] ** 2))) for o, (part, _, _) in parts}


def held_out(
    twin: Twin, log: Log, begin: float, values: np.ndarray, noise: Mapping[str, float]
) -> tuple[tuple[OpenLoop, ...], Track]:
    """Errors over every horizon that the log's part after `begin` has room for, and the longest ones' tracks.

    Raises:
        CalibrationError: it has room for none.
    """
    nominal = np.array([parameter.nominal for parameter in twin.parameters])
    both = np.stack([nominal, values])
    # Commands and rotor speeds before `begin` still act after it, and are known.
    part = log.between(begin - twin.settle, np.inf)
    errors: list[OpenLoop] = []
    track = None
    for horizon in HORIZONS:
        try:
            windows = sm.cut(part, twin, horizon, horizon)
        except CalibrationError:
            if not errors:
                raise
            break
        measured = twin.starts(log, windows.begin)
        fitted = shooting.fit_starts(twin, windows, values, measured)
        starts = np.stack([measured, measured, fitted])
        seen = sm.residuals(twin, both[[0, 1, 1]], starts, windows)
        for output, (rows, count, width) in zip(twin.outputs, sm.slices(twin, windows), strict=True):
            scaled = seen[..., rows].reshape(3, -1, count, width)
            before, after, best = map(float, output.accuracy * np.sqrt(np.mean(scaled**2, (1, 2, 3))))
            errors.append(OpenLoop(output.channel, horizon, len(windows), before, after, best, noise[output.channel]))
        tracks = twin.simulate(both, starts[:2], windows)
        track = Track(windows, tuple(t[0] for t in tracks), tuple(t[1] for t in tracks))
    assert track is not None
    return tuple(errors), track


def refuse(log: Log, twin: Twin, command: Command) -> None:
    """Raise a `CalibrationError` that names in one line what would make a calibration from this log wrong."""
    limits = limits_of(command.robot)
    used = ("", "command", *(output.channel for output in twin.outputs))
    found = [finding for finding in preflight(log, limits) if finding.channel.partition(".")[0] in used]
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    still = [finding for finding in errors if finding.check == "excitation"]
    # A joint that stands still is not identified, as the page reports; where nothing moves there is nothing to report.
    if limits.names and len(still) < len(log["joint_pos"].names):
        errors = [finding for finding in errors if finding not in still]
    if errors:
        first, others = errors[0], len(errors) - 1
        more = f" (and {others} more errors)" if others else ""
        raise CalibrationError(
            f"'{command.log}', {first.channel or 'as a whole'}: {first.seen}; expected {first.expected}; {first.hint}"
            f"{more}: see sim2real.preflight, or --despite-errors"
        )


def tables(result: Calibration) -> list[Any]:
    number = cli.number
    rows = {
        e.name: f"{number(e.value)} {e.parameter.unit}  (95 %: {number(e.interval[0])} to {number(e.interval[1])}; "
        f"nominal {number(e.parameter.nominal)})" + ("" if e.identified else "  not identified")
        for e in result.free
    }
    errors = {
        f"{e.channel}, {e.horizon:g} s": f"{number(e.before)} -> {number(e.after)}  (noise {number(e.noise)})"
        for e in result.errors
    }
    return [cli.table(f"{result.robot}: parameters", rows), cli.table("open-loop error on held-out data", errors)]


@guard
def main(arguments: list[str] | None = None) -> int:
    command = cli.parse(Command, arguments, "sim2real.calibrate")
    check_folder("--out", command.out)
    read = [command.log, Path(command.robot)] if is_file(command.robot) else [command.log]
    for name in (cb.FILE, PAGE):
        check_file("--out", command.out / name, read)
    log = read_log(command.log)
    groups = Groups(command.together, command.apart)
    twin = make_twin(command.robot, log, None if groups == Groups() else groups)
    if not command.despite_errors:
        refuse(log, twin, command)
    result, track = calibrate(log, twin, command, cli.say)
    result = dataclasses.replace(result, source=command.log.name)
    result.save(command.out)
    text = page(result, twin, track, cli.command_line("sim2real.calibrate"))
    (command.out / PAGE).write_text(text, encoding="utf-8")
    cli.show(*tables(result))
    for direction in result.unidentified:
        if direction.scale:
            named = listing(direction.names, len(direction.names))
            cli.show(
                f"No log shows the scale of {named}: weigh the robot or take something for granted, as --known "
                f"{direction.names[0]} VALUE"
            )
    bounded = [estimate.name for estimate in result.estimates if estimate.at_bound]
    if bounded:
        cli.show(
            f"{listing(bounded)} at a bound, from two beginnings: the robot has something that the model lacks, such "
            "as a payload; do not train on this twin"
        )
    elif not result.converged:
        cli.show("Gauss-Newton did not converge; try more fit.iterations or search.generations")
    if not result.carries_over:
        cli.show(
            f"held-out errors are {result.held_out_ratio:.2f} times the nominal ones: what was fitted does not hold in "
            "the last part of the log, as where a battery sags or a load changes; do not train on this twin"
        )
    cli.show(str(command.out / PAGE))
    return 0 if result.converged and result.carries_over else EXIT_DOUBTFUL


if __name__ == "__main__":
    sys.exit(main())
