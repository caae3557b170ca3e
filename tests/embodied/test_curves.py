"""Learning curves: means of what follows one another, against steps or minutes, of runs side by side."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path

import cv2
import pytest

from embodied.curves import main
from embodied.errors import EmbodiedError
from embodied.evaluation.learning_curves import Across, binned, called, chosen, curve
from embodied.storage.runs import Run


@pytest.fixture
def run(tmp_path):
    """Makes a run with metrics, with a stop of an hour in the middle; returns its folder."""

    def make(name: str, offset: float = 0.0):
        made = Run.create(tmp_path, "swarm/hover", {}, tmp_path / name)
        for step in range(10):
            made.log(100 * step, {"success": min(0.1 * step + offset, 1.0), **({"loss": 1.0} if step % 2 else {})})
        made.close()
        path = made.path / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for number, line in enumerate(lines):
            line["time"] = 1e9 + 60 * number + 3600 * (number >= 5)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return made.path

    return make


def test_binned_keeps_the_mean_and_the_end():
    points = [(float(x), float(x**2)) for x in range(17)]
    for count in (1, 4, 16, 17, 100):
        found = binned(points, count)
        assert len(found) <= count
        assert found[-1][0] == 16.0
    assert binned(points, 100) == points
    assert binned(points, 1) == [(16.0, sum(y for _, y in points) / 17)]
    assert binned([], 5) == []


def test_a_curve_has_what_was_measured_and_no_time_of_standing_still(run):
    records = Run.open(run("a")).metrics()
    assert [x for x, _ in curve(records, "success", Across.STEPS)] == [100.0 * step for step in range(10)]
    minutes = [x for x, _ in curve(records, "success", Across.MINUTES)]
    assert minutes == pytest.approx([0, 1, 2, 3, 4, 4, 5, 6, 7, 8])
    assert [x for x, _ in curve(records, "loss", Across.STEPS)] == [100.0, 300.0, 500.0, 700.0, 900.0]
    holed = [*records, {"step": 1000.0, "time": records[-1]["time"], "success": math.nan}]
    assert curve(holed, "success", Across.STEPS) == curve(records, "success", Across.STEPS)


def test_numbers_too_large_to_draw_are_no_points():
    records = [{"step": 0, "success": 0.5}, {"step": 1, "success": 1.7e308}, {"step": 10**299, "success": 0.5}]
    assert curve(records, "success", Across.STEPS) == [(0, 0.5)]


def test_measures_are_chosen_by_pattern_or_what_is_common():
    records = [[{"step": 0.0, "time": 0.0, "success": 1.0, "success/a": 1.0, "success/b": 0.0}], [{"loss": 1.0}]]
    assert chosen((), records) == ["success", "loss"]
    assert chosen(("success/*", "success"), records) == ["success/a", "success/b", "success"]
    with pytest.raises(EmbodiedError, match=r"no run has the measure 'sucess'; they have loss, success, success/a"):
        chosen(("sucess",), records)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_command_draws_runs_side_by_side(run, tmp_path, ending):
    pytest.importorskip("matplotlib")
    one, other, picture = run("one"), run("other", 0.3), tmp_path / f"curves.{ending}"
    assert main([str(one), str(other), "--across", "minutes", "--names", "first", "second", "--out", str(picture)]) == 0
    if ending == "svg":
        assert picture.read_text().startswith("<?xml")
        return
    drawn = cv2.imread(str(picture))
    assert drawn is not None
    colours = {tuple(colour) for colour in drawn.reshape(-1, 3).tolist()}
    assert {(0xDE, 0x6F, 0x2F), (0x2B, 0x48, 0xD9)} <= colours


def test_runs_in_folders_of_one_name_keep_apart():
    one, other = Path("runs/a/last"), Path("runs/b/last")
    assert called([one]) == ("last",)
    assert called([one, other]) == (str(one), str(other))


def test_messages(run, tmp_path):
    one, begun = str(run("one")), Run.create(tmp_path, "swarm/hover", {}, tmp_path / "begun")
    for arguments, message in (
        ([], "which runs"),
        ([str(begun.path)], "no measure in the metrics.jsonl of 1 runs"),
        ([one, "--names", "a", "b"], "2 names for 1 runs"),
        ([one, one, "--names", "a", "a"], "--names a a: expected another one for each run"),
        ([one, "--bins", "0"], "--bins 0: expected at least 1"),
        ([one, "--out", str(tmp_path / "no" / "where.png")], "cannot write the picture"),
        ([one, "--out", str(tmp_path / "x.txt")], "cannot write the picture"),
    ):
        with pytest.raises(EmbodiedError, match=message):
            inspect.unwrap(main)(arguments)
