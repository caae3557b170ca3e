"""One picture of how looks differ: as a policy trains with --tuning.photometric, and as --visual-shift tests it.

python -m benchmarks.looks_gallery --out docs/looks.jpg
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import torch
import tyro

import embodied
from benchmarks.gallery import captioned
from embodied.rendering.visual_randomization import VisualShift
from policies.training.loading import load_policy
from policies.vla.fine_tuning.learner import photometric_augmentation

CAMERA = "view"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the picture."""

    tasks: tuple[str, ...] = ("manipulation/pick-place", "manipulation/drawer-open", "manipulation/window-close")
    """Tasks with the camera `view` and a scripted expert."""
    out: Path = Path("looks.jpg")
    """File to write: .jpg or .png."""
    side: int = 64
    """pixels that the policy sees."""
    enlarged: int = 3
    """Times, for people."""
    seconds: float = 1.0
    """Time at which each task is caught."""
    changed: int = 3
    """Tiles of changed colours."""
    seed: int = 1
    """Of looks and colours."""


def main(settings: Settings) -> None:
    """Draw and write."""
    rows = [row(task, settings) for task in settings.tasks]
    cv2.imwrite(str(settings.out), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(f"{settings.out}: {len(rows)} tasks")


def row(task: str, settings: Settings) -> np.ndarray:
    """(S + caption, n S, 3) uint8: as recorded, in changed colours, and under each of the shifts."""
    plain = seen(task, settings, None)
    many = plain.expand(settings.changed, -1, -1, -1)
    changed = photometric_augmentation(many, torch.Generator().manual_seed(settings.seed), share=1.0)
    tiles = [("recorded", plain[0]), *(("photometric", one) for one in changed)]
    tiles += [(f"shift: {shift}", seen(task, settings, shift)[0]) for shift in VisualShift]
    return np.hstack([tile(image, text, settings.enlarged) for text, image in tiles])


def seen(task: str, settings: Settings, shift: VisualShift | None) -> torch.Tensor:
    """(1, 3, side, side) uint8, after some time of the script."""
    env = embodied.make(
        task, 1, seed=settings.seed, cameras=(CAMERA,), resolution=settings.side, visual_shift=shift
    )  # fmt: skip
    obs, act = env.reset(), load_policy("expert", env)
    for _ in range(round(settings.seconds / env.control_dt)):
        obs = env.step(act(obs)).obs
    return obs[f"pixels/{CAMERA}"]


def tile(image: torch.Tensor, text: str, enlarged: int) -> np.ndarray:
    """An image (3, side, side) with its name below, pixels as squares."""
    pixels = image.permute(1, 2, 0).numpy()
    return captioned(cv2.resize(pixels, None, fx=enlarged, fy=enlarged, interpolation=cv2.INTER_NEAREST), text)


if __name__ == "__main__":
    main(tyro.cli(Settings))
