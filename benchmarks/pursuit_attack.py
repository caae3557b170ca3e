"""What a team of drones loses to one of them that flies at whoever is nearest to it: a yardstick of learned attacks.

python -m benchmarks.pursuit_attack --policy shipped --json FILE

The script learns nothing and knows nothing of the team: full speed at the nearest drone. An attack that learned
should do more harm than that. As where those are evaluated, collisions end no episode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

import embodied
from embodied import cli
from embodied.core.entities import COLUMNS, WIDTH
from embodied.env.vec_env import POLICY
from embodied.evaluation.rollouts import evaluate
from policies.multi_agent.mixed_team import infiltrated
from policies.training.loading import load_policy
from tasks.swarm.team.waypoints import EGO_SIZE


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    task: str = "swarm/formation"
    """A task whose drones are commanded by velocities, in the world's frame."""
    policy: str = "shipped"
    """What the others follow; as of embodied.evaluate."""
    adversaries: int = 1
    """How many drones, the last ones, fly at whoever is nearest."""
    episodes: int = 64
    """How many, each in a world of its own."""
    seed: int = 1000
    """Of the starts."""
    json: Path | None = None
    """File for the results."""


def pursuit(obs: Mapping[str, Tensor]) -> Tensor:
    """Full speed at the nearest drone, whose row is the first, or hover: (N, agents, size) to (N, agents, 4)."""
    nearest = obs[POLICY][..., EGO_SIZE : EGO_SIZE + WIDTH]
    offset = nearest[..., COLUMNS["offset"]]
    direction = offset / offset.norm(dim=-1, keepdim=True).clamp(min=1e-3)
    return torch.cat([direction, torch.zeros_like(direction[..., :1])], -1)


def measure(settings: Settings) -> dict[str, Any]:
    """What the others earn, and how often drones touch."""
    env = embodied.make(settings.task, settings.episodes, seed=settings.seed, collisions_end=False)
    own = env.action_shape[1] - settings.adversaries
    team = infiltrated(load_policy(settings.policy, env), pursuit, env.action_shape[1], settings.adversaries)
    with cli.Line(f"{settings.task}, policy {settings.policy}", settings.episodes) as line:
        found = evaluate(
            env, team, settings.episodes, scored=own, on_step=lambda done, _: line.update(done, f"{done} episodes")
        )
    told = {"task": settings.task, "policy": settings.policy, "seed": settings.seed, "adversary": "pursuit"}
    return {**told, "adversaries": settings.adversaries, "engine": env.engine_name, **found.summary()}


def main(settings: Settings) -> None:
    """Measure and print."""
    result = measure(settings)
    cli.show(
        f"return of the team {result['team_return']:.4g}, in collision {result['collision']:.2%} of a drone's time"
    )
    cli.write_result(settings.json, cli.command_line("benchmarks.pursuit_attack"), result)


if __name__ == "__main__":
    main(tyro.cli(Settings))
