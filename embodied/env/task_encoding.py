"""How a policy of several tasks is told which of them it is in: by a number for each, or by words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from embodied.core.instruction import sentence_vector


def one_hot(number: int, count: int) -> Tensor:
    """(1, count) that tells task `number` of `count`."""
    return torch.eye(count)[number : number + 1]


def spoken(instructions: Sequence[str]) -> Tensor:
    """(k, size) of k instructions, see `embodied.core.instruction.sentence_vector`.

    Raises:
        EmbodiedError: one is empty or too long.
    """
    return torch.stack([torch.from_numpy(sentence_vector(text)) for text in instructions])


def of_rows(codes: Tensor, rows: int) -> Tensor:
    """(rows, size) of codes (k, size): row r gets code r modulo k."""
    return codes[torch.arange(rows, device=codes.device) % len(codes)]
