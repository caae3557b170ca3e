"""`python -m policies.vla.train`: supervised fine-tuning of a vision-language-action policy on datasets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from embodied import cli
from embodied.errors import guard
from embodied.evaluation.rates import overall
from embodied.storage.runs import Run
from policies.vla.data.demonstrations import EpisodeSelection, load_demonstrations
from policies.vla.data.normalization import Normalization
from policies.vla.fine_tuning.learner import FineTuning
from policies.vla.fine_tuning.session import FINGERPRINT, FineTuningSession, document_of
from policies.vla.fine_tuning.settings import LIMITS, NAME, Settings, network_config
from policies.vla.model.pretrained import PretrainedFolders
from policies.vla.policy import VLAPolicy
from policies.vla.settings import stored_settings
from policies.vla.trials import Trials, restricted, suite_of

COMMAND = "policies.vla.train"


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, COMMAND)
    if settings.resume is None:
        session = make_session(settings)
        name, document = settings.task or NAME, document_of(settings, session.demonstrations)
        return finish(session, Run.create(Path("runs"), name, document, settings.out), settings)
    run = Run.open(settings.resume)
    stored = stored_settings(settings, run, arguments, LIMITS, (FINGERPRINT,))
    return finish(make_session(stored), run, stored, resume=True)


def make_session(settings: Settings) -> FineTuningSession:
    """The demonstrations, an untrained policy, and its learner.

    Raises:
        EmbodiedError: there are no demonstrations, they do not fit together, or the settings are impossible.
    """
    # A name of a task that does not exist is an error before demonstrations are read, let alone learned from.
    suite = restricted(suite_of(settings.task), settings.tasks) if settings.task else None
    network_config(settings)  # impossible sizes, too, are an error before that
    selection = EpisodeSelection(settings.tasks, settings.episodes_per_task, settings.failures)
    demonstrations = load_demonstrations(settings.datasets, settings.cameras, selection)
    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(settings.seed)  # of the weights
    policy = VLAPolicy.untrained(
        network_config(settings, demonstrations.keypoints),
        Normalization.of(demonstrations.episodes).to(device),
        demonstrations.spec,
        demonstrations.training_tasks,
        settings.execute,
        PretrainedFolders(settings.image_encoder, settings.text_encoder),
    )
    tuning = FineTuning(policy, demonstrations, settings.tuning, settings.steps, seed=settings.seed)
    trials = suite and Trials(suite, demonstrations.spec, settings.trial_episodes, settings.engine, device)
    return FineTuningSession(
        tuning, demonstrations, COMMAND, settings.task,
        trials=trials, trial_seconds=settings.trial_seconds, checkpoint_seconds=settings.checkpoint_seconds,
    )  # fmt: skip


def finish(session: FineTuningSession, run: Run, settings: Settings, *, resume: bool = False) -> int:
    """Train; where that came to its end and there is a task, evaluate. Returns the exit code."""
    if not session.train(run, str(settings.size), resume=resume):
        return 0
    result: dict[str, Any] = {"task": run.task, "gradient_steps": session.steps, "train_seconds": session.seconds}
    if session.trials is not None and settings.evaluate_episodes:
        rows = session.trials.report(session.policy, settings.evaluate_episodes)
        result |= {**overall([row for row in rows if not row["held_out"]]), "results": rows}
    cli.write_result(settings.json, cli.command_line(COMMAND), result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
