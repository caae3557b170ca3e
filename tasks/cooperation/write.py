"""`python -m tasks.cooperation.write --out DIR --scenes N`: the cooperation benchmark as files.

    DIR/manifest.json       what it is, camera, licence, SHA-256 of every other file
    DIR/questions.jsonl     id, kind, scene, case, picture, objects, robots, places, text, format; no answers
    DIR/answers.jsonl       id, kind, case, answer, and what judging needs
    DIR/scenes/0000/        colour.png marked.png path.png segmentation.png depth.png scene.json

The same arguments give the same bytes on one machine.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard
from tasks.cooperation.paths import LEVEL, PathTask, path_task
from tasks.cooperation.pictures import path_picture, take
from tasks.cooperation.questions import FORMATS, Kind, Question, questions
from tasks.cooperation.scenes import VIEW, CooperationScene, SceneConfig, cooperation_scene, instruction
from tasks.cooperation.score import FORMAT, NAME
from tasks.grasping.clutter.pictures import SCALE, png, with_marks
from tasks.questions.files import Files, document, lines

SEEDS = 1_000_000  # between the scenes of one benchmark seed and the next
NEEDS = (2, 1, 2, 0)  # robots that the goals of the scenes need, in turn; 0: it cannot be done
LICENCE = (
    "Pictures, plans, paths and questions are generated from shapes and robot models of this project's own making, "
    "under its licence (Apache-2.0). They contain no third-party data. Levels and scores follow VIKI-R "
    "(arXiv:2506.09049), dialogues Ask-to-Clarify (arXiv:2509.15061), whose own data are not used."
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is written."""

    out: Path
    """A folder that does not exist yet, or is empty."""
    scenes: int = 40
    """Number of scenes; they take turns in how many robots their goals need: two, one, two, more than there are."""
    seed: int = 0
    """Of the whole."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 1 <= self.scenes <= SEEDS or self.seed < 0:
            raise EmbodiedError(
                f"--scenes {self.scenes} --seed {self.seed}; expected 1 to {SEEDS} scenes and a seed of at least 0"
            )


@guard
def main() -> None:
    """Write the files."""
    settings = tyro.cli(Settings, prog="python -m tasks.cooperation.write")
    asked = write(settings)
    cli.console().print(f"{settings.scenes} scenes, {asked} questions: {settings.out}")


def write(settings: Settings) -> int:
    """Write the benchmark; returns the number of questions.

    Raises:
        EmbodiedError: the folder holds something, cannot be written, a scene does not come out, or nothing can draw.
    """
    files = Files(settings.out)
    asked: list[tuple[Question, CooperationScene]] = []
    with cli.Line("scenes", settings.scenes) as line:
        for number in range(settings.scenes):
            config = SceneConfig(need=NEEDS[number % len(NEEDS)])
            scene = cooperation_scene(settings.seed * SEEDS + number, config)
            random = np.random.default_rng([settings.seed, number])
            path = path_task(scene, random)
            name = f"{number:04d}"
            _write_scene(files, scene, path, name)
            asked.extend((question, scene) for question in questions(scene, name, path, random))
            line.update(number + 1, f"{scene.team.value}, {len(scene.objects)} objects")
    files.write("questions.jsonl", lines([_asked(question, scene) for question, scene in asked]))
    files.write("answers.jsonl", lines([_answered(question) for question, _ in asked]))
    files.write("manifest.json", document(_manifest(settings, files.digests)), listed=False)
    return len(asked)


def _write_scene(files: Files, scene: CooperationScene, path: PathTask | None, name: str) -> None:
    picture = take(scene)
    folder = f"scenes/{name}"
    files.write(f"{folder}/colour.png", png(picture.colour))
    files.write(f"{folder}/marked.png", png(with_marks(picture)))
    files.write(f"{folder}/segmentation.png", png(picture.labels))
    files.write(f"{folder}/depth.png", png(picture.depth))
    if path is not None:
        files.write(f"{folder}/path.png", png(path_picture(scene, path).colour))
    files.write(f"{folder}/scene.json", document(_described(scene)))


def _described(scene: CooperationScene) -> dict[str, Any]:
    return {
        "seed": scene.seed,
        "instruction": instruction(scene),
        "goal": scene.goal.document(),
        "facts": scene.facts.document(),
        "robots": [{"name": robot.name, "words": robot.words, "pos": list(robot.pos)} for robot in scene.robots],
        "places": [{"name": place.name, "pos": list(place.placed.pos)} for place in scene.places],
        "objects": [
            {
                "number": number,
                "name": entry.item.name,
                "words": word,
                "pos": list(entry.pos),
                "quat_wxyz": list(entry.quat),
            }
            for number, (word, entry) in enumerate(zip(scene.words, scene.objects, strict=True), 1)
        ],
    }


def _asked(question: Question, scene: CooperationScene) -> dict[str, Any]:
    folder = f"scenes/{question.scene}"
    return {
        "id": question.id,
        "kind": question.kind.value,
        "scene": question.scene,
        "picture": f"{folder}/{'path' if question.kind is Kind.PATH else 'marked'}.png",
        "without_marks": f"{folder}/colour.png",
        "objects": {str(number): words for number, words in enumerate(scene.words, 1)},
        "robots": [robot.name for robot in scene.robots],
        "places": [place.name for place in scene.places],
        "text": question.text,
        "format": FORMATS[question.kind],
    }


def _answered(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "kind": question.kind.value,
        "case": question.case,
        "answer": question.answer,
        **question.truth,
    }


def _manifest(settings: Settings, digests: dict[str, str]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "what": f"{NAME}: who acts, in what order, along which path; and when to ask first",
        "command": f"python -m tasks.cooperation.write --out DIR --scenes {settings.scenes} --seed {settings.seed}",
        "scenes": settings.scenes,
        "seed": settings.seed,
        "camera": {
            "pos_m": list(VIEW.pos),
            "quat_wxyz": list(VIEW.quat),
            "fovy_deg": VIEW.fovy,
            "width": VIEW.width,
            "height": VIEW.height,
            "frame": "x right, y away from the camera, z up, table top z = 0; the camera looks along its -z, +y is up",
        },
        "path_height_m": LEVEL,
        "segmentation": "8 bit: 0 no object, else its number; 'depth.png': 16 bit along the optical axis",
        "depth_units_per_m": SCALE,
        "licence": LICENCE,
        "sha256": digests,
    }


if __name__ == "__main__":
    main()
