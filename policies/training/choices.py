"""`PolicyCatalogue`: which policies there are for a task, newest run first, and environments in which they can act."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.core.task import has_expert
from embodied.env.env import Env
from embodied.env.factory import build
from embodied.env.options import EnvOptions, registered
from embodied.env.registry import join_content
from embodied.env.vec_env import PolicyFunction
from embodied.env.wrappers.steering import SteeredTask
from embodied.errors import EmbodiedError, RunError
from embodied.storage import checkpoints
from embodied.storage.runs import Run
from embodied.viewer.choices import Choice
from policies.training.loading import RUNS, load_policy, shipped, with_needs

CURVES = {"return": "return", "success": "success rate"}
"""Metric of a run -> name of its curve."""
CURVE_POINTS = 400  # of a curve, at most


class PolicyCatalogue:
    """Tasks, and the policies of each: runs below `runs/`, shipped ones, scripts."""

    def __init__(
        self,
        options: EnvOptions[Any] = EnvOptions(""),  # noqa: B008 -- frozen
        *,
        instruction: str | None = None,
        given: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Keep the options with which every environment is made.

        Args:
            options: Engine and seed of all environments; for the tasks in `given` also everything else. No config:
                that of a policy's run, else the task's own.
            instruction: For a vision-language-action policy.
            given: Task, and a policy that was named for it, by pairs.
        """
        self.options, self.instruction, self.given = options, instruction, tuple(given)

    def tasks(self) -> list[str]:
        names = list(join_content())
        return names + [task for task, _ in self.given if task not in names]

    def choices(self, task: str) -> list[Choice]:
        found = [run_choice(run) for run in runs_of(task)]
        named = [policy for given, policy in self.given if policy and given == task and not is_among(policy, found)]
        scripts = ["shipped"] * (task in shipped())
        scripts += ["expert"] * has_expert(join_content()[task].load()) + ["random", "zero"]
        own = [_of_path(policy) for policy in named if policy not in scripts]
        return own + found + [Choice(name, name) for name in scripts]

    def needs(self, task: str, policy: str) -> EnvOptions[Any]:
        options, usual = self.options, join_content()[task].load().config_type()
        if not any(task == given for given, _ in self.given):
            options = EnvOptions(task, engine=options.engine, seed=options.seed)
        needs = with_needs(dataclasses.replace(options, task=task, config=usual), _path(policy, None))
        return needs if options.config is None else dataclasses.replace(needs, config=options.config)

    def make(self, needs: EnvOptions[Any], num_envs: int) -> Env:
        steered = dataclasses.replace(needs, num_envs=num_envs, device="cpu", wrappers=registered())
        return build(steered, [*needs.wrappers, SteeredTask])

    def load(self, policy: str, checkpoint: int | None, env: Env) -> PolicyFunction:
        return load_policy(_path(policy, checkpoint), env, self.options.seed, instruction=self.instruction)

    def newest_step(self, policy: str) -> int | None:
        run = _run(policy)
        if run is None:
            return None
        return run.step if run.step is not None else checkpoints.step_of(_snapshot(run))

    def learning(self, policy: str) -> Mapping[str, Sequence[float]]:
        run = _run(policy)
        if run is None:
            return {}
        lines = [line for line in run.metrics() if all(name in line for name in ("step", *CURVES))]
        lines = lines[:: max(1, len(lines) // CURVE_POINTS)]
        curves = {title: [line[name] for line in lines] for name, title in CURVES.items()}
        return {"steps": [line["step"] for line in lines], **curves}


def runs_of(task: str) -> list[Run]:
    """The runs of a task below `runs/` that hold a policy, newest first."""
    return [run for run in Run.all(RUNS, task) if run.newest_snapshot() is not None]


def run_choice(run: Run) -> Choice:
    """A run as a choice."""
    steps = tuple(sorted(checkpoints.steps(run.checkpoints), reverse=True))
    return Choice(f"run {run.path.name}", str(run.path), steps)


def is_among(policy: str, choices: Sequence[Choice]) -> bool:
    """Whether a policy, by name or path, is one of the choices."""
    return any(policy == choice.policy or _same_place(policy, choice.policy) for choice in choices)


def _run(policy: str) -> Run | None:
    """The run at a path; None where there is none."""
    if not Path(policy).exists():
        return None
    try:
        return Run.open(Path(policy))
    except RunError:
        return None


def _path(policy: str, checkpoint: int | None) -> str | Path:
    """The name of a policy, or its path: for a run the checkpoint of a step, None: the newest there is."""
    run = _run(policy)
    if run is None or run.step is not None:
        return policy
    return _snapshot(run) if checkpoint is None else run.checkpoints / checkpoints.name_of(checkpoint)


def _snapshot(run: Run) -> Path:
    newest = run.newest_snapshot()
    if newest is None:
        raise EmbodiedError(f"run '{run.path}' holds no policy yet; its first snapshot comes with the first checkpoint")
    return newest


def _of_path(policy: str) -> Choice:
    """A policy that was named on the command line; a single checkpoint, too, is named by its path."""
    run = _run(policy)
    return Choice(policy, policy) if run is None or run.step is not None else run_choice(run)


def _same_place(first: str, second: str) -> bool:
    return Path(first).exists() and Path(second).exists() and Path(first).resolve() == Path(second).resolve()
