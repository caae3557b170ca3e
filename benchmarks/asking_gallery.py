"""One picture of scenes and dialogues: what the cameras see as an episode begins, what is said, and what is picked up.

python -m benchmarks.asking_gallery --out docs/asking.jpg
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np
import tyro
from torch import Tensor

import embodied
from embodied.core.hooks import PIXELS
from embodied.core.instruction import Dialogue
from embodied.env.env import Env
from embodied.env.vec_env import image_shapes
from embodied.env.wrappers.instructions import InstructedTask, default_instructions, dialogues_of

INK, PAPER = (40, 40, 40), (255, 255, 255)  # RGB
LINE = 21  # pixels between lines of text
CAMERAS = ("view", "wrist", "view")
"""Of the tiles: two at the start, one at the end."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the picture."""

    task: str = "manipulation/pick-among"
    """A task with dialogues."""
    out: Path = Path("asking.jpg")
    """File to write: .jpg or .png."""
    side: int = 260
    """pixels of a tile."""
    seconds: float = 2.0
    """After the start, of the last tile."""
    unclear: int = 2
    """Rows with a question; one without follows."""
    seed: int = 3
    """Of the starts."""


def main(settings: Settings) -> None:
    """Draw and write."""
    env = embodied.make(settings.task, 8, cameras=("view", "wrist"), resolution=settings.side, shadows=True)
    obs = env.reset(settings.seed)
    said = dialogues_of(env)
    unclear = [row for row, one in enumerate(said) if one.ambiguous][: settings.unclear]
    chosen = [*unclear, next(row for row, one in enumerate(said) if not one.ambiguous)]
    first = tiles(obs, CAMERAS[:2], chosen)
    last = tiles(acted(env, settings), CAMERAS[2:], chosen)
    rows = [
        np.hstack([*before, *after, spoken(said[row], settings.side)])
        for row, before, after in zip(chosen, first, last, strict=True)
    ]
    cv2.imwrite(str(settings.out), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])
    print(f"{settings.out}: {len(rows)} dialogues")


def acted(env: Env, settings: Settings) -> dict[str, Tensor]:
    """Observation after some seconds of the script, which knows the whole instruction."""
    if not isinstance(env.task, InstructedTask):
        raise SystemExit(f"'{env.name}' has no script that follows instructions")
    rule = env.task.instructed_expert(env, default_instructions(env))
    obs = env.reset(settings.seed)
    for _ in range(round(settings.seconds / env.control_dt)):
        obs = env.step(rule(obs)).obs
    return {group: obs[group] for group in image_shapes(env.observation_spec)}


def tiles(obs: Mapping[str, Tensor], cameras: tuple[str, ...], rows: list[int]) -> list[list[np.ndarray]]:
    """For each row, a picture (side, side, 3) from each camera."""
    return [[np.asarray(obs[PIXELS + camera][row]).transpose(1, 2, 0) for camera in cameras] for row in rows]


def spoken(said: Dialogue, side: int) -> np.ndarray:
    """(side, width, 3) uint8: the dialogue, in black on white."""
    paper = np.full((side, 7 * side // 5, 3), PAPER, np.uint8)
    asked = ["ROBOT", said.question, "", "USER", said.answer] if said.question else ["ROBOT", "(acts)"]
    text = [line for part in ["USER", said.instruction, "", *asked] for line in (textwrap.wrap(part, 44) or [""])]
    for number, line in enumerate(text, 1):
        grey = (130, 130, 130) if line.isupper() else INK
        cv2.putText(paper, line, (14, 8 + LINE * number), cv2.FONT_HERSHEY_SIMPLEX, 0.55, grey, 1, cv2.LINE_AA)
    return paper


if __name__ == "__main__":
    main(tyro.cli(Settings))
