"""`python -m embodied.robot FILE`: what is understood of a robot's model file."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import tyro
from rich.text import Text

from embodied import cli
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, ModelError, guard, listing
from embodied.robot import NAME, Description, Joint, Kind, Robot, draw, forms_of, robot_file
from embodied.robot.derivation.joints import EffortError
from embodied.robot.derivation.kind import ARTICLES
from embodied.robot.prepared.arm import fingers_of, gripper_at
from embodied.robot.rotors import Airframe

TASKS = 6  # named in a line


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
    """MJCF or URDF file, or a robot of ours by its name, such as go1. `package://` meshes are looked for among the
    folders above it."""
    picture: Path | None = None
    """Draw the robot in its home pose, joints, feet and tip named, as a PNG."""
    write: bool = False
    """Write robot.toml beside the file, with all that was derived, to edit."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "robot")
    try:
        robot = Robot.load(settings.file)
    except EffortError as error:
        if not settings.write:
            raise
        write(*without_efforts(robot_file(settings.file), error.joints))
        cli.show(f"fill in its effort of {listing(error.joints, 6)}: N m, or N of a slide")
        return 0
    report(robot)
    if settings.picture is not None:
        picture = cv2.cvtColor(draw(robot), cv2.COLOR_RGB2BGR)
        if settings.picture.suffix.lower() != ".png" or not cv2.imwrite(str(settings.picture), picture):
            raise EmbodiedError(f"cannot write the picture {str(settings.picture)!r}; expected a .png in a folder")
        cli.show(f"picture: {settings.picture}")
    if settings.write:
        write(robot.file, robot.description())
    tell_tasks(robot, settings.file)
    return 0


def without_efforts(file: Path, joints: list[str]) -> tuple[Path, Description]:
    """A robot's file, and its description with an effort of 0 for joints that have none, to fill in."""
    said = Description.beside(file)
    robot = Robot.load(file, dataclasses.replace(said, effort=said.effort | dict.fromkeys(joints, 1.0)))
    found = robot.description()
    return robot.file, dataclasses.replace(
        found, effort=found.effort | dict.fromkeys(joints, 0.0), kp=said.kp, kv=said.kv
    )


def write(file: Path, description: Description) -> None:
    """Write a description beside a model file."""
    path = file.parent / NAME
    if os.path.lexists(path):
        raise EmbodiedError(f"{path} exists already; move it away to have it written anew")
    description.write(path)
    cli.show(f"description: {path}")


def tell_tasks(robot: Robot, given: Path) -> None:
    """Print the tasks that take the robot and the command that trains the first, or why none does."""
    try:
        names = join_content().taking(forms_of(robot))
        if robot.kind is Kind.ARM and (fingers := fingers_of(robot)):
            tell_tip(robot, fingers)
    except ModelError as error:
        said = str(error).removeprefix(f"{robot.file}: ")
        cli.show(Text(f"warning: tasks of {ARTICLES[robot.kind]} refuse it: {said}", style="yellow"))
        return
    if not names:
        cli.show(f"tasks: none takes {ARTICLES[robot.kind]} from a file; yours can, by embodied.robot_scene")
        return
    cli.show(f"tasks: {listing(names, TASKS)}", f"next: python -m embodied.train {names[0]} --robot {given}")


def tell_tip(robot: Robot, fingers: list[str]) -> None:
    """Print where an arm with joints beyond its tip grasps."""
    gripper = gripper_at(robot)
    if gripper is None:
        said = f"{listing(fingers, 6)} close no two bodies on each other: the tip is the frame of {robot.tip}"
        cli.show(Text(f"warning: {said}", style="yellow"))
    else:
        away = float(np.linalg.norm(gripper.tcp))
        cli.show(f"tip: between {' and '.join(gripper.sides)}, {away:.3f} m from the frame of {robot.tip}")


def report(robot: Robot) -> None:
    """Print the robot, its joints, and what is wrong with it."""
    base = "floating" if robot.free else "fixed"
    rows = {"kind": robot.kind.value, "base": f"{robot.trunk}, {base}", "mass": f"{robot.mass:.3g} kg"}
    if robot.feet:
        rows |= {"feet": ", ".join(robot.feet), "base above the ground": f"{robot.height:.3f} m"}
    if robot.tip is not None:
        rows["tip"] = robot.tip
    dofs = [robot.model.joint(joint.name).dofadr[0] for joint in robot.joints]
    if dofs and not robot.model.dof_frictionloss[dofs].any():
        rows["joint friction"] = "none, so that tasks do not vary it"
    cli.show(cli.table(robot.file.name, rows))
    if robot.airframe is not None:
        cli.show(rotor_table(robot.airframe))
    if robot.joints or robot.airframe is None:
        cli.show(joint_table(robot))
    for line in robot.fixes:
        cli.show(f"fixed: {line}")
    for line in robot.warnings:
        cli.show(Text(f"warning: {line}", style="yellow"))


def joint_table(robot: Robot) -> cli.Table:
    title = f"{len(robot.joints)} joints, in the order of actions (rad, N m; slides m, N)"
    headings = ("joint", "range", "home", "drive", "effort", "kp", "kv")
    return cli.Table(title, tuple(map(cells, robot.joints)), headings, right=(1, 2, 4, 5, 6))


def rotor_table(airframe: Airframe) -> cli.Table:
    title = (
        f"{len(airframe.rotors)} rotors, in the order of actions; they lift {airframe.thrust_to_weight:.2f} weights "
        "(place from the centre of mass, m; axis of the thrust; largest thrust, N; torque per thrust, m; lag, s)"
    )
    tilted = airframe.is_tilted
    headings = ("rotor", "place", *(["axis"] if tilted else []), "turns", "thrust", "torque", "lag")
    rows = tuple(
        (
            rotor.name or str(number),
            vector(rotor.position, 3),
            *([vector(rotor.axis, 2)] if tilted else []),
            "ccw" if rotor.spin > 0 else "cw",
            *(f"{value:.3g}" for value in (rotor.max_thrust, rotor.torque_per_thrust, rotor.lag)),
        )
        for number, rotor in enumerate(airframe.rotors, 1)
    )
    return cli.Table(title, rows, headings, right=tuple(range(1, len(headings))))


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
