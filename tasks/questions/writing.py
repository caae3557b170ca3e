"""The command that writes a benchmark of questions, whichever it is.

    @guard
    def main() -> None:
        write_command("tasks.questions.clutter.write", write)

`write(settings)` returns the number of questions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from embodied import cli
from embodied.errors import EmbodiedError, reason
from tasks.grasping.objects.pointclouds import Camera


class Files:
    """Writes into one folder, and keeps the files' digests."""

    def __init__(self, folder: Path) -> None:
        """Make it.

        Raises:
            EmbodiedError: it holds something already, or cannot be made.
        """
        self.folder, self.digests = folder, dict[str, str]()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            taken = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            raise EmbodiedError(f"cannot write into '{folder}': {reason(error)}") from error
        if taken:
            raise EmbodiedError(f"'{folder}' is not empty (it holds {taken[0]!r}); expected a new folder")

    def write(self, name: str, data: bytes, listed: bool = True) -> None:
        """Write one file; `name` is its path in the folder.

        Raises:
            EmbodiedError: it cannot be written.
        """
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise EmbodiedError(f"cannot write '{path}': {reason(error)}") from error
        if listed:
            self.digests[name] = hashlib.sha256(data).hexdigest()


def document(content: Mapping[str, Any]) -> bytes:
    """One JSON document."""
    return (json.dumps(content, indent=1) + "\n").encode()


def lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


SEEDS = 1_000_000  # between the scenes of one benchmark seed and the next


@dataclasses.dataclass(frozen=True)
class WriteSettings:
    """What is written."""

    out: Annotated[Path, tyro.conf.Positional]
    """A folder that does not exist yet, or is empty."""
    scenes: int = 40
    """Number of scenes; their kinds take turns."""
    seed: int = 0
    """Of the whole."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 1 <= self.scenes <= SEEDS or self.seed < 0:
            raise EmbodiedError(
                f"--scenes {self.scenes} --seed {self.seed}; expected 1 to {SEEDS} scenes and a seed of at least 0"
            )

    def seed_of(self, number: int) -> int:
        """Of one scene."""
        return self.seed * SEEDS + number


def write_command(module: str, write: Callable[[WriteSettings], int]) -> None:
    """Read the command line and write."""
    settings = tyro.cli(WriteSettings, prog=f"python -m {module}")
    asked = write(settings)
    cli.console().print(f"{settings.scenes} scenes, {asked} questions: {settings.out}")


def write_tables(
    files: Files, asked: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> None:
    """Questions without answers, answers, and last the manifest with the digests of all other files."""
    files.write("questions.jsonl", lines(asked))
    files.write("answers.jsonl", lines(answers))
    files.write("manifest.json", document({**manifest, "sha256": files.digests}), listed=False)


def described_making(module: str, settings: WriteSettings, camera: Camera) -> dict[str, Any]:
    """What every manifest says of how the files were made."""
    return {
        "command": f"python -m {module} OUT --scenes {settings.scenes} --seed {settings.seed}",
        "scenes": settings.scenes,
        "seed": settings.seed,
        "camera": {
            "pos_m": list(camera.pos),
            "quat_wxyz": list(camera.quat),
            "fovy_deg": camera.fovy,
            "width": camera.width,
            "height": camera.height,
            "frame": "x right, y away from the camera, z up, table top z = 0; the camera looks along its -z, +y is up",
        },
    }
