"""`python -m benchmarks.bad_input`: malformed and unusual inputs from one seed, and what the suite makes of them.

A case is a valid example that operators have spoiled: a run, a policy, a dataset, a robot, a task, a log, a config or
command line, an environment of a process, or calls of the interface. Its verdict is automatic: the program refuses in
one line or works, it does not take what is wrong for right, comes to an end in half a minute, and writes nothing
outside of the folder that was given. Exit code 1: it did not.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bad_input import workers
from benchmarks.bad_input.case import FAULTS, LIMIT, Case, Row
from benchmarks.bad_input.domains import DOMAINS
from embodied import cli
from embodied.errors import UnknownNameError, guard


@dataclasses.dataclass(frozen=True)
class Settings:
    """Try generated bad input. Examples:

    python -m benchmarks.bad_input --cases 1500 --seed 7 --json benchmarks/results/package/bad-input.json
    python -m benchmarks.bad_input --cases 40 --domains runs logs
    """

    cases: int = 1500
    """Number of all, shared by the domains."""
    seed: int = 7
    """From which all cases follow."""
    domains: tuple[str, ...] = tuple(DOMAINS)
    """Which to try."""
    kinds: tuple[str, ...] = ()
    """Which kinds of these; by default all."""
    workers: int = 2
    """Processes at once."""
    json: Path | None = None
    """File for the result."""


def cases_of(count: int, seed: int, domains: Sequence[str] = tuple(DOMAINS), only: Sequence[str] = ()) -> list[Case]:
    """So many cases, in turns of the domains, and in each in turns of its kinds.

    Raises:
        UnknownNameError: there is no such domain, or in none of them such a kind.
    """
    if unknown := [name for name in domains if name not in DOMAINS]:
        raise UnknownNameError("domain", unknown[0], DOMAINS)
    known = {name for domain in domains for name in DOMAINS[domain]}
    if unknown := [name for name in only if name not in known]:
        raise UnknownNameError("kind", unknown[0], known)
    kinds = {domain: [kind for kind in DOMAINS[domain] if not only or kind in only] for domain in domains}
    turns = [domain for domain in domains if kinds[domain]]
    numbers = collections.Counter[str]()
    found: list[Case] = []
    for index in range(count):
        domain = turns[index % len(turns)]
        kind = kinds[domain][numbers[domain] % len(kinds[domain])]
        found.append(Case(domain, kind, f"{seed}.{numbers[domain]}"))
        numbers[domain] += 1
    return found


def result(rows: Sequence[Row], seed: int, seconds: float) -> dict[str, Any]:
    """What is written: how many cases of each domain ended how, and every fault."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        of_domain = counts.setdefault(row.domain, {})
        of_domain[row.verdict] = of_domain.get(row.verdict, 0) + 1
    faults = [row for row in rows if row.verdict in FAULTS]
    return {
        "cases": len(rows),
        "seed": seed,
        "seconds": round(seconds, 1),
        "limit_seconds": LIMIT,
        "processor_seconds": round(sum(row.processor_seconds for row in rows), 1),
        "longest_seconds": max((row.seconds for row in rows), default=0.0),
        "kinds": {domain: len(DOMAINS[domain]) for domain in counts},
        "verdicts": counts,
        **{f"{verdict}_cases": sum(row.verdict is verdict for row in rows) for verdict in FAULTS},
        "faults": [dataclasses.asdict(row) for row in faults],
    }


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["--worker"]:
        workers.work(DOMAINS, Path(words[1]))
        return 0
    settings = cli.parse(Settings, words, "benchmarks.bad_input")
    cases = cases_of(settings.cases, settings.seed, settings.domains, settings.kinds)
    from benchmarks.bad_input import examples

    with tempfile.TemporaryDirectory(prefix="good-") as folder, cli.Line("bad input", len(cases)) as line:
        examples.make(Path(folder))
        begun, done = time.monotonic(), []

        def tell(row: Row) -> None:
            done.append(row)
            line.update(len(done), "")
            if row.verdict in FAULTS:
                cli.say(f"{row.verdict}: {row.domain}, {row.kind}, {row.seed}: {row.what} -> {row.detail}")

        rows = workers.run(cases, Path(folder).resolve(), settings.workers, tell)
        seconds = time.monotonic() - begun
    found = result(rows, settings.seed, seconds)
    verdicts = found["verdicts"]
    cli.show(cli.table(f"{len(rows)} cases in {seconds:.0f} s", {name: str(of) for name, of in verdicts.items(
        )}))  # fmt: skip
    slowest = sorted(rows, key=lambda row: -row.seconds)[:10]
    cli.say("slowest: " + "; ".join(f"{row.kind} {row.seed} {row.seconds:.1f} s" for row in slowest))
    cli.write_result(settings.json, cli.command_line("benchmarks.bad_input"), found)
    return int(bool(found["faults"]))


if __name__ == "__main__":
    sys.exit(main())
