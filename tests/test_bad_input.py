"""Bad command lines and damaged files, generated: the program says in a line what is wrong, or works; it never hangs.

`python -m benchmarks.bad_input` runs more of them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from benchmarks import bad_input
from embodied.storage.files import read_file, require_regular
from embodied.storage.metrics import Metrics

pytestmark = pytest.mark.timeout(280)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    bad_input.make_good(folder)
    return folder


def test_nothing_generated_breaks_the_program(good: Path) -> None:
    rows = bad_input.run(150, 77_000, good)
    assert len(rows) == 150
    assert not [row for row in rows if bad_input.is_fault(row)]
    assert {row["kind"] for row in rows} == {*bad_input.COMMAND_KINDS, *bad_input.FILES}


def test_a_fault_is_seen(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself: an exception, and a new file behind an error, count as faults."""

    def broken(path: Path) -> None:
        raise KeyError("embodied")

    monkeypatch.setitem(bad_input.FILES, "csv log", ("log.csv", broken))
    assert bad_input.is_fault(bad_input.attempt(bad_input.Case("csv log", 1), good, tmp_path))
    monkeypatch.setitem(bad_input.FILES, "csv log", ("log.csv", lambda path: None))
    (scratch := tmp_path / "other").mkdir()
    assert not bad_input.is_fault(bad_input.attempt(bad_input.Case("csv log", 1), good, scratch))


def test_damage_is_the_same_for_the_same_seed(good: Path, tmp_path: Path) -> None:
    texts = []
    for name in ("a.csv", "b.csv"):
        path = tmp_path / name
        path.write_bytes((good / "log.csv").read_bytes())
        bad_input.edit_csv(path, random.Random(3))
        texts.append(path.read_text())
    assert texts[0] == texts[1] != (good / "log.csv").read_text()


@pytest.mark.parametrize("read", [read_file, require_regular], ids=lambda read: read.__name__)
def test_a_pipe_is_not_waited_for(read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        read(tmp_path / "pipe")


def test_strange_lines_of_metrics_are_passed_over(tmp_path: Path) -> None:
    lines = ['{"step": 1, "return": 2.0, "note": {"a": 1}}', "[" * 100_000, '{"step": 2, "return": null}', "{"]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    records = [record for _, record in Metrics(tmp_path).records()]
    assert records == [{"step": 1, "return": 2.0}, {"step": 2, "return": None}]


def test_negative_counts_are_refused_before_a_run_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from embodied import train

    with pytest.raises(SystemExit):
        train.main(["swarm/hover", "--evaluate-episodes=-1", "--out", str(tmp_path / "run")])
    assert "evaluate-episodes -1" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_path_that_cannot_exist_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    from embodied import curves

    with pytest.raises(SystemExit) as stop:
        curves.main(["x" * 5000, "--out=c.png"])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: File name too long: xxx")
    assert len(line) < 120
