"""Settings of supervised fine-tuning: of the command, and of the optimisation."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from embodied import cli
from embodied.errors import EmbodiedError
from embodied.storage.bounds import BELOW_ONE, FRACTION, NOT_NEGATIVE, POSITIVE, Bounded, at_least
from policies.vla.model.config import SIZES, Head, Size, VLAConfig
from policies.vla.settings import ClosedLoopSettings


@dataclasses.dataclass(frozen=True)
class FineTuningConfig(Bounded):
    """Supervised fine-tuning on demonstrations."""

    batch_size: Annotated[int, at_least(1)] = 64
    """Samples per gradient step."""
    learning_rate: Annotated[float, POSITIVE] = 5e-4
    """Largest step size of Adam; it rises over `warmup` steps, then falls along half a cosine."""
    warmup: Annotated[int, NOT_NEGATIVE] = 300
    """Gradient steps, but at most a tenth of all."""
    weight_decay: Annotated[float, NOT_NEGATIVE] = 1e-3
    """Share of each parameter that shrinks per step, times the learning rate."""
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    """Norm to which longer gradients are clipped."""
    held_out: Annotated[float, BELOW_ONE] = 0.1
    """Share of each task's episodes that are only for validation; of a single episode none is."""
    validation_interval: Annotated[int, at_least(1)] = 500
    """Gradient steps between two validations on held-out episodes."""
    patience: Annotated[int, at_least(1)] = 20
    """Validations without a smaller error after which training ends."""
    shift: Annotated[int, NOT_NEGATIVE] = 4
    """Random shift of images, pixels at most each way."""
    first_steps: Annotated[int, NOT_NEGATIVE] = 0
    """Half of all samples are drawn from the first so many steps of their episodes, where a policy that is told
    something decides what it goes for; 0: from all steps alike."""
    pointing: Annotated[float, NOT_NEGATIVE] = 1.0
    """Weight of the loss of pointing at what the instruction is about, where the demonstrations tell where it is in the
    images, as those of python -m embodied.collect do; 0: without pointing."""
    photometric: Annotated[float, FRACTION] = 0.0
    """Share of images whose colours are augmented, too: by jitter, half of them by a random convolution instead."""
    bfloat16: bool | None = None
    """Compute in bfloat16 while the weights stay float32; by default where the processor has instructions for it."""


@dataclasses.dataclass(frozen=True)
class Settings(ClosedLoopSettings):
    """Train a vision-language-action policy on demonstrations.

    Results go to a run as those of embodied.train. Ctrl-C or SIGTERM saves and stops; --resume RUN goes on. Examples:

        python -m embodied.collect mt10 --episodes 50 --out demos
        python -m policies.vla.train demos --task mt10 --out runs/vla/mt10
        python -m embodied.evaluate mt10 --policy runs/vla/mt10
        python -m policies.vla.train --resume runs/vla/mt10 --steps 40000
        python -m policies.vla.train picks held --tuning.first-steps 12 --out runs/vla/among   # two datasets
        python -m policies.vla.train demos --episodes-per-task 1 --tasks manipulation/reach manipulation/drawer-close
    """

    datasets: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders that python -m embodied.collect wrote, or any in LeRobot's format v3.0."""
    task: str | None = None
    """Task or suite on which the policy is tried while it learns, and at the end; by default none."""
    size: Size = Size.TINY
    """micro, tiny, small or base."""
    head: Head = Head.TOKENS
    """tokens, or flow."""
    chunk: cli.Rare[int] = 8
    """Actions predicted at once (action chunk)."""
    execute: cli.Rare[int] = 0
    """Of those, how many are executed before the next inference; 0: all."""
    cameras: tuple[str, ...] = ()
    """Of the first dataset's; by default all."""
    steps: int = 20_000
    """Gradient steps in all; fewer if held-out episodes say so. With --resume: to which training goes on, along the
    slow fall of the learning rate that so many steps would have had from the start."""
    image_encoder: cli.Rare[Path | None] = None
    """Folder of a pretrained image encoder such as DINOv2 or SigLIP, frozen; by default one is trained from scratch."""
    text_encoder: cli.Rare[Path | None] = None
    """Folder of a pretrained text encoder, frozen; by default one is trained from scratch."""
    tasks: tuple[str, ...] = ()
    """Of the datasets', those to learn and to be tried on; by default all."""
    episodes_per_task: int = 0
    """The first so many episodes of each task of each dataset, without those left out as failures; 0: all."""
    failures: bool = False
    """Learn from episodes that failed, too."""
    tuning: FineTuningConfig = dataclasses.field(default_factory=FineTuningConfig)
    """Options of the training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.datasets and self.resume is None:
            raise EmbodiedError("which dataset? python -m policies.vla.train DATASET, or --resume RUN")
        if self.episodes_per_task < 0:
            raise EmbodiedError(f"--episodes-per-task {self.episodes_per_task}: expected at least 1, or 0 for all")
        if self.steps < 1:
            raise EmbodiedError(f"--steps {self.steps}: expected at least 1")


LIMITS = ("steps",)
"""Settings that end a training."""
NAME = "vla"
"""Name of a run that is of no single task."""


def network_config(settings: Settings, keypoints: int = 0) -> VLAConfig:
    """The network's sizes; it points at so many `keypoints`, unless that has no weight.

    Raises:
        EmbodiedError: impossible ones.
    """
    try:
        points = keypoints if settings.tuning.pointing else 0
        return dataclasses.replace(SIZES[settings.size], head=settings.head, chunk=settings.chunk, keypoints=points)
    except ValueError as error:
        raise EmbodiedError(str(error)) from None
