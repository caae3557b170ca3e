"""Bad command lines and damaged files, generated: the program says in a line what is wrong, or works; it never hangs.

`python -m benchmarks.bad_input` runs more of them.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import bad_input
from embodied.storage import checkpoints
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import DatasetInfo
from embodied.storage.datasets.writer import DatasetWriter
from embodied.storage.files import read_file, require_regular
from embodied.storage.metrics import Metrics
from embodied.storage.runs import Run
from policies.data import demonstrations
from policies.data.replay_buffer import Transitions
from policies.training.loading import shipped_path
from sim2real import export

pytestmark = pytest.mark.timeout(280)


COMMAND, VALUE = bad_input.COMMAND_KINDS
run_process = subprocess.run
QUICK = ("embodied.list", "embodied.curves", "embodied.ship", "sim2real.bundles.bundle", "sim2real.preflight")
"""Commands that work for a moment only where a value of theirs is bad and they go on all the same."""


def fabricate(words: list[str], **options: Any) -> Any:
    """Stands for the processes that make good files: the same kinds of files, of what is at hand."""
    if words[0] != sys.executable:
        return run_process(words, **options)
    module, task = words[2:4]
    out = Path(words[words.index("--out") + 1])
    shipped = checkpoints.load(shipped_path("swarm/hover"))
    if module == "embodied.train":
        with Run.create(out.parent, task, {"engine": "rigid"}, out) as made:
            made.log(10, {"return": 1.0})
            made.save(10, shipped.tensors, shipped.meta)
    elif module == "sim2real.export":
        assert export.main([task, "--out", str(out)]) == 0
    elif module == "policies.demonstrations":
        env = bad_input.hover()
        obs = {group: torch.zeros(4, 1, *spec.shape) for group, spec in env.observation_spec.items()}
        ends, never = torch.tensor([[False], [True]] * 2), torch.zeros(4, 1, dtype=torch.bool)
        after = {group: values.clone() for group, values in obs.items()}
        steps = Transitions(obs, torch.zeros(4, 1, env.action_size), torch.zeros(4, 1), never, ends, after)
        demonstrations.save(out, steps, torch.zeros(4, dtype=torch.uint8))
    else:
        info = DatasetInfo(10, ("view",), (16, 16), ("x",), ("push",))
        frames = np.zeros((5, 16, 16, 3), np.uint8)
        numbers = np.zeros((5, 1), np.float32)
        with DatasetWriter(out, info) as writer:
            writer.add(Episode(task, "go", {"view": frames}, numbers, numbers, True, 0, {}), noise=0.0)
    return SimpleNamespace(returncode=0)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bad_input.subprocess, "run", fabricate)
        bad_input.make_good(folder)
    return folder


def test_good_files_are_read(good: Path) -> None:
    for name, read in bad_input.FILES.values():
        if name != "demos.safetensors" or read is bad_input.read_demonstrations:
            read(good / name)


@pytest.fixture
def ends(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Iterable[int]], set[str]]:
    """How cases of a kind end in this process, each in a folder of its own; none is a fault."""

    def run(kind: str, seeds: Iterable[int]) -> set[str]:
        rows = []
        for seed in seeds:
            (folder := tmp_path / str(seed)).mkdir()
            monkeypatch.chdir(folder)
            monkeypatch.setattr(sys, "argv", [*sys.argv])
            rows.append(bad_input.attempt(bad_input.Case(kind, seed), good, folder))
        assert not [row for row in rows if bad_input.is_fault(row)]
        return {row["ended"] for row in rows}

    return run


@pytest.mark.parametrize("kind", bad_input.FILES)
def test_a_damaged_file_does_not_break_the_program(kind: str, ends) -> None:
    assert "refused" in ends(kind, range(77_000, 77_030)) or "log" in kind


def test_a_bad_command_line_does_not_break_the_program(ends) -> None:
    assert ends(COMMAND, range(77_000, 77_060)) == {"exit 2"}


def test_a_bad_value_does_not_break_the_program(good: Path, ends) -> None:
    seeds = [seed for seed in range(77_000, 77_060) if bad_input.bad_value(random.Random(seed), good)[0] in QUICK]
    assert ends(VALUE, seeds[:10])


@pytest.mark.slow
def test_nothing_generated_breaks_the_program(tmp_path: Path) -> None:
    bad_input.make_good(tmp_path)
    rows = bad_input.run(150, 77_000, tmp_path)
    assert len(rows) == 150
    assert not [row for row in rows if bad_input.is_fault(row)]
    assert {row["kind"] for row in rows} == {*bad_input.COMMAND_KINDS, *bad_input.FILES}


def test_workers_are_given_every_case_and_one_that_dies_is_a_fault(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a worker that stands for the real one: it answers one case, and then dies of the next."""

    class Worker:
        stdin, returncode = io.StringIO(), -9

        def __init__(self, words: list[str], **_: Any) -> None:
            self.stdin = self
            self.out = Path(words[-1])

        def write(self, text: str) -> None:
            cases = json.loads(text)
            if cases[0]["seed"] != 1:
                self.out.write_text(json.dumps({**cases[0], "ended": "exit 2"}) + "\n")

        def close(self) -> None: ...

        def poll(self) -> int:
            return -9

        kill = wait = close

    monkeypatch.setattr(bad_input.subprocess, "Popen", Worker)
    rows = bad_input.run(4, 0, good)
    assert [row["seed"] for row in rows] == [0, 1, 2, 3]
    assert {"kind", "seed", "exception"} == rows[1].keys()


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
