"""Steps on a target until a policy succeeds: with a twin, without one, and with a twin without each of its parts.

The target is a table task on PyBullet with hidden parameters, the twin the task's own model on MuJoCo, see
`python -m sim2real.twin_rl`. Demonstrations are of a quarter of the initial states; success is that at the last step,
inside that region and outside. Without success within the steps of a training, all of them count, and the saving is a
lower bound.

python -m benchmarks.twin_rl --json FILE
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import tyro

from embodied.env.registry import join_content
from sim2real import twin_rl
from sim2real.twin_training.learning import Part
from sim2real.twin_training.target import HiddenParameters

REGION = {
    "manipulation/faucet-open": ("task_state.goal.0<0.175", "task_state.goal.1<0.825"),
    "manipulation/push": ("qpos.object.x<0", "task_state.goal.0<0"),
    "manipulation/button-press-topdown": ("task_state.goal.0<0", "task_state.goal.1<0.85"),
}
"""Task -> where is demonstrated, a quarter of its initial states."""
HIDDEN = HiddenParameters(latency=2, motor_strength=0.7, friction=1.6, joint_damping=2.0, mass=1.2)
"""Differences of the target: actions 25 ms late, weak servos, sticky joints, heavy links."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    task: str = "manipulation/faucet-open"
    """A task that `REGION` has."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of demonstrations, learners and initial states."""
    ablations: bool = True
    """Also train with a twin without each of its parts."""
    episode_seconds: float = 1.5
    """s of an episode."""
    twin_steps: int = 30_000
    """In the twin."""
    target_steps: int = 30_000
    """On the target, at most, besides demonstrations."""
    evaluate_every: int = 2_000
    """Steps on the target between evaluations."""
    evaluate_episodes: int = 40
    """Episodes of an evaluation, about half of them inside."""
    out: Path = Path("runs/twin_rl")
    """Folder for all that is made; what is there is used again."""
    json: Path | None = None
    """File for the results; written after every training."""


def main(settings: Settings) -> None:
    """Train and print."""
    join_content()
    ways = [("with", tuple(Part)), ("without", ())]
    if settings.ablations:
        ways += [(f"with, but no {part}", tuple(other for other in Part if other is not part)) for part in Part]
    runs: list[dict[str, Any]] = []
    # Twin and no twin of every seed come before the first ablation, so that a benchmark that is cut short shows most.
    for group in (ways[:2], ways[2:]):
        for seed in settings.seeds:
            for way, parts in group:
                runs.append({"way": way, **trained(settings, seed, parts)})
                means = {name: summary(runs, name) for name, _ in ways if any(run["way"] == name for run in runs)}
                document = {"task": settings.task, "region": REGION[settings.task], "means": means,
                            "hidden": dataclasses.asdict(HIDDEN), "target_steps": settings.target_steps,
                            "fewer_steps": saving(means), "runs": runs}  # fmt: skip
                cli.write_result(settings.json, cli.command_line("benchmarks.twin_rl"), document)
                cli.show(f"{way}, seed {seed}: {runs[-1]['steps_to']}")
                jax.clear_caches()


def trained(settings: Settings, seed: int, parts: Sequence[Part]) -> dict[str, Any]:
    """One training, of `sim2real.twin_rl`."""
    return twin_rl.run(
        twin_rl.Settings(
            task=settings.task,
            out=settings.out / settings.task.split("/")[-1] / f"seed{seed}",
            region=REGION[settings.task],
            parts=tuple(parts),
            hidden=HIDDEN,
            episode_seconds=settings.episode_seconds,
            swept=256,
            twin_steps=settings.twin_steps,
            target_steps=settings.target_steps,
            evaluate_every=settings.evaluate_every,
            evaluate_episodes=settings.evaluate_episodes,
            seed=seed,
        )
    )


def summary(runs: list[dict[str, Any]], way: str) -> dict[str, Any]:
    """Means over the seeds of one way; `reached`: in how many trainings."""
    mine = [run for run in runs if run["way"] == way]
    result: dict[str, Any] = {"trainings": len(mine)}
    for where in ("inside", "outside", "both"):
        steps = [run["most_steps"] if run["steps_to"][where] is None else run["steps_to"][where] for run in mine]
        reached = sum(run["steps_to"][where] is not None for run in mine)
        result[where] = {"steps": statistics.mean(steps), "reached": reached}
    for where in ("inside", "outside"):
        result[where]["success_at_first"] = statistics.mean(run["curve"][0][where] for run in mine)
        result[where]["success"] = statistics.mean(run["confirmed"][where] for run in mine)
    return result


def saving(means: dict[str, Any]) -> dict[str, float]:
    """Share of the steps without a twin that the twin saves, inside, outside and in both."""
    if not {"with", "without"} <= means.keys():
        return {}
    wheres = ("inside", "outside", "both")
    return {where: 1 - means["with"][where]["steps"] / means["without"][where]["steps"] for where in wheres}


if __name__ == "__main__":
    main(tyro.cli(Settings))
