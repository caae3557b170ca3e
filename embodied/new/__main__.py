"""`python -m embodied.new task NAME`: a user's small complete task, which trains as it stands, and its test."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.new.writing import contents, kind_of, write

THINGS = ("task",)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Write NAME.py, a small complete task, and test_NAME.py, which checks it; nothing is overwritten.

    Of an arm a point is reached, of a legged robot it walks ahead, of a multirotor it hovers. Without a robot, a small
    one is written to NAME.xml. Examples:

        python -m embodied.new task my_reach
        python -m embodied.new task my_reach --robot ur5/ur5.urdf
        python -m embodied.new task my_walk --kind legged
    """

    what: tyro.conf.Positional[str]
    """Template to write: task."""
    name: tyro.conf.Positional[str]
    """Its name, as modules have: my_reach."""
    robot: Path | None = None
    """MJCF or URDF file of the robot (python -m embodied.robot says what is understood of it)."""
    kind: str | None = None
    """arm, legged or multirotor; by default what the robot is, or an arm."""
    folder: Path = Path()
    """Folder to write to; by default here."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "new")
    if settings.what not in THINGS:
        raise EmbodiedError(f"new {settings.what!r}: expected {', '.join(THINGS)}: python -m embodied.new task NAME")
    kind = kind_of(settings.robot, settings.kind)
    files = contents(settings.name, kind, settings.robot, settings.folder)
    write(files)
    file = settings.folder / f"{settings.name}.py"
    cli.show(f"wrote {', '.join(map(str, files))}")
    cli.say(
        f"Check it:  python -m embodied.check {file}",
        f"Test it:   python -m pytest {settings.folder / f'test_{settings.name}.py'}  (pip install pytest)",
        f"See it:    python -m embodied.play {file} --policy random",
        f"Train it:  python -m embodied.train {file}",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
