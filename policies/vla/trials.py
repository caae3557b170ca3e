"""Closed-loop trials: how often a policy succeeds, between two parts of its training and at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embodied.content import join_content
from embodied.env import Env
from embodied.evaluation import evaluate
from embodied.factory import make
from embodied.registry import Suite
from embodied.suite import Rows, evaluate_suite, shared_config
from policies.vla.data import Senses
from policies.vla.policy import VLAPolicy

SEED = 2_000_003  # of the starts of trials during training, which are not those of the evaluation


def suite_of(name: str) -> Suite:
    """The suite of a name; a task alone counts as one.

    Raises:
        UnknownNameError: neither a task nor a suite.
    """
    entry = join_content().find(name)
    return entry if isinstance(entry, Suite) else Suite(name.replace("/", "-"), entry.summary, (name,))


class Trials:
    """A few environments of every task of a suite, kept between one trial and the next."""

    def __init__(
        self, name: str, senses: Senses, episodes: int, engine: str | None = None, device: str = "cpu"
    ) -> None:
        """Note what to try; environments are made when they are first needed.

        Args:
            name: Task or suite.
            senses: Of the policies to try.
            episodes: Of each task, all at once.
            engine: Physics engine; by default the best that runs each task on this machine.
            device: Where the policies are.
        """
        self.suite, self.episodes = suite_of(name), episodes
        self._options = {"cameras": senses.cameras, "resolution": senses.resolution}
        self._engine, self._device = engine, device
        self._envs: dict[str, Env] = {}

    def run(self, policy: VLAPolicy) -> dict[str, float]:
        """`closed_loop`, the mean share of episodes that succeed at any step, and `closed_loop/<task>` of each."""
        rates: dict[str, float] = {}
        for task in self.suite.tasks:
            env = self._env(task)
            outcome = evaluate(env, policy.in_env(env), self.episodes, seed=SEED)
            rates[f"closed_loop/{task}"] = outcome.summary()["success_any"]
        return {"closed_loop": sum(rates.values()) / len(rates), **rates}

    def report(
        self,
        policy: VLAPolicy,
        episodes: int,
        *,
        wrong_instruction: bool = False,
        on_task: Callable[[int, str], None] | None = None,
    ) -> Rows:
        """As `embodied.evaluate` does it, over the suite's own starts."""
        return evaluate_suite(
            self.suite, lambda env: policy.in_env(env, wrong_instruction=wrong_instruction), engine=self._engine,
            episodes=episodes, device=self._device, on_task=on_task, options=self._options,
        )  # fmt: skip

    def _env(self, task: str) -> Env:
        if task not in self._envs:
            config: Any = shared_config(self.suite, training=False)
            self._envs[task] = make(
                task, self.episodes, self._engine, SEED, device=self._device, config=config, **self._options
            )
        return self._envs[task]
