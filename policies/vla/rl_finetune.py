"""`python -m policies.vla.rl_finetune`: reinforcement learning of a vision-language-action policy in batched simulation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import torch

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.factory import check_device
from embodied.storage.checkpoints import Checkpoint
from embodied.storage.configs import from_json, run_document
from embodied.storage.runs import Run
from policies.training.loading import open_checkpoint, stored_policy
from policies.vla.fine_tuning.settings import NAME
from policies.vla.fine_tuning.trials import suite_of
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.session import ImproveSession
from policies.vla.reinforcement.settings import LIMITS, Settings


@guard
def main(arguments: list[str] | None = None) -> int:
    """Improve as the command line says; returns the exit code."""
    settings = cli.parse(Settings, arguments, "policies.vla.rl_finetune")
    if settings.resume is None:
        return start(settings)
    words = sys.argv[1:] if arguments is None else arguments
    return _resume(settings.resume, cli.given(settings, words, LIMITS), settings.json)


def start(settings: Settings) -> int:
    """Start a new run."""
    assert settings.policy is not None
    what = f"policy '{settings.policy}'"
    policy = vla_policy(open_checkpoint(settings.policy), what, settings.device)
    session = ImproveSession(settings, policy, suite_of(*_tasks(settings, policy)), what)
    name = settings.task[0] if len(settings.task) == 1 else NAME
    return session.train(Run.create(Path("runs"), name, run_document(settings), settings.out))


def _resume(path: Path, limits: Mapping[str, float], json: Path | None) -> int:
    """Go on with a run, which holds its own policy, to its own limits or to others."""
    run = Run.open(path)
    settings = from_json(Settings, {**run.config, **limits, "json": None if json is None else str(json)})
    checkpoint = run.resume()
    what = f"run '{run.path}'"
    policy = vla_policy(checkpoint, what, settings.device)
    return ImproveSession(settings, policy, suite_of(*_tasks(settings, policy)), what).train(run, checkpoint)


def _tasks(settings: Settings, policy: VLAPolicy) -> tuple[str, ...]:
    return settings.task or tuple(lesson.task for lesson in policy.lessons)


def vla_policy(checkpoint: Checkpoint, what: str, device: str | None = None) -> VLAPolicy:
    """The vision-language-action policy in a checkpoint, on a GPU where there is one and no other device is named.

    Raises:
        EmbodiedError: it holds none, or one of another kind; begins with `what`.
    """
    check_device(device)
    found = stored_policy(checkpoint, what, device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if not isinstance(found, VLAPolicy):
        kind = checkpoint.meta["policy"].get("kind")
        raise EmbodiedError(f"{what} is of kind {kind!r}; expected one that python -m policies.vla.train made")
    return found


if __name__ == "__main__":
    sys.exit(main())
