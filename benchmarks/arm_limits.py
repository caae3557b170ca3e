"""Demands of the table tasks on the Panda's joints, and whether they are within its maker's limits.

    python -m benchmarks.arm_limits --json FILE

The scripts of the fifty tasks, each as Meta-World moves its hand and with `arm_limits`. Joint positions are observed
every 12.5 ms; speeds and accelerations are their differences, over what Franka allows of each joint. Torques never
exceed what it allows: the model's servos are limited. Beside them, after every control step: how deep bodies lie in
each other where they touch, and how far the hand is from pointing straight down.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import mujoco
import numpy as np
import torch

import embodied
from embodied.errors import guard
from policies.training.loading import load_policy
from tasks.manipulation.benchmarks import MT50
from tasks.manipulation.common.panda import ACCELERATION_LIMITS, CONTROL_DT, SPEED_LIMITS

JOINTS = slice(4, 11)  # of the observation group `proprio`
STEPS = 499
MOVED = {"free": False, "limited": True}  # name -> `arm_limits`
CACHED = 5  # tasks whose compiled programs are kept


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the runs."""

    tasks: tuple[str, ...] = MT50
    """Without `manipulation/`."""
    episodes: int = 10
    """Of each task and way to move."""
    seed: int = 0
    """Of the starts."""
    json: Path | None = None
    """File for the results, written after every task."""


@guard
def main(arguments: list[str] | None = None) -> int:
    """Run and print, task by task."""
    settings = cli.parse(Settings, arguments, "benchmarks.arm_limits")
    rows: list[dict[str, Any]] = []
    with cli.Line("scripts", len(settings.tasks)) as line:
        for number, task in enumerate(settings.tasks):
            rows.append({"task": task} | {name: moved(task, limits, settings) for name, limits in MOVED.items()})
            result = {"episodes": settings.episodes, "seed": settings.seed, "summary": summary(rows), "results": rows}
            cli.write_result(settings.json, cli.command_line("benchmarks.arm_limits"), result)
            line.update(number + 1, f"{task}: {shown(rows[-1]['free'])}; within limits {shown(rows[-1]['limited'])}")
            if number % CACHED == CACHED - 1:
                jax.clear_caches()
    cli.show(cli.table("success at the last step, share of steps beyond the limit", {
        name: f"{found['success']:.1%}, {found['beyond']:.1%}" for name, found in summary(rows).items()
    }))  # fmt: skip
    return 0


def moved(task: str, arm_limits: bool, settings: Settings) -> dict[str, float]:
    """Success at the last step and at any, and what the joints did, over what is allowed."""
    env = embodied.make(
        f"manipulation/{task}", settings.episodes, "mujoco", settings.seed, arm_limits=arm_limits, goals=None
    )
    script, obs = load_policy("expert", env), env.reset(settings.seed)
    positions, solved, deep, tilted = [], [], [], []
    for _ in range(STEPS):
        positions.append(obs["proprio"][:, JOINTS].double())
        step = env.step(script(obs))
        obs = step.obs
        solved.append(step.success.numpy())
        for number in range(settings.episodes):
            model, data = env.engine.data(number)
            deep.append(penetration(data))
            tilted.append(tilt(model, data))
    env.close()
    speeds = torch.stack(positions).diff(dim=0).numpy() / CONTROL_DT
    asked = (np.abs(np.diff(speeds, axis=0)) / CONTROL_DT / ACCELERATION_LIMITS).max(-1)
    first = np.argmax(solved, axis=0)[np.any(solved, axis=0)]
    return {
        "success": float(np.mean(solved[-1])),
        "success_any": float(np.mean(np.any(solved, axis=0))),
        "first_success_seconds": float(np.median(first) * CONTROL_DT) if len(first) else float("nan"),
        "speed": float((np.abs(speeds) / SPEED_LIMITS).max()),
        "acceleration": float(asked.max()),
        "acceleration_99.9": float(np.percentile(asked, 99.9)),
        "beyond": float((asked > 1).mean()),
        "far_beyond": float((asked > 2).mean()),
        "penetration": max(deep),
        "penetration_99": float(np.percentile(deep, 99)),
        "tilt": max(tilted),
    }


def penetration(data: mujoco.MjData) -> float:
    """m, how deep the two bodies lie in each other that do so most."""
    return max(0.0, -float(data.contact.dist.min())) if data.ncon else 0.0


def tilt(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """rad, between where the gripper points and straight down."""
    return float(np.arccos(np.clip(-data.site_xmat[model.site("tcp").id][8], -1.0, 1.0)))


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Way to move -> means over the tasks, and the largest of any."""
    return {name: {
        **{key: statistics.mean(row[name][key] for row in rows)
           for key in ("success", "success_any", "beyond", "far_beyond")},
        **{key: max(row[name][key] for row in rows)
           for key in ("speed", "acceleration", "acceleration_99.9", "penetration", "tilt")},
        "penetration_median": statistics.median(row[name]["penetration"] for row in rows),
        "penetration_99": max(row[name]["penetration_99"] for row in rows),
        "solved": sum(row[name]["success"] == 1.0 for row in rows),
        "seconds": statistics.median(row[name]["first_success_seconds"] for row in rows),
    } for name in MOVED}  # fmt: skip


def shown(found: dict[str, float]) -> str:
    """One way to move, for the progress line."""
    return f"{found['success']:.0%}, up to {found['acceleration']:.1f} times"


if __name__ == "__main__":
    sys.exit(main())
