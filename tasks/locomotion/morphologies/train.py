"""`python -m tasks.locomotion.morphologies.train FAMILY`: one policy for all bodies of a family.

It is trained on the family's training variants at once and evaluated on every variant, on those held out without ever
having seen them. The checkpoint it writes is a policy like any other, and runs on every body:

    python -m embodied.evaluate locomotion/reach-walker-6-right-foot --policy CHECKPOINT
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, Literal, cast

import tyro

from embodied import checkpoints, cli
from embodied.errors import guard
from embodied.evaluation import evaluate
from embodied.factory import make
from policies.joined_env import JoinedEnv
from policies.ppo_config import PPOConfig
from policies.trainer import Trainer, train
from policies.vec_env import VecEnv
from tasks.locomotion.morphologies.families import FAMILIES, Family, task_name
from tasks.locomotion.morphologies.training import REACH

EVALUATION_SEED = 1_000_003  # the evaluation starts from seeds that training has not seen


@dataclasses.dataclass(frozen=True)
class Settings:
    """Train one policy on all training variants of a family of bodies, and try it on every variant."""

    family: tyro.conf.Positional[Literal["hopper", "walker", "humanoid", "cheetah"]]
    """Which bodies."""
    num_envs: int = 64
    """Environments of each variant."""
    steps: int = 10_000_000
    """Environment steps in all."""
    engine: str | None = None
    """Physics engine; by default the best on this machine."""
    seed: int = 0
    """Seed of every random draw."""
    out: Path | None = None
    """Folder of the checkpoint, instead of runs/morphologies/FAMILY-seedSEED."""
    evaluate_episodes: int = 64
    """Fresh episodes to evaluate over, of each variant; 0 for none."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    ppo: PPOConfig = REACH.ppo
    """The learner's options."""


@guard
def main(arguments: list[str] | None = None) -> int:
    """Train as the command line says; returns the exit code."""
    settings = cli.parse(Settings, arguments, "morphologies.train")
    family = FAMILIES[settings.family]
    trainer = learn(settings, family)
    folder = settings.out or Path("runs") / "morphologies" / f"{family.name}-seed{settings.seed}"
    path = save(trainer, family, folder)
    cli.console().print(f"trained {trainer.steps:,} steps -> {path}")
    if settings.evaluate_episodes:
        rows = judge(settings, family, trainer)
        shown = {
            f"{variant} ({row['role']})": f"return {row['return']:.4g}, success {100 * row['success']:.0f} %"
            for variant, row in rows.items()
        }
        cli.console().print(cli.table(f"{family.name}, {settings.evaluate_episodes} episodes of each variant", shown))
        result = {"family": family.name, "steps": trainer.steps, "seed": settings.seed, "variants": rows}
        cli.write_result(settings.json, cli.command_line("tasks.locomotion.morphologies.train"), result)
    return 0


def learn(settings: Settings, family: Family) -> Trainer:
    """Train one policy on all training variants at once."""
    names = {variant: task_name(family.name, variant) for variant in family.train}
    envs = {
        variant: cast(VecEnv, make(name, settings.num_envs, settings.engine, settings.seed + number))
        for number, (variant, name) in enumerate(names.items())
    }
    with cli.Line(f"{family.name} x {len(envs)}", settings.steps) as line:

        def report(trainer: Trainer, metrics: dict[str, float]) -> None:
            speed, success = cli.number(metrics["env_steps_per_second"]), 100 * metrics.get("success", 0.0)
            line.update(
                trainer.steps, f"{speed} steps/s  return {metrics.get('return', 0.0):.4g}  success {success:.0f} %"
            )

        return train(JoinedEnv(envs), settings.ppo, total_steps=settings.steps, seed=settings.seed, on_iteration=report)


def save(trainer: Trainer, family: Family, folder: Path) -> Path:
    """Write the policy as a checkpoint, which `--policy` of any command takes; returns its folder."""
    meta, tensors = trainer.ppo.policy.to_tensors()
    task = task_name(family.name, family.full)
    return checkpoints.save(folder, trainer.steps, checkpoints.flatten({"policy": tensors}),
                            {"policy": meta, "task": task, "trained_on": list(family.train)})  # fmt: skip


def judge(settings: Settings, family: Family, trainer: Trainer) -> dict[str, dict[str, Any]]:
    """Variant -> what the policy achieves on it, and whether it was trained on it."""
    rows: dict[str, dict[str, Any]] = {}
    episodes, policy = settings.evaluate_episodes, trainer.ppo.policy
    for variant in family.variants:
        seed = settings.seed + EVALUATION_SEED
        env = make(task_name(family.name, variant), min(episodes, 256), settings.engine, seed)
        role = "held out" if variant in family.held_out else "trained on"
        rows[variant] = {"role": role, **evaluate(env, policy, episodes).summary()}
    return rows


if __name__ == "__main__":
    sys.exit(main())
