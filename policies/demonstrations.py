"""`python -m policies.demonstrations`: record what a script or a policy does, for learners that start from it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import cast

import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard
from policies.recording import record, save
from policies.vec_env import VecEnv


@dataclasses.dataclass(frozen=True)
class Settings:
    """Record episodes of a task's script, or of any policy, to learn from with --LEARNER.demonstrations FILE.

    Examples:

        python -m policies.demonstrations manipulation/pick-place --episodes 100 --out pick-place.safetensors
        python -m embodied.train manipulation/pick-place --learner sac --sac.demonstrations pick-place.safetensors
    """

    task: tyro.conf.Positional[str]
    """Task to record."""
    out: Path
    """File to write."""
    policy: str = "expert"
    """expert, shipped, a run or a checkpoint."""
    episodes: int = 100
    """How many episodes."""
    failures: bool = False
    """Keep episodes that never succeed too."""
    num_envs: int = 32
    """Environments that step together."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 0
    """Seed of the starts."""


@guard
def main(arguments: list[str] | None = None) -> int:
    """Record as the command line says; returns the exit code."""
    from embodied.content import join_content
    from embodied.factory import make
    from embodied.load_policy import load_policy

    settings = cli.parse(Settings, arguments, "policies.demonstrations")
    join_content()
    env = make(settings.task, min(settings.num_envs, settings.episodes), settings.engine, settings.seed)
    if env.agents is not None:
        raise EmbodiedError(f"'{settings.task}' has many agents; demonstrations are of one robot")
    rule = load_policy(settings.policy, env)
    steps = record(cast("VecEnv", env), rule, settings.episodes, failures=settings.failures)
    save(settings.out, steps)
    ends = int((steps.terminated | steps.truncated).sum())
    cli.console().print(f"{ends} episodes, {len(steps.reward):,} steps -> {settings.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
