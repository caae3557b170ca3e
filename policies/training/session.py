"""A training run while it lives: progress, metrics, checkpoints, a clean stop, a report at the end."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, cast

from embodied import cli
from embodied.cli.interrupts import Interrupts
from embodied.errors import EmbodiedError
from embodied.evaluation import tables
from embodied.registry import Suite, join_content
from policies.training.settings import Settings, build_env, without_training_options

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.pixels import SeeingEnv
    from embodied.env.suites import JoinedEnv
    from embodied.env.vec_env import VecEnv
    from embodied.storage.runs import Run
    from policies.policy import ActionRule, Policy
    from policies.training.loop import Trainer

EVALUATION_SEED = 1_000_003  # the final evaluation starts from seeds that training has not seen


class Session:
    """One process's part in a training run: progress, metrics, checkpoints, a clean stop."""

    def __init__(self, settings: Settings[Any, Any, Any], env: Env | JoinedEnv, run: Run | None) -> None:
        """Only rank 0 has a `run`; the others train in silence."""
        self.settings, self.env, self.run = settings, env, run
        self.interrupts = Interrupts()
        self._saved_at = time.monotonic()
        self._saved_step: int | None = None
        self._resumed_at = 0
        self._started = time.monotonic()

    def train(self, start_from: Policy | None = None, resume: Any = None) -> int:
        """Train to the end or to a signal; returns the exit code."""
        from embodied.storage.checkpoints import unflatten
        from policies.training.loop import train

        settings = self.settings
        state = None if resume is None else unflatten(resume.tensors)["trainer"]
        self._saved_step = None if resume is None else resume.step
        self._resumed_at = self._saved_step or 0
        self._announce(resume)
        with self.interrupts, cli.Line(settings.task, settings.steps) as line:
            self._line = line
            trainer = train(
                self._learning_env(),
                settings.options,
                total_steps=settings.steps,
                seed=settings.seed,
                start_from=start_from,
                adviser=self._adviser(),
                resume=state,
                on_iteration=self._on_iteration,
                should_stop=lambda: self.interrupts.signal is not None,
            )
        if self.run is None:
            return 0
        seconds = time.monotonic() - self._started
        self._save(trainer)
        self.run.close()
        if self.interrupts.signal:
            cli.console().print(
                f"stopped by {self.interrupts.signal} at {trainer.steps:,} steps and saved; go on with\n"
                f"  python -m embodied.train --resume {self.run.path}"
            )
            return 0
        self._report(trainer, seconds)
        return 0

    def _learning_env(self) -> VecEnv:
        """What the learner steps: the environments; what is seen of them; every agent as one; or their adversaries."""
        from embodied.env.multi_agent import AgentsEnv
        from embodied.env.pixels import PixelEnv
        from policies.multi_agent.adversary import AdversaryEnv
        from policies.training.loading import load_policy

        if self.settings.cameras:
            return PixelEnv(cast("SeeingEnv", self.env))
        if self.settings.adversaries:
            return AdversaryEnv(self.env, load_policy(self.settings.against, self.env), self.settings.adversaries)
        return cast("VecEnv", self.env if self.env.agents is None else AgentsEnv(self.env))

    def _adviser(self) -> ActionRule | None:
        """The policy that advises the learner, where its options name one."""
        from policies.training.loading import load_policy

        name = getattr(self.settings.options, "adviser", None)
        if name is None:
            return None
        if self.env.agents is not None:
            raise EmbodiedError(f"adviser='{name}' cannot advise many agents; expected a task of one")
        return load_policy(name, self.env, self.settings.seed)

    @property
    def _scored(self) -> int | None:
        """How many agents, the first, make up the team."""
        agents, adversaries = self.env.agents, self.settings.adversaries
        return agents - adversaries if agents and adversaries else None

    def _rule(self, env: Env, policy: Policy) -> ActionRule:
        """The learned policy for all agents of `env`, with its eyes, or for its adversaries among a team."""
        from embodied.env.pixels import SeeingRule, Sight
        from policies.multi_agent.adversary import Infiltrated
        from policies.training.loading import load_policy

        if self.settings.cameras:
            return SeeingRule(policy, Sight.of(cast("SeeingEnv", env)))

        if not self.settings.adversaries:
            return policy
        return Infiltrated(load_policy(self.settings.against, env), policy, self.settings.adversaries)

    def _announce(self, resume: Any) -> None:
        if self.run is not None:
            goes_on = "" if resume is None else f", from step {resume.step:,}"
            cli.console().print(
                f"{self.settings.learner}: {self.settings.task} on {self.env.engine_name}, {self.env.num_envs:,} "
                f"environments, {self.env.device}{goes_on} -> {self.run.path}\ncompiling ..."
            )

    def _on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        if self.run is None:
            return
        self.run.log(trainer.steps, metrics)
        self._line.update(trainer.steps, progress_text(metrics))
        if time.monotonic() - self._saved_at > self.settings.checkpoint_seconds:
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        """Write a checkpoint that both a resume and a robot can use."""
        from embodied.env.pixels import Sight
        from embodied.storage.checkpoints import flatten, prune

        assert self.run is not None
        self._saved_at = time.monotonic()
        if trainer.steps == self._saved_step:  # the last iteration may have been saved already
            return
        meta, tensors = trainer.policy.to_tensors()
        if self.settings.cameras:
            meta |= Sight.of(cast("SeeingEnv", self.env)).described()
        contents = flatten({"policy": tensors, "trainer": trainer.state()})
        known = {"identities": list(self.env.names)} if getattr(self.env, "identified", False) else {}
        self.run.save(trainer.steps, contents, {"policy": meta, "task": self.settings.task, **known})
        prune(self.run.checkpoints, keep=3)
        self._saved_step = trainer.steps

    def _report(self, trainer: Trainer, seconds: float) -> None:
        """Evaluate, print, and say what to type next."""
        assert self.run is not None
        output, own = cli.console(), trainer.steps - self._resumed_at
        speed = own / seconds
        result: dict[str, Any] = {"task": self.settings.task, "engine": self.env.engine_name, "steps": trainer.steps,
                                  "resumed_at": self._resumed_at, "train_seconds": seconds,
                                  "train_env_steps_per_second": speed,
                                  "num_envs": self.env.num_envs, "seed": self.settings.seed,
                                  "learner": self.settings.learner}  # fmt: skip
        if self.settings.evaluate_episodes:
            named = join_content().find(self.settings.task)
            policy = trainer.policy
            result |= self._try_suite(named, policy) if isinstance(named, Suite) else self._try_task(policy)
        last = f", the last {own:,} of them" if self._resumed_at else ""
        output.print(f"trained {trainer.steps:,} steps{last} in {seconds:.1f} s ({cli.number(speed)} steps/s)")
        output.print(f"Watch it:     python -m embodied.play {self.run.path}")
        output.print(f"Evaluate it:  python -m embodied.evaluate {self.settings.task} --policy {self.run.path}")
        cli.write_result(self.settings.json, cli.command_line("embodied.train"), result)

    def _try_task(self, policy: Policy) -> dict[str, Any]:
        """Evaluate on fresh episodes of the task."""
        from embodied.evaluation.rollouts import evaluate

        episodes = self.settings.evaluate_episodes
        # The task as it is, wherever training began and whatever it met.
        entry = join_content()[self.settings.task]
        config = without_training_options(entry, self.settings.config)
        usual = dataclasses.replace(self.settings, starts=None, widen=None, config=config)
        env = cast("Env", build_env(usual, min(episodes, 256), self.settings.seed + EVALUATION_SEED))
        with cli.Line("evaluating", episodes) as line:
            outcome = evaluate(env, self._rule(env, policy), episodes, scored=self._scored,
                               on_step=lambda done, _: line.update(done, f"{done} episodes"))  # fmt: skip
        summary = outcome.summary()
        cli.console().print(
            cli.table(f"{self.settings.task}, {episodes} fresh episodes", tables.evaluation_rows(summary))
        )
        return summary

    def _try_suite(self, suite: Suite, policy: Policy) -> dict[str, Any]:
        """Evaluate on the suite's own starts, task by task."""
        from embodied.evaluation.suites import evaluate_suite, overall
        from policies.training.loading import identified

        def rule_of(env: Env) -> ActionRule:
            if not suite.identified or env.name not in suite.tasks:
                return policy
            return identified(policy, suite.tasks.index(env.name), len(suite.tasks))

        settings = self.settings
        with cli.Line("evaluating", len(suite.tasks) + len(suite.held_out)) as line:
            rows = evaluate_suite(suite, rule_of, engine=settings.engine, episodes=settings.evaluate_episodes,
                                  device=settings.device, on_task=line.update)  # fmt: skip
        cli.console().print(tables.suite_table(suite.name, rows))
        return {**overall([row for row in rows if not row["held_out"]]), "results": rows}


def progress_text(metrics: dict[str, float]) -> str:
    """The part of an iteration's metrics that a person follows."""
    parts = [f"{cli.number(metrics['env_steps_per_second'])} steps/s"]
    if "return" in metrics:
        parts += [f"return {metrics['return']:.4g}", f"success {100 * metrics['success']:.0f} %"]
    return "  ".join(parts)
