"""`python -m policies.vla.rl_finetune`: reinforcement learning of a vision-language-action policy."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from embodied import cli
from embodied.env.factory import check_device
from embodied.errors import EmbodiedError, guard
from embodied.storage.checkpoints import Checkpoint
from embodied.storage.configs import run_document
from embodied.storage.runs import Run
from policies.training.loading import open_checkpoint, policy_from_checkpoint
from policies.vla.fine_tuning.settings import NAME
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.session import COMMAND, RLSession
from policies.vla.reinforcement.settings import LIMITS, Settings
from policies.vla.settings import stored_settings
from policies.vla.trials import suite_of


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, COMMAND)
    if settings.resume is None:
        assert settings.policy is not None
        session = make_session(settings, open_checkpoint(settings.policy), f"policy '{settings.policy}'")
        name = settings.task[0] if len(settings.task) == 1 else NAME
        return session.train(Run.create(Path("runs"), name, run_document(settings), settings.out))
    run = Run.open(settings.resume)
    stored = stored_settings(settings, run, arguments, LIMITS)
    checkpoint = run.resume()
    return make_session(stored, checkpoint, f"run '{run.path}'").train(run, checkpoint)


def make_session(settings: Settings, checkpoint: Checkpoint, what: str) -> RLSession:
    """The policy of a checkpoint, and the environments of its tasks."""
    policy = vla_policy(checkpoint, what, settings.device)
    tasks = settings.task or tuple(trained.task for trained in policy.training_tasks)
    return RLSession(settings, policy, suite_of(*tasks), what)


def vla_policy(checkpoint: Checkpoint, what: str, device: str | None = None) -> VLAPolicy:
    """The vision-language-action policy in a checkpoint, on a GPU where there is one and no other device is named.

    Raises:
        EmbodiedError: it holds none, or one of another kind; begins with `what`.
    """
    check_device(device)
    found = policy_from_checkpoint(checkpoint, what, device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if not isinstance(found, VLAPolicy):
        kind = checkpoint.meta["policy"].get("kind")
        raise EmbodiedError(f"{what} is of kind {kind!r}; expected one that python -m policies.vla.train made")
    return found


if __name__ == "__main__":
    sys.exit(main())
