"""The benchmark's files agree with one another and with the scenes; the truth scores best; bad lines are named."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from embodied.errors import EmbodiedError
from tasks.grasping.clutter.graph import ObstructionGraph
from tasks.grasping.clutter.pictures import draw_marks, render_picture
from tasks.grasping.clutter.scenes import VIEW, ClutterConfig, ClutterScene, clutter_scene
from tasks.grasping.objects.household import household
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.grasping.objects.random_objects import random_object
from tasks.questions.clutter import write as writing
from tasks.questions.clutter.questions import Kind, questions
from tasks.questions.clutter.score import BENCHMARK, WORST
from tasks.questions.object_names import colour_word, object_phrases
from tasks.questions.scoring import score_answers
from tasks.questions.writing import BenchmarkFolder, WriteSettings, json_bytes, jsonl_bytes


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four small scenes."""
    folder = tmp_path_factory.mktemp("clutter") / "files"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "CAMERA", dataclasses.replace(writing.CAMERA, width=160, height=120))
        writing.write(WriteSettings(folder, scenes=4, seed=1))
    return folder


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def picture(path: Path) -> np.ndarray:
    found = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert found is not None
    return found


def answered(path: Path, lines: Sequence[object]) -> Path:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_every_file_is_listed_with_its_digest(benchmark: Path) -> None:
    manifest = json.loads((benchmark / "manifest.json").read_text())
    present = {str(p.relative_to(benchmark)) for p in benchmark.rglob("*") if p.is_file()}
    assert present == {*manifest["sha256"], "manifest.json"}
    for name, digest in manifest["sha256"].items():
        assert hashlib.sha256((benchmark / name).read_bytes()).hexdigest() == digest
    assert manifest["camera"]["fovy_deg"] == VIEW.fovy
    assert "Apache-2.0" in manifest["licence"]


def test_questions_and_answers_belong_together_and_questions_tell_none(benchmark: Path) -> None:
    asked, truth = rows(benchmark / "questions.jsonl"), rows(benchmark / "answers.jsonl")
    assert [row["id"] for row in asked] == [row["id"] for row in truth]
    assert {row["difficulty"] for row in asked} == {"none", "easy", "medium", "hard"}
    assert {row["kind"] for row in asked} == {kind.value for kind in Kind}
    for row in asked:
        assert "answer" not in row
        assert (benchmark / row["picture"]).is_file()
        assert "(number " in row["text"]
        scene = json.loads((benchmark / "scenes" / row["scene"] / "scene.json").read_text())
        assert row["objects"] == {str(entry["number"]): entry["words"] for entry in scene["objects"]}


def test_pictures_show_what_the_scene_says(benchmark: Path) -> None:
    for folder in sorted((benchmark / "scenes").iterdir()):
        scene = json.loads((folder / "scene.json").read_text())
        labels = picture(folder / "segmentation.png")
        assert labels.shape == (120, 160)
        assert set(np.unique(labels)) == set(range(len(scene["objects"]) + 1))
        depth = picture(folder / "depth.png")
        assert depth.dtype == np.uint16
        # Objects are 60 cm to 1.2 m away.
        assert 0.5 < depth[labels > 0].min() / 10_000 < depth[labels > 0].max() / 10_000 < 1.2
        colour, marked = (picture(folder / f"{name}.png") for name in ("colour", "marked"))
        assert colour.shape == (120, 160, 3)
        assert (colour != marked).any()


def test_the_same_arguments_give_the_same_bytes() -> None:
    scene = clutter_scene(5, ClutterConfig(count=(3, 4)))
    camera = dataclasses.replace(VIEW, width=120, height=90)
    first, second = render_picture(scene.objects, camera), render_picture(scene.objects, camera)
    np.testing.assert_array_equal(first.colour, second.colour)
    np.testing.assert_array_equal(draw_marks(first), draw_marks(second))


def test_a_picture_of_one_object_is_lit_and_casts_a_shadow() -> None:
    camera = dataclasses.replace(VIEW, width=120, height=90)
    block = PlacedObject(household("wood_block"), (0.0, 0.0, 0.1))
    alone, empty = render_picture([block], camera), render_picture([], camera)
    # Colours of pixels at its edge are mixed with its own.
    table = cv2.dilate(alone.labels, np.ones((5, 5), np.uint8)) == 0
    assert empty.labels.max() == 0
    darker = alone.colour[table].astype(int).sum(1) < 0.85 * empty.colour[table].astype(int).sum(1)
    assert 20 < darker.sum() < 0.3 * table.sum()


def test_the_truth_scores_full_marks(benchmark: Path) -> None:
    report = score_answers(benchmark / "answers.jsonl", benchmark, BENCHMARK)
    assert report.problems == ()
    for kind, values in report.scores.items():
        assert values["answered"] == values["count"] > 0
        for name in WORST[Kind(kind)]:
            best = 0.0 if name == "mp_ned" else 1.0
            assert values[name] == values[f"{name}_balanced"] == best


def test_no_answers_score_nothing(benchmark: Path, tmp_path: Path) -> None:
    report = score_answers(answered(tmp_path / "a.jsonl", []), benchmark, BENCHMARK)
    for kind, values in report.scores.items():
        assert values["answered"] == 0
        assert {name: values[name] for name in WORST[Kind(kind)]} == WORST[Kind(kind)]


def test_answers_may_be_text_that_holds_json_and_numbers_may_be_words(benchmark: Path, tmp_path: Path) -> None:
    texts = []
    for row in rows(benchmark / "answers.jsonl"):
        said = row["answer"] if isinstance(row["answer"], str) else json.dumps(row["answer"])
        texts.append({"id": row["id"], "answer": f"I think it is {said}, all in all."})
    report = score_answers(answered(tmp_path / "a.jsonl", texts), benchmark, BENCHMARK)
    assert report.problems == ()
    assert report.scores["reason"]["sr_f1"] == report.scores["severity"]["right"] == 1.0


def test_any_possible_order_counts_and_no_impossible_one(tmp_path: Path) -> None:
    # 3 and 4 both stand before 2, which stands before 1: they may go in either order, but not after 2.
    ratios = np.zeros((4, 4))
    ratios[0, 1] = ratios[1, 2] = ratios[1, 3] = 0.5
    names = ("mug", "apple", "pear", "banana")
    objects = tuple(PlacedObject(household(name)) for name in names)
    scene = ClutterScene(0, objects, names, "mug", VIEW, ObstructionGraph(names, ratios))
    asked = list(questions(scene, "0000", np.random.default_rng(0)))
    folder = tmp_path / "benchmark"
    files = BenchmarkFolder(folder)
    files.write("answers.jsonl", jsonl_bytes([writing._answer_row(question) for question in asked]))
    files.write("manifest.json", json_bytes({"format": writing.FORMAT, "sha256": files.digests}), listed=False)
    rights = []
    for order in ([3, 4, 2], [4, 3, 2], [3, 2, 4], [3, 2], [2], []):
        given = answered(tmp_path / "a.jsonl", [{"id": "0000-order", "answer": order}])
        rights.append(score_answers(given, folder, BENCHMARK).scores["order"]["right"])
    assert rights == [1, 1, 0, 0, 0, 0]
    half = [{"id": "0000-reason", "answer": {"paths": [[1, 2, 3]], "remove_now": [3]}}]
    found = score_answers(answered(tmp_path / "a.jsonl", half), folder, BENCHMARK).scores["reason"]
    assert found["sr_precision"] == 1.0
    assert found["sr_recall"] == 0.5
    assert found["or"] == pytest.approx(2 / 3)
    assert found["mp_ned"] == 0.5


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{broken\n", 'line 1: not {"id": ..., "answer": ...} in JSON'),
        ("[1, 2]\n", 'line 1: not {"id": ..., "answer": ...} in JSON'),
        ("\xff\xfe\n", 'line 1: not {"id": ..., "answer": ...} in JSON'),
        ({"id": "nothing", "answer": []}, "line 1: no question has the id 'nothing'"),
        ({"id": ["x"], "answer": []}, "line 1: no question has the id \"['x']\""),
        ({"id": "0000-obstructors", "answer": "none"}, "line 1: 0000-obstructors: no [ ... ] in the answer"),
        ({"id": "0000-obstructors", "answer": [None]}, "holds 'None'; expected numbers of marks"),
        ({"id": "0000-obstructors", "answer": [1e999]}, "holds 'inf'; expected numbers of marks"),
        ({"id": "0000-obstructors", "answer": {"a": 1}}, "the answer is not a list of up to 64 numbers"),
        ({"id": "0000-reason", "answer": {"paths": 3}}, 'no "paths"'),
        ({"id": "0000-reason", "answer": {"paths": [[1]]}}, "remove_now is not a list"),
        ({"id": "0001-severity", "answer": "slightly or mostly"}, "names 2 severities; expected one of slightly"),
        ({"id": "0001-severity", "answer": 3}, "'3' is no severity"),
    ],
)
def test_bad_lines_are_named_and_the_others_count(benchmark: Path, tmp_path: Path, line: object, problem: str) -> None:
    good = rows(benchmark / "answers.jsonl")
    kept = [row for row in good if not (isinstance(line, dict) and row["id"] == line["id"])]
    report = score_answers(answered(tmp_path / "a.jsonl", [line, *kept]), benchmark, BENCHMARK)
    assert len(report.problems) == 1
    assert problem in report.problems[0]
    assert sum(values["answered"] for values in report.scores.values()) == len(kept)


def test_of_two_answers_the_first_counts(benchmark: Path, tmp_path: Path) -> None:
    good = rows(benchmark / "answers.jsonl")
    report = score_answers(answered(tmp_path / "a.jsonl", [*good, good[0]]), benchmark, BENCHMARK)
    assert report.problems == (
        f"line {len(good) + 1}: {good[0]['id']} is answered before, in line 1; the first counts",
    )
    assert report.scores["obstructors"]["f1"] == 1.0


def test_damaged_benchmarks_are_refused(benchmark: Path, tmp_path: Path) -> None:
    answers = answered(tmp_path / "a.jsonl", [])
    with pytest.raises(EmbodiedError, match=r"cannot read .*manifest\.json"):
        score_answers(answers, tmp_path / "nothing", BENCHMARK)
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(EmbodiedError, match="is not the manifest of a clutter benchmark"):
        score_answers(answers, folder, BENCHMARK)
    (folder / "manifest.json").write_bytes((benchmark / "manifest.json").read_bytes())
    (folder / "answers.jsonl").write_bytes((benchmark / "answers.jsonl").read_bytes() + b"\n")
    with pytest.raises(EmbodiedError, match="is not what the manifest says"):
        score_answers(answers, folder, BENCHMARK)
    (folder / "manifest.json").write_text(json.dumps({"format": 99, "sha256": {"answers.jsonl": ""}}))
    with pytest.raises(EmbodiedError, match="has format 99"):
        score_answers(answers, folder, BENCHMARK)
    with pytest.raises(EmbodiedError, match=r"cannot read .*missing"):
        score_answers(tmp_path / "missing.jsonl", benchmark, BENCHMARK)


def test_only_a_new_folder_is_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(EmbodiedError, match=r"is not empty \(it holds 'mine.txt'\)"):
        writing.write(WriteSettings(tmp_path, scenes=1))
    with pytest.raises(EmbodiedError, match="--scenes 0"):
        WriteSettings(tmp_path, scenes=0)


def test_objects_are_called_by_names_that_tell_them_apart() -> None:
    twins = [random_object(7), dataclasses.replace(random_object(7), name="other"), household("mustard_bottle")]
    words = object_phrases(twins)
    assert words[2] == "mustard bottle"
    assert words[0].endswith("(number 1)")
    assert words[1].endswith("(number 2)")
    assert len(set(words)) == 3
    assert colour_word((0.9, 0.1, 0.1, 1.0)) == "red"
