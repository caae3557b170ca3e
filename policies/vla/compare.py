"""`python -m policies.vla.compare`: what a policy does differently after reinforcement learning."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import tyro
from rich import box
from rich.table import Table

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.suites import shared_config
from embodied.factory import make
from embodied.storage.configs import to_json
from policies.training.loading import open_checkpoint
from policies.vla.comparison.behaviour import Trace, observe_conduct
from policies.vla.comparison.difference import Difference, Manner, compare
from policies.vla.comparison.paths_picture import save_paths
from policies.vla.fine_tuning.trials import suite_of
from policies.vla.policy import VLAPolicy
from policies.vla.rl_finetune import vla_policy

Both = dict[str, tuple[tuple[Trace, ...], tuple[Trace, ...]]]
"""Task -> traces before and after."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Let two policies do what they think best from the same starts, and tell what they do differently.

    Example:

        python -m policies.vla.compare runs/vla/one runs/vla/grpo --json differences.json --picture paths.png
    """

    before: tyro.conf.Positional[Path]
    """Run or checkpoint that the other one began with."""
    after: tyro.conf.Positional[Path]
    """Run or checkpoint."""
    task: tuple[str, ...] = ()
    """Tasks or suites; by default every task that the first policy was taught."""
    episodes: int = 20
    """Of each task, from the starts on which it is evaluated."""
    horizon: int = 0
    """Control steps of an episode at most; 0: the task's own."""
    engine: str | None = None
    """Physics engine; by default the best that runs each task on this machine."""
    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU where there is one."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    picture: Path | None = None
    """Also draw the hand's paths into this PNG."""

    def __post_init__(self) -> None:
        """Check counts."""
        if self.episodes < 4 or self.horizon < 0:
            raise EmbodiedError(f"--episodes {self.episodes} --horizon {self.horizon}: expected at least 4, and 0")


@guard
def main(arguments: list[str] | None = None) -> int:
    """Compare as the command line says; returns the exit code."""
    settings = cli.parse(Settings, arguments, "policies.vla.compare")
    named = {f"policy '{path}'": path for path in (settings.before, settings.after)}
    policies = {what: vla_policy(open_checkpoint(path), what, settings.device) for what, path in named.items()}
    traces = observe_both(settings, policies)
    rows = [compare(task, *sides) for task, sides in traces.items()]
    cli.console().print(table(rows))
    if settings.picture is not None:
        save_paths(settings.picture, traces)
    result: dict[str, Any] = {"episodes": settings.episodes, "results": [to_json(row) for row in rows]}
    cli.write_result(settings.json, cli.command_line("policies.vla.compare"), result)
    return 0


def observe_both(settings: Settings, policies: dict[str, VLAPolicy]) -> Both:
    """Traces of both policies, task by task, from the suite's own starts."""
    first = next(iter(policies.values()))
    suite = suite_of(*(settings.task or (lesson.task for lesson in first.lessons)))
    senses, config, traces = first.senses, shared_config(suite, training=False), {}
    with cli.Line("watching", len(suite.tasks)) as line:
        for done, task in enumerate(suite.tasks):
            env = make(
                task, settings.episodes, settings.engine, device=str(first.device), config=config,
                cameras=senses.cameras, resolution=senses.resolution,
            )  # fmt: skip
            sides = tuple(
                observe_conduct(
                    env, policy.in_env(env, what), suite.seed, settings.horizon,
                    lambda steps, done=done, task=task: line.update(done, f"{task}, step {steps}"),
                )
                for what, policy in policies.items()
            )  # fmt: skip
            traces[task] = (sides[0], sides[-1])
    return traces


def table(rows: list[Difference]) -> Table:
    """Two lines for each task: how the first policy does it and how its own episodes differ, then the other one."""
    result = Table(title="before, after", title_justify="left", title_style="bold", box=box.SIMPLE)
    for column in ("task", "success", "steps", "closed", "holding", "actions", "path, cm", "deviation", "outside"):
        result.add_column(column, no_wrap=True)
    for row in rows:
        own = (f"{row.action_distance_within:.3f}", f"{100 * row.path_spread:.1f}", "", "")
        apart = (
            f"{row.action_distance:.3f}", f"{100 * row.path_shift:.1f}", f"{row.path_deviation:.1f}",
            _percent(row.outside),
        )  # fmt: skip
        result.add_row(row.task.rpartition("/")[2], *_cells(row.before), *own)
        result.add_row("", *_cells(row.after), *apart, end_section=True)
    return result


def _cells(manner: Manner) -> tuple[str, ...]:
    steps = "-" if manner.steps is None else f"{manner.steps:.0f}"
    return _percent(manner.success), steps, _percent(manner.closed), _percent(manner.holding)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


if __name__ == "__main__":
    sys.exit(main())
