"""Number of targets in a row to which a hand turns its cube before it drops it, at several tolerances.

A target is reached within Playground's 0.1 rad, or within Dactyl's 0.4; every one is followed by the next, for 50 s.

python -m benchmarks.reorientation grasping/leap-reorient --policy RUN --json FILE
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro
from torch import Tensor

import embodied
from embodied.evaluation.rates import wilson
from embodied.evaluation.rollouts import evaluate
from policies.training.loading import load_policy
from tasks.grasping.inhand.reorient import KICK, ReorientConfig

QUARTILES = (0.25, 0.5, 0.75)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    task: tyro.conf.Positional[str] = "grasping/leap-reorient"
    """The hand's task."""
    policy: str = "shipped"
    """Policy as of embodied.evaluate: a run, a file, shipped, zero or random."""
    within: tuple[float, ...] = (0.1, 0.2, 0.4)
    """rad at which a target counts as reached."""
    episodes: int = 256
    """Episodes at each."""
    num_envs: int = 256
    """Environments."""
    seed: int = 1000
    """Of the starts."""
    first: float = np.pi
    """rad from the cube to the first target at most; pi: any orientation (Playground)."""
    kick: tuple[float, float] = KICK
    """rad/s with which a target that was reached moves on."""
    action_scale: float = ReorientConfig.action_scale
    """rad, of the policy's actions: those it was trained with."""
    varied: bool = True
    """With noise and other frictions, masses and motors in every episode."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Count and print."""
    rows = []
    with cli.Line("reorientation", len(settings.within)) as line:
        for number, within in enumerate(settings.within):
            rows.append(counted(settings, within))
            line.update(number + 1, shown(rows[-1]))
    cli.show(cli.table(settings.task, {f"within {row['within']} rad": shown(row) for row in rows}))
    shared = ("task", "policy", "first", "kick", "action_scale", "varied", "episodes")
    result = {name: getattr(settings, name) for name in shared} | {"results": rows}
    cli.write_result(settings.json, cli.command_line("benchmarks.reorientation"), result)


def counted(settings: Settings, within: float) -> dict[str, Any]:
    """Targets per episode and drops at one tolerance."""
    config = ReorientConfig(
        within=within, first=settings.first, kick=settings.kick, action_scale=settings.action_scale,
        without=() if settings.varied else ("all",),
    )  # fmt: skip
    env = embodied.make(settings.task, settings.num_envs, seed=settings.seed, config=config)
    found = evaluate(env, load_policy(settings.policy, env), settings.episodes).values
    targets: Tensor = found["reached"] * found["length"]
    low, median, high = (float(targets.quantile(share)) for share in QUARTILES)
    dropped = int(found["fall"].sum())
    return {
        "within": within,
        "targets_mean": float(targets.mean()),
        "targets_median": median,
        "targets_quartiles": (low, high),
        "none": float((targets < 0.5).float().mean()),
        "dropped": dropped / settings.episodes,
        "dropped_interval": wilson(dropped, settings.episodes),
        "seconds_mean": float(found["length"].mean()) * env.control_dt,
    }


def shown(row: dict[str, Any]) -> str:
    """A row in words."""
    low, high = row["targets_quartiles"]
    return (
        f"{row['targets_mean']:.1f} targets an episode (quartiles {low:.0f} to {high:.0f}), "
        f"dropped {100 * row['dropped']:.0f} %, {row['seconds_mean']:.0f} s"
    )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
