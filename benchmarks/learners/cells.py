"""A cell of the table: one method on one task with one seed. Its result is one JSON file."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from embodied import cli
from embodied.env.env import Env
from embodied.env.factory import default_engine, make
from embodied.env.registry import join_content
from embodied.env.vec_env import VecEnv
from embodied.evaluation.rollouts import Evaluation, evaluate
from embodied.storage.configs import to_json
from policies.policy import Policy
from policies.training.loop import Trainer, train
from policies.training.task_session import progress_text

EVALUATION_SEED = 1_000_003  # as of `embodied.train`: starts that training has not seen
POINTS = 25  # of a learning curve
TRIAL_POINTS = 3  # from one point at which the policy is tried to the next
SCORES = ("success", "success_any", "return", "length", "fall", "velocity_error")
"""Scores of an evaluation that are kept, where the task has them, with the intervals that there are."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training: a method on a task with a seed."""

    problem: str
    task: str
    method: str
    seed: int
    demonstrations: int = 0
    """Episodes that are shown to the learner."""

    @property
    def name(self) -> str:
        """Its file's name, without the folder."""
        shown = f"_demos{self.demonstrations}" if self.demonstrations else ""
        return f"{self.method}{shown}_seed{self.seed}"

    def path(self, folder: Path) -> Path:
        """Path of its result below the results' folder."""
        return folder / self.problem / self.task.split("/")[-1] / f"{self.name}.json"


@dataclasses.dataclass(frozen=True)
class Budget:
    """Budget of a cell."""

    steps: int
    """Environment steps."""
    episodes: int
    """Of the evaluation."""
    threads: int
    """Of torch and of the physics engine each, which take turns."""
    work: Path
    """Folder of what cells share: demonstrations, advisers."""
    seconds: float = math.inf
    """Of training, by the clock."""
    smoke: bool = False
    """Whether networks, batches and numbers of updates are cut down to what shows only that it runs."""


@dataclasses.dataclass(frozen=True)
class Learned:
    """Result of a method."""

    policy: Policy
    settings: Any
    """The algorithm's config."""
    env_steps: int
    """Environment steps that it learned from, demonstrations not counted."""
    updates: int
    """Gradient steps, where the algorithm counts them; 0 for PPO."""
    curve: tuple[Mapping[str, float], ...] = ()
    """Success of the training's own episodes, with the exploration's noise, and what trials in between came to."""
    aside: tuple[float, float] = (0.0, 0.0)
    """s by the clock and of a core that went into those trials, not into learning."""
    notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Stopwatch:
    """The time since training began, without what went into trials."""

    began: float = dataclasses.field(default_factory=time.monotonic)
    aside: float = 0.0
    """s by the clock."""
    aside_of_a_core: float = 0.0
    """s of processor time."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began - self.aside

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """While something else is done."""
        clock, core = time.monotonic(), time.process_time()
        yield
        self.aside += time.monotonic() - clock
        self.aside_of_a_core += time.process_time() - core


@dataclasses.dataclass(frozen=True)
class Curve:
    """Learning curve of a training, thinned; called after each iteration.

    Points are apart by equal shares of the budget, be it steps or time; `seconds` are by the watch. At every third the
    policy is tried, where there is a trial: scores of fresh episodes without the exploration's noise.
    """

    budget: Budget
    watch: Stopwatch
    trial: Callable[[Policy], Mapping[str, float]] | None = None
    points: list[Mapping[str, float]] = dataclasses.field(default_factory=list)
    _since: list[dict[str, float]] = dataclasses.field(default_factory=list)

    def __call__(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        if "success" in metrics:
            self._since.append({key: metrics[key] for key in ("episodes", "return", "success")})
        seconds = self.watch.seconds
        spent = max(trainer.steps / self.budget.steps, seconds / self.budget.seconds)
        if spent * POINTS < len(self.points) + 1 or not self._since:
            return
        episodes = sum(one["episodes"] for one in self._since)
        means = {
            key: sum(one["episodes"] * one[key] for one in self._since) / episodes for key in ("return", "success")
        }
        told = {key: metrics[key] for key in ("value", "critic_loss") if key in metrics}
        if self.trial is not None and len(self.points) % TRIAL_POINTS == 0:
            with self.watch.stopped():
                told |= {f"trial/{key}": value for key, value in self.trial(trainer.policy).items()}
        self.points.append(
            {"env_steps": trainer.steps, "seconds": round(seconds, 2), "episodes": episodes, **means, **told}
        )
        self._since.clear()


def learned(
    env: VecEnv,
    config: Any,
    budget: Budget,
    seed: int,
    trial: Callable[[Policy], Mapping[str, float]] | None = None,
    **options: Any,
) -> Learned:
    """Train an algorithm on an environment.

    Args:
        env: Where it learns.
        config: The algorithm's config.
        budget: What it may take.
        seed: Of the training.
        trial: What a policy is tried by while the clock stands still; None: not at all.
        **options: As of `policies.training.loop.train`.
    """
    watch, last = Stopwatch(), dict[str, float]()
    curve = Curve(budget, watch, trial)
    with cli.Line("learning", budget.steps) as line:

        def follow(trainer: Trainer, metrics: dict[str, float]) -> None:
            curve(trainer, metrics)
            last.update(metrics)
            line.update(trainer.steps, progress_text(metrics))

        trainer = train(
            env, config, total_steps=budget.steps, seed=seed, on_iteration=follow,
            should_stop=lambda: watch.seconds > budget.seconds, **options,
        )  # fmt: skip
    aside = watch.aside, watch.aside_of_a_core
    return Learned(trainer.policy, config, trainer.steps, int(last.get("updates", 0)), tuple(curve.points), aside)


def environment(cell: Cell, budget: Budget, num_envs: int, seed: int, **options: Any) -> Env:
    """Environments of a cell's task on this machine's engine; C MuJoCo has the threads of the budget."""
    engine = default_engine(join_content()[cell.task])
    threads = {"threads": budget.threads} if engine == "mujoco" else {}
    return make(cell.task, num_envs, engine, seed, engine_options=threads, **options)


def scores(env: Env, policy: Policy, episodes: int) -> dict[str, float]:
    """Success at the last step and at any, and return, over fresh episodes."""
    return summarized(evaluate(env, policy.acting_in(env), episodes), episodes)


def summarized(evaluation: Evaluation, episodes: int) -> dict[str, float]:
    """Scores of an evaluation that are kept."""
    summary = evaluation.summary()
    kept = {f"{name}{side}" for name in SCORES for side in ("", "_low", "_high")}
    return {name: value for name, value in summary.items() if name in kept} | {"episodes": float(episodes)}


@dataclasses.dataclass(frozen=True)
class Problem:
    """One kind of problem, with the methods that are for it."""

    name: str
    tasks: tuple[str, ...]
    methods: Mapping[str, Callable[[Cell, Budget], Learned]]
    """The most informative first."""
    evaluated: Callable[[Cell, Budget, Policy], dict[str, Any]]
    """Evaluation of a policy."""
    steps: int
    """Environment steps of a cell that is not learned against the clock, by default."""
    clock: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Tasks that are learned against the clock, whatever the steps -> s of training."""
    demonstrations: tuple[int, ...] = (0,)
    """Numbers of episodes that are shown; (0,) where none is."""
    prepare: Callable[[Cell, Budget], object] | None = None
    """Makes what the methods share, before the clock starts."""


def run(problem: Problem, cell: Cell, budget: Budget) -> dict[str, Any]:
    """Train and evaluate a cell; the content of its file besides hardware and command."""
    torch.set_num_threads(budget.threads)
    if problem.prepare is not None:
        problem.prepare(cell, budget)
    began, cpu = time.perf_counter(), time.process_time()
    result = problem.methods[cell.method](cell, budget)
    aside, core_aside = result.aside
    seconds, spent = time.perf_counter() - began - aside, time.process_time() - cpu - core_aside
    evaluation = problem.evaluated(cell, budget, result.policy)
    whole = time.process_time() - cpu
    return {
        **dataclasses.asdict(cell),
        "evaluation": evaluation,
        "env_steps": result.env_steps,
        "updates": result.updates,
        "wall_seconds": seconds,
        "core_minutes": spent / 60,
        "evaluation_core_minutes": (whole - spent) / 60,
        "curve": list(result.curve),
        "notes": dict(result.notes),
        "settings": settings_of(result.settings),
    }


def settings_of(config: Any) -> dict[str, Any]:
    """A config's values, and its type; files by their names alone."""
    values = to_json(config)
    for field in dataclasses.fields(config):
        if isinstance(value := getattr(config, field.name), Path):
            values[field.name] = value.name
    return {"type": type(config).__name__, **values}
