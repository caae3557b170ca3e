"""Closed-loop trials: a policy's success rate in simulation, during its training and at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from embodied import cli
from embodied.env.env import Env
from embodied.env.factory import build
from embodied.env.options import EnvOptions
from embodied.env.registry import Suite, join_content
from embodied.errors import EmbodiedError, listing
from embodied.evaluation import tables
from embodied.evaluation.rollouts import evaluate
from embodied.evaluation.suites import Rows, evaluate_suite, of_task
from embodied.rendering.camera_config import CameraConfig
from policies.vla.data.robot_spec import RobotSpec
from policies.vla.policy import VLAPolicy

SEED = 2_000_003  # of the initial states of trials, which are not those of the evaluation


def suite_of(*names: str) -> Suite:
    """The suite of a name; a single task is a suite of one, and several tasks and suites are joined.

    Raises:
        UnknownNameError: one is neither a task nor a suite.
    """
    entries = [join_content().find(name) for name in names]
    suites = [
        entry if isinstance(entry, Suite) else Suite(name.replace("/", "-"), entry.summary, (name,))
        for name, entry in zip(names, entries, strict=True)
    ]
    if len(suites) == 1:
        return suites[0]
    tasks = tuple(dict.fromkeys(task for suite in suites for task in suite.tasks))
    return Suite("+".join(suite.name for suite in suites), f"{len(tasks)} tasks", tasks)


def restricted(suite: Suite, tasks: Collection[str]) -> Suite:
    """A suite without the tasks that are not among `tasks`; the whole suite where those are none.

    Raises:
        EmbodiedError: nothing is left.
    """
    if not tasks:
        return suite
    if not (kept := tuple(task for task in suite.tasks if task in tasks)):
        raise EmbodiedError(f"none of {listing(tasks)} is a task of '{suite.name}', which has {listing(suite.tasks)}")
    return dataclasses.replace(suite, tasks=kept, held_out=tuple(task for task in suite.held_out if task in tasks))


class Trials:
    """A few environments of every task of a suite, kept between trials and made when they are first needed."""

    def __init__(
        self, suite: Suite, spec: RobotSpec, episodes: int, engine: str | None = None, device: str = "cpu"
    ) -> None:
        """Note what to try: `episodes` of each task, all at once; `spec` and `device` are the policies'."""
        self.suite, self.episodes = suite, episodes
        cameras = CameraConfig(spec.cameras, spec.resolution)
        config = suite.shared_config(training=False)
        self._options = EnvOptions[Any](suite.name, engine=engine, device=device, camera_config=cameras, config=config)
        self._envs: dict[str, Env] = {}

    def run(self, policy: VLAPolicy) -> dict[str, float]:
        """`closed_loop`, the mean share of episodes with success at any step, and `closed_loop/<task>` of each."""
        rates: dict[str, float] = {}
        for task in self.suite.tasks:
            env = self._env(task)
            outcome = evaluate(env, policy.bind(env), self.episodes, seed=SEED)
            rates[f"closed_loop/{task}"] = outcome.summary()["success_any"]
        return {"closed_loop": sum(rates.values()) / len(rates), **rates}

    def report(self, policy: VLAPolicy, episodes: int, when: str = "") -> Rows:
        """Print the evaluation of `embodied.evaluate`, from the suite's own initial states; returns its rows."""
        suite = self.suite
        with cli.Line(f"evaluating {when}".rstrip(), len(suite.tasks) + len(suite.held_out)) as line:
            rows = evaluate_suite(suite, policy.bind, self._options, episodes=episodes, on_task=line.update)
        cli.show(tables.suite_table(f"{suite.name}, {when}" if when else suite.name, rows))
        return rows

    def _env(self, task: str) -> Env:
        if task not in self._envs:
            self._envs[task] = build(of_task(self._options, task, self.episodes, SEED))
        return self._envs[task]
