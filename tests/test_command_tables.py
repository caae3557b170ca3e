"""The tables of commands, at their widest: 80 columns on a terminal, on standard output, with whole names."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from embodied import cli
from embodied import list as listing
from embodied.check import __main__ as check
from embodied.check.contract import CHECKS, Result
from embodied.check.findings import Finding as CheckFinding
from embodied.doctor import __main__ as doctor
from embodied.env.registry import join_content
from embodied.evaluation import tables
from embodied.robot import Robot
from embodied.robot import __main__ as robot
from embodied.storage.paths import asset
from policies.vla import compare
from policies.vla.comparison.difference import BehaviourDifference, BehaviourSummary
from sim2real import excitation, preflight
from sim2real.checks.findings import Finding, Severity
from tests.kit.budget import sharing
from tests.kit.commands import on_terminal, plain
from tests.kit.import_graph import modules


def of_tasks() -> None:
    cli.show(listing.task_table([listing.outline(name) for name in join_content()]))


def of_a_suite() -> None:
    rates = {f"{name}{end}": 1.0 for name in ("success", "success_any") for end in ("", "_low", "_high")}
    row = {"held_out": False, **rates, "return": -12345.6, "episodes": 50, "seconds": 1.0}
    tasks = join_content().suites["mt50"].tasks
    cli.show(tables.suite_table("mt50", [row | {"task": task} for task in tasks]))


def of_an_evaluation() -> None:
    interval = {
        f"{name}{end}": 0.512345 for name in ("success", "success_any", "return") for end in ("", "_low", "_high")
    }
    speed = {"length": 1000.0, "env_steps_per_second": 1e6, "seconds": 123.4, "height_above_the_ground": 0.123}
    cli.show(
        cli.table(
            "a task on an engine, policy runs/a/long/path", tables.evaluation_rows(interval | speed, {"speed": "m/s"})
        )
    )


def of_joints() -> None:
    cli.show(robot.joint_table(Robot.load(asset("robots/g1/g1.xml"))))


def of_a_check() -> None:
    finding = CheckFinding("weight of 'near'", "no reward term has its name", "one", "rewards (task.py, line 40)")
    check.report("my_task.py:Reach", "mujoco", [Result(one, (finding,), seconds=12.3) for one in CHECKS])


def of_a_machine() -> None:
    doctor.look_at_machine()


def of_behaviours() -> None:
    summary = BehaviourSummary(1.0, 0.9, 1.0, 499.0, 1.0, 1.0)
    row = BehaviourDifference(
        "manipulation/button-press-topdown-wall", summary, summary, 0.123, 0.123, 0.5, 0.5, 9.9, 1.0
    )
    cli.show(compare.table([row]))


def of_findings() -> None:
    log = SimpleNamespace(span=(0.0, 60.0), channels={f"joint_{i}": SimpleNamespace(rate=500.0) for i in range(9)})
    words = "as large as 12.3 rad/s between 10.2 and 14.8 s, in 3 of 12 columns"
    rows = tuple(Finding(one, "joint order", "joint_pos.FR_thigh_joint", words, words, words) for one in Severity)
    cli.show(preflight.table(cast("Any", log), rows))


@functools.cache
def motions() -> excitation.Excitation:
    with sharing("an excitation"):
        return excitation.excite(excitation.Settings(robot="go1", seconds=8.0, out=Path("excitation.mcap")))


def of_motions() -> None:
    cli.show(excitation.table(motions()))


def test_notes_that_are_always_the_same_fit_80_columns() -> None:
    """Others name paths and commands, which stay whole, to be pasted."""
    said = re.compile(r'cli\.(?:say|show)\(\s*"((?:[^"\\]|\\.)*)"\s*\)')
    texts = [text for path in modules().values() for text in said.findall(path.read_text(encoding="utf-8"))]
    assert texts
    assert [text for text in texts if len(text) > 80] == []


@pytest.mark.parametrize(
    "shown",
    [
        of_tasks,
        of_a_suite,
        of_an_evaluation,
        of_joints,
        of_a_check,
        of_a_machine,
        of_behaviours,
        of_findings,
        of_motions,
    ],
)
def test_a_table_fits(
    shown: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown()
    piped = capsys.readouterr()
    assert piped.out
    assert not set("│┃╭─━\x1b…") & set(piped.out)
    on_terminal(monkeypatch)
    shown()
    drawn = plain(capsys.readouterr().out)
    lines = [line for line in drawn.splitlines() if "look at" not in line]  # findings are sentences, which are not cut
    assert max(map(len, lines)) <= 80
    names = [row.partition("\t")[0] for row in piped.out.splitlines() if "\t" in row]
    headings = {"finding"}  # of a table that becomes paragraphs
    assert [name for name in names if name not in " ".join(drawn.split()) and name not in headings] == []
