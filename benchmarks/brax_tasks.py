"""Which registered tasks the engine `brax` runs, and in one line why it does not run the others.

A task counts as run if its model loads into Brax and one physics step of it traces: shapes and Brax's own checks are
met, without the minutes that compiling all of them would take.

    python -m benchmarks.brax_tasks --json benchmarks/results/brax_tasks.json
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import tyro

from embodied import cli
from embodied.core import episode
from embodied.core.world import Control
from embodied.engines import make_engine
from embodied.errors import EmbodiedError, guard
from embodied.registry import TaskEntry, join_content


@dataclasses.dataclass(frozen=True)
class Settings:
    """Load every registered task into Brax and trace a step of it."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tasks; all by default."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "brax_tasks")
    registry = join_content()
    rows = [{"task": name, **tried(registry[name])} for name in settings.tasks or registry]
    for row in rows:
        cli.console().print(f"{row['task']}: {row['reason'] or 'runs'}", soft_wrap=True, highlight=False)
    result = {
        "tasks": len(rows),
        "runs": sum(not row["reason"] for row in rows),
        "registered": sum(row["registered"] for row in rows),
        "refused": {row["task"]: row["reason"] for row in rows if row["reason"]},
        "run": [row["task"] for row in rows if not row["reason"]],
    }
    cli.write_result(settings.json, cli.command_line("benchmarks.brax_tasks"), result)
    return 0


def tried(entry: TaskEntry) -> dict[str, Any]:
    """Whether a task is registered for the engine, and why it does not run; the reason is empty where it does."""
    registered = "brax" in entry.engines
    try:
        task = entry.load()()
        engine: Any = make_engine("brax", task, 1)

        def stepped(key: jax.Array) -> Any:
            start, _ = episode.begin(task, key)[:2]
            mocap = start.mocap_pos
            control = Control(ctrl=jnp.zeros(engine.model.nu), mocap_pos=mocap)
            return engine.step(engine.start(start), control, 1)

        jax.eval_shape(stepped, episode.environment_keys(0, 1)[0])
    except EmbodiedError as error:
        return {"registered": registered, "reason": str(error)}
    return {"registered": registered, "reason": ""}


if __name__ == "__main__":
    sys.exit(main())
