"""Writing a benchmark of questions about pictures: one new folder, pictures and JSON, every file with its digest.

OUT/manifest.json       what the benchmark is, camera, licence, SHA-256 of every other file
OUT/questions.jsonl     one question a line, without answers
OUT/answers.jsonl       one answer a line
OUT/scenes/0000/        pictures of a scene, and the scene as JSON
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
from embodied.errors import EmbodiedError, guard, reason
from tasks.grasping.clutter.pictures import Picture, draw_marks, png
from tasks.grasping.objects.pointclouds import Camera


class BenchmarkFolder:
    """A new folder whose files are listed with their SHA-256 digests.

    Raises:
        EmbodiedError: the folder holds something already, or cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.digests = folder, dict[str, str]()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            taken = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            raise EmbodiedError(f"cannot write into '{folder}': {reason(error)}") from error
        if taken:
            raise EmbodiedError(f"'{folder}' is not empty (it holds {taken[0]!r}); expected a new folder")

    def write(self, name: str, data: bytes, listed: bool = True) -> None:
        """Write one file; `name` is its path in the folder."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise EmbodiedError(f"cannot write '{path}': {reason(error)}") from error
        if listed:
            self.digests[name] = hashlib.sha256(data).hexdigest()


def json_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def jsonl_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


SEEDS = 1_000_000  # between the scenes of one benchmark seed and the next


@dataclasses.dataclass(frozen=True)
class WriteSettings:
    """Benchmark to write."""

    out: Annotated[Path, tyro.conf.Positional]
    """A folder that does not exist yet, or is empty."""
    scenes: int = 40
    """Number of scenes; their kinds take turns."""
    seed: int = 0
    """Of the whole."""

    def __post_init__(self) -> None:
        if not 1 <= self.scenes <= SEEDS or self.seed < 0:
            raise EmbodiedError(
                f"--scenes {self.scenes} --seed {self.seed}; expected 1 to {SEEDS} scenes and a seed of at least 0"
            )

    def seed_of(self, number: int) -> int:
        """Seed of one scene."""
        return self.seed * SEEDS + number


Rows = Sequence[Mapping[str, Any]]


@guard
def write_command(module: str, write: Callable[[WriteSettings], int]) -> None:
    """Run a command line that writes a benchmark; `write` returns the number of questions."""
    settings = cli.parse(WriteSettings, None, module)
    asked = write(settings)
    cli.show(f"{settings.scenes} scenes, {asked} questions: {settings.out}")


def write_benchmark(
    settings: WriteSettings,
    write_scene: Callable[[BenchmarkFolder, int, str], tuple[Rows, Rows, str]],
    manifest: Mapping[str, Any],
) -> int:
    """Write scenes, questions, answers, and last the manifest with the digests of all other files.

    Args:
        settings: Settings of the command line.
        write_scene: Writes the files of one scene, given its number and name; returns rows of questions, rows of
            answers, and the scene in words for the progress line.
        manifest: Entries besides the digests.

    Returns:
        The number of questions.

    Raises:
        EmbodiedError: the folder holds something or cannot be written; or from `write_scene`.
    """
    files = BenchmarkFolder(settings.out)
    asked: list[Mapping[str, Any]] = []
    answers: list[Mapping[str, Any]] = []
    with cli.Line("scenes", settings.scenes) as line:
        for number in range(settings.scenes):
            more_asked, more_answers, words = write_scene(files, number, f"{number:04d}")
            asked += more_asked
            answers += more_answers
            line.update(number + 1, words)
    files.write("questions.jsonl", jsonl_bytes(asked))
    files.write("answers.jsonl", jsonl_bytes(answers))
    files.write("manifest.json", json_bytes({**manifest, "sha256": files.digests}), listed=False)
    return len(asked)


def write_picture(files: BenchmarkFolder, folder: str, picture: Picture) -> None:
    """Write colour.png, marked.png (with numbers on the objects), segmentation.png and depth.png."""
    files.write(f"{folder}/colour.png", png(picture.colour))
    files.write(f"{folder}/marked.png", png(draw_marks(picture)))
    files.write(f"{folder}/segmentation.png", png(picture.labels))
    files.write(f"{folder}/depth.png", png(picture.depth))


def provenance(module: str, settings: WriteSettings, camera: Camera) -> dict[str, Any]:
    """Entries of every manifest on how the files were made."""
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
