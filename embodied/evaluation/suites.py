"""Suites at work: one environment for all tasks of a suite, and a policy's results on each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from embodied.env.env import Env
from embodied.env.factory import build
from embodied.env.options import EnvOptions
from embodied.env.registry import Suite, TaskEncoding, join_content
from embodied.env.suites import JoinedEnv
from embodied.env.vec_env import PolicyFunction
from embodied.env.wrappers.task_encoding import one_hot, spoken, varied
from embodied.env.wrappers.trials import by_trials
from embodied.errors import EmbodiedError, UnknownNameError, listing
from embodied.evaluation.rollouts import evaluate

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


def build_suite(options: EnvOptions[Any], task_encoding: TaskEncoding = TaskEncoding.ONE_HOT) -> JoinedEnv:
    """One environment that steps all tasks of a suite side by side: `num_envs` rows, task after task.

    Args:
        options: The task is the suite's name; environments are spread evenly over its tasks, the first ones get what
            remains; the config, by default that with which the suite is trained, is every task's.
        task_encoding: Encoding of the task for a policy, where the suite has one.

    Raises:
        EmbodiedError: an unknown suite, words of one that does not tell which task it is, no initial states for a task,
            or fewer environments than tasks.
    """
    name, num_envs = options.task, options.num_envs
    suite = find_suite(name)
    if task_encoding == TaskEncoding.WORDS and not suite.identified:
        telling = listing(name for name, other in join_content().suites.items() if other.identified)
        raise EmbodiedError(f"{name} tells no policy which task it is in, by words neither; expected {telling}")
    if num_envs < len(suite.tasks):
        raise EmbodiedError(f"num_envs={num_envs}; expected at least 1 for each of the {len(suite.tasks)} of {name!r}")
    options = dataclasses.replace(options, config=options.config or suite.shared_config(training=True))
    share, remain = divmod(num_envs, len(suite.tasks))
    envs = {
        task: by_trials(build(of_task(options, task, share + (number < remain), options.seed + number)))
        for number, task in enumerate(suite.tasks)
    }
    told = told_of(suite, task_encoding) if suite.identified else None
    if task_encoding == TaskEncoding.WORDS:
        told = {task: varied(suite.instructions(task), envs[task].num_envs, options.seed) for task in suite.tasks}
    return JoinedEnv(envs, told=told, name=name)


def of_task(options: EnvOptions[Any], task: str, num_envs: int, seed: int) -> EnvOptions[Any]:
    """The options of one task of a suite."""
    wrappers = options.wrappers.mapped(lambda wrapper: wrapper.in_suite(task))
    return dataclasses.replace(options, task=task, num_envs=num_envs, seed=seed, wrappers=wrappers)


def told_of(suite: Suite, encoding: TaskEncoding) -> dict[str, torch.Tensor]:
    """Task to its codes (k, size): with words, one for each instruction."""
    if encoding == TaskEncoding.WORDS:
        return {task: spoken(suite.instructions(task)) for task in suite.tasks}
    return {task: one_hot(number, len(suite.tasks)) for number, task in enumerate(suite.tasks)}


def evaluate_suite(
    suite: Suite,
    rule_of: Callable[[Env], PolicyFunction],
    options: EnvOptions[Any] | None = None,
    *,
    episodes: int | None = None,
    on_task: Callable[[float, str], None] = lambda done, task: None,
    begun: Sequence[dict[str, Any]] = (),
    on_row: Callable[[dict[str, Any]], None] | None = None,
) -> Rows:
    """Results of a policy on every task of a suite, those held out included.

    Of trials also in the first, second, ... episode, as `by_episode`.

    As many environments as episodes run side by side, so that each start of the suite's is met exactly once.

    Args:
        suite: Tasks and starts.
        rule_of: From an environment of a task to the policy that acts in it.
        options: Of every task but for its name, number and seed; the config is by default the suite's.
        episodes: Of each task; by default the suite's own number.
        on_task: Called at each step with the number of tasks done, a part of one included, and the name of this one.
        begun: Results of the first tasks, which are not evaluated again.
        on_row: Called with the results of each task.
    """
    rows: Rows = [*begun]
    count, options = episodes or suite.episodes, options or EnvOptions(suite.name)
    options = dataclasses.replace(options, config=options.config or suite.shared_config(training=False))
    named = [(task, suite.seed, False) for task in suite.tasks]
    named += [(task, suite.held_out_seed, True) for task in suite.held_out]
    for task, seed, held_out in named[len(rows) :]:
        on_task(len(rows), task)
        env = build(of_task(options, task, count, seed))
        outcome = evaluate(
            env, rule_of(env), count, on_step=lambda done, wanted, task=task: on_task(len(rows) + done / wanted, task)
        )
        row = {"task": task, "held_out": held_out, "engine": env.engine_name, **outcome.summary()}
        rows.append(row | ({"by_episode": each} if (each := outcome.by_episode()) else {}))
        if on_row is not None:
            on_row(rows[-1])
    return rows
