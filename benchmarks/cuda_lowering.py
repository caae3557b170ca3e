"""`python -m benchmarks.cuda_lowering`: every task on every fused engine, lowered for CUDA on a machine without a GPU.

Writes a line per combination as it goes, so that a run that was stopped goes on.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jax
import tyro

from embodied import cli
from embodied.bench.lowering import lower_for_cuda
from embodied.env.factory import configured
from embodied.env.registry import join_content
from embodied.errors import EngineError, guard

VARIANTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("mjx", {"impl": "warp"}),
    ("rigid", {}),
    ("brax", {}),
    ("mjx", {"impl": "jax"}),
)
RESULT = Path("benchmarks/results/engines/cuda-lowering.json")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the lowering."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tasks; by default all."""
    json: Path = RESULT
    """The result; combinations that it holds are not lowered again."""


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
    return 0


def variant(options: dict[str, str]) -> str:
    """The implementation's or pipeline's name."""
    return next(iter(options.values()), "")


def row_of(name: str, engine: str, options: dict[str, str]) -> dict[str, Any]:
    """Result of lowering one task on one engine: its figures, or why it failed."""
    task = configured(join_content()[name])
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


if __name__ == "__main__":
    sys.exit(main())
