"""`python -m sim2real.preflight LOG --robot NAME`: what is missing or implausible in a log, before it is used."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import tyro
from rich.text import Text

from embodied import cli
from embodied.cli.outputs import check_file
from embodied.errors import EmbodiedError, guard
from sim2real.checks import clock
from sim2real.checks import robot as preflight_robot
from sim2real.checks import signals as preflight_signals
from sim2real.checks import units as preflight_units
from sim2real.checks.findings import Finding, Severity
from sim2real.contract.limits import Limits, limits_of
from sim2real.contract.model_files import is_file
from sim2real.identification.simulate import divided
from sim2real.logs import mcap_log
from sim2real.logs.log import Log
from sim2real.logs.read_log import check_suffix, read_log, write_log
from sim2real.twins.named import ROBOTS, make_twin

MANY = 1e6  # from which on numbers are not written out
HELD_OUT = 0.25  # share of a log that `sim2real.calibrate` keeps back by default
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Look through a log (MCAP, CSV, Parquet) for what would spoil a calibration.

    Prints a table, worst first; the exit code is 1 if there is an error among the findings. Examples:

        python -m sim2real.preflight run.mcap --robot go1
        python -m sim2real.preflight run.mcap --robot a1/a1.urdf
        python -m sim2real.preflight table.csv
        python -m sim2real.preflight killed.mcap --recover whole.mcap
    """

    log: tyro.conf.Positional[Path]
    """The log."""
    robot: str | None = None
    """The robot: a folder of assets/robots, or a model file; without one, only what needs no robot is
    checked."""
    recover: Path | None = None
    """Also write what can be read of an unfinished MCAP file to this file, as a whole one."""
    json: Path | None = None
    """Also write the findings to this file."""


def preflight(log: Log, limits: Limits | None = None) -> tuple[Finding, ...]:
    """Everything that is missing or implausible, worst first.

    Args:
        log: What was recorded.
        limits: Of the robot that made it; None checks only what needs no robot.
    """
    found = [finding for check in clock.CHECKS for finding in check(log)]
    parts = preflight_signals, preflight_units, preflight_robot
    # Where times are not in s, what depends on them says nothing, and may be of any size.
    of_signals, of_units, of_robot = (part.TIMELESS for part in parts) if found else (part.CHECKS for part in parts)
    found += [finding for check in of_signals + of_units for finding in check(log)]
    if limits is not None:
        found += [finding for check in of_robot for finding in check(log, limits)]
    ranks = list(Severity)
    return tuple(sorted(found, key=lambda finding: ranks.index(finding.severity)))


def uncalibratable(log: Log, robot: str) -> Iterator[Finding]:
    """Reasons why `sim2real.calibrate` cannot use a log: missing joints or channels, its length."""
    if not (is_file(robot) or robot in ROBOTS):
        return
    try:
        twin = make_twin(robot, log)
        divided(log, twin, HELD_OUT, twin.window)
    except EmbodiedError as error:
        usable = "a log that sim2real.calibrate can use"
        yield Finding(Severity.ERROR, "calibrate", "", str(error), usable, "docs/sim2real.md, Logs")


def table(log: Log, findings: tuple[Finding, ...]) -> cli.Table:
    """Content of the log, and a row for each finding."""
    counts = {severity: sum(finding.severity is severity for finding in findings) for severity in Severity}
    start, end = log.span
    rates = ", ".join(f"{name} {_number(channel.rate, 0)} Hz" for name, channel in log.channels.items())
    title = f"{_number(end - start, 1)} s: {rates}\n" + ", ".join(f"{count} {s}s" for s, count in counts.items())
    rows = tuple(
        (
            Text(f"{finding.severity}: {finding.check}", STYLES[finding.severity]),
            finding.channel, finding.seen, finding.expected, finding.hint,
        )
        for finding in findings
    )  # fmt: skip
    headings = ("finding", "where", "seen", "expected", "hint")
    return cli.Table(title, rows, headings, prose=tuple(range(len(headings))))


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value < MANY else f"{value:.3g}"


@guard
def main(arguments: list[str] | None = None) -> int:
    """Check as the command line requests; returns the exit code, 1 where there are errors."""
    settings = cli.parse(Settings, arguments, "sim2real.preflight")
    read = [settings.log]
    if settings.robot is not None and is_file(settings.robot):
        read.append(Path(settings.robot))
    if settings.recover is not None:
        check_file("--recover", settings.recover, read)
        check_suffix(settings.recover)
        read.append(settings.recover)
    if settings.json is not None:
        check_file("--json", settings.json, read)
    is_mcap = settings.log.suffix.lower() == ".mcap"
    # An unfinished file is a finding here, not the end.
    log = mcap_log.read(settings.log, unfinished=True) if is_mcap else read_log(settings.log)
    limits = limits_of(settings.robot) if settings.robot is not None else None
    if settings.recover:
        metadata = {key: value for key, value in log.metadata.items() if key != mcap_log.UNFINISHED}
        write_log(settings.recover, dataclasses.replace(log, metadata=metadata))
    findings = preflight(log, limits)
    if settings.robot is not None and not any(finding.severity is Severity.ERROR for finding in findings):
        findings = (*uncalibratable(log, settings.robot), *findings)
    if findings:
        cli.show(table(log, findings))
    else:
        start, end = log.span
        cli.show(
            f"{settings.log}: {_number(end - start, 1)} s, {len(log.channels)} channels, nothing to complain about"
        )
    result = {"log": settings.log.name, "findings": [dataclasses.asdict(finding) for finding in findings]}
    cli.write_result(settings.json, cli.command_line("sim2real.preflight"), result)
    return int(any(finding.severity is Severity.ERROR for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
