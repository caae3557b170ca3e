"""`PolicyCatalogue`: which policies there are for a task, newest run first, and environments in which they can act."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.core.task import has_expert
from embodied.env.env import Env
from embodied.env.steering import SteeredTask
from embodied.env.trials import Trials
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, RunError
from embodied.factory import make
from embodied.registry import join_content
from embodied.storage import checkpoints
from embodied.storage.configs import from_json
from embodied.storage.runs import Run
from embodied.viewer.choices import Choice, Needs
from policies.training.loading import RUNS, camera_options, load_policy, shipped, trial_options

CURVES = {"return": "return", "success": "success rate"}
"""Metric of a run -> name of its curve."""
CURVE_POINTS = 400  # of a curve, at most


class PolicyCatalogue:
    """Tasks, and the policies of each: runs below `runs/`, shipped ones, scripts."""

    def __init__(
        self,
        engine: str | None = None,
        seed: int = 0,
        *,
        instruction: str | None = None,
        options: Mapping[str, Any] | None = None,
        given: Sequence[tuple[str, str]] = (),
        config: Any = None,
    ) -> None:
        """Keep the options with which every environment is made.

        Args:
            engine: Physics engine; by default the best for each task.
            seed: Of the environments and of the random policy.
            instruction: For a vision-language-action policy.
            options: Further arguments of `embodied.make`, such as `cameras`, for the tasks in `given`.
            given: Task, and a policy that was named for it, by pairs.
            config: The options of the tasks in `given`; None: those that a policy's run had, else the task's own.
        """
        self.engine, self.seed, self.instruction, self.config = engine, seed, instruction, config
        self.options, self.given = dict(options or {}), tuple(given)

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

    def needs(self, task: str, policy: str) -> Needs:
        is_given = any(task == given for given, _ in self.given)
        options = dict(self.options) if is_given else {}
        options |= camera_options(_path(policy, None), task) | trial_options(_path(policy, None), task)
        config = self.config if is_given and self.config is not None else run_config(policy, task)
        return Needs(config, tuple(sorted(options.items())))

    def make(self, task: str, needs: Needs, num_envs: int) -> Env:
        options = dict(needs.options)
        in_trials = options.pop("episodes_per_trial", None)
        trials = [] if in_trials is None else [functools.partial(Trials, episodes=in_trials)]
        return make(
            task, num_envs, self.engine, self.seed, device="cpu", config=needs.config, wrappers=[*trials, SteeredTask],
            **options,
        )  # fmt: skip

    def load(self, policy: str, checkpoint: int | None, env: Env) -> PolicyFunction:
        return load_policy(_path(policy, checkpoint), env, self.seed, instruction=self.instruction)

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


def run_config(path: str, task: str) -> Any:
    """The task's config of a run; None where the path is no run's, such as a shipped policy's, or another task's."""
    run = _run(path)
    if run is None or run.task != task or "config" not in run.config:
        return None
    return from_json(join_content()[task].load().config_type, run.config["config"])


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
