"""Only the tests that a change reaches, nearest first, up to a limit: `make test-changed`.

    pytest -n 2 --changed                what is not committed yet
    pytest -n 2 --changed main~3         what came since a commit
    pytest --changed --changed-seconds 60

A test reaches what its file imports, by way of others too, and the tasks and modules that its strings name
(`import_graph.py`). Of the contract of tasks, those tasks are asked whose class reaches the change; a task whose own
file changed, whether or not it is asked by default. A change near the root reaches all tests: then those farther away
are left out, and said to be.
"""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kit.import_graph import ROOT, reach
from tests.kit.schedule import UNKNOWN, read_costs, unit_of

SECONDS = 400.0  # s of processor time: four minutes on two cores, without the collection
DOCUMENTS, ASSETS = "tests/documents", "tests/assets"
CONTRACT = "tests/tasks/test_contract.py"
LONGEST = "other engines step too"  # of the contract's checks: minutes
KEY = "changed"


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which units of tests run."""

    units: tuple[str, ...]
    """Files, and tasks of the contract."""
    left_out: tuple[str, ...]
    """Those that reach the change and are too far away for the limit."""
    seconds: float
    """s of processor time that the units take, by `costs.json`."""
    own: tuple[str, ...] = ()
    """Those of tasks whose own file changed: also their slow tests run, but for other engines."""


def changed_files(base: str) -> list[Path]:
    """Files that differ from a commit, and those that git does not know yet.

    Raises:
        pytest.UsageError: git does not know the commit.
    """
    commands = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    names: list[str] = []
    for command in commands:
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise pytest.UsageError(f"--changed {base}: {done.stderr.strip().splitlines()[0]}")
        names += done.stdout.splitlines()
    return [ROOT / name for name in names]


def select(files: Sequence[Path], limit: float) -> Selection:
    """The units that reach changed files, nearest first, while they fit into `limit` s."""
    found, costs = reach(files), read_costs()
    near = {file: distance for distance, file in found.tests()}
    near.pop(CONTRACT, None)
    tasks = {f"{CONTRACT}[{name}]": distance for name, distance in found.tasks().items()}
    own = sorted(unit for unit, distance in tasks.items() if not distance)
    ordered = own + [file for file, _ in sorted(near.items(), key=lambda item: (item[1], costs.get(item[0], UNKNOWN)))]
    ordered += sorted(unit for unit in tasks if unit in costs and unit not in own)
    tops = {path.relative_to(ROOT).parts[0] for path in files}
    beside = [(DOCUMENTS, any(path.suffix == ".md" for path in files)), (ASSETS, "assets" in tops)]
    for folder, touched in beside:
        tests = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("test_*.py"))
        ordered = ([test for test in tests if test not in ordered] if touched else []) + ordered
    kept: list[str] = []
    total = 0.0
    for unit in ordered:
        if kept and total + costs.get(unit, UNKNOWN) > limit:
            break
        kept.append(unit)
        total += costs.get(unit, UNKNOWN)
    return Selection(tuple(kept), tuple(ordered[len(kept) :]), total, tuple(own))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("changed")
    group.addoption("--changed", nargs="?", const="HEAD", metavar="COMMIT", help="only tests that reach what changed")
    group.addoption(
        "--changed-seconds", type=float, default=SECONDS, help="s of processor time of those, nearest first"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.changed is None:
        return
    given = getattr(config, "workerinput", {}).get(KEY)
    selection = (
        Selection(**given) if given else select(changed_files(config.option.changed), config.option.changed_seconds)
    )
    config.pluginmanager.register(Changed(selection), "changed")


class Changed:
    """Keeps the units of a selection."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.files = {unit.partition("[")[0] for unit in selection.units}

    def pytest_report_header(self) -> list[str]:
        chosen = self.selection
        lines = [f"changed: {len(chosen.units)} test files reach it, some {chosen.seconds:.0f} s of processor time"]
        if chosen.left_out:
            lines.append(f"changed: {len(chosen.left_out)} files farther away are left out; `make test` runs them")
        return lines

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Files that no unit is of are not even imported."""
        if not collection_path.name.startswith("test_") or collection_path.is_dir():
            return None
        return None if collection_path.relative_to(ROOT).as_posix() in self.files else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = set(self.selection.units)
        for item in items:
            if unit_of(item.nodeid) in self.selection.own and LONGEST not in item.nodeid:
                item.own_markers = [mark for mark in item.own_markers if mark.name != "slow"]
        config.hook.pytest_deselected(items=[item for item in items if unit_of(item.nodeid) not in kept])
        items[:] = [item for item in items if unit_of(item.nodeid) in kept]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A change that reaches no test has passed."""
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self.selection.units:
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[KEY] = dataclasses.asdict(self.selection)
