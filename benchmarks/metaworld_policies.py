"""Meta-World's own fifty scripted policies, unchanged, on our tasks, and our scripts beside them from the same starts.

The policies see our observation and nothing else, and were written for Meta-World's environments: what they make of
ours shows how alike both are. They need a Python of their own:

    python3 -m venv .venv-metaworld && .venv-metaworld/bin/pip install metaworld==3.1.1 packaging
    python -m benchmarks.metaworld_policies --metaworld .venv-metaworld/bin/python --json FILE
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import torch
import tyro
from torch import Tensor

import embodied
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.rollouts import evaluate
from policies.training.loading import load_policy
from tasks.manipulation.benchmarks import MT50

WORKER = Path(__file__).parent / "reference" / "others" / "metaworld_policy.py"
METAWORLD = "metaworld"
SCORES = ("success_any", "success_any_low", "success_any_high", "success", "success_low", "success_high")
CACHED = 10  # tasks whose compiled programs a process has room for


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the runs."""

    tasks: tuple[str, ...] = MT50
    """Which tasks, without `manipulation/`."""
    metaworld: Path = Path(".venv-metaworld/bin/python")
    """Python that has metaworld."""
    policies: tuple[str, ...] = (METAWORLD, "embodied")
    """Whose scripts."""
    episodes: int = 10
    """Of each task and policy."""
    seed: int = 1000
    """Of the starts."""
    json: Path | None = None
    """File for the results, written after every task; tasks that are in it already are not run again."""


def of_metaworld(python: Path, worker: Path, *arguments: str) -> list[str]:
    """The command that runs one of `reference/others` in a Python that has metaworld.

    Raises:
        EmbodiedError: there is no such Python; with instructions to make one.
    """
    if not python.exists():
        raise EmbodiedError(
            f"no Python '{python}'; python3 -m venv .venv-metaworld && "
            ".venv-metaworld/bin/pip install metaworld==3.1.1 packaging makes one; --metaworld says where"
        )
    return [str(python.absolute()), "-W", "ignore", str(worker), *arguments]


class MetaworldPolicies:
    """A process that runs Meta-World's policies."""

    def __init__(self, python: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(of_metaworld(python, WORKER), stdin=pipe, stdout=pipe, text=True)

    def of(self, task: str) -> PolicyFunction:
        """The policy of a task: observation group `policy` (N, 39) to actions (N, 4)."""

        def act(observation: Mapping[str, Tensor]) -> Tensor:
            stdin, stdout = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
            stdin.write(json.dumps({"task": task, "observations": observation["policy"].tolist()}) + "\n")
            stdin.flush()
            return torch.tensor(json.loads(stdout.readline()), dtype=torch.float32)

        return act

    def close(self) -> None:
        """End the process."""
        cast("IO[str]", self._process.stdin).close()
        self._process.wait()


@guard
def main(settings: Settings) -> None:
    """Run and print, task by task."""
    rows: list[dict[str, Any]] = []
    if settings.json is not None and settings.json.exists():
        earlier = json.loads(settings.json.read_text())
        for name in ("episodes", "seed"):
            if earlier[name] != getattr(settings, name):
                raise EmbodiedError(f"'{settings.json}' has {name} {earlier[name]}; give another --json")
        rows = earlier["results"]
        commit = str(earlier["hardware"]["commit"])[:8]
        cli.show(f"note: '{settings.json}' has {len(rows)} tasks, measured at commit {commit}; without it all are run")
    done = {row["task"] for row in rows}
    others = MetaworldPolicies(settings.metaworld) if METAWORLD in settings.policies else None
    with cli.Line("scripts", len(settings.tasks)) as line:
        for number, task in enumerate(settings.tasks):
            if task not in done:
                rows.append(compare(task, settings, others))
                result = {"episodes": settings.episodes, "seed": settings.seed, "mean": means(rows, settings),
                          "results": rows}  # fmt: skip
                cli.write_result(settings.json, cli.command_line("benchmarks.metaworld_policies"), result)
            line.update(number + 1, shown(task, rows, settings))
            if number % CACHED == CACHED - 1:
                jax.clear_caches()
    if others is not None:
        others.close()
    cli.show(cli.table("success at any step, at the last", {
        whose: f"{found['success_any']:.1%}, {found['success']:.1%}; worst {found['worst_any']:.0%}"
        for whose, found in means(rows, settings).items()
    }))  # fmt: skip


def compare(task: str, settings: Settings, others: MetaworldPolicies | None) -> dict[str, Any]:
    """A row: the task, and what each policy makes of it."""
    env = embodied.make(f"manipulation/{task}", settings.episodes, "mujoco", settings.seed)
    row: dict[str, Any] = {"task": task}
    for whose in settings.policies:
        policy = load_policy("expert", env) if others is None or whose != METAWORLD else others.of(task)
        row[whose] = scores(env, policy, settings.episodes, settings.seed)
    env.close()
    return row


def scores(env: Env, policy: PolicyFunction, episodes: int, seed: int) -> dict[str, float]:
    """Success at any step and at the last, with intervals, from the starts that the seed draws: the same for each."""
    summary = evaluate(env, policy, episodes, seed=seed).summary()
    return {name: summary[name] for name in SCORES}


def means(rows: list[dict[str, Any]], settings: Settings) -> dict[str, dict[str, float]]:
    """Policy -> mean success over the tasks, and that of the worst task."""
    result = {}
    for whose in settings.policies:
        ran = [row[whose] for row in rows if whose in row]
        found = {key: statistics.mean(each[key] for each in ran) for key in ("success_any", "success")}
        result[whose] = {"tasks": len(ran), **found, "worst_any": min(each["success_any"] for each in ran)}
        result[whose]["worst"] = min(each["success"] for each in ran)
    return result


def shown(task: str, rows: list[dict[str, Any]], settings: Settings) -> str:
    """A row for the progress line."""
    row = next(row for row in rows if row["task"] == task)
    found = [f"{whose} {row[whose]['success_any']:.0%} ({row[whose]['success']:.0%})"
             for whose in settings.policies if whose in row]  # fmt: skip
    return f"{task}: {', '.join(found)}"


if __name__ == "__main__":
    main(tyro.cli(Settings))
