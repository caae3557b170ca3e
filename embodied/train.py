"""`python -m embodied.train`: train a policy on a task.

Without arguments it trains a Crazyflie to hover, on the CPU, in about a minute.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.registry import Suite, TaskEntry, join_content
from policies.training.session import Session
from policies.training.settings import CALIBRATION, Settings, build_env, default_settings, saved_settings, settings_type

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.pixels import SeeingEnv
    from embodied.env.suites import JoinedEnv
    from embodied.env.vec_env import VecEnv
    from embodied.storage.runs import Run
    from policies.policy import ActionRule, Policy

DEFAULT_TASK = "swarm/hover"
EXPERT = "expert"
RANK_SEED = 100_003  # seeds of the ranks lie this far apart


@guard
def main(arguments: list[str] | None = None) -> int:
    """Train as the command line says; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    if resumed := cli.flag_value(words, "--resume"):
        return _resume(Path(resumed), words)
    name = cli.named_task(words, registry, DEFAULT_TASK)
    assert name is not None
    return start(parse(registry.find(name), words))


def parse(entry: TaskEntry | Suite, words: list[str]) -> Settings[Any, Any, Any]:
    """Parse a command line whose flags are the fields of this task's and this learner's configs."""
    from policies.algorithms import DEFAULT

    defaults = default_settings(entry, cli.flag_value(words, "--learner") or DEFAULT)
    return cli.parse(settings_type(defaults), words, "train", defaults)


def start(settings: Settings[Any, Any, Any]) -> int:
    """Start a new run."""
    from embodied.storage.configs import run_document
    from embodied.storage.runs import Run
    from policies.optim import distributed

    check_eyes(settings)
    with distributed.joined(settings.device or "cpu"):
        env = build_env(settings, settings.num_envs, settings.seed + RANK_SEED * distributed.rank())
        settings, policy = with_start(with_images(settings, env), env)
        document = run_document(settings) | {"engine": env.engine_name, "variations": dict(env.variations)}
        first = distributed.rank() == 0
        run = Run.create(Path("runs"), settings.task, document, settings.out) if first else None
        if run and settings.calibration:
            keep_calibration(settings.calibration, run)
        return Session(settings, env, run).train(start_from=policy)


def check_eyes(settings: Settings[Any, Any, Any]) -> None:
    """Check that who learns from images has some, and nobody else.

    Raises:
        EmbodiedError: the learner is blind, lacks cameras, or is to learn a suite.
    """
    from policies.off_policy.svea import SVEAConfig

    sees, given = isinstance(settings.options, SVEAConfig), ", ".join(settings.cameras) or "none"
    if sees != bool(settings.cameras):
        raise EmbodiedError(
            f"--learner {settings.learner} with --cameras {given}: svea learns from images, the others from numbers"
        )
    if sees and isinstance(join_content().find(settings.task), Suite):
        raise EmbodiedError(f"--cameras {given}: images are for one task, not for the suite {settings.task}")


def with_images(settings: Settings[Any, Any, Any], env: Env | JoinedEnv) -> Settings[Any, Any, Any]:
    """The settings with the shape of what is seen."""
    from embodied.env.pixels import Sight

    if not settings.cameras:
        return settings
    shape = Sight.of(cast("SeeingEnv", env)).image_shape
    return settings.with_options(dataclasses.replace(settings.options, image_shape=shape))


def keep_calibration(path: Path, run: Run) -> None:
    """Copy a calibration, given by its folder or its file, into a run: what it was trained with stays with it."""
    file = path / CALIBRATION if path.is_dir() else path
    shutil.copyfile(file, run.path / CALIBRATION)


def with_start(
    settings: Settings[Any, Any, Any], env: Env | JoinedEnv
) -> tuple[Settings[Any, Any, Any], Policy | None]:
    """The policy to begin with, and the settings with an actor of its shape.

    Raises:
        EmbodiedError: there is no such policy, it is not a trained one, or it does not fit the task.
    """
    if settings.start_from is None:
        return settings, None
    from embodied.env.pixels import SeeingRule
    from policies.policy import Policy
    from policies.training.loading import load_policy

    policy = load_policy(settings.start_from, env)
    if settings.start_from == EXPERT:
        return settings, _imitated(settings, env, policy)
    policy = policy.policy if isinstance(policy, SeeingRule) else policy
    if not isinstance(policy, Policy):
        raise EmbodiedError(f"--start-from {settings.start_from}: expected a trained policy: a run or a checkpoint")
    return settings.with_options(dataclasses.replace(settings.options, actor=policy.config)), policy


def _imitated(settings: Settings[Any, Any, Any], env: Env | JoinedEnv, expert: ActionRule) -> Policy:
    """A policy of PPO's actor that repeats what the task's expert does.

    Raises:
        EmbodiedError: the learner is not ppo.
    """
    from policies.imitation.warm_start import imitate
    from policies.ppo.config import PPOConfig

    if not isinstance(settings.options, PPOConfig):
        raise EmbodiedError(
            f"--start-from {EXPERT} is for --learner ppo, not {settings.learner}, which learns from a file of "
            "demonstrations: python -m policies.demonstrations writes one"
        )
    cli.console().print("watching the expert ...")
    found = imitate(cast("VecEnv", env), expert, settings.options, settings.seed)
    cli.console().print(f"imitated: {found.explained:.1%} of the variance of the expert's actions")
    return found.policy


def _resume(path: Path, words: list[str]) -> int:
    """Go on with a run."""
    from embodied.storage.runs import Run
    from policies.optim import distributed

    run = Run.open(path)
    settings = saved_settings(run)
    if steps := cli.flag_value(words, "--steps"):
        settings = dataclasses.replace(settings, steps=int(steps))
    if json := cli.flag_value(words, "--json"):
        settings = dataclasses.replace(settings, json=Path(json))
    with distributed.joined(settings.device or "cpu"):
        env = build_env(settings, settings.num_envs, settings.seed + RANK_SEED * distributed.rank())
        first = distributed.rank() == 0
        return Session(settings, env, run if first else None).train(resume=run.resume() if first else run.load())


if __name__ == "__main__":
    sys.exit(main())
