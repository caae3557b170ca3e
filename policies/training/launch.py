"""Start a training run, or go on with one: what `python -m embodied.train` and `embodied.train_policy` call."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied import cli
from embodied.core.episode import SEEDS
from embodied.env.options import Trials
from embodied.env.registry import Suite, join_content
from embodied.errors import OWN_FILES, EmbodiedError, listing, whole_number
from embodied.storage import task_names, trust
from embodied.storage.configs import fitting, override, places, run_document
from embodied.storage.runs import RUNS, Run
from embodied.storage.wandb_logger import WandbLogger, WandbMode, require_wandb
from policies.imitation.dagger_config import DaggerConfig
from policies.networks.optim import distributed
from policies.pixel_policy import PixelGroups
from policies.policy import Policy, RememberingPolicy
from policies.ppo.config import PPOConfig
from policies.registry import ALGORITHMS, DEFAULT, find_algorithm
from policies.training import command_line
from policies.training.command_line import parse as parse
from policies.training.loading import critic_state, load_policy
from policies.training.settings import Settings, default_settings, saved_settings
from policies.training.task_session import StopEarly, TaskSession, build_env

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.suites import JoinedEnv

EXPERT = "expert"
RANK_SEED = 100_003  # seeds of the ranks lie this far apart


@dataclasses.dataclass(frozen=True)
class Trained:
    """Result of a training."""

    run: Run
    """Its folder: settings, metrics, checkpoints."""
    policy: Policy
    """The policy as it is at the end: observation groups (N, size) to actions (N, A)."""
    result: Mapping[str, Any]
    """Figures as `--json` writes them: success and return over fresh episodes, time; nothing where it was stopped."""
    stopped: bool
    """Whether it was stopped before its end; `embodied.train --resume RUN` goes on."""


def train_policy(
    task: str,
    *,
    steps: int | None = None,
    seed: int | None = None,
    algorithm: str | None = None,
    config_file: Path | str | None = None,
    **settings: Any,
) -> Trained:
    """Train a policy from Python or a notebook: as `python -m embodied.train` does, with the same runs.

        trained = embodied.train_policy("swarm/hover", steps=1_000_000, seed=1, name="gentle",
                                        algorithm_config={"learning_rate": 1e-3}, config={"latency": (0.0, 0.0)})
        trained.result["success"], trained.run.path, trained.policy(env.reset())

    Interrupting the cell saves and stops; training the same run on is `python -m embodied.train --resume RUN`.

    Args:
        task: Task or suite, or a task of your own, "my_task.py:Reach".
        steps: Environment steps in all; by default what suits the task.
        seed: Seed of every random draw; by default 0.
        algorithm: By default PPO.
        config_file: A run's config.json or a file of your own, whose settings hold unless given here.
        **settings: Other fields of `policies.training.settings.Settings`, as the flags of `embodied.train` but with
            underscores: `num_envs`, `engine`, `name`, `out`, `evaluate_episodes`, `cameras`, `wandb`, ...; `config` and
            `algorithm_config` are whole configs, or mappings of the fields that differ.

    Raises:
        EmbodiedError: an unknown task, algorithm or setting, a value that is refused, or a folder that is not free.
    """
    trust.typed([str(task)])
    file = None if config_file is None else command_line.read(fitting(Path, config_file, "config_file"))
    entry = join_content().find(task)
    defaults = default_settings(entry, algorithm or DEFAULT) if file is None else file.settings(entry, algorithm)
    if settings.get("start_from") is not None:
        defaults = command_line.begun_from(defaults, str(settings["start_from"]))
    for name in ("seeds", "resume"):
        if name in settings:
            raise EmbodiedError(f"train_policy takes no {name}: it trains one policy from the beginning")
    given = dict(settings)
    for name, value, low, high in (("steps", steps, 1, None), ("seed", seed, 0, SEEDS - 1)):
        if value is not None:
            given[name] = whole_number(name, value, low, high)
    local = [name for name, place in places(defaults).items() if place.kind == Path | None]  # results leave them out
    told = {"algorithm": algorithm} if algorithm else {}
    told |= {name: value for name, value in given.items() if name not in local}
    written = [repr(task_names.label(task)), *(f"{name}={value!r}" for name, value in told.items())]
    for name in ("config", "algorithm_config"):
        if isinstance(given.get(name), Mapping):
            given[name] = _changed(getattr(defaults, name), given[name])
    try:
        for name, kind in (*((name, Path) for name in local), ("wandb", WandbMode)):
            if given.get(name) is not None:
                given[name] = kind(given[name])
    except (TypeError, ValueError):
        expected = "off, offline or online" if name == "wandb" else "a path"
        raise EmbodiedError(f"{name}={given[name]!r}: expected {expected}") from None
    trained = start(override(defaults, given), command=f"embodied.train_policy({', '.join(written)})")
    assert trained is not None  # not started by `torchrun`
    return trained


def _changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """A config with some fields replaced; a mapping replaces some fields of a config within.

    Raises:
        EmbodiedError: a field does not exist, or a value is refused.
    """
    nested = {
        name: _changed(getattr(config, name), value)
        for name, value in changes.items()
        if isinstance(value, Mapping) and dataclasses.is_dataclass(getattr(config, name, None))
    }
    return override(config, {**changes, **nested})


def start(
    settings: Settings[Any, Any], *, command: str | None = None, stop_early: StopEarly | None = None
) -> Trained | None:
    """Start a new run, which `stop_early` follows, and may stop; its result says the command by which it is repeated.

    Returns:
        The result; None in a process that `torchrun` started and that is not the first.
    """
    _check_cameras(settings)
    _warn_of_no_memory(settings)
    if settings.wandb is not WandbMode.OFF:
        require_wandb(settings.wandb)
    with distributed.joined():
        env = _training_env(settings)
        if settings.camera_config.cameras:
            PixelGroups.of(env.observation_spec)  # refuses what cannot be learned from before there is a run
        settings, policy = _with_policy(settings, env)
        state = None if policy is None else critic_state(str(settings.start_from))
        document = run_document(settings) | {"engine": env.engine_name, "variations": dict(env.variations)}
        first = distributed.rank() == 0
        run = Run.create(RUNS, settings.task, document, folder_of(settings)) if first else None
        if run:
            run.claim()
        if run:
            for wrapper in settings.wrappers:
                wrapper.keep(run.path)
        if run and (file := task_names.own_file(settings.task)):
            shutil.copyfile(file.path, run.path / file.path.name)  # which may change later, or go
        session = _session(settings, env, run, command, stop_early)
        try:
            session.train(start_from=policy, start_state=state)
        except BaseException:
            if run and not session.learned:
                run.discard()  # what never began should not look like a run
            raise
        finally:
            if run:
                run.close()
    return _trained(session)


def folder_of(settings: Settings[Any, Any]) -> Path | None:
    """The folder that the settings request; None: one named by the time."""
    if settings.out is not None or settings.name is None:
        return settings.out
    return RUNS / task_names.run_folder(settings.task) / settings.name


def resume(
    path: Path, changes: dict[str, Any], *, command: str | None = None, stop_early: StopEarly | None = None
) -> Trained | None:
    """Go on with a run by its own settings, but for some changes; as `start`."""
    run = Run.open(path)
    settings = dataclasses.replace(saved_settings(run), **changes)
    with distributed.joined():
        env = _training_env(settings)
        first = distributed.rank() == 0
        if first:
            run.claim()
        session = _session(settings, env, run if first else None, command, stop_early)
        try:
            session.train(resume=run.resume() if first else run.load())
        finally:
            run.close()
    return _trained(session)


def _trained(session: TaskSession) -> Trained | None:
    if session.run is None:
        return None
    return Trained(session.run, session.trainer.policy, session.result, session.stopped or session.halted)


def _session(
    settings: Settings[Any, Any],
    env: Env | JoinedEnv,
    run: Run | None,
    command: str | None,
    stop_early: StopEarly | None,
) -> TaskSession:
    if run is not None and settings.wandb is not WandbMode.OFF:
        run.add_logger(WandbLogger(run, settings.wandb))
    if run is not None:
        trust.trained_with(OWN_FILES)
    return TaskSession(settings, env, run, command or cli.command_line("embodied.train"), stop_early)


def _training_env(settings: Settings[Any, Any]) -> Env | JoinedEnv:
    """This rank's environments."""
    return build_env(settings, settings.num_envs, settings.seed + RANK_SEED * distributed.rank())


def _check_cameras(settings: Settings[Any, Any]) -> None:
    """Check that an algorithm that learns from images has cameras, and no other has.

    Raises:
        EmbodiedError: it lacks cameras, has no use for them, or is to learn a suite.
    """
    cameras = settings.camera_config.cameras
    needs, given = find_algorithm(settings.algorithm).needs_images, ", ".join(cameras) or "none"
    if needs != bool(cameras):
        seeing = [name for name, entry in ALGORITHMS.items() if entry.needs_images]
        raise EmbodiedError(
            f"--algorithm {settings.algorithm} with --cameras {given}: {listing(seeing)} learn from images, the others "
            "from numbers"
        )
    if needs and isinstance(join_content().find(settings.task), Suite):
        raise EmbodiedError(f"--cameras {given}: images are for one task, not for the suite {settings.task}")


def _warn_of_no_memory(settings: Settings[Any, Any]) -> None:
    """Warn of what cannot be learned without memory: to adapt within a trial, or what a suite hides."""
    config, named = settings.algorithm_config, join_content().find(settings.task)
    remembering = isinstance(config, PPOConfig | DaggerConfig)
    if remembering and config.actor.memory:
        return
    flags = f"--{settings.algorithm if remembering else DEFAULT}.actor"
    gru = f"{flags}.architecture gru {flags}.memory 128"
    if any(isinstance(wrapper, Trials) for wrapper in settings.wrappers):
        cli.say(f"warning: a policy without memory cannot adapt from episode to episode of a trial; {gru} gives it one")
    elif isinstance(named, Suite) and named.unseen:
        cli.say(
            f"warning: {named.name} does not show policies the {named.unseen}, and without memory none can find them "
            f"out; --episodes-per-trial 3 {gru} learns to"
        )


def _with_policy(settings: Settings[Any, Any], env: Env | JoinedEnv) -> tuple[Settings[Any, Any], Policy | None]:
    """The policy to begin with, and the settings with an actor of its shape.

    Raises:
        EmbodiedError: there is no such policy, it is not a trained one, or it does not fit the task.
    """
    if settings.start_from is None:
        return settings, None
    policy = load_policy(settings.start_from, env)
    if settings.start_from == EXPERT:
        return settings, _imitation(settings, env, policy)
    policy = policy.policy if isinstance(policy, RememberingPolicy) else policy
    if not isinstance(policy, Policy):
        raise EmbodiedError(f"--start-from {settings.start_from}: expected a trained policy: a run or a checkpoint")
    config = dataclasses.replace(settings.algorithm_config, actor=policy.config)
    return dataclasses.replace(settings, algorithm_config=config), policy


def _imitation(settings: Settings[Any, Any], env: Env | JoinedEnv, expert: Any) -> Policy:
    """A policy of the algorithm's actor that repeats what the task's expert does.

    Raises:
        EmbodiedError: the algorithm cannot begin with one.
    """
    algorithm = find_algorithm(settings.algorithm)
    if algorithm.imitate_expert is None:
        raise EmbodiedError(
            f"--start-from {EXPERT} is for --algorithm ppo, not {settings.algorithm}, which learns from a file of "
            "demonstrations: python -m policies.demonstrations writes one"
        )
    cli.say("watching the expert ...")
    found = algorithm.load(algorithm.imitate_expert)(env, expert, settings.algorithm_config, settings.seed)
    cli.say(f"imitated: {found.explained:.1%} of the variance of the expert's actions")
    return found.policy
