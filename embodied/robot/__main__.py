"""`python -m embodied.robot FILE`: what is understood of a robot's model file."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.robot import NAME, Joint, Robot, draw
from embodied.robot.rotors import Airframe


@dataclasses.dataclass(frozen=True)
class Settings:
    """Say what is understood of a robot, of an MJCF or URDF file.

    What `robot.toml` beside the file says goes before what is derived.

    Examples:
        python -m embodied.robot a1/a1.urdf
        python -m embodied.robot a1/a1.urdf --picture a1.png
        python -m embodied.robot a1/a1.urdf --write
    """

    file: tyro.conf.Positional[Path]
    """MJCF or URDF file; `package://` meshes are looked for among the folders above it."""
    picture: Path | None = None
    """Draw the robot in its home pose, joints, feet and tip named, as a PNG."""
    write: bool = False
    """Write robot.toml beside the file, with all that was derived, to edit."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "robot")
    robot = Robot.load(settings.file)
    report(robot)
    if settings.picture is not None:
        picture = cv2.cvtColor(draw(robot), cv2.COLOR_RGB2BGR)
        if settings.picture.suffix.lower() != ".png" or not cv2.imwrite(str(settings.picture), picture):
            raise EmbodiedError(f"cannot write the picture {str(settings.picture)!r}; expected a .png in a folder")
        cli.console().print(Text(f"picture: {settings.picture}"))
    if settings.write:
        path = settings.file.parent / NAME
        if path.exists():
            raise EmbodiedError(f"{path} exists already; move it away to have it written anew")
        robot.description().write(path)
        cli.console().print(Text(f"description: {path}"))
    return 0


def report(robot: Robot) -> None:
    """Print the robot, its joints, and what is wrong with it."""
    output = cli.console()
    base = "floating" if robot.free else "fixed"
    rows = {"kind": robot.kind.value, "base": f"{robot.trunk}, {base}", "mass": f"{robot.mass:.3g} kg"}
    if robot.feet:
        rows |= {"feet": ", ".join(robot.feet), "base above the ground": f"{robot.height:.3f} m"}
    if robot.tip is not None:
        rows["tip"] = robot.tip
    output.print(cli.table(robot.file.name, rows))
    if robot.airframe is not None:
        output.print(rotor_table(robot.airframe))
    if robot.joints or robot.airframe is None:
        output.print(joint_table(robot))
    for line in robot.mended:
        output.print(Text(f"mended: {line}"))
    for line in robot.warnings:
        output.print(Text(f"warning: {line}", style="yellow"))


def joint_table(robot: Robot) -> Table:
    """A row for each joint."""
    title = f"{len(robot.joints)} joints, in the order of actions (rad, N m; slides m, N)"
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    table.add_column("joint", overflow="fold")
    for column in ("range", "home", "drive", "effort", "kp", "kv"):
        table.add_column(column, justify="left" if column == "drive" else "right", no_wrap=True)
    for joint in robot.joints:
        table.add_row(*cells(joint))
    return table


def rotor_table(airframe: Airframe) -> Table:
    """A row for each rotor."""
    title = (
        f"{len(airframe.rotors)} rotors, in the order of actions; they lift {airframe.thrust_to_weight:.2f} weights "
        "(place from the centre of mass, m; axis of the thrust; largest thrust, N; torque per thrust, m; lag, s)"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    table.add_column("rotor", overflow="fold")
    tilted = airframe.is_tilted
    for column in ("place", *(["axis"] if tilted else []), "turns", "thrust", "torque", "lag"):
        table.add_column(column, justify="right", no_wrap=True)
    for number, rotor in enumerate(airframe.rotors, 1):
        table.add_row(
            rotor.name or str(number),
            vector(rotor.position, 3),
            *([vector(rotor.axis, 2)] if tilted else []),
            "ccw" if rotor.spin > 0 else "cw",
            *(f"{value:.3g}" for value in (rotor.max_thrust, rotor.torque_per_thrust, rotor.lag)),
        )
    return table


def vector(numbers: Sequence[float], digits: int) -> str:
    """Three numbers for the eye."""
    return " ".join(f"{round(number, digits) + 0.0:.{digits}f}" for number in numbers)


def cells(joint: Joint) -> tuple[str, ...]:
    """A joint's row of the table."""
    limited = math.isfinite(joint.low) and math.isfinite(joint.high)
    numbers = (f"{value:.3g}" for value in (joint.servo.effort, joint.servo.kp, joint.servo.kv))
    return (
        joint.name,
        f"{joint.low:.2f} to {joint.high:.2f}" if limited else "none",
        f"{round(joint.home, 2) + 0.0:.2f}",
        "by rule" if joint.drive == "none" else joint.drive,
        *numbers,
    )


if __name__ == "__main__":
    sys.exit(main())
