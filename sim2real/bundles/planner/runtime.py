"""`PlannerRuntime`: a bundle's planner in ONNX Runtime; needs neither torch nor jax."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from embodied.core.instruction import check_instruction, word_ids
from embodied.errors import EmbodiedError, listing
from sim2real.bundles.onnx_session import session
from sim2real.bundles.planner.golden import CHUNK, NOISE, OBSERVATION, TOKENS, GoldenPlans, shapes
from sim2real.contract.contract import Contract
from sim2real.contract.planner import IMAGE, Planner, Words

NOTHING = -1  # in place of a word or an n-gram that is not there


def tokens_of(instruction: str, words: Words) -> np.ndarray:
    """(words, ngrams) int64 of an instruction; empty: the default one.

    Raises:
        EmbodiedError: it is too long, or has no words.
    """
    text = check_instruction(instruction or words.instructions[0])
    ids = word_ids(text, words.buckets)
    longest = max(map(len, ids))
    if len(ids) > words.words or longest > words.ngrams:
        raise EmbodiedError(
            f"instruction '{text}' has {len(ids)} words, the longest of {longest} n-grams; the planner takes "
            f"{words.words} of {words.ngrams}"
        )
    tokens = np.full((words.words, words.ngrams), NOTHING, np.int64)
    for place, row in enumerate(ids):
        tokens[place, : len(row)] = row
    return tokens


class PlannerRuntime:
    """Plans action chunks; draws noise, where the planner takes any, from a seed."""

    def __init__(self, data: bytes, planner: Planner, contract: Contract, seed: int = 0) -> None:
        """Set the runtime up.

        Raises:
            ValueError: ONNX Runtime refuses the model.
        """
        self.planner = planner
        self._shapes, self._session = shapes(planner, contract), session(data)
        self._rng = np.random.default_rng(seed)
        self._told: tuple[str, np.ndarray] | None = None

    def plan(self, images: Mapping[str, np.ndarray], observation: np.ndarray, instruction: str = "") -> np.ndarray:
        """(chunk, k) actions in [-1, 1]; NaN where the observation is not finite.

        Args:
            images: Camera -> (height, width, 3) uint8, RGB.
            observation: (n,) of the control step.
            instruction: What it shall do; empty: its default.

        Raises:
            EmbodiedError: an image is missing or of another shape or type, or the instruction does not fit.
        """
        given = {f"{IMAGE}{camera.name}": self._image(images, camera.name) for camera in self.planner.cameras}
        given[OBSERVATION] = np.asarray(observation, np.float32)
        if self.planner.words is not None:
            given[TOKENS] = self._tokens(instruction, self.planner.words)
        elif instruction:
            raise EmbodiedError(f"instruction '{instruction}': this policy takes none")
        if self.planner.noise:
            given[NOISE] = self._rng.standard_normal(self._shapes[NOISE][0]).astype(np.float32)
        return self.run(given)

    def run(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """(chunk, k) of all inputs by name; NaN where the observation is not finite."""
        if not np.isfinite(inputs[OBSERVATION]).all():
            return np.full((self.planner.chunk, self._session.get_outputs()[0].shape[1]), np.nan, np.float32)
        return np.asarray(self._session.run([CHUNK], dict(inputs))[0])

    def off(self, golden: GoldenPlans) -> float:
        """The largest deviation from golden plans."""
        pairs = zip(golden.rows(), golden.chunk, strict=True)
        return max(float(np.abs(self.run(row) - chunk).max()) for row, chunk in pairs)

    def _tokens(self, instruction: str, words: Words) -> np.ndarray:
        if self._told is None or self._told[0] != instruction:
            self._told = instruction, tokens_of(instruction, words)
        return self._told[1]

    def _image(self, images: Mapping[str, np.ndarray], camera: str) -> np.ndarray:
        if camera not in images:
            raise EmbodiedError(f"nobody gives the image of camera '{camera}'; given: {listing(images) or 'none'}")
        image, (shape, kind) = images[camera], self._shapes[f"{IMAGE}{camera}"]
        if not isinstance(image, np.ndarray) or image.dtype != kind or image.shape != shape:
            said = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
            raise EmbodiedError(f"the image of camera '{camera}' is {said}; expected uint8 {shape}, RGB")
        return image
