"""What the tests stand on: processor time is counted where it belongs, shards are fair, a change reaches its tests."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit import budget
from tests.kit.budget import LIMIT, NOISE, PROPERTY, SHARED, Budget, Meter, processor_seconds
from tests.kit.changed import Changed, pytest_configure, select
from tests.kit.import_graph import ROOT
from tests.kit.schedule import dearest_first, parsed_shard, shard, unit_of


def work(seconds: float) -> None:
    """Keep the processor busy."""
    begun = processor_seconds()
    while processor_seconds() - begun < seconds:
        pass


def measured(run: Any) -> tuple[float, dict[str, float]]:
    item: Any = SimpleNamespace(user_properties=[])
    meter = Meter()
    with meter.testing(item):
        run(meter)
    own = sum(value for key, value in item.user_properties if key == PROPERTY)
    return own, dict(value for key, value in item.user_properties if key == SHARED)


def test_what_is_shared_is_counted_apart_and_waiting_not_at_all() -> None:
    def run(meter: Meter) -> None:
        work(0.02)
        with meter.sharing("outer"):
            work(0.02)
            with meter.sharing("inner"):
                work(0.04)
        time.sleep(0.2)

    own, shared = measured(run)
    assert own == pytest.approx(0.02, abs=0.015)
    assert shared == {"outer": pytest.approx(0.02, abs=0.015), "inner": pytest.approx(0.04, abs=0.015)}


def budget_of(hold: bool, **seconds: float) -> Budget:
    """A budget to which so many tests have reported, `slow_...` among them."""
    options: dict[str, Any] = {"costs": False, "hold_budget": hold}
    config: Any = SimpleNamespace(getoption=options.get)
    found = Budget(config)
    for name, spent in seconds.items():
        keywords = {"slow": 1} if name.startswith("slow") else {}
        report: Any = SimpleNamespace(
            when="teardown", nodeid=f"tests/test_a.py::{name}", keywords=keywords, user_properties=[(PROPERTY, spent)]
        )
        found.pytest_runtest_logreport(report)
    return found


def ended(budget: Budget) -> int:
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    budget.pytest_sessionfinish(session)
    return session.exitstatus


def test_tests_over_their_limit_are_named_and_fail_where_the_budget_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(budget.AGAIN, "1")
    little, much = LIMIT * 1.1, LIMIT * NOISE * 1.1
    found = budget_of(True, quick=0.1, a_little=little, slow_one=much)
    assert found.over() == [(little, "tests/test_a.py::a_little")]
    assert ended(found) == pytest.ExitCode.OK, "a busy neighbour fails nothing"
    assert ended(budget_of(True, much=much)) == pytest.ExitCode.TESTS_FAILED
    assert ended(budget_of(False, much=much)) == pytest.ExitCode.OK
    assert ended(budget_of(True, slow_much=100.0)) == pytest.ExitCode.TESTS_FAILED


def test_what_is_over_its_limit_runs_again_by_itself_before_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.delenv(budget.AGAIN, raising=False)
    for code, expected in ((1, pytest.ExitCode.TESTS_FAILED), (0, pytest.ExitCode.OK)):

        def run(command: list[str], code: int = code, **_: Any) -> Any:
            commands.append(command)
            return SimpleNamespace(returncode=code)

        monkeypatch.setattr(budget.subprocess, "run", run)
        assert ended(budget_of(True, much=LIMIT * NOISE * 1.1, quick=0.1)) == expected
    assert [command[-2:] for command in commands] == 2 * [["--hold-budget", "tests/test_a.py"]]


def test_units_are_files_and_tasks_of_the_contract() -> None:
    assert unit_of("tests/test_a.py::test_b[swarm/hover: c]") == "tests/test_a.py"
    contract = "tests/tasks/test_contract.py"
    assert unit_of(f"{contract}::test_it_holds[swarm/hover: a seed decides everything]") == f"{contract}[swarm/hover]"
    assert unit_of(f"{contract}::test_spread[rigid]") == contract
    pages = "tests/documents/test_snippets.py"
    assert unit_of(f"{pages}::test_runs_as_it_stands[docs/a.md:12]") == f"{pages}[docs/a.md]"
    parity = "tests/embodied/engines/test_warp_parity.py"
    assert unit_of(f"{parity}::test_the_first_step[swarm/hover]") == f"{parity}[swarm/hover]"


def test_shards_are_all_units_once_and_equally_dear() -> None:
    costs = {f"unit{number}": float(number) for number in range(100)}
    units = [*costs, "unknown"]
    parts = [shard(units, costs, number, 7) for number in range(1, 8)]
    assert sorted(unit for part in parts for unit in part) == sorted(units)
    sums = [sum(costs.get(unit, 0.0) for unit in part) for part in parts]
    assert max(sums) - min(sums) < 10
    assert dearest_first(units, costs)[:2] == ["unit99", "unit98"]


@pytest.mark.parametrize("given", ["3", "0/2", "3/2", "a/b"])
def test_a_shard_that_does_not_exist_is_refused(given: str) -> None:
    with pytest.raises(pytest.UsageError, match=rf"--shard {given}: expected a part and how many there are"):
        parsed_shard(given)


def units_for(*names: str, limit: float = 1e9) -> tuple[str, ...]:
    return select([ROOT / name for name in names], limit).units


def test_a_change_reaches_the_tests_that_know_it() -> None:
    assert "tests/policies/off_policy/test_sac.py" in units_for("policies/off_policy/sac.py")
    assert "tests/policies/ppo/test_gae.py" not in units_for("policies/off_policy/sac.py")
    own = units_for("tasks/swarm/multi/coverage.py")
    assert own[0] == "tests/tasks/test_contract.py[swarm/coverage]"
    assert len(own) < 20
    assert units_for("tests/policies/ppo/test_gae.py") == ("tests/policies/ppo/test_gae.py",)
    assert "tests/documents/test_links.py" in units_for("docs/design.md")


def test_of_a_change_that_everything_knows_the_nearest_run() -> None:
    files = [ROOT / "embodied/core/episode.py"]
    few, all_of_them = select(files, 60.0), select(files, 1e9)
    assert few.seconds <= 60.0
    assert few.units == all_of_them.units[: len(few.units)]
    assert set(few.units + few.left_out) == set(all_of_them.units)
    assert "tests/embodied/core/test_episode.py" in few.units


def test_workers_run_what_the_selection_of_their_controller_says() -> None:
    chosen = Changed(select([ROOT / "embodied/math/rotations.py"], 100.0)).selection
    node: Any = SimpleNamespace(workerinput={})
    Changed(chosen).pytest_configure_node(node)
    registered: list[Changed] = []
    manager = SimpleNamespace(register=lambda plugin, _: registered.append(plugin))
    worker: Any = SimpleNamespace(
        option=SimpleNamespace(changed="HEAD"), workerinput=node.workerinput, pluginmanager=manager
    )
    pytest_configure(worker)
    assert registered[0].selection == chosen
