"""Start a training run, or go on with one: what `python -m embodied.train` calls."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from embodied import cli
from embodied.errors import EmbodiedError
from embodied.registry import Suite, TaskEntry, join_content
from embodied.storage import task_names
from embodied.storage.configs import run_document
from embodied.storage.runs import Run
from policies.off_policy.svea.policy import PixelGroups
from policies.optim import distributed
from policies.policy import Policy
from policies.registry import DEFAULT, find_algorithm
from policies.training.loading import load_policy
from policies.training.settings import CALIBRATION, Settings, build_env, default_settings, saved_settings, settings_type
from policies.training.task_session import TaskSession

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.suites import JoinedEnv

EXPERT = "expert"
RANK_SEED = 100_003  # seeds of the ranks lie this far apart


def parse(entry: TaskEntry | Suite, words: Sequence[str]) -> Settings[Any, Any]:
    """Parse a command line whose flags are the fields of this task's and this algorithm's configs."""
    defaults = default_settings(entry, cli.flag_value(words, "--algorithm") or DEFAULT)
    return dataclasses.replace(cli.parse(settings_type(defaults), words, "train", defaults), task=entry.name)


def start(settings: Settings[Any, Any]) -> int:
    """Start a new run; returns the exit code."""
    _check_cameras(settings)
    with distributed.joined():
        env = _training_env(settings)
        if settings.cameras:
            PixelGroups.of(env.observation_spec)  # refuses what cannot be learned from before there is a run
        settings, policy = _with_policy(settings, env)
        document = run_document(settings) | {"engine": env.engine_name, "variations": dict(env.variations)}
        first = distributed.rank() == 0
        run = Run.create(Path("runs"), settings.task, document, settings.out) if first else None
        if run:
            run.claim()
        if run and settings.calibration:
            _keep_calibration(settings.calibration, run)
        if run and (file := task_names.task_file(settings.task)):
            shutil.copyfile(file.path, run.path / file.path.name)  # which may change later, or go
        session = TaskSession(settings, env, run)
        try:
            return session.train(start_from=policy)
        except BaseException:
            if run and not session.learned:
                run.discard()  # what never began should not look like a run
            raise
        finally:
            if run:
                run.close()


def resume(path: Path, changes: dict[str, Any]) -> int:
    """Go on with a run by its own settings, but for some changes; returns the exit code."""
    run = Run.open(path)
    settings = dataclasses.replace(saved_settings(run), **changes)
    with distributed.joined():
        env = _training_env(settings)
        first = distributed.rank() == 0
        if first:
            run.claim()
        try:
            return TaskSession(settings, env, run if first else None).train(
                resume=run.resume() if first else run.load()
            )
        finally:
            run.close()


def _training_env(settings: Settings[Any, Any]) -> Env | JoinedEnv:
    """This rank's environments."""
    return build_env(settings, settings.num_envs, settings.seed + RANK_SEED * distributed.rank())


def _check_cameras(settings: Settings[Any, Any]) -> None:
    """Check that an algorithm that learns from images has cameras, and no other has.

    Raises:
        EmbodiedError: it lacks cameras, has no use for them, or is to learn a suite.
    """
    needs, given = find_algorithm(settings.algorithm).needs_images, ", ".join(settings.cameras) or "none"
    if needs != bool(settings.cameras):
        raise EmbodiedError(
            f"--algorithm {settings.algorithm} with --cameras {given}: svea learns from images, the others from numbers"
        )
    if needs and isinstance(join_content().find(settings.task), Suite):
        raise EmbodiedError(f"--cameras {given}: images are for one task, not for the suite {settings.task}")


def _keep_calibration(path: Path, run: Run) -> None:
    """Copy a calibration, given by its folder or its file, into a run: what it was trained with stays with it."""
    file = path / CALIBRATION if path.is_dir() else path
    shutil.copyfile(file, run.path / CALIBRATION)


def _with_policy(settings: Settings[Any, Any], env: Env | JoinedEnv) -> tuple[Settings[Any, Any], Policy | None]:
    """The policy to begin with, and the settings with an actor of its shape.

    Raises:
        EmbodiedError: there is no such policy, it is not a trained one, or it does not fit the task.
    """
    if settings.start_from is None:
        return settings, None
    policy = load_policy(settings.start_from, cast("Env", env))
    if settings.start_from == EXPERT:
        return settings, _imitation(settings, env, policy)
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
