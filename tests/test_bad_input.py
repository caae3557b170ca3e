"""Malformed and unusual input, generated: the program says in a line what is wrong, or works; it never hangs.

`python -m benchmarks.bad_input` runs more of them.
"""

from __future__ import annotations

import dataclasses
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bad_input import __main__ as command
from benchmarks.bad_input import examples, mutate, workers
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import FAULTS, Attempt, Case, Make, Must, Row, Said, Verdict, judged
from benchmarks.bad_input.domains import DOMAINS
from embodied.core.task_file import import_file
from embodied.errors import EmbodiedError
from embodied.robot import Robot
from embodied.storage import checkpoints
from embodied.storage.datasets.reader import open_dataset
from embodied.storage.files import read_file, require_regular
from embodied.storage.metrics import Metrics
from embodied.storage.runs import Run
from policies.training.loading import require_policy

pytestmark = pytest.mark.timeout(280)

SEED, EACH = 77, 7
LIGHT = {"environment": (2, ("arguments",))}
"""Domains of which each case is a process of its own -> fewer cases, and kinds whose commands need no JAX."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good").resolve()
    examples.make(folder)
    examples.env()
    return folder


@pytest.fixture
def verdict(tmp_path: Path) -> Callable[[Make], Row]:
    """Of one case that needs no examples."""

    def of(make: Make) -> Row:
        return judged(Case("none", "none", "0"), make, Box(tmp_path.resolve() / "box", tmp_path))

    return of


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_sample_of_each_domain_is_refused_in_a_line_or_works(domain: str, good: Path, tmp_path: Path) -> None:
    count, kinds = LIGHT.get(domain, (EACH, ()))
    cases = command.cases_of(count, SEED, [domain], kinds)
    boxes = [Box(tmp_path.resolve() / str(number), good) for number in range(len(cases))]
    rows = [judged(case, DOMAINS[domain][case.kind], box) for case, box in zip(cases, boxes, strict=True)]
    assert not [row for row in rows if row.verdict in FAULTS]


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_nothing_generated_breaks_the_program(domain: str, good: Path) -> None:
    cases = command.cases_of(25, SEED, [domain])
    rows = workers.run(cases, good, 1, lambda row: None)
    assert {row.seed for row in rows} == {case.seed for case in cases}
    assert not [row for row in rows if row.verdict in FAULTS]


def test_cases_are_shared_by_domains_and_kinds_and_follow_from_the_seed() -> None:
    cases = command.cases_of(1500, 1)
    assert len(set(cases)) == 1500
    assert {case.domain for case in cases} == DOMAINS.keys()
    assert {(case.domain, case.kind) for case in cases} == {(d, k) for d, kinds in DOMAINS.items() for k in kinds}
    assert command.cases_of(1500, 1) == cases
    assert not set(command.cases_of(1500, 2)) & set(cases)


def test_an_input_is_the_same_for_the_same_seed(good: Path, tmp_path: Path) -> None:
    texts = []
    for place in ("a", "b", "c"):
        box = Box(tmp_path.resolve() / place, good)
        with box.entered():
            seed = "2" if place == "c" else "1"
            made = DOMAINS["logs"]["other cells"](Case("logs", "other cells", seed).rng, box)
            texts.append((box.work / "log.csv").read_text())
            assert made.must is Must.EITHER
    assert texts[0] == texts[1] != texts[2]


def raising(error: BaseException) -> Make:
    def act() -> None:
        raise error

    return lambda rng, box: Attempt("", act)


def result(value: Any, must: Must = Must.EITHER, **options: Any) -> Make:
    return lambda rng, box: Attempt("", lambda: value, must, **options)


def writing(name: str) -> Make:
    return lambda rng, box: Attempt("", lambda: (box.root / name).write_text("mine"))


VERDICTS: dict[str, tuple[Make, Verdict]] = {
    "an error of ours": (raising(EmbodiedError("no")), Verdict.REFUSED),
    "an error of several lines": (
        lambda rng, box: Attempt("", raising(ValueError("no\nno"))(rng, box).act, allowed=(ValueError,)),
        Verdict.TRACEBACK,
    ),
    "another error": (raising(KeyError("x")), Verdict.TRACEBACK),
    "the end of the process": (raising(SystemExit(3)), Verdict.TRACEBACK),
    "a result": (result(1), Verdict.ACCEPTED),
    "a result of what has to be refused": (result(1, Must.REFUSE), Verdict.WRONG),
    "a refusal of what is valid": (lambda rng, box: Attempt("", raising(EmbodiedError("no"))(rng, box).act,
    Must.WORK), Verdict.WRONG),
    "another result than the valid one's": (result(1, wrong=lambda found: "2"), Verdict.WRONG),
    "a documented error": (lambda rng, box: Attempt("", raising(KeyError("x"))(rng, box).act, allowed=(KeyError,)),
    Verdict.REFUSED),
    "a command that refuses": (result(Said(2, "", "note\nerror: no\n"), Must.REFUSE), Verdict.REFUSED),
    "a command that says no error": (result(Said(2, "", "usage\n")), Verdict.TRACEBACK),
    "a command with a traceback": (result(Said(1, "", "Traceback (most recent call last):\n")), Verdict.TRACEBACK),
    "a command that died": (result(Said(-11, "", "")), Verdict.TRACEBACK),
    "a file in the working folder": (writing("work/x"), Verdict.OUTSIDE),
    "a file at home": (writing("home/.x"), Verdict.OUTSIDE),
    "a temporary file that stays": (writing("tmp/x"), Verdict.OUTSIDE),
    "another's file that is changed": (writing("precious/thesis.txt"), Verdict.OUTSIDE),
    "a file where results belong": (writing("work/out/x"), Verdict.ACCEPTED),
    "a generator that fails": (lambda rng, box: Attempt(str(1 / 0), lambda: None), Verdict.TRACEBACK),
}  # fmt: skip


@pytest.mark.parametrize("what", VERDICTS)
def test_verdicts(what: str, verdict: Callable[[Make], Row]) -> None:
    make, expected = VERDICTS[what]
    assert verdict(make).verdict is expected


def test_what_does_not_end_is_a_hang(verdict: Callable[[Make], Row], monkeypatch: pytest.MonkeyPatch) -> None:
    def wait() -> None:
        while True:
            pass

    monkeypatch.setattr("benchmarks.bad_input.case.LIMIT", 0.02)
    assert verdict(lambda rng, box: Attempt("", wait)).verdict is Verdict.HANG


WORKER = """
import json, sys, time
for line in sys.stdin:
    case = json.loads(line)
    if case["seed"] == "dies":
        sys.exit(3)
    if case["seed"] == "hangs":
        time.sleep(60)
    print(json.dumps({**case, "what": "", "verdict": "refused", "detail": "", "seconds": 0.0,
        "processor_seconds": 0.0}), flush=True)
"""


def test_a_worker_that_dies_or_hangs_is_a_fault_of_its_case_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = workers.Worker.__init__
    monkeypatch.setattr(workers.Worker, "__init__", lambda self, words: start(self, [sys.executable, "-c", WORKER]))
    monkeypatch.setattr(workers, "PATIENCE", 0.02)
    cases = [Case("runs", "no run", seed) for seed in ("a", "dies", "b", "hangs", "c")]
    rows = workers.run(cases, tmp_path, 1, lambda row: None)
    assert [row.seed for row in rows] == [case.seed for case in cases]
    assert [row.verdict for row in rows] == ["refused", "traceback", "refused", "hang", "refused"]


def test_a_report_counts_every_verdict() -> None:
    rows = [Row("runs", "no run", str(i), "", verdict, "", 0.5, 0.4) for i, verdict in enumerate(Verdict)]
    found = command.result(rows, 1, 2.0)
    assert found["verdicts"] == {"runs": dict.fromkeys(map(str, Verdict), 1)}
    assert found["faults"] == [dataclasses.asdict(row) for row in rows if row.verdict in FAULTS]
    assert found["traceback_cases"] == found["hang_cases"] == found["wrong_cases"] == found["outside_cases"] == 1


def test_a_tree_that_is_edited_differs_and_the_original_stays() -> None:
    tree = {"a": [1, 2.0, {"b": "x"}], "c": None}
    for seed in range(200):
        edited, how = mutate.edited(tree, random.Random(seed))
        assert repr(edited) != repr(tree), how
    assert tree == {"a": [1, 2.0, {"b": "x"}], "c": None}


@pytest.mark.parametrize("read", [read_file, require_regular], ids=lambda read: read.__name__)
def test_a_pipe_is_not_waited_for(read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        read(tmp_path / "pipe")


def test_strange_lines_of_metrics_are_passed_over(tmp_path: Path) -> None:
    lines = ['{"step": 1, "return": 2.0, "note": {"a": 1}}', "[" * 100_000, '{"step": 2, "return": null}', "{"]
    lines += ['{"step": true, "time": 5}', f'{{"step": {10**400}}}', f'{{"step": 3, "time": {10**400}}}']
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    records = [record for _, record in Metrics(tmp_path).records()]
    assert records == [{"step": 1, "return": 2.0}, {"step": 2, "return": None}, {"step": 3}]


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


TOO_LONG = "x" * 5000
CALLS: dict[str, Callable[[], Any]] = {
    "a run": lambda: Run.open(Path(TOO_LONG)),
    "a checkpoint": lambda: checkpoints.load(Path(TOO_LONG)),
    "a policy": lambda: require_policy(TOO_LONG, examples.TASK),
    "a robot": lambda: Robot.load(f"{TOO_LONG}.xml"),
    "a task's file": lambda: import_file(Path(f"{TOO_LONG}.py")),
    "a dataset": lambda: open_dataset(TOO_LONG),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_path_that_cannot_exist_is_an_error_of_ours_from_the_interface(what: str) -> None:
    with pytest.raises(EmbodiedError):
        CALLS[what]()
