"""Runs listed, filtered and compared: by their folders alone, without training anything."""

from __future__ import annotations

import inspect
import json

import pytest

from embodied.errors import EmbodiedError, RunError, UnknownNameError
from embodied.runs.__main__ import main
from embodied.runs.comparison import UNITS, Comparison, Training, compare, flat, mean_curve
from embodied.runs.page import figure_text, page
from embodied.runs.summary import find, size_text, span, summarize
from embodied.storage.runs import Run


@pytest.fixture
def make(tmp_path):
    """Makes a run with three lines of metrics and, unless told otherwise, a result; returns it."""

    def run(folder: str, task="swarm/hover", success=0.9, done=True, rate=1e-3, **config):
        settings = {"algorithm": "ppo", "seed": 0, "algorithm_config": {"learning_rate": rate}} | config
        made = Run.create(tmp_path, task, settings, tmp_path / folder)
        for step in (100, 200, 300):
            made.log(step, {"success": success * step / 300, "return": float(step)})
        if done:
            bounds = {"success_low": success - 0.05, "success_high": success + 0.05}
            made.write_result({"success": success, **bounds, "return": 12.345, "steps": 300, "train_seconds": 7.0})
        made.close()
        return made

    return run


@pytest.fixture
def seeds(make):
    """A training with three seeds."""
    return [make(f"swarm/hover/base/seed-{n}", seed=n, name="base", success=0.9 + 0.02 * n) for n in range(3)]


def test_a_run_is_called_as_it_was_named_or_as_its_folder(make, seeds):
    assert make("swarm/hover/later").name == "later"
    assert make("swarm/hover/gentle", name="gentle").name == "gentle"
    assert [run.name for run in seeds] == ["base/seed-0", "base/seed-1", "base/seed-2"]


def test_a_line_says_what_a_run_came_to_or_how_far_it_got(make):
    done, cut = summarize(make("a", success=0.8)), summarize(make("b", success=0.6, done=False))
    assert (done.learner, done.steps, done.success, done.evaluated, done.state) == ("ppo", 300, 0.8, True, "done")
    assert (cut.success, cut.evaluated, cut.state) == (pytest.approx(0.6), False, "running")
    assert done.size > 100
    assert 0 <= done.age < 100


def test_runs_of_other_commands_are_listed_too(tmp_path):
    row = summarize(Run.create(tmp_path, "asking", {}, tmp_path / "asker"))
    assert (row.learner, row.steps, row.success != row.success) == ("-", 0, True)


def test_filters(make, seeds, tmp_path):
    make("locomotion/walk", task="locomotion/go1-joystick-flat", algorithm="sac")
    assert len(find(tmp_path)) == 4
    assert [run.name for run in find(tmp_path, ["go1"])] == ["walk"]
    assert [run.name for run in find(tmp_path, ["hover", "seed-1"])] == ["base/seed-1"]
    assert [run.name for run in find(tmp_path, (), "sac")] == ["walk"]
    assert find(tmp_path, ["hover"], "sac") == []


def test_the_list_has_a_line_for_each_run_in_a_pipe(make, seeds, tmp_path, capsys):
    assert main(["--root", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    path, learner, steps, success, _age, _size = lines[-1].split("\t")
    assert (path, learner, steps, success) == (str(seeds[0].path), "ppo", "300", "0.9")
    assert main(["--root", str(tmp_path), "--limit", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], round(row["success"], 3), row["state"]) == ("base/seed-2", 0.94, "done")


def test_a_folder_of_seeds_is_one_training_with_the_interval_of_its_seeds(make, seeds, tmp_path):
    single = make("swarm/hover/gentle", success=0.7, rate=1e-4)
    found = compare([str(tmp_path / "swarm/hover/base"), "gentle"], tmp_path)
    assert [training.name for training in found.trainings] == ["base", "gentle"]
    mean, one = (training.figure("success") for training in found.trainings)
    assert mean is not None
    assert one is not None
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.92, 0.9, 0.94))
    assert (one.value, one.low, one.high) == pytest.approx((0.7, 0.65, 0.75))
    assert found.settings == {"algorithm_config.learning_rate": ("0.001", "0.0001")}
    assert found.measures == ["success", "return", "steps", "train_seconds"]
    assert compare(["base"], tmp_path).trainings[0].runs[2].path == seeds[2].path
    assert single.name == "gentle"


def test_suites_are_aggregated_over_their_tasks(make, tmp_path):
    for seed, rates in enumerate(((0.0, 1.0), (0.2, 1.0))):
        run = make(f"mt/seed-{seed}", task="mt", seed=seed, done=False)
        rows = [{"task": f"a/{n}", "success": rate, "held_out": False} for n, rate in enumerate(rates)]
        rows.append({"task": "a/new", "success": 0.5, "held_out": True})
        run.write_result({"success": sum(rates) / 2, "results": rows})
    found = compare([str(tmp_path / "mt")], tmp_path).trainings[0].over_seeds("success")
    assert found is not None
    assert found.scores.tolist() == [[0.0, 1.0], [0.2, 1.0]]
    assert found.mean.value == pytest.approx(0.55)


def test_seeds_that_are_not_at_their_end_do_not_count(make, tmp_path):
    make("x/seed-0", seed=0, success=0.5)
    make("x/seed-1", seed=1, done=False)
    (training,) = compare([str(tmp_path / "x")], tmp_path).trainings
    found = training.over_seeds("success")
    assert found is not None
    assert found.scores.tolist() == [[0.5]]


def test_curves_have_a_mean_where_all_have_been():
    mean = mean_curve([[(0.0, 0.0), (10.0, 1.0)], [(2.0, 0.2), (8.0, 1.4)]])
    assert mean.points[0] == (2.0, pytest.approx(0.2))
    assert mean.points[-1] == (8.0, pytest.approx(1.1))
    assert mean.band[-1] == (8.0, pytest.approx(0.8), pytest.approx(1.4))
    assert mean_curve([[(0.0, 1.0)], [(5.0, 1.0)]]).points == []


@pytest.mark.parametrize(
    ("measure", "figure", "said"),
    [
        ("success", (0.9727, 0.945, 0.9871), "97.3 %  (95 %: 94.5 to 98.7)"),
        ("return", (123.456, 121.987, 125.111), "123.5  (95 %: 122.0 to 125.1)"),
        ("position_error", (0.012345, 0.011, 0.0133), "0.0123 m  (95 %: 0.0110 to 0.0133)"),
        ("length", (400.0, 380.0, 420.0), "400 steps  (95 %: 380 to 420)"),
        ("train_seconds", (21.26, float("nan"), float("nan")), "21.3 s"),
    ],
)
def test_a_value_and_its_interval_have_the_same_digits(measure, figure, said):
    from embodied.evaluation.aggregate import Interval

    assert figure_text(measure, Interval(*figure), {**UNITS, "position_error": "m"}) == said


def test_units_are_the_results_else_those_that_the_task_declares(make):
    hover, own = make("hover"), make("own", task="/somewhere/mine.py:Mine")
    comparison = Comparison((Training("hover", (hover,)), Training("own", (own,))))
    assert comparison.units == {**UNITS, "position_error": "m", "speed": "m/s"}
    own.write_result({"success": 1.0, "reached": 0.3, "units": {"reached": "m"}})
    assert Comparison((Training("own", (own,)),)).units == {**UNITS, "reached": "m"}


def test_the_page_needs_no_network_and_says_what_differs(make, seeds, tmp_path, capsys):
    make("swarm/hover/gentle", rate=1e-4)
    target = tmp_path / "pages" / "gentle.html"
    words = [
        "compare",
        "base",
        "gentle",
        "--root",
        str(tmp_path),
        "--html",
        str(target),
        "--json",
        str(tmp_path / "c.json"),
    ]
    assert main(words) == 0
    assert "algorithm_config" in capsys.readouterr().out
    text = target.read_text()
    for said in ("algorithm_config.learning_rate", "92.0 %", "<polyline", "<polygon", "environment steps", "seed-2"):
        assert said in text
    assert "http" not in text
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["figures"]["success"]["base"]["value"] == pytest.approx(0.92)
    assert written["settings"] == {"algorithm_config.learning_rate": {"base": "0.001", "gentle": "0.0001"}}


def test_the_page_of_seeds_shows_each(seeds, tmp_path):
    text = page(compare([str(seeds[0].path.parent)], tmp_path), "three seeds", "python -m x")
    for said in ("interquartile mean", "seed 0", "seed 2", "3 seeds are few", "94.0 %"):
        assert said in text


def test_messages(make, seeds, tmp_path):
    make("swarm/other/base/seed-0", name="base")
    for words, error, message in (
        (["compare"], EmbodiedError, "which runs"),
        (["compare", "bas", "--root", str(tmp_path)], UnknownNameError, "unknown run 'bas'; did you mean 'base'"),
        (["compare", "base", "--root", str(tmp_path)], RunError, "'base' means several runs"),
        (["compare", "seed-0", "--root", str(tmp_path)], RunError, "'seed-0' means several runs"),
        (["compare", "a", "b", "--names", "c"], EmbodiedError, "1 names for 2 runs"),
    ):
        with pytest.raises(error, match=message):
            inspect.unwrap(main)(words)


def test_sizes_ages_and_settings_as_text():
    assert [span(s) for s in (5, 90, 4000, 200000)] == ["5 s", "2 min", "1 h", "2 d"]
    assert [size_text(n) for n in (10, 4_200_000, 42_000_000)] == ["10 B", "4.2 MB", "42 MB"]
    assert flat({"a": {"b": 1e-3, "c": []}, "d": None}) == {"a.b": "0.001", "a.c": "[]", "d": "None"}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("result.json", '{"success": "all"}'),
        ("result.json", "[1, 2]"),
        ("result.json", '{"success": 1e999, "success_low": null}'),
        ("result.json", f'{{"success": {10**401}, "steps": 300}}'),
        ("result.json", '{"success": 0.5, "success_low": "low", "steps": 300, "results": [{"success": "all"}]}'),
        ("config.json", '{"task": '),
        ("metrics.jsonl", '{"step": 7}\n{"step": "x"}\n{"step": 3, "success": [1]}\n'),
    ],
)
def test_a_damaged_run_does_not_end_the_list(make, tmp_path, capsys, file, content):
    damaged, whole = make("a"), make("b")
    (damaged.path / file).write_text(content)
    assert main(["--root", str(tmp_path)]) == 0
    assert str(whole.path) in capsys.readouterr().out
    if file == "result.json":  # the page beside each other, alone and with another seed
        trainings = Training("one", (damaged,)), Training("both", (damaged, whole))
        assert "both" in page(Comparison(trainings), "damaged", "python -m x")
