"""Measured faults of deployments, and what docs/sim2real.md says of them; kinds of faults and their tests."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from sim2real.deployment.safety import CHECKS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "sim2real.md"
ROBOTS = {"Go1": "locomotion/go1-joystick-flat", "Crazyflie": "swarm/hover", "Panda": "manipulation/reach"}
NO_STEP = {"none", "limits", "rate", "gate", "action", "target", "finite action", "finite target", "finite observation"}
"""What may latch, or not, beside the checks of measurements."""


@functools.cache
def result(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "results" / "sim2real" / f"{name}.json").read_text(encoding="utf-8"))


def rows(robot: str) -> dict[str, dict[str, Any]]:
    """Fault -> its outcome on a robot that has the part."""
    every = ((*name.partition(", "), row) for name, row in result("faults")["results"].items())
    return {fault: row for task, _, fault, row in every if task == ROBOTS[robot]}


def documented() -> dict[str, set[str]]:
    """Fault -> robots on which the page says that nothing latches it."""
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| unseen fault |") :].split("\n\n")[0]
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)[1:]
    return {fault: set(robots.split(", ")) for fault, robots in found}


@pytest.mark.parametrize("robot", ROBOTS)
def test_no_fault_sends_an_unsafe_target_and_five_runs_of_each_are_measured(robot: str) -> None:
    outcomes = rows(robot)
    assert len(outcomes) > 30
    for name, row in outcomes.items():
        assert row["unsafe_targets"] == 0, name
        assert sum(row["latched_by"].values()) == 5, name
        assert set(row["latched_by"]) <= {*CHECKS, *NO_STEP}, name


def test_a_fault_that_not_every_run_latches_is_documented_as_unseen() -> None:
    unseen: dict[str, set[str]] = {}
    for robot in ROBOTS:
        for name, row in rows(robot).items():
            if "none" in row["latched_by"]:
                unseen.setdefault(name, set()).add(robot)
    assert documented() == unseen


def test_nothing_latches_without_a_fault_in_twenty_five_minutes_of_each_robot() -> None:
    found = result("false-alarms")
    assert found["alarms"] == 0
    minutes: dict[str, float] = {}
    for name, row in found["results"].items():
        task = name.partition(", ")[0]
        minutes[task] = minutes.get(task, 0.0) + row["minutes"]
    assert len(minutes) == 4
    assert min(minutes.values()) >= 25


def test_a_fall_that_nothing_latches_is_of_an_unseen_fault() -> None:
    falls = {name for robot in ROBOTS for name, row in rows(robot).items() if row["unlatched_falls"]}
    assert falls <= documented().keys()


def test_at_least_sixty_three_kinds_are_measured() -> None:
    assert len({name for robot in ROBOTS for name in rows(robot)}) >= 63


def test_every_kind_of_fault_has_a_test_of_its_kind() -> None:
    table = ROOT / "benchmarks" / "results" / "package" / "kinds-of-faults.json"
    for row in json.loads(table.read_text(encoding="utf-8"))["rows"]:
        assert row["tests"], row["kind"]
        for test in row["tests"]:
            file, name = test.split("::")
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{row['kind']}: {test}"
