"""`python -m policies.vla.compare`: how a policy's behaviour changed by reinforcement learning."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import tyro

from embodied import cli
from embodied.env.factory import make
from embodied.errors import EmbodiedError, guard
from embodied.storage.configs import to_json
from policies.training.loading import open_checkpoint
from policies.vla.comparison.difference import BehaviourDifference, BehaviourSummary, compare
from policies.vla.comparison.path_plot import save_paths
from policies.vla.comparison.trajectories import Trajectory, record_trajectories
from policies.vla.policy import VLAPolicy
from policies.vla.rl_finetune import vla_policy
from policies.vla.trials import suite_of

Trajectories = dict[str, tuple[tuple[Trajectory, ...], tuple[Trajectory, ...]]]
"""Task -> trajectories before and after."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Compare the behaviour of two policies, with their most likely actions from the same initial states.

    Example:

        python -m policies.vla.compare runs/vla/one runs/vla/grpo --json differences.json --picture paths.png
    """

    before: tyro.conf.Positional[Path]
    """Run or checkpoint that the other one began with."""
    after: tyro.conf.Positional[Path]
    """Run or checkpoint."""
    task: tuple[str, ...] = ()
    """Tasks or suites; by default every task that the first policy was trained on."""
    episodes: int = 20
    """Of each task, from the initial states of its evaluation."""
    horizon: int = 0
    """Control steps of an episode at most; 0: the task's own."""
    engine: str | None = None
    """Physics engine; by default the best that runs each task on this machine."""
    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU where there is one."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    picture: Path | None = None
    """Also plot the hand's paths into this PNG."""

    def __post_init__(self) -> None:
        if self.episodes < 4 or self.horizon < 0:
            raise EmbodiedError(f"--episodes {self.episodes} --horizon {self.horizon}: expected at least 4, and 0")


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "policies.vla.compare")
    named = {f"policy '{path}'": path for path in (settings.before, settings.after)}
    policies = {what: vla_policy(open_checkpoint(path), what, settings.device) for what, path in named.items()}
    trajectories = record_both(settings, policies)
    rows = [compare(task, *sides) for task, sides in trajectories.items()]
    cli.show(table(rows))
    if settings.picture is not None:
        save_paths(settings.picture, trajectories)
    result: dict[str, Any] = {"episodes": settings.episodes, "results": [to_json(row) for row in rows]}
    cli.write_result(settings.json, cli.command_line("policies.vla.compare"), result)
    return 0


def record_both(settings: Settings, policies: dict[str, VLAPolicy]) -> Trajectories:
    """Trajectories of both policies, task by task, from the suite's own initial states."""
    first = next(iter(policies.values()))
    suite = suite_of(*(settings.task or (trained.task for trained in first.training_tasks)))
    spec, config, trajectories = first.spec, suite.shared_config(training=False), {}
    with cli.Line("watching", len(suite.tasks)) as line:
        for done, task in enumerate(suite.tasks):
            env = make(
                task, settings.episodes, settings.engine, device=str(first.device), config=config,
                cameras=spec.cameras, resolution=spec.resolution,
            )  # fmt: skip
            sides = tuple(
                record_trajectories(
                    env, policy.bind(env, what), suite.seed, settings.horizon,
                    lambda steps, done=done, task=task: line.update(done, f"{task}, step {steps}"),
                )
                for what, policy in policies.items()
            )  # fmt: skip
            trajectories[task] = (sides[0], sides[-1])
    return trajectories


def table(rows: list[BehaviourDifference]) -> cli.Table:
    """Two lines for each task: how the first policy does it and how its own episodes differ, then the other one."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        own = (f"{row.action_distance_within:.3f}", f"{100 * row.path_spread:.1f}", "", "")
        apart = (
            f"{row.action_distance:.3f}", f"{100 * row.path_shift:.1f}", f"{row.path_deviation:.1f}",
            _percent(row.outside),
        )  # fmt: skip
        lines.append((f"{row.task.rpartition('/')[2]}, before", *_cells(row.before), *own))
        lines.append(("after", *_cells(row.after), *apart))
    headings = ("", "success", "steps", "closed", "holding", "actions", "path, cm", "deviation", "outside")
    right, sections = tuple(range(1, len(headings))), tuple(range(2, len(lines), 2))
    return cli.Table("before and after", tuple(lines), headings, right=right, sections=sections)


def _cells(summary: BehaviourSummary) -> tuple[str, ...]:
    steps = "-" if summary.steps is None else f"{summary.steps:.0f}"
    return _percent(summary.success), steps, _percent(summary.closed), _percent(summary.holding)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


if __name__ == "__main__":
    sys.exit(main())
