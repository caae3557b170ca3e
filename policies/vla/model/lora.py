"""LoRA: low-rank updates of frozen linear layers (Hu et al. 2022)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class LowRank(nn.Module):
    """A frozen linear layer plus the product of two thin matrices, which is zero at first."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        """Wrap `linear`, whose weights are frozen.

        Raises:
            ValueError: the rank is not between 1 and the layer's smaller side.
        """
        super().__init__()
        if not 1 <= rank <= min(linear.in_features, linear.out_features):
            raise ValueError(f"rank={rank}: expected 1 to {min(linear.in_features, linear.out_features)}")
        self.linear = linear.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + (x @ self.down.T) @ self.up.T

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """One linear layer of the same function."""
        result = nn.Linear(self.linear.in_features, self.linear.out_features, self.linear.bias is not None)
        result.weight.copy_(self.linear.weight + self.up @ self.down)
        if self.linear.bias is not None:
            result.bias.copy_(self.linear.bias)
        return result.to(self.linear.weight.device)


def adapt(module: nn.Module, rank: int) -> nn.Module:
    """Freeze a module and put a `LowRank` around every linear layer inside; returns the module."""
    module.requires_grad_(False)
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and not isinstance(parent, LowRank):
                setattr(parent, name, LowRank(child, rank))
    return module


def merge(module: nn.Module) -> nn.Module:
    """Replace every `LowRank` inside by one linear layer of the same function; returns the module."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, LowRank):
                setattr(parent, name, child.merged())
    return module
