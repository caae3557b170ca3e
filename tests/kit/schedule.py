"""Which tests run, in which order and where: units of a file each, dearest first, in shards of equal cost.

A unit stays on one worker, since its tests share what they built. Where they share at most what is of one parameter
(`BY_PARAMETER`) a unit is the tests of one. What units cost is in `costs.json`, which `pytest --costs` updates.

    pytest --shard 2/6        only the second of six parts of equal cost
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

COSTS = Path(__file__).with_name("costs.json")
UNKNOWN = 5.0  # s of processor time of a unit that no full run has met
BY_PARAMETER = {
    "tests/tasks/test_contract.py": r"::test_it_holds\[(.*?): ",
    "tests/embodied/engines/test_warp_parity.py": r"\[(.*)\]",
    "tests/sim2real/graphs/test_control.py": r"\[(.*)\]",
    "tests/documents/test_snippets.py": r"::test_runs_as_it_stands\[(.*?):",
}
"""Files whose tests are grouped by a part of their names: one worker would take half an hour for all tasks or pages."""


def unit_of(nodeid: str) -> str:
    """The unit that a test belongs to: its file, or file and parameter."""
    file = nodeid.partition("::")[0]
    parameter = re.search(BY_PARAMETER[file], nodeid) if file in BY_PARAMETER else None
    return f"{file}[{parameter[1]}]" if parameter else file


def read_costs(marks: str = "not slow") -> Mapping[str, float]:
    """Unit -> s of processor time of the tests that an expression of marks, as of `-m`, asks for."""
    known: dict[str, dict[str, float]] = json.loads(COSTS.read_text(encoding="utf-8")) if COSTS.exists() else {}
    kinds = ["default"] if "not slow" in marks else ["slow"] if "slow" in marks else ["default", "slow"]
    costs: dict[str, float] = {}
    for kind in kinds:
        for unit, seconds in known.get(kind, {}).items():
            costs[unit] = costs.get(unit, 0.0) + seconds
    return costs


def write_costs(found: Mapping[str, Mapping[str, float]]) -> None:
    """Put what a run found in the place of what stands in the file, to a tenth of a second."""
    known = json.loads(COSTS.read_text(encoding="utf-8")) if COSTS.exists() else {}
    merged = {kind: {**known.get(kind, {}), **costs} for kind, costs in found.items()}
    rounded = {
        kind: {
            unit: round(seconds, 1) for unit, seconds in sorted(costs.items()) if Path(unit.partition("[")[0]).exists()
        }
        for kind, costs in merged.items()
    }
    COSTS.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


def dearest_first(units: Iterable[str], costs: Mapping[str, float]) -> list[str]:
    return sorted(dict.fromkeys(units), key=lambda unit: -costs.get(unit, UNKNOWN))


def shard(units: Iterable[str], costs: Mapping[str, float], number: int, count: int) -> set[str]:
    """The units of one of `count` parts, numbered from 1: each unit, dearest first, goes to the part that has least."""
    parts: list[set[str]] = [set() for _ in range(count)]
    sums = [0.0] * count
    for unit in dearest_first(units, costs):
        least = sums.index(min(sums))
        parts[least].add(unit)
        sums[least] += costs.get(unit, UNKNOWN)
    return parts[number - 1]


def parsed_shard(text: str) -> tuple[int, int]:
    """`2/6` as its two numbers."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--shard {text}: expected a part and how many there are, such as 2/6")
    return int(number), int(count)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("schedule").addoption("--shard", help="run one part of the tests, such as 2/6")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the units that marks and names have left, dearest first; keep one shard of them."""
    costs = read_costs(config.option.markexpr)
    units = {item.nodeid: unit_of(item.nodeid) for item in items}
    if config.option.shard:
        kept = shard(units.values(), costs, *parsed_shard(config.option.shard))
        config.hook.pytest_deselected(items=[item for item in items if units[item.nodeid] not in kept])
        items[:] = [item for item in items if units[item.nodeid] in kept]
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        place = {unit: number for number, unit in enumerate(dearest_first(units.values(), costs))}
        items.sort(key=lambda item: place[units[item.nodeid]])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class UnitScheduling(LoadScopeScheduling):
        """Units in the order of the collection, each on one worker."""

        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False
    return UnitScheduling(config, log)
