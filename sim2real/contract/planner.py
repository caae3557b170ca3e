"""`Planner`: what a network that sees expects of a robot, beside its control step: cameras, words, and its rate."""

from __future__ import annotations

import dataclasses

IMAGE, PLANNED = "image.", "planned.action"
"""How inputs of `planner.onnx` that are images begin; and the input of `policy.onnx` that takes the planned action."""


@dataclasses.dataclass(frozen=True)
class PolicyCamera:
    """A camera that a policy sees through, as training had it: a pinhole without distortion."""

    name: str
    """Its image is the input `image.NAME` of `planner.onnx`: (height, width, 3) uint8, RGB, rows from the top."""
    width: int
    """pixels."""
    height: int
    """pixels."""
    focal_length: float
    """pixels, horizontally and vertically."""
    center: tuple[float, float]
    """pixels from the middle of the first pixel, right and down: the principal point."""
    body: str
    """Which body it is fixed to; `world`: it stands still."""
    position: tuple[float, float, float]
    """m, in the body's frame."""
    quaternion: tuple[float, float, float, float]
    """wxyz, from the camera's frame (x right, y down, z ahead, as OpenCV's) to the body's."""


@dataclasses.dataclass(frozen=True)
class Words:
    """How an instruction becomes the input `tokens` (words, ngrams) int64 of `planner.onnx`.

    Words are runs of letters and digits of the text in lower case. Of a word w the n-grams are `<w>` itself, then each
    three consecutive characters of `<w>` if it has more than three. Token: CRC-32 of the n-gram in UTF-8, modulo
    `buckets`; -1 where there is no word or no n-gram.
    """

    words: int
    """Most words."""
    ngrams: int
    """Most n-grams of a word."""
    buckets: int
    """How many tokens there are."""
    instructions: tuple[str, ...]
    """Those that it was trained on for this task; the first one is the default."""


@dataclasses.dataclass(frozen=True)
class Planner:
    """A network that sees, `planner.onnx`: images, the step's `observation` and an instruction in, action chunk out.

    It runs once in every `execute` control steps. Its output `chunk` (chunk, k) holds the actions of the coming steps,
    of which `execute` are carried out, one in each: the input `planned.action` of the control step. The
    `observation` is an output of the control step, which does not depend on `planned.action`.
    """

    cameras: tuple[PolicyCamera, ...]
    chunk: int
    """Actions that it plans."""
    execute: int
    """Of those, how many are carried out before it runs again."""
    noise: bool
    """Whether it has an input `noise` (chunk, k): standard normal numbers, drawn each time."""
    words: Words | None
    """None: it takes no instruction."""

    def __post_init__(self) -> None:
        if not 1 <= self.execute <= self.chunk:
            raise ValueError(f"execute={self.execute}; expected 1 to chunk={self.chunk}")
