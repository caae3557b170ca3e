"""The benchmark's files agree with one another; the truth scores best; bad lines are named."""

import json
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from tasks.questions.cooperation.baselines import Settings as Answering
from tasks.questions.cooperation.baselines import answer_all
from tasks.questions.cooperation.paths import path_task
from tasks.questions.cooperation.pictures import render_picture
from tasks.questions.cooperation.questions import Question, questions
from tasks.questions.cooperation.scenes import SceneConfig, cooperation_scene
from tasks.questions.cooperation.score import BENCHMARK, DIAGONAL, FORMAT
from tasks.questions.cooperation.write import NEEDS, _answer_row, _question_row, write
from tasks.questions.scoring import score_answers
from tasks.questions.writing import BenchmarkFolder, WriteSettings, json_bytes, jsonl_bytes


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The questions of three scenes, without their pictures."""
    folder = tmp_path_factory.mktemp("cooperation") / "files"
    files = BenchmarkFolder(folder)
    asked: list[tuple[Question, object]] = []
    for seed, need in enumerate(NEEDS[1:]):
        scene = cooperation_scene(seed, SceneConfig(need=need))
        random = np.random.default_rng(seed)
        found = questions(scene, f"{seed:04d}", path_task(scene, random), random)
        asked.extend((question, scene) for question in found)
    files.write("questions.jsonl", jsonl_bytes([_question_row(*pair) for pair in asked]))  # pyright: ignore[reportArgumentType]
    files.write("answers.jsonl", jsonl_bytes([_answer_row(question) for question, _ in asked]))
    files.write("manifest.json", json_bytes({"format": FORMAT, "what": "cooperation", "sha256": files.digests}), False)
    return folder


def test_the_truth_scores_full_marks_and_chance_does_not(benchmark: Path, tmp_path: Path) -> None:
    answer_all(Answering(benchmark, tmp_path / "oracle.jsonl", "oracle"))
    report = score_answers(tmp_path / "oracle.jsonl", benchmark, BENCHMARK)
    assert report.problems == ()
    assert set(report.scores) == {"who", "order", "path", "ask", "answered"}
    best = {name: values.get("right", values.get("success")) for name, values in report.scores.items()}
    assert set(best.values()) == {1.0}
    assert report.scores["order"]["possible"] == 1.0
    # A pixel's tenth is lost in writing.
    assert max(report.scores["path"][name] for name in ("rmse", "hausdorff", "frechet")) < 0.5
    answer_all(Answering(benchmark, tmp_path / "random.jsonl", "random"))
    chance = score_answers(tmp_path / "random.jsonl", benchmark, BENCHMARK)
    assert chance.problems == ()
    assert chance.scores["order"]["right"] < 1.0
    assert chance.scores["path"]["frechet"] > 10.0


def test_questions_tell_no_answers_and_name_what_there_is(benchmark: Path) -> None:
    asked = [json.loads(line) for line in (benchmark / "questions.jsonl").read_text().splitlines()]
    truth = [json.loads(line) for line in (benchmark / "answers.jsonl").read_text().splitlines()]
    assert [row["id"] for row in asked] == [row["id"] for row in truth]
    assert len({row["id"] for row in asked}) == len(asked)
    for row in asked:
        assert not {"answer", "teams", "facts", "path", "obstacles"} & set(row)
    for row in truth:
        if row["kind"] == "who":
            assert row["answer"] in (row["teams"] or [[]])


@pytest.mark.parametrize(
    ("id_", "said", "problem"),
    [
        ("0000-who", "both", "no [ ... ] in the answer"),
        ("0000-who", ["cook"], "there is no 'cook'; expected some of"),
        ("0000-order", [{"left arm": ["jump"]}], "expected one of move"),
        ("0000-ask-clear", {"say": 1}, 'neither "ask" nor "take"'),
        ("0000-answered-ambiguous", "the red one", "is no number of a mark"),
        ("nothing", 1, "no question has the id"),
    ],
)
def test_bad_lines_are_named(benchmark: Path, tmp_path: Path, id_: str, said: object, problem: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": id_, "answer": said}) + "\n")
    report = score_answers(tmp_path / "a.jsonl", benchmark, BENCHMARK)
    assert len(report.problems) == 1
    assert problem in report.problems[0]
    assert report.scores["path"]["frechet"] == DIAGONAL


def test_paths_that_cannot_be_are_no_success(benchmark: Path, tmp_path: Path) -> None:
    truth = [json.loads(line) for line in (benchmark / "answers.jsonl").read_text().splitlines()]
    row = next(row for row in truth if row["kind"] == "path")
    ends = [row["answer"][0], row["answer"][-1]]
    for pixels in (ends, row["answer"][::-1], [ends[0], [400, -5000], ends[1]]):
        (tmp_path / "a.jsonl").write_text(json.dumps({"id": row["id"], "answer": pixels}) + "\n")
        report = score_answers(tmp_path / "a.jsonl", benchmark, BENCHMARK)
        assert report.problems == ()
        assert report.scores["path"]["success"] == 0.0


def test_only_its_own_benchmark_is_scored_and_only_a_new_folder_written(benchmark: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    other = tmp_path / "other"
    files = BenchmarkFolder(other)
    files.write("answers.jsonl", b"")
    files.write(
        "manifest.json", json_bytes({"format": 1, "what": "clutter: ...", "sha256": files.digests}), listed=False
    )
    with pytest.raises(EmbodiedError, match="is not the manifest of a cooperation benchmark"):
        score_answers(tmp_path / "a.jsonl", other, BENCHMARK)
    with pytest.raises(EmbodiedError, match="is not empty"):
        write(WriteSettings(benchmark, scenes=1))


@pytest.mark.slow
def test_the_same_arguments_give_the_same_files_and_marks_are_seen(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        write(WriteSettings(tmp_path / name, scenes=2, seed=3))
        digests.append(json.loads((tmp_path / name / "manifest.json").read_text())["sha256"])
    assert digests[0] == digests[1]
    scene = cooperation_scene(5)
    labels, count = np.unique(render_picture(scene).labels, return_counts=True)
    assert list(labels) == list(range(len(scene.objects) + 1))
    assert count.min() > 100
