"""Which registered tasks the engine `brax` runs, and in one line why it does not run the others.

A task counts as accepted if the engine's own checks pass its model and MJX collides every pair of its shapes; with
`--load` it is loaded into Brax as well, which takes seconds for each. Those that were evaluated are in
`benchmarks/results/evaluate_*_brax.json`.

    python -m benchmarks.brax_tasks --json benchmarks/results/engines/brax-tasks.json
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import tyro
from mujoco.mjx._src import collision_driver

from embodied import cli
from embodied.core import episode
from embodied.engines import make_engine
from embodied.engines.brax import data_fields, model
from embodied.engines.sensors import SensorReader
from embodied.engines.servos import Servos
from embodied.env.registry import TaskEntry, join_content
from embodied.errors import EmbodiedError, EngineError, guard


@dataclasses.dataclass(frozen=True)
class Settings:
    """Load every registered task into Brax."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tasks; all by default."""
    load: bool = False
    """Load each into Brax, too, and trace how an episode begins."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "brax_tasks")
    registry = join_content()
    rows = []
    for name in settings.tasks or registry:
        rows.append({"task": name, **tried(registry[name], settings.load)})
        cli.show(f"{name}: {rows[-1]['reason'] or 'accepted'}")
        jax.clear_caches()
    result = {
        "tasks": len(rows),
        "accepted": sum(not row["reason"] for row in rows),
        "registered": sum(row["registered"] for row in rows),
        "refused": {row["task"]: row["reason"] for row in rows if row["reason"]},
        "accepted_tasks": [row["task"] for row in rows if not row["reason"]],
    }
    cli.write_result(settings.json, cli.command_line("benchmarks.brax_tasks"), result)
    return 0


def tried(entry: TaskEntry, load: bool) -> dict[str, Any]:
    """Whether a task is registered for the engine, and why it is refused; the reason is empty where it is not."""
    registered = "brax" in entry.engines
    try:
        task = entry.load()()
        accepted(task.model)
        if not load:
            return {"registered": registered, "reason": ""}
        engine: Any = make_engine("brax", task, 1)
        start = jax.eval_shape(lambda key: episode.begin(task, key)[0], episode.environment_keys(0, 1)[0])
        jax.eval_shape(engine.start, start)
    except EmbodiedError as error:
        return {"registered": registered, "reason": str(error)}
    return {"registered": registered, "reason": ""}


def accepted(task_model: mujoco.MjModel) -> None:
    """Raise for what the engine, or MJX's collision detection, refuses.

    Raises:
        EngineError: names it.
    """
    model.check(task_model)
    Servos.from_model(task_model, "brax")
    SensorReader(task_model, "brax", np, refused=())
    data_fields.readable(task_model)
    for first, second, _ in collision_driver.geom_pairs(task_model):
        kinds = [collision_driver.GeomType(int(task_model.geom_type[geom])) for geom in (first, second)]
        if not collision_driver.has_collision_fn(*sorted(kinds)):
            raise EngineError(f"engine brax: MJX does not collide {kinds[0].name} and {kinds[1].name}")


if __name__ == "__main__":
    sys.exit(main())
