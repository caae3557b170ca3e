"""`python -m sim2real.excitation`: trajectories to play on a robot whose log is to calibrate its twin."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embodied import cli
from embodied.cli.outputs import check_file
from embodied.errors import EmbodiedError, UnknownNameError, guard, reason
from sim2real.contract.model_files import is_file
from sim2real.identification.excitation import Excitation, ExcitationConfig, excite
from sim2real.logs.read_log import check_suffix, write_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3
INK, COMMAND, MEASURED, LIMIT = "#1f2933", "#b8c4d0", "#0b6fa4", "#c8442b"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(ExcitationConfig):
    """Make a trajectory for calibration, and show what it will do to the robot.

    Writes the log (MCAP or CSV, by suffix) whose channel `command` holds the joint targets, and a picture beside it.
    The robot's base must be held (hung up, or bolted down), with room for its limbs. Examples:

        python -m sim2real.excitation --robot go1 --out excitation.mcap
        python -m sim2real.excitation --robot panda --waveform multisine --amplitude 0.3 --out excitation.csv
        python -m sim2real.excitation --robot a1/a1.urdf --out a1.mcap
        python -m sim2real.excitation --robot go1 --order each --seconds 10 --out legs.mcap
    """

    out: Path
    """File for the trajectory, .mcap or .csv."""
    picture: Path | None = None
    """File for the picture; by default beside the trajectory."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "sim2real.excitation")
    picture = check(settings)
    made = excite(settings)
    write_log(settings.out, made.log)
    draw(picture, made)
    cli.show(table(made), f"-> {settings.out}, {picture}")
    cli.say(
        f"{made.log.span[1]:.0f} s. Hold the base, keep clear of the limbs, and begin at the first row.",
        f"python -m sim2real.preflight LOG --robot {settings.robot} says whether the recording will do.",
    )
    return 0


def check(settings: Settings) -> Path:
    """Look at what is to be written, before the work; returns the picture's file.

    Raises:
        EmbodiedError: a file cannot be written, or is another one that the command reads or writes.
        UnknownNameError: a suffix is that of no trajectory, or of no picture.
    """
    read = [Path(settings.robot)] if is_file(settings.robot) else []
    check_file("--out", settings.out, read)
    check_suffix(settings.out)
    named = settings.picture is not None
    picture = settings.picture if settings.picture is not None else settings.out.with_suffix(".png")
    option = "--picture" if named else "the picture beside --out,"
    check_file(option, picture, (*read, settings.out))
    for file in (settings.out, picture):
        if not file.parent.is_dir():
            raise EmbodiedError(f"there is no folder '{file.parent}' to write {file.name} to")
    known = {f".{suffix}" for suffix in _figure()().canvas.get_supported_filetypes()}
    if picture.suffix.lower() not in known:
        raise UnknownNameError("suffix of a picture", picture.suffix or picture.name, known)
    return picture


def table(made: Excitation) -> cli.Table:
    limits, seen = made.limits, made.expected
    near = f"parts come within {1e3 * made.clearance:.0f} mm" if math.isfinite(made.clearance) else "parts keep apart"
    title = f"{limits.robot}: {made.log.metadata['waveform']}, {made.log.metadata['band']}; {near}"
    command, pos = made.log["command"].values, seen["joint_pos"].values
    speed, torque = (np.abs(seen[name].values).max(0) for name in ("joint_vel", "joint_torque"))
    rows = tuple(
        (
            name,
            f"{made.centre[i]:.2f} ± {np.abs(command[:, i] - made.centre[i]).max():.2f}",
            f"{pos[:, i].min():.2f} to {pos[:, i].max():.2f}",
            f"{limits.lower[i]:.2f} to {limits.upper[i]:.2f}",
            f"{speed[i] / limits.speed[i]:.0%}" if math.isfinite(limits.speed[i]) else f"{speed[i]:.1f} rad/s",
            f"{torque[i] / limits.torque[i]:.0%}" if math.isfinite(limits.torque[i]) else f"{torque[i]:.1f} N m",
        )
        for i, name in enumerate(limits.names)
    )
    headings = ("joint", "command, rad", "moves, rad", "limits, rad", "speed", "torque")
    return cli.Table(title, rows, headings, right=tuple(range(1, len(headings))))


def draw(path: Path, made: Excitation) -> None:
    """A panel for each joint: the command, what the model makes of it, and the joint's limits.

    Raises:
        EmbodiedError: matplotlib is missing, or the file cannot be written.
    """
    limits, command, seen = made.limits, made.log["command"], made.expected
    columns = min(COLUMNS, len(limits.names))
    rows = math.ceil(len(limits.names) / columns)
    figure = _figure()(figsize=(5.2 * columns, 2.1 * rows + 1.0), dpi=110, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for i, name in enumerate(limits.names):
        panel = panels.flat[i]
        pos, torque = seen["joint_pos"].values[:, i], np.abs(seen["joint_torque"].values[:, i]).max()
        panel.plot(command.time, command.values[:, i], color=COMMAND, linewidth=0.9)
        panel.plot(seen["joint_pos"].time, pos, color=MEASURED, linewidth=0.7)
        for bound in (limits.lower[i], limits.upper[i]):
            panel.axhline(bound, color=LIMIT, linewidth=0.8, linestyle=(0, (4, 3)))
        # Limits far away would leave the movement a thin line: they show where they are near.
        shown = np.concatenate([command.values[:, i], pos])
        room = 0.08 * np.ptp(shown)
        panel.set_ylim(shown.min() - room, shown.max() + room)
        panel.set_title(name, loc="left", fontsize=10, color=INK, fontweight="bold")
        panel.set_title(f"peak torque {_share(torque, limits.torque[i])}", loc="right", fontsize=8, color=INK)
        panel.tick_params(labelsize=8, colors=INK)
        panel.grid(alpha=0.25, linewidth=0.5)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels.flat[len(limits.names) :]:
        panel.set_visible(False)
    for panel in panels[-1]:
        panel.set_xlabel("time, s", fontsize=9, color=INK)
    for panel in panels[:, 0]:
        panel.set_ylabel("rad", fontsize=9, color=INK)
    meta = made.log.metadata
    title = f"Excitation of {meta['robot']}: {meta['waveform']}, {meta['band']}\n"
    title += "grey: command; blue: the model's response; red, where near: the joint's limits"
    figure.suptitle(title, fontsize=10, color=INK)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise EmbodiedError(f"cannot write the picture '{path}': {reason(error)}") from None


def _figure() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EmbodiedError('pictures need the package matplotlib; pip install "embodied-sim[plots]"') from None
    return Figure


def _share(torque: float, limit: float) -> str:
    return f"{torque:.1f} of {limit:g} N m ({torque / limit:.0%})" if math.isfinite(limit) else f"{torque:.1f} N m"


if __name__ == "__main__":
    sys.exit(main())
