"""`python -m tasks.questions.clutter.write OUT`: the clutter benchmark as files, for testing models that see and speak.

    OUT/manifest.json       what it is, camera, thresholds, licence, SHA-256 of every other file
    OUT/questions.jsonl     id, kind, scene, difficulty, pictures, objects, text, format; no answers
    OUT/answers.jsonl       id, kind, difficulty, answer
    OUT/scenes/0000/        colour.png marked.png segmentation.png depth.png scene.json

The difficulties take turns. The same arguments give the same bytes with the same versions of numpy, OpenCV and MuJoCo.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tasks.grasping.clutter.graph import LEAST, MEDIUM_REMOVALS, SEVERITIES, Difficulty, removal_order, severity
from tasks.grasping.clutter.pictures import SCALE, render_picture
from tasks.grasping.clutter.scenes import VIEW, ClutterConfig, ClutterScene, clutter_scene
from tasks.questions.clutter.questions import FORMATS, Question, questions
from tasks.questions.clutter.score import FORMAT, NAME
from tasks.questions.object_names import object_phrases
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

CAMERA = dataclasses.replace(VIEW, width=640, height=480)
MODULE = "tasks.questions.clutter.write"
# Of a silhouette: no pair's hidden share is that near to `LEAST`, so that no answer hangs on a few pixels.
MARGIN = 0.003
VISIBLE = 0.1  # of each silhouette is seen at least: questions are about visible objects only
TRIES = 400  # scenes drawn at most for each that is written: hard ones without undecided pairs are rare
LICENCE = (
    "Pictures, graphs and questions are generated from shapes of this project's own making, under its licence "
    "(Apache-2.0). They contain no third-party data; household objects follow the published dimensions of the YCB set. "
    "Questions and scores follow the definitions of UNOGrasp (arXiv:2511.23186), whose own data are not used."
)


def write(settings: WriteSettings) -> int:

    def write_scene(files: BenchmarkFolder, number: int, name: str) -> tuple[Rows, Rows, str]:
        level = list(Difficulty)[number % len(Difficulty)]
        config = ClutterConfig(
            difficulty=level, camera=CAMERA, margin=MARGIN, visible=VISIBLE, freeable=True, tries=TRIES
        )
        scene = clutter_scene(settings.seed_of(number), config)
        write_picture(files, f"scenes/{name}", render_picture(scene.objects, scene.camera))
        files.write(f"scenes/{name}/scene.json", json_bytes(_scene_document(scene)))
        found = list(questions(scene, name, np.random.default_rng([settings.seed, number])))
        words = f"{level.value}, {len(scene.names)} objects"
        return [_question_row(question) for question in found], [_answer_row(question) for question in found], words

    return write_benchmark(settings, write_scene, _manifest(settings))


def _scene_document(scene: ClutterScene) -> dict[str, Any]:
    words = object_phrases([entry.item for entry in scene.objects])
    graph = scene.graph
    return {
        "seed": scene.seed,
        "target": scene.names.index(scene.target) + 1,
        "difficulty": scene.difficulty.value,
        "removal_order": [scene.names.index(name) + 1 for name in removal_order(graph, scene.target)],
        "objects": [
            {"number": number, "name": name, "words": word, "pos": list(entry.pos), "quat_wxyz": list(entry.quat)}
            for number, (name, word, entry) in enumerate(zip(scene.names, words, scene.objects, strict=True), 1)
        ],
        "edges": [
            {
                "obstructed": int(i) + 1,
                "obstructor": int(j) + 1,
                "ratio": float(graph.ratios[i, j]),
                "severity": severity(float(graph.ratios[i, j])).value,
            }
            for i, j in np.argwhere(graph.ratios > 0)
        ],
    }


def _question_row(question: Question) -> dict[str, Any]:
    folder = f"scenes/{question.scene}"
    return {
        "id": question.id,
        "kind": question.kind.value,
        "scene": question.scene,
        "difficulty": question.difficulty,
        "picture": f"{folder}/marked.png",
        "without_marks": f"{folder}/colour.png",
        "objects": {str(number): words for number, words in enumerate(question.objects, 1)},
        "text": question.text,
        "format": FORMATS[question.kind],
    }


def _answer_row(question: Question) -> dict[str, Any]:
    found = {
        "id": question.id,
        "kind": question.kind.value,
        "difficulty": question.difficulty,
        "answer": question.answer,
    }
    return found | ({"edges": [list(edge) for edge in question.graph]} if question.graph else {})


def _manifest(settings: WriteSettings) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "what": f"{NAME}: which objects must be taken away before a target can be reached",
        **provenance(MODULE, settings, CAMERA),
        "segmentation": "8 bit: 0 no object, else its number; 'depth.png': 16 bit along the optical axis, 0 nothing",
        "depth_units_per_m": SCALE,
        "least_ratio": LEAST,
        "no_ratio_within": MARGIN,
        "severities_below": {level.value: limit for limit, level in SEVERITIES},
        "difficulties": f"none; easy: 1 removal; medium: 2 to {MEDIUM_REMOVALS}; hard: more",
        "licence": LICENCE,
    }


if __name__ == "__main__":
    write_command(MODULE, write)
