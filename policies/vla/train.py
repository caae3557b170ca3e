"""`python -m policies.vla.train`: supervised fine-tuning of a vision-language-action policy on a dataset."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.configs import from_json, to_json
from embodied.errors import EmbodiedError, guard
from embodied.runs import Run
from policies.vla.session import Session
from policies.vla.settings import LIMITS, NAME, UNSAVED, Settings
from policies.vla.trials import suite_of, within


@guard
def main(arguments: list[str] | None = None) -> int:
    """Train as the command line says; returns the exit code."""
    settings = cli.parse(Settings, arguments, "policies.vla.train")
    if settings.resume is None:
        return start(settings)
    words = sys.argv[1:] if arguments is None else arguments
    return _resume(settings.resume, cli.given(settings, words, LIMITS), settings.json)


def start(settings: Settings) -> int:
    """Start a new run."""
    if settings.task is not None:
        within(
            suite_of(settings.task), settings.tasks
        )  # a name that does not exist is an error before hours of training
    session = Session(settings)
    document: dict[str, Any] = {name: v for name, v in to_json(settings).items() if name not in UNSAVED}
    document |= {"demonstrations": session.demonstrations.fingerprint}
    return session.train(Run.create(Path("runs"), settings.task or NAME, document, settings.out))


def _resume(path: Path, limits: Mapping[str, float], json: Path | None) -> int:
    """Go on with a run, to its own limit or to another.

    Raises:
        EmbodiedError: its demonstrations are not what they were.
    """
    run = Run.open(path)
    config = dict(run.config)
    learned_from = config.pop("demonstrations", None)
    session = Session(from_json(Settings, {**config, **limits, "json": None if json is None else str(json)}))
    if (found := session.demonstrations.fingerprint) != learned_from:
        raise EmbodiedError(f"run '{run.path}' learned from {learned_from}; its dataset now has {found}")
    return session.train(run, run.resume())


if __name__ == "__main__":
    sys.exit(main())
