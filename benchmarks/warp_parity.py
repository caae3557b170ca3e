"""`python -m benchmarks.warp_parity`: every task on MJX-Warp, on the CPU, against C MuJoCo.

Both begin at the same states and are given the same small random actions; written down is how far the joints are apart
after one and after several control steps. Contacts amplify differences of the last bit, so the first step distinguishes
a wrong model from rounding. Both solvers are given the iterations that they need: some tasks stop theirs after
four, where the two are not yet in the same place. Tasks that the file holds are not run again.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
import tyro

import embodied
from embodied import cli
from embodied.engines import make_engine
from embodied.env.factory import configured
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, guard

RESULT = Path("benchmarks/results/engines/warp-parity.json")
SIZE = 0.2  # standard deviation of the actions
ITERATIONS, LINE_SEARCHES = 100, 50  # of the solver: MuJoCo's defaults


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the comparison."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tasks; by default all that mjx runs."""
    num_envs: int = 4
    """Environments."""
    steps: int = 5
    """Control steps."""
    json: Path = RESULT
    """The result, written after every task."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.warp_parity")
    registry = join_content()
    rows = json.loads(settings.json.read_text())["tasks"] if settings.json.exists() else []
    known = {row["task"] for row in rows}
    names = [name for name in settings.tasks or registry if "mjx" in registry[name].engines and name not in known]
    with cli.Line("MJX-Warp against C MuJoCo", len(names)) as line:
        for done, name in enumerate(names, 1):
            rows.append(compared(name, settings.num_envs, settings.steps))
            line.update(done, f"{name} {rows[-1].get('first_step', rows[-1].get('why'))}")
            jax.clear_caches()
            rows.sort(key=lambda row: row["task"])
            gaps = [row["first_step"] for row in rows if "first_step" in row]
            totals = {"tasks": rows, "count": len(rows), "ran": len(gaps), "largest_first_step": max(gaps, default=0.0)}
            cli.write_result(settings.json, cli.command_line("benchmarks.warp_parity"), totals)
    return 0


def compared(name: str, num_envs: int, steps: int) -> dict[str, Any]:
    """Largest difference of a joint coordinate (m, rad, or part of a quaternion) after the first and the last step."""
    begun = time.perf_counter()
    row: dict[str, Any] = {"task": name, "num_envs": num_envs, "steps": steps}
    try:
        here = converging(name, "mjx", num_envs, impl="warp")
        there = converging(name, "mujoco", num_envs)
        gaps = differences(here, there, steps)
    except EmbodiedError as error:
        return row | {"why": str(error).splitlines()[0]}
    return row | {"first_step": gaps[0], "last_step": gaps[-1], "seconds": time.perf_counter() - begun}


def converging(name: str, engine: str, num_envs: int, **options: str) -> embodied.Env:
    """Environments of a task whose solver goes on until it has converged."""
    task = configured(join_content()[name])
    task.model.opt.iterations, task.model.opt.ls_iterations = ITERATIONS, LINE_SEARCHES
    return embodied.Env(task, make_engine(engine, task, num_envs, **options), num_envs, seed=0)


def differences(here: embodied.Env, there: embodied.Env, steps: int) -> list[float]:
    """The largest difference of joint coordinates after each step, of environments whose episodes go on in both."""
    here.reset()
    there.reset()
    generator = torch.Generator().manual_seed(0)
    going, gaps = np.ones(here.num_envs, bool), []
    for _ in range(steps):
        action = SIZE * torch.randn(there.action_shape, generator=generator)
        for env in (here, there):
            step = env.step(action.to(env.device))
            going &= ~np.asarray((step.terminated | step.truncated).cpu())
        gap = np.abs(np.asarray(here.world().qpos) - np.asarray(there.world().qpos)).max(-1)
        gaps.append(float(np.where(going, gap, 0.0).max()))
    return gaps


if __name__ == "__main__":
    sys.exit(main())
