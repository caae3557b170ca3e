"""The settings of a fine-tuning."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from embodied.errors import EmbodiedError
from policies.vla.model.config import SIZES, FineTuningConfig, Head, Size, VLAConfig


@dataclasses.dataclass(frozen=True)
class Settings:
    """Train a policy that sees and is told what to do, on demonstrations.

    Results go to a run as those of embodied.train. Ctrl-C or SIGTERM saves and stops; --resume RUN goes on. Examples:

        python -m embodied.collect mt10 --episodes 50 --out demos
        python -m policies.vla.train demos --task mt10 --out runs/vla/mt10
        python -m embodied.evaluate mt10 --policy runs/vla/mt10
        python -m policies.vla.train --resume runs/vla/mt10 --steps 40000
        python -m policies.vla.train demos --episodes-per-task 1 --tasks manipulation/reach manipulation/drawer-close
    """

    dataset: tyro.conf.Positional[Path | None] = None
    """Folder that python -m embodied.collect wrote, or any in LeRobot's format v3.0."""
    task: str | None = None
    """Task or suite on which the policy is tried while it learns, and at the end; by default none."""
    out: Path | None = None
    """Run folder, instead of runs/vla/TIME; must be new or empty."""
    size: Size = Size.TINY
    """tiny, small or base."""
    head: Head = Head.TOKENS
    """tokens, or flow."""
    chunk: int = 8
    """Actions decided at once."""
    execute: int = 0
    """Of those, how many are carried out before the next look; 0: all."""
    cameras: tuple[str, ...] = ()
    """Of the dataset's; by default all."""
    steps: int = 20_000
    """Gradient steps in all; fewer if held-out episodes say so. With --resume: to which training goes on, along the
    slow fall of the learning rate that so many steps would have had from the start."""
    image_encoder: Path | None = None
    """Folder of a pretrained image encoder such as DINOv2 or SigLIP; by default one is learned from nothing."""
    text_encoder: Path | None = None
    """Folder of a pretrained text encoder; by default one is learned from nothing."""
    lora: int = 0
    """Rank of the updates of pretrained parts; 0: they stay as they are."""
    tasks: tuple[str, ...] = ()
    """Of the dataset's, those to learn and to be tried on; by default all."""
    episodes_per_task: int = 0
    """The first so many episodes of each task, in the dataset's order, without those left out as failures; 0: all."""
    failures: bool = False
    """Learn from episodes that failed, too."""
    seed: int = 0
    """Of every random draw."""
    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU where there is one."""
    engine: str | None = None
    """Physics engine of the trials; by default the best that runs the task on this machine."""
    trial_seconds: float = 300.0
    """Seconds of training between two trials."""
    trial_episodes: int = 4
    """Episodes of each task in a trial."""
    evaluate_episodes: int = 50
    """Episodes of each task in the evaluation at the end; 0 for none."""
    checkpoint_seconds: float = 120.0
    """Seconds between checkpoints."""
    resume: Path | None = None
    """Run to go on with: its own settings hold, but --steps may extend it."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    tuning: FineTuningConfig = dataclasses.field(default_factory=FineTuningConfig)
    """Options of the training."""

    def __post_init__(self) -> None:
        """Check that there is something to learn from."""
        if self.dataset is None and self.resume is None:
            raise EmbodiedError("which dataset? python -m policies.vla.train DATASET, or --resume RUN")
        if self.episodes_per_task < 0:
            raise EmbodiedError(f"--episodes-per-task {self.episodes_per_task}: expected at least 1, or 0 for all")
        if self.steps < 1 or self.trial_episodes < 1:
            raise EmbodiedError(
                f"--steps {self.steps} and --trial-episodes {self.trial_episodes}: expected at least 1 of each"
            )


LIMITS = ("steps",)
"""Settings that end a training."""
NAME = "vla"
"""What a run is called that is of no task."""


def network_config(settings: Settings) -> VLAConfig:
    """The network that the settings mean.

    Raises:
        EmbodiedError: an impossible one.
    """
    try:
        return dataclasses.replace(SIZES[settings.size], head=settings.head, chunk=settings.chunk)
    except ValueError as error:
        raise EmbodiedError(str(error)) from None
