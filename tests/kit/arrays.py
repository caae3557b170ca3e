"""Numbers drawn for tests."""

from __future__ import annotations

import torch
from torch import Tensor


def drawn(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normally distributed numbers of this shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
