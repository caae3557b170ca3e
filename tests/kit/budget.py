"""Processor time of every test: measured, held to a limit, printed as a sum.

A default test has 2 s and a slow one 60 s, child processes included; waiting and other processes cost nothing. What
fixtures of a module or a session and worlds of `tests/kit` cost is counted apart: it does not depend on the tests that
use them, only on which comes first.

    pytest --costs            write the seconds of every unit to `costs.json`, for `schedule.py`
    pytest --hold-budget      fail where a test is over its limit by half, also when its file runs again by itself
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.kit.schedule import COSTS, unit_of, write_costs

LIMIT, SLOW_LIMIT = 2.0, 60.0  # s of processor time, a test
NOISE = 1.5  # times its limit that a test may take before the run fails: a busy neighbour on its core costs that
MOST_NAMED = 20
AGAIN = "EMBODIED_BUDGET_AGAIN"  # environment variable of a run that decides
PROPERTY, SHARED = "processor seconds", "shared processor seconds"


def processor_seconds() -> float:
    """Processor time of this process and of the children that it has waited for, s."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def is_over_again(tests: Iterable[str], marks: str) -> bool:
    """Whether one of them is over its limit also when their files run alone, cold: other processes slow a test down."""
    files = sorted({test.partition("::")[0] for test in tests})
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, AGAIN: "1", "JAX_COMPILATION_CACHE_DIR": cache}
        command = [sys.executable, "-m", "pytest", "-q", "-m", marks, "--hold-budget", *files]
        return subprocess.run(command, env=environment, check=False).returncode != 0


class Meter:
    """Splits a worker's processor time between the running test and what it shares with others."""

    def __init__(self) -> None:
        self.shared: dict[str, float] = {}
        self._inner = [0.0]

    @contextlib.contextmanager
    def sharing(self, name: str) -> Iterator[None]:
        """Count what happens inside as the cost of `name`, not of the test that comes first."""
        begun = processor_seconds()
        self._inner.append(0.0)
        yield
        whole = processor_seconds() - begun
        self.shared[name] = self.shared.get(name, 0.0) + whole - self._inner.pop()
        self._inner[-1] += whole

    @contextlib.contextmanager
    def testing(self, item: pytest.Item) -> Iterator[None]:
        """Count what happens inside as the item's, less what is shared."""
        begun, self._inner, self.shared = processor_seconds(), [0.0], {}
        yield
        own = processor_seconds() - begun - self._inner[0]
        item.user_properties.append((PROPERTY, own))
        item.user_properties.extend((SHARED, (name, seconds)) for name, seconds in self.shared.items())


METER = Meter()
sharing = METER.sharing


class Budget:
    """The sum of all tests' processor time, and which are over their limit."""

    def __init__(self, config: pytest.Config) -> None:
        self.keep_costs = bool(config.getoption("costs"))
        self.hold = bool(config.getoption("hold_budget")) and not hasattr(config, "workerinput")  # of all workers
        self.marks = config.getoption("markexpr") or ""
        self.failed = False
        self.tests: dict[str, float] = {}
        self.slow: set[str] = set()
        self.shared: dict[str, float] = {}
        self.costs: dict[str, dict[str, float]] = {"default": {}, "slow": {}}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with METER.testing(item):
            return (yield)

    pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        if fixturedef.scope == "function":
            return (yield)
        with METER.sharing(f"{fixturedef.baseid}::{fixturedef.argname}"):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        name = report.nodeid
        properties: list[tuple[str, Any]] = report.user_properties
        own = sum(value for key, value in properties if key == PROPERTY)
        shared = [value for key, value in properties if key == SHARED]
        self.tests[name] = self.tests.get(name, 0.0) + own
        if "slow" in report.keywords:
            self.slow.add(name)
        for key, seconds in shared:
            self.shared[key] = self.shared.get(key, 0.0) + seconds
        costs, unit = self.costs["slow" if name in self.slow else "default"], unit_of(name)
        costs[unit] = costs.get(unit, 0.0) + own + sum(seconds for _, seconds in shared)

    def over(self, times: float = 1.0) -> list[tuple[float, str]]:
        """Tests that took more than so many times their limit, dearest first: seconds, name."""
        return sorted(
            (
                (seconds, name)
                for name, seconds in self.tests.items()
                if seconds > times * (SLOW_LIMIT if name in self.slow else LIMIT)
            ),
            reverse=True,
        )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.hold and session.exitstatus == pytest.ExitCode.OK and (over := self.over(NOISE)):
            self.failed = AGAIN in os.environ or is_over_again([name for _, name in over], self.marks)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if self.failed else pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.tests:
            return
        if self.keep_costs:
            write_costs(self.costs)
        own, shared = sum(self.tests.values()), sum(self.shared.values())
        terminalreporter.write_line(
            f"processor time: {own:.0f} s of {len(self.tests)} tests, {shared:.0f} s of what they share"
        )
        over = self.over()
        if not over:
            return
        terminalreporter.section(f"{len(over)} tests over {LIMIT:g} s of processor time ({SLOW_LIMIT:g} s if slow)")
        terminalreporter.write_line("share a world of tests/kit, make it smaller, or mark it slow and keep a small one")
        for seconds, name in over[:MOST_NAMED]:
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}")
        if self.failed:
            terminalreporter.write_line(f"failed: over {NOISE:g} times their limit, also by themselves", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("budget", "processor time of tests")
    group.addoption("--costs", action="store_true", help=f"write what units of tests cost to {COSTS.name}")
    group.addoption("--hold-budget", action="store_true", help="fail where a test is over its limit")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Budget(config), "budget")
