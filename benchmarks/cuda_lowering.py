"""`python -m benchmarks.cuda_lowering`: every task on every fused engine, lowered for CUDA on a machine without a GPU.

Writes a line per combination as it goes, so that a run that was stopped goes on, and the table of `docs/gpu.md`.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jax
import tyro

from embodied import cli
from embodied.errors import EngineError, guard
from embodied.evaluation.lowering import lower_for_cuda
from embodied.factory import configured
from embodied.registry import join_content

VARIANTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("mjx", {"impl": "warp"}),
    ("rigid", {}),
    ("brax", {}),
    ("mjx", {"impl": "jax"}),
)
RESULT = Path("benchmarks/results/cuda_lowering.json")
PAGE = Path("docs/gpu.md")
BEGIN, END = "<!-- cuda_lowering -->", "<!-- /cuda_lowering -->"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to lower."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tasks; by default all."""
    json: Path = RESULT
    """The result; combinations that it holds are not lowered again."""
    page: Path | None = PAGE
    """The page whose table is written anew."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.cuda_lowering")
    registry = join_content()
    rows = json.loads(settings.json.read_text())["programs"] if settings.json.exists() else []
    known = {(row["task"], row["engine"], row["variant"]) for row in rows}
    wanted = [
        (name, engine, options)
        for engine, options in VARIANTS
        for name in settings.tasks or registry
        if engine in registry[name].engines and (name, engine, variant(options)) not in known
    ]
    with cli.Line("lowering for CUDA", len(wanted)) as line:
        for done, (name, engine, options) in enumerate(wanted, 1):
            rows.append(row_of(name, engine, options))
            jax.clear_caches()
            line.update(done, f"{name} on {engine} {variant(options)}")
            write(settings.json, rows)
    write(settings.json, rows)
    if settings.page:
        page = settings.page.read_text()
        before, _, rest = page.partition(BEGIN)
        settings.page.write_text(before + BEGIN + "\n" + "\n".join(table(rows)) + "\n" + END + rest.partition(END)[2])
    return 0


def variant(options: dict[str, str]) -> str:
    """The implementation's or pipeline's name."""
    return next(iter(options.values()), "")


def row_of(name: str, engine: str, options: dict[str, str]) -> dict[str, Any]:
    """What lowering one task on one engine brought: its figures, or why it did not."""
    task = configured(join_content()[name], None, {})
    row: dict[str, Any] = {"task": name, "engine": engine, "variant": variant(options)}
    try:
        lowered = lower_for_cuda(task, engine, **options)
    except (EngineError, NotImplementedError) as error:
        return row | {"lowers": False, "why": str(error).splitlines()[0]}
    return row | {"lowers": True, **dataclasses.asdict(lowered)}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    rows = sorted(rows, key=lambda row: (row["task"], row["engine"], row["variant"]))
    totals = {
        "programs": rows,
        "count": len(rows),
        "lower": sum(row["lowers"] for row in rows),
        "with_callbacks": sum(bool(row.get("callbacks")) for row in rows),
    }
    cli.write_result(path, cli.command_line("benchmarks.cuda_lowering"), totals)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Families of tasks against engines, as lines of a Markdown table."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        groups[row["engine"], row["variant"], row["task"].split("/")[0]].append(row)
    lines = [
        "| engine | tasks | lower for CUDA | call the host | state, KB per environment | widest operation, KB |",
        "|---|---|---|---|---|---|",
    ]
    for (engine, kind, family), members in sorted(groups.items()):
        good = [row for row in members if row["lowers"]]
        callbacks = sum(bool(row["callbacks"]) for row in good)
        state, widest = (span([row[key] / 1e3 for row in good]) for key in ("state_bytes", "widest_bytes"))
        name = f"`{engine}` {kind}".strip()
        lines.append(f"| {name} | {family}, {len(members)} | {len(good)} | {callbacks} | {state} | {widest} |")
    return lines


def span(values: list[float]) -> str:
    """Least to greatest."""
    if not values:
        return "-"
    low, high = (f"{value:.3g}" if value < 1000 else f"{value:,.0f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    sys.exit(main())
