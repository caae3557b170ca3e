"""`python -m embodied.train`: train a policy on a task.

Without arguments it trains a Crazyflie to hover, on the CPU, in about a minute.
"""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import tyro

from embodied import cli
from embodied.content import join_content
from embodied.errors import EmbodiedError, RunError, guard
from embodied.registry import Suite, TaskEntry

if TYPE_CHECKING:
    from embodied.env import Env
    from embodied.runs import Run
    from policies.joined_env import JoinedEnv
    from policies.policy import ActionRule, Policy
    from policies.trainer import Trainer
    from policies.vec_env import VecEnv

DEFAULT_TASK = "swarm/hover"
RANK_SEED = 100_003  # seeds of the ranks lie this far apart
EVALUATION_SEED = 1_000_003  # the final evaluation starts from seeds that training has not seen


C = TypeVar("C")
P = TypeVar("P")


@dataclasses.dataclass(frozen=True)
class Settings(Generic[C, P]):
    """Train a policy on a task, or one on all tasks of a suite, and say how well it does.

    Results go to runs/TASK/TIME: config.json, metrics.jsonl, TensorBoard events, checkpoints. Ctrl-C or SIGTERM saves
    and stops; --resume RUN goes on. Examples:

        python -m embodied.train
        python -m embodied.train locomotion/go1-joystick-flat --seed 1
        python -m embodied.train mt10
        python -m embodied.train locomotion/go1-joystick-rough --start-from assets/policies/locomotion/go1-joystick-flat
        python -m embodied.train swarm/formation --adversaries 1 --against shipped
        python -m embodied.train --resume runs/swarm/hover/20261121-103000 --steps 8000000
    """

    task: tyro.conf.Positional[str]
    """Task or suite to train on; python -m embodied.list names them all."""
    num_envs: int
    """Environments that step together (on each GPU); those of a suite are spread over its tasks."""
    steps: int
    """Environment steps in all."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 0
    """Seed of every random draw."""
    device: str | None = None
    """Where the policy lives: cpu, cuda or cuda:N; by default with the engine."""
    out: Path | None = None
    """Run folder, instead of runs/TASK/TIME; must be new or empty."""
    start_from: str | None = None
    """Policy to begin with instead of an untrained one: a run, a checkpoint, or shipped. Its layers replace those of
    --ppo.actor."""
    adversaries: int = 0
    """Of a task of many agents: train this many of them to make the others fail; the others follow --against."""
    against: str = "shipped"
    """With --adversaries, the policy that the others follow and keep: a run, a checkpoint, or shipped."""
    resume: Path | None = None
    """Run folder to go on with: its own settings hold, but --steps may extend it."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    evaluate_episodes: int = 256
    """Fresh episodes to evaluate over at the end, of each task; 0 for none."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    config: C = None  # type: ignore[assignment]
    """The task's own options."""
    ppo: P = None  # type: ignore[assignment]
    """The learner's options."""


UNSAVED = ("out", "resume", "json")
"""Settings that belong to a command and not to the run."""


@guard
def main(arguments: list[str] | None = None) -> int:
    """Train as the command line says; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    if resumed := _flag_value(words, "--resume"):
        return _resume(Path(resumed), words)
    name = cli.named_task(words, registry, DEFAULT_TASK)
    assert name is not None
    return start(parse(registry.find(name), words))


def parse(entry: TaskEntry | Suite, words: list[str]) -> Settings[Any, Any]:
    """Parse a command line whose flags are the fields of this task's configs."""
    defaults = default_settings(entry)
    kind = Settings[type(defaults.config), type(defaults.ppo)]  # type: ignore[misc]
    return cli.parse(kind, words, "train", defaults)


def default_settings(entry: TaskEntry | Suite) -> Settings[Any, Any]:
    """The settings with which a task or a suite is trained unless told otherwise.

    Raises:
        EmbodiedError: a suite that is only for evaluation.
    """
    from embodied.suite import shared_config
    from policies.train_config import TrainConfig

    if isinstance(entry, Suite) and entry.training is None:
        raise EmbodiedError(f"{entry.name} is for evaluation: no policy runs on all of its tasks; train on one of them")
    training = entry.load_training() or TrainConfig()
    own = {"num_envs": training.num_envs, "steps": training.steps, "ppo": training.ppo}
    if isinstance(entry, Suite):
        own["evaluate_episodes"] = entry.episodes
        return Settings(entry.name, config=shared_config(entry, training=True), **own)
    return Settings(entry.name, config=entry.load().config_type(), **own)


def start(settings: Settings[Any, Any]) -> int:
    """Start a new run."""
    from embodied.configs import to_json
    from embodied.runs import Run
    from policies import distributed

    with distributed.joined(settings.device or "cpu"):
        env = build_env(settings, settings.num_envs, settings.seed + RANK_SEED * distributed.rank())
        settings, policy = with_start(settings, env)
        document = {name: value for name, value in to_json(settings).items() if name not in UNSAVED}
        document["engine"] = env.engine_name
        first = distributed.rank() == 0
        run = Run.create(Path("runs"), settings.task, document, settings.out) if first else None
        return Session(settings, env, run).train(start_from=policy)


def with_start(settings: Settings[Any, Any], env: Env | JoinedEnv) -> tuple[Settings[Any, Any], Policy | None]:
    """The policy to begin with, and the settings with an actor of its shape.

    Raises:
        EmbodiedError: there is no such policy, it is not a trained one, or it does not fit the task.
    """
    if settings.start_from is None:
        return settings, None
    from embodied.load_policy import load_policy
    from policies.policy import Policy

    policy = load_policy(settings.start_from, env)
    if not isinstance(policy, Policy):
        raise EmbodiedError(f"--start-from {settings.start_from}: expected a trained policy: a run or a checkpoint")
    return dataclasses.replace(settings, ppo=dataclasses.replace(settings.ppo, actor=policy.config)), policy


def _resume(path: Path, words: list[str]) -> int:
    """Go on with a run."""
    from embodied.runs import Run
    from policies import distributed

    run = Run.open(path)
    settings = saved_settings(run)
    if steps := _flag_value(words, "--steps"):
        settings = dataclasses.replace(settings, steps=int(steps))
    if json := _flag_value(words, "--json"):
        settings = dataclasses.replace(settings, json=Path(json))
    with distributed.joined(settings.device or "cpu"):
        env = build_env(settings, settings.num_envs, settings.seed + RANK_SEED * distributed.rank())
        first = distributed.rank() == 0
        return Session(settings, env, run if first else None).train(resume=run.resume() if first else run.load())


def saved_settings(run: Run) -> Settings[Any, Any]:
    """The settings of a run.

    Raises:
        RunError: its config is not of this version: a field is missing or unknown.
    """
    from embodied.configs import from_json

    defaults = default_settings(join_content().find(run.task))
    fields = {field.name for field in dataclasses.fields(Settings)} - set(UNSAVED)
    if fields != set(run.config):
        raise RunError(
            f"{run.path} was written by another version: {sorted(fields ^ set(run.config))} differ in its config"
        )
    saved = dict(run.config)
    saved["config"] = from_json(type(defaults.config), saved["config"], "config")
    saved["ppo"] = from_json(type(defaults.ppo), saved["ppo"], "ppo")
    return Settings(**saved)


def build_env(settings: Settings[Any, Any], num_envs: int, seed: int) -> Env | JoinedEnv:
    """The environments that the settings describe."""
    from embodied.factory import make
    from embodied.suite import make_suite

    build = make_suite if isinstance(join_content().find(settings.task), Suite) else make
    return build(settings.task, num_envs, settings.engine, seed, device=settings.device, config=settings.config)


class Session:
    """One process's part in a training run: progress, metrics, checkpoints, a clean stop."""

    def __init__(self, settings: Settings[Any, Any], env: Env | JoinedEnv, run: Run | None) -> None:
        """Only rank 0 has a `run`; the others train in silence."""
        self.settings, self.env, self.run = settings, env, run
        self.signal: str | None = None
        self._saved_at = time.monotonic()
        self._saved_step: int | None = None
        self._started = time.monotonic()

    def train(self, start_from: Policy | None = None, resume: Any = None) -> int:
        """Train to the end or to a signal; returns the exit code."""
        from embodied.checkpoints import unflatten
        from policies.trainer import train

        settings = self.settings
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        state = None if resume is None else unflatten(resume.tensors)["trainer"]
        self._saved_step = None if resume is None else resume.step
        self._announce(resume)
        try:
            with cli.Line(settings.task, settings.steps) as line:
                self._line = line
                trainer = train(
                    self._learning_env(),
                    settings.ppo,
                    total_steps=settings.steps,
                    seed=settings.seed,
                    start_from=start_from,
                    resume=state,
                    on_iteration=self._on_iteration,
                    should_stop=lambda: self.signal is not None,
                )
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self.run is None:
            return 0
        seconds = time.monotonic() - self._started
        self._save(trainer)
        self.run.close()
        if self.signal:
            cli.console().print(f"stopped by {self.signal} at {trainer.steps:,} steps and saved; go on with\n"
                                f"  python -m embodied.train --resume {self.run.path}")  # fmt: skip
            return 0
        self._report(trainer, seconds)
        return 0

    def _learning_env(self) -> VecEnv:
        """What the learner steps: the environments; every agent of them as one; or their adversaries."""
        from embodied.load_policy import load_policy
        from policies.adversary import AdversaryEnv
        from policies.agents_env import AgentsEnv

        if self.settings.adversaries:
            return AdversaryEnv(self.env, load_policy(self.settings.against, self.env), self.settings.adversaries)
        return cast("VecEnv", self.env if self.env.agents is None else AgentsEnv(self.env))

    @property
    def _scored(self) -> int | None:
        """How many agents, the first, make up the team."""
        agents, adversaries = self.env.agents, self.settings.adversaries
        return agents - adversaries if agents and adversaries else None

    def _rule(self, env: Env, policy: Policy) -> ActionRule:
        """The learned policy for all agents of `env`, or for its adversaries among a team."""
        from embodied.load_policy import load_policy
        from policies.adversary import Infiltrated

        if not self.settings.adversaries:
            return policy
        return Infiltrated(load_policy(self.settings.against, env), policy, self.settings.adversaries)

    def _announce(self, resume: Any) -> None:
        if self.run is not None:
            goes_on = "" if resume is None else f", from step {resume.step:,}"
            cli.console().print(
                f"{self.settings.task} on {self.env.engine_name}, {self.env.num_envs:,} environments, "
                f"{self.env.device}{goes_on} -> {self.run.path}\ncompiling ..."
            )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt  # a second Ctrl-C does not wait for the iteration to end
        self.signal = signal.Signals(number).name

    def _on_iteration(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        if self.run is None:
            return
        self.run.log(trainer.steps, metrics)
        self._line.update(trainer.steps, progress_text(metrics))
        if time.monotonic() - self._saved_at > self.settings.checkpoint_seconds:
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        """Write a checkpoint that both a resume and a robot can use."""
        from embodied.checkpoints import flatten, prune

        assert self.run is not None
        self._saved_at = time.monotonic()
        if trainer.steps == self._saved_step:  # the last iteration may have been saved already
            return
        meta, tensors = trainer.ppo.policy.to_tensors()
        contents = flatten({"policy": tensors, "trainer": trainer.state()})
        known = {"identities": list(self.env.names)} if getattr(self.env, "identified", False) else {}
        self.run.save(trainer.steps, contents, {"policy": meta, "task": self.settings.task, **known})
        prune(self.run.checkpoints, keep=3)
        self._saved_step = trainer.steps

    def _report(self, trainer: Trainer, seconds: float) -> None:
        """Evaluate, print, and say what to type next."""
        assert self.run is not None
        output, speed = cli.console(), trainer.steps / seconds
        result: dict[str, Any] = {"task": self.settings.task, "engine": self.env.engine_name, "steps": trainer.steps,
                                  "train_seconds": seconds, "train_env_steps_per_second": speed,
                                  "num_envs": self.env.num_envs, "seed": self.settings.seed}  # fmt: skip
        if self.settings.evaluate_episodes:
            named = join_content().find(self.settings.task)
            policy = trainer.ppo.policy
            result |= self._try_suite(named, policy) if isinstance(named, Suite) else self._try_task(policy)
        output.print(f"trained {trainer.steps:,} steps in {seconds:.1f} s ({cli.number(speed)} steps/s)")
        output.print(f"Watch it:     python -m embodied.play {self.run.path}")
        output.print(f"Evaluate it:  python -m embodied.evaluate {self.settings.task} --policy {self.run.path}")
        cli.write_result(self.settings.json, cli.command_line("embodied.train"), result)

    def _try_task(self, policy: Policy) -> dict[str, Any]:
        """Evaluate on fresh episodes of the task."""
        from embodied.evaluation import evaluate

        episodes = self.settings.evaluate_episodes
        env = cast("Env", build_env(self.settings, min(episodes, 256), self.settings.seed + EVALUATION_SEED))
        with cli.Line("evaluating", episodes) as line:
            outcome = evaluate(env, self._rule(env, policy), episodes, scored=self._scored,
                               on_step=lambda done, _: line.update(done, f"{done} episodes"))  # fmt: skip
        summary = outcome.summary()
        cli.console().print(cli.table(f"{self.settings.task}, {episodes} fresh episodes", cli.evaluation_rows(summary)))
        return summary

    def _try_suite(self, suite: Suite, policy: Policy) -> dict[str, Any]:
        """Evaluate on the suite's own starts, task by task."""
        from embodied.load_policy import identified
        from embodied.suite import evaluate_suite, overall

        def rule_of(env: Env) -> ActionRule:
            if not suite.identified or env.name not in suite.tasks:
                return policy
            return identified(policy, suite.tasks.index(env.name), len(suite.tasks))

        settings = self.settings
        with cli.Line("evaluating", len(suite.tasks) + len(suite.held_out)) as line:
            rows = evaluate_suite(suite, rule_of, engine=settings.engine, episodes=settings.evaluate_episodes,
                                  device=settings.device, on_task=line.update)  # fmt: skip
        cli.console().print(cli.suite_table(suite.name, rows))
        return {**overall([row for row in rows if not row["held_out"]]), "results": rows}


def progress_text(metrics: dict[str, float]) -> str:
    """The part of an iteration's metrics that a person follows."""
    parts = [f"{cli.number(metrics['env_steps_per_second'])} steps/s"]
    if "return" in metrics:
        parts += [f"return {metrics['return']:.4g}", f"success {100 * metrics['success']:.0f} %"]
    return "  ".join(parts)


def _flag_value(words: list[str], flag: str) -> str | None:
    """The value of `--flag VALUE` or `--flag=VALUE`.

    Raises:
        EmbodiedError: the flag stands without a value.
    """
    for index, word in enumerate(words):
        if word.startswith(flag + "="):
            return word.partition("=")[2]
        if word == flag:
            if index + 1 == len(words):
                raise EmbodiedError(f"{flag} needs a value")
            return words[index + 1]
    return None


if __name__ == "__main__":
    sys.exit(main())
