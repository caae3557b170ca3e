"""`Planner`: requirements of a network that sees, besides its control step: cameras, words, and its rate."""

from __future__ import annotations

import dataclasses

IMAGE, PLANNED = "image.", "planned.action"
"""Prefix of the image inputs of `planner.onnx`; and the input of `policy.onnx` that takes the planned action."""


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
    """Encoding of an instruction as the input `tokens` (words, ngrams) int64 of `planner.onnx`.

    Words are runs of letters and digits of the text in lower case. The n-grams of a word w are `<w>` itself, then each
    three consecutive characters of `<w>` if it has more than three. Token: CRC-32 of the n-gram in UTF-8, modulo
    `buckets`; -1 where there is no word or no n-gram.
    """

    words: int
    """Most words."""
    ngrams: int
    """Most n-grams of a word."""
    buckets: int
    """Number of tokens."""
    instructions: tuple[str, ...]
    """Those that it was trained on for this task; the first one is the default."""


@dataclasses.dataclass(frozen=True)
class Planner:
    """A network that sees, `planner.onnx`: images, the step's `observation` and an instruction in, action chunk out.

    It runs once in every `execute` control steps. Its output `chunk` (chunk, k) holds the actions of the coming steps,
    of which `execute` are carried out, one in each: the input `planned.action` of the control step. The
    `observation` is an output of the control step, which does not depend on `planned.action`. In a cycle that
    plans, the control step runs twice instead of being cut in two.
    """

    cameras: tuple[PolicyCamera, ...]
    chunk: int
    """Actions that it plans."""
    execute: int
    """Actions of these that are carried out before it runs again."""
    noise: bool
    """Whether it has an input `noise` (chunk, k): standard normal numbers, drawn each time."""
    words: Words | None
    """None: it takes no instruction."""

    def __post_init__(self) -> None:
        if not 1 <= self.execute <= self.chunk:
            raise ValueError(f"execute={self.execute}; expected 1 to chunk={self.chunk}")
