"""Encoding of the present task for a policy of several tasks: by a number for each, or by words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from embodied.core.instruction import sentence_vector, words_of

LEFT_OUT = 0.3  # share of a sentence's words that a variant of it lacks


def one_hot(number: int, count: int) -> Tensor:
    """(1, count) code of task `number` of `count`."""
    return torch.eye(count)[number : number + 1]


def spoken(instructions: Sequence[str]) -> Tensor:
    """(k, size) of k instructions, see `embodied.core.instruction.sentence_vector`.

    Raises:
        EmbodiedError: one is empty or too long.
    """
    return torch.stack([torch.from_numpy(sentence_vector(text)) for text in instructions])


def varied(instructions: Sequence[str], count: int, seed: int) -> Tensor:
    """(count, size) for a policy to learn by: the instructions, then mixtures of two of them that lack some words.

    With the instructions alone, a policy memorises them and fails on others. The same for the same seed.
    """
    rng = np.random.default_rng(seed)

    def shortened(text: str) -> np.ndarray:
        kept = [word for word in words_of(text) if rng.random() >= LEFT_OUT]
        return sentence_vector(" ".join(kept) or text)

    def mixture() -> np.ndarray:
        first, second = (shortened(instructions[int(place)]) for place in rng.integers(len(instructions), size=2))
        mean = first + rng.random() * (second - first)
        return (mean / np.sqrt(np.mean(mean**2))).astype(np.float32)

    mixed = [torch.from_numpy(mixture()) for _ in range(count - len(instructions))]
    return torch.cat([spoken(instructions)[:count], *(code[None] for code in mixed)])


def of_rows(codes: Tensor, rows: int) -> Tensor:
    """(rows, size) of codes (k, size): row r gets code r modulo k."""
    return codes[torch.arange(rows, device=codes.device) % len(codes)]
