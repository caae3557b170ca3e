"""`python -m tasks.questions.cooperation.write OUT`: the cooperation benchmark as files.

    OUT/manifest.json       what it is, camera, licence, SHA-256 of every other file
    OUT/questions.jsonl     id, kind, scene, case, picture, objects, robots, places, text, format; no answers
    OUT/answers.jsonl       id, kind, case, answer, and what judging needs
    OUT/scenes/0000/        colour.png marked.png path.png segmentation.png depth.png scene.json

Scenes take turns in how many robots their goals need. The same arguments give the same bytes on one machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.grasping.clutter.pictures import SCALE, png
from tasks.questions.cooperation.paths import LEVEL, path_task
from tasks.questions.cooperation.pictures import path_picture, render_picture
from tasks.questions.cooperation.questions import FORMATS, Kind, Question, questions
from tasks.questions.cooperation.scenes import VIEW, CooperationScene, SceneConfig, cooperation_scene, instruction
from tasks.questions.cooperation.score import FORMAT, NAME
from tasks.questions.writing import (
    BenchmarkFolder,
    Rows,
    WriteSettings,
    json_bytes,
    provenance,
    write_benchmark,
    write_command,
    write_picture,
)

MODULE = "tasks.questions.cooperation.write"
NEEDS = (2, 1, 2, 0)  # robots that the goals of the scenes need, in turn; 0: it cannot be done
LICENCE = (
    "Pictures, plans, paths and questions are generated from shapes and robot models of this project's own making, "
    "under its licence (Apache-2.0). They contain no third-party data. Levels and scores follow VIKI-R "
    "(arXiv:2506.09049), dialogues Ask-to-Clarify (arXiv:2509.15061), whose own data are not used."
)


def write(settings: WriteSettings) -> int:

    def write_scene(files: BenchmarkFolder, number: int, name: str) -> tuple[Rows, Rows, str]:
        scene = cooperation_scene(settings.seed_of(number), SceneConfig(need=NEEDS[number % len(NEEDS)]))
        random = np.random.default_rng([settings.seed, number])
        path = path_task(scene, random)
        folder = f"scenes/{name}"
        write_picture(files, folder, render_picture(scene))
        if path is not None:
            files.write(f"{folder}/path.png", png(path_picture(scene, path).colour))
        files.write(f"{folder}/scene.json", json_bytes(_scene_document(scene)))
        found = list(questions(scene, name, path, random))
        words = f"{scene.team.value}, {len(scene.objects)} objects"
        return [_question_row(question, scene) for question in found], [_answer_row(q) for q in found], words

    return write_benchmark(settings, write_scene, _manifest(settings))


def _scene_document(scene: CooperationScene) -> dict[str, Any]:
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


def _question_row(question: Question, scene: CooperationScene) -> dict[str, Any]:
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


def _answer_row(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "kind": question.kind.value,
        "case": question.case,
        "answer": question.answer,
        **question.truth,
    }


def _manifest(settings: WriteSettings) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "what": f"{NAME}: who acts, in what order, along which path; and when to ask first",
        **provenance(MODULE, settings, VIEW),
        "path_height_m": LEVEL,
        "segmentation": "8 bit: 0 no object, else its number; 'depth.png': 16 bit along the optical axis",
        "depth_units_per_m": SCALE,
        "licence": LICENCE,
    }


if __name__ == "__main__":
    write_command(MODULE, write)
