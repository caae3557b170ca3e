"""Suites at work: one environment for all tasks of a suite, and a policy's results on each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from embodied.core.initial_states import buffer_path
from embodied.env.env import Env
from embodied.env.suites import JoinedEnv
from embodied.env.task_encoding import one_hot, spoken, varied
from embodied.env.trials import by_trials
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, UnknownNameError, listing
from embodied.evaluation.rollouts import evaluate
from embodied.factory import make
from embodied.registry import Suite, TaskEncoding, join_content

Rows = list[dict[str, Any]]
"""One for each task: `task`, `held_out`, and the values of `Evaluation.summary`."""


def find_suite(name: str) -> Suite:
    """The suite of a name.

    Raises:
        UnknownNameError: there is none; suggests what may have been meant.
    """
    suites = join_content().suites
    if name not in suites:
        raise UnknownNameError("suite", name, suites)
    return suites[name]


def make_suite(
    name: str,
    num_envs: int,
    engine: str | None = None,
    seed: int = 0,
    *,
    device: torch.device | str | None = None,
    config: Any = None,
    initial_states: Path | None = None,
    task_encoding: TaskEncoding = TaskEncoding.ONE_HOT,
    **options: Any,
) -> JoinedEnv:
    """One environment that steps all tasks of a suite side by side: `num_envs` rows, task after task.

    Args:
        name: Suite; `python -m embodied.list` prints them.
        num_envs: Environments of all tasks together, spread evenly over the tasks; the first ones get what remains.
        engine: Physics engine; by default the best that runs each task on this machine.
        seed: Seed of every random draw.
        device: Where torch tensors live; by default with the engine.
        config: Options of every task; by default those with which the suite is trained.
        initial_states: Folder with a file for each task, as `python -m embodied.snapshots` writes it.
        task_encoding: Encoding of the task for a policy, where the suite has one.
        **options: Of `make`, for every task.

    Raises:
        EmbodiedError: an unknown suite, words of one that does not tell which task it is, no initial states for a task,
            or fewer environments than tasks.
    """
    suite = find_suite(name)
    if task_encoding == TaskEncoding.WORDS and not suite.identified:
        telling = listing(name for name, other in join_content().suites.items() if other.identified)
        raise EmbodiedError(f"{name} tells no policy which task it is in, by words neither; expected {telling}")
    if num_envs < len(suite.tasks):
        raise EmbodiedError(f"num_envs={num_envs}; expected at least 1 for each of the {len(suite.tasks)} of {name!r}")
    config = config or suite.shared_config(training=True)
    share, remain = divmod(num_envs, len(suite.tasks))
    envs = {
        task: by_trials(
            make(
                task,
                share + (number < remain),
                engine,
                seed + number,
                device=device,
                config=config,
                initial_states=None if initial_states is None else buffer_path(initial_states, task),
                **options,
            )
        )
        for number, task in enumerate(suite.tasks)
    }
    told = told_of(suite, task_encoding) if suite.identified else None
    if task_encoding == TaskEncoding.WORDS:
        told = {task: varied(suite.instructions(task), envs[task].num_envs, seed) for task in suite.tasks}
    return JoinedEnv(envs, told=told, name=name)


def told_of(suite: Suite, encoding: TaskEncoding) -> dict[str, torch.Tensor]:
    """Task to its codes (k, size): with words, one for each instruction."""
    if encoding == TaskEncoding.WORDS:
        return {task: spoken(suite.instructions(task)) for task in suite.tasks}
    return {task: one_hot(number, len(suite.tasks)) for number, task in enumerate(suite.tasks)}


def evaluate_suite(
    suite: Suite,
    rule_of: Callable[[Env], PolicyFunction],
    *,
    engine: str | None = None,
    episodes: int | None = None,
    device: torch.device | str | None = None,
    config: Any = None,
    on_task: Callable[[int, str], None] | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Rows:
    """Results of a policy on every task of a suite, those held out included.

    With the option `episodes_per_trial` also in the first, second, ... episode of a trial, as `by_episode`.

    As many environments as episodes run side by side, so that each start of the suite's is met exactly once.

    Args:
        suite: Tasks and starts.
        rule_of: From an environment of a task to the policy that acts in it.
        engine: Physics engine; by default the best that runs each task on this machine.
        episodes: Of each task; by default the suite's own number.
        device: Where torch tensors live; by default with the engine.
        config: Options of every task; by default the suite's.
        on_task: Called before each task with the number of those done, and its name.
        options: Of `make`, for every task.
    """
    rows: Rows = []
    count, config = episodes or suite.episodes, config or suite.shared_config(training=False)
    named = [(task, suite.seed, False) for task in suite.tasks]
    named += [(task, suite.held_out_seed, True) for task in suite.held_out]
    for task, seed, held_out in named:
        if on_task is not None:
            on_task(len(rows), task)
        env = make(task, count, engine, seed, device=device, config=config, **options)
        outcome = evaluate(env, rule_of(env), count)
        row = {"task": task, "held_out": held_out, "engine": env.engine_name, **outcome.summary()}
        rows.append(row | ({"by_episode": each} if (each := outcome.by_episode()) else {}))
    return rows
