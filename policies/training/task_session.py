"""The training of a policy on a task or a suite: its environments, its loop, and the evaluation."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from embodied import cli
from embodied.env.factory import build
from embodied.env.multi_agent import AgentsEnv, TeamEnv
from embodied.env.registry import Suite, TaskEncoding, join_content
from embodied.env.suites import JoinedEnv
from embodied.env.vec_env import PolicyFunction
from embodied.env.wrappers.trials import by_trials
from embodied.errors import EmbodiedError, listing
from embodied.evaluation import tables
from embodied.evaluation.rates import adaptation, overall
from embodied.evaluation.rollouts import evaluate
from embodied.evaluation.suites import build_suite, evaluate_suite, told_of
from embodied.storage import task_names
from embodied.storage.checkpoints import Checkpoint
from embodied.storage.runs import Run
from policies.multi_agent.adversary import AdversaryEnv, AttackedEnv
from policies.policy import Policy
from policies.registry import find_algorithm
from policies.training.loading import load_policy, told_its_task
from policies.training.loop import Trainer, train
from policies.training.mixed_team import infiltrated
from policies.training.session import Session
from policies.training.settings import Settings, policy_needs, without_training_options
from policies.training.watching import Watcher

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.vec_env import VecEnv

StopEarly = Callable[[int, Mapping[str, float]], bool]
"""Called with the steps and the metrics of every iteration; a yes stops the training, which is then not evaluated."""
EVALUATION_SEED = 1_000_003  # the final evaluation starts from seeds that training has not seen


class TaskSession(Session):
    """One process's part in the training of a policy by an algorithm of the registry."""

    command = "embodied.train"
    trainer: Trainer

    def __init__(
        self,
        settings: Settings[Any, Any],
        env: Env | JoinedEnv,
        run: Run | None,
        command_line: str,
        stop_early: StopEarly | None = None,
    ) -> None:
        """Prepare to train.

        Args:
            settings: What to train, and how.
            env: What to learn on.
            run: Where the results go; None: nowhere.
            command_line: As which the result can be repeated.
            stop_early: Follows the training, and may stop it.
        """
        super().__init__(run, settings.checkpoint_seconds)
        self.settings, self.env = settings, env
        self.command_line, self.stop_early = command_line, stop_early
        self.result: dict[str, Any] = {}  # nothing before the end
        self.halted = False  # whether `stop_early` did
        self._started = time.monotonic()
        self.label = task_names.label(settings.task)
        self.learned = False  # whether an iteration is done
        self.watcher = Watcher(run, _shown(settings.task)) if settings.watch and run is not None else None

    @property
    def steps(self) -> int:
        return self.trainer.steps

    @property
    def progress(self) -> str:
        return f"{self.steps:,} steps"

    def contents(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        meta, tree = self.policy_contents()
        return meta, {**tree, "trainer": self.trainer.state()}

    def policy_contents(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The part of a checkpoint that acting needs."""
        described, tensors = self.trainer.policy.to_tensors()
        meta = {"policy": described, "task": self.settings.task, "needs": policy_needs(self.settings)}
        if isinstance(self.env, JoinedEnv) and self.env.told is not None:
            meta["identities"] = list(self.env.names)
            if self.settings.task_encoding == TaskEncoding.WORDS:
                meta["task_encoding"] = str(TaskEncoding.WORDS)
        return meta, {"policy": tensors}

    def train(
        self,
        start_from: Policy | None = None,
        start_state: Mapping[str, Any] | None = None,
        resume: Checkpoint | None = None,
    ) -> None:
        """Train to the end or to a signal, save, and evaluate what came to its end; arguments as of `train`."""
        settings, resumed_at = self.settings, 0 if resume is None else resume.step
        state = None if resume is None else self.restore(resume)
        learning_env = self._learning_env()
        adviser = self._adviser(learning_env)  # what is refused is refused before anything is announced or compiled
        self._announce(resume)
        with (
            self.interrupts,
            cli.Line(self.label, settings.steps, before=cli.COMPILING) as line,
            contextlib.ExitStack() as stack,
        ):
            self._line = line
            if self.watcher is not None:
                stack.callback(self.watcher.close)
            self.trainer = train(
                learning_env,
                settings.algorithm_config,
                total_steps=settings.steps,
                seed=settings.seed,
                start_from=start_from,
                start_state=start_state,
                adviser=adviser,
                resume=state,
                on_iteration=self._on_iteration,
                should_stop=lambda: self.stopped or self.halted,
            )
        if self.interrupts.cut_off and not self.learned:
            raise KeyboardInterrupt
        if self.run is None:
            return
        seconds = time.monotonic() - self._started
        self.save()
        if self.stopped:
            self.say_stopped()
        elif not self.halted:
            self._report(seconds, resumed_at)

    def _learning_env(self) -> VecEnv:
        """Environments that the algorithm steps: as they are, by trials, agents or teams, or a team's adversaries."""
        if self.settings.adversaries:
            return self._with_adversaries(cast("Env", self.env))
        if self.env.agents is None:
            return by_trials(cast("Env", self.env))
        env, algorithm = cast("Env", self.env), find_algorithm(self.settings.algorithm)
        if not algorithm.of_teams:
            return AgentsEnv(env)
        if (team := env.task.team) and team.sides and not algorithm.of_sides:
            raise EmbodiedError(
                f"{algorithm.name} learns from what a team earns together, but the sides of '{self.label}' "
                f"({listing(team.sides)}) earn opposed rewards; expected ppo or matd3"
            )
        return TeamEnv(env)

    def _with_adversaries(self, env: Env) -> VecEnv:
        """Environments that the algorithm steps where some of a team are adversaries: these, or the others."""
        settings = self.settings
        if settings.adversary is not None:
            adversary = load_policy(settings.adversary, env, settings.seed)
            return AttackedEnv(env, adversary, settings.adversaries, settings.adversary_share)
        return AdversaryEnv(env, load_policy(settings.against, env), settings.adversaries)

    def _adviser(self, learning_env: VecEnv) -> PolicyFunction | None:
        """The policy that advises the algorithm, where its config names one."""
        name = getattr(self.settings.algorithm_config, "adviser", None)
        if name is None:
            return None
        adviser = load_policy(name, self.env, self.settings.seed)
        if self.env.agents is None:
            return adviser
        if type(learning_env) is not AgentsEnv:
            raise EmbodiedError(f"adviser='{name}' advises each agent of a team, not teams as one, nor adversaries")
        return learning_env.acting(adviser)

    def _announce(self, resume: Checkpoint | None) -> None:
        if self.run is not None:
            goes_on = "" if resume is None else f", from step {resume.step:,}"
            cli.say(
                f"{self.settings.algorithm}: {self.label} on {self.env.engine_name}, {self.env.num_envs:,} "
                f"environments, {self.env.device}{goes_on} -> {self.run.path}"
            )

    def _on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        self.trainer, self.learned = trainer, True
        if self.run is None:
            return
        self.run.log(trainer.steps, metrics)
        self.halted = self.stop_early is not None and self.stop_early(trainer.steps, metrics)
        self._line.update(trainer.steps, progress_text(metrics))
        self.save_when_due()
        if self.watcher is not None:
            self.watcher.update(trainer.steps, self.policy_contents)

    def _report(self, seconds: float, resumed_at: int) -> None:
        """Evaluate, print, and name the next commands."""
        assert self.run is not None
        settings, own = self.settings, self.steps - resumed_at
        speed = own / seconds
        result: dict[str, Any] = {
            "task": self.label,
            "engine": self.env.engine_name,
            "steps": self.steps,
            "resumed_at": resumed_at,
            "train_seconds": seconds,
            "train_env_steps_per_second": speed,
            "num_envs": self.env.num_envs,
            "seed": settings.seed,
            "algorithm": settings.algorithm,
        }
        if settings.evaluate_episodes:
            named, policy = join_content().find(settings.task), self.trainer.policy
            result |= self._evaluate_suite(named, policy) if isinstance(named, Suite) else self._evaluate_task(policy)
        last = f", the last {own:,} of them" if resumed_at else ""
        cli.show(f"trained {self.steps:,} steps{last} in {seconds:.1f} s ({cli.number(speed)} steps/s)")
        typed = task_names.typed(settings.task)
        cli.say(
            f"Watch it:     python -m embodied.play {self.run.path}",
            f"Evaluate it:  python -m embodied.evaluate {typed} --policy {self.run.path}",
        )
        self.result = {**result, "command": self.command_line, "hardware": cli.describe()}
        self.run.write_result(self.result)
        if settings.json is not None:
            cli.write_json(settings.json, {**self.result, "study": cli.study_of(settings.json)})

    def _evaluate_task(self, policy: Policy) -> dict[str, Any]:
        """Evaluate on fresh episodes of the task as it is, wherever training began and whatever it met."""
        settings, episodes = self.settings, self.settings.evaluate_episodes
        config = without_training_options(join_content()[settings.task], settings.config)
        usual = dataclasses.replace(settings, wrappers=settings.wrappers.of_policy, config=config)
        env = cast("Env", build_env(usual, min(episodes, 256), settings.seed + EVALUATION_SEED))
        rule, scored = self._rule(env, policy)
        with cli.Line("evaluating", episodes, before=cli.COMPILING) as line:
            outcome = evaluate(
                env, rule, episodes, scored=scored, on_step=lambda done, _: line.update(done, f"{done} episodes")
            )
        summary = outcome.summary()
        rows, by_episode = tables.evaluation_rows(summary, env.task.metric_units), outcome.by_episode()
        cli.show(cli.table(f"{self.label}, {episodes} fresh episodes", rows | tables.trial_rows(by_episode)))
        in_trials = {"by_episode": by_episode} if by_episode else {}
        return {**summary, **in_trials, "units": dict(env.task.metric_units)}

    def _rule(self, env: Env, policy: Policy) -> tuple[PolicyFunction, int | None]:
        """The learned policy for `env`, or among its team; and how many agents make up the team."""
        adversaries = self.settings.adversaries
        if not adversaries or self.settings.adversary is not None:
            return policy.acting_in(by_trials(env)), None
        assert env.agents is not None
        team, own = load_policy(self.settings.against, env), policy.acting_in(env)
        return infiltrated(team, own, env.agents, adversaries), env.agents - adversaries

    def _evaluate_suite(self, suite: Suite, policy: Policy) -> dict[str, Any]:
        """Evaluate on the suite's own starts, task by task."""

        settings = self.settings
        codes = told_of(suite, settings.task_encoding) if suite.identified else {}

        def rule_of(env: Env) -> PolicyFunction:
            acting = policy.acting_in(by_trials(env))
            return told_its_task(acting, codes[env.name]) if env.name in codes else acting

        with cli.Line("evaluating", len(suite.tasks) + len(suite.held_out)) as line:
            options = dataclasses.replace(settings, wrappers=settings.wrappers.of_policy, config=None)
            rows = evaluate_suite(suite, rule_of, options, episodes=settings.evaluate_episodes, on_task=line.update)
        cli.show(tables.suite_table(suite.name, rows))
        return {**overall([row for row in rows if not row["held_out"]]), **adaptation(rows), "results": rows}


def _shown(task: str) -> str:
    """The task that a viewer shows of what is trained: for a suite the first."""
    named = join_content().find(task)
    return named.tasks[0] if isinstance(named, Suite) else task


def progress_text(metrics: Mapping[str, float]) -> str:
    """The part of an iteration's metrics that a person follows."""
    parts = [f"{cli.number(metrics['env_steps_per_second'])} steps/s"]
    if "return" in metrics:
        parts += [f"return {metrics['return']:.4g}", f"success {100 * metrics['success']:.0f} %"]
    return "  ".join(parts)


def build_env(settings: Settings[Any, Any], num_envs: int, seed: int) -> Env | JoinedEnv:
    """The environments that the settings describe.

    Raises:
        EmbodiedError: there is no such engine or device, or no such initial states.
    """
    options = dataclasses.replace(settings, num_envs=num_envs, seed=seed)
    if isinstance(join_content().find(settings.task), Suite):
        return build_suite(options, settings.task_encoding)
    if settings.task_encoding != TaskEncoding.ONE_HOT:
        raise EmbodiedError(f"--task-encoding {settings.task_encoding}: {settings.task} is one task; expected a suite")
    return build(options)
