"""An ensemble of Q-networks, evaluated as one batched network."""

from __future__ import annotations

import itertools

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from policies.networks.mlp import HIDDEN_GAIN, NetworkConfig, nonlinearity, orthogonal


class CriticEnsemble(nn.Module):
    """E MLPs of equal shape over observation and action: one batched matrix product per layer."""

    def __init__(
        self,
        count: int,
        inputs: int,
        outputs: int,
        config: NetworkConfig,
        *,
        layer_norm: bool = False,
        generator: Generator | None = None,
    ) -> None:
        """Build and initialise it on the CPU, with orthogonal weights and zero biases.

        Args:
            count: E.
            inputs: Lengths of observation and action together.
            outputs: Numbers that each critic gives.
            config: Layers.
            layer_norm: Normalise hidden layers (Ball et al. 2023: it bounds Q-values of unseen actions).
            generator: Makes the weights reproducible.
        """
        super().__init__()
        self.count, self.layer_norm = count, layer_norm
        self.activation = nonlinearity(config.activation)
        widths = (inputs, *config.hidden, outputs)
        gains = [HIDDEN_GAIN] * len(config.hidden) + [config.output_gain]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for (wide, next_wide), gain in zip(itertools.pairwise(widths), gains, strict=True):
            drawn = [orthogonal((next_wide, wide), gain, generator) for _ in range(count)]
            self.weights.append(nn.Parameter(torch.stack(drawn).transpose(1, 2).contiguous()))
            self.biases.append(nn.Parameter(torch.zeros(count, 1, next_wide)))

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B, size) and (B, A) to (E, B, outputs)."""
        x = torch.cat([obs, action], -1).expand(self.count, -1, -1)
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if i < last:
                x = functional.layer_norm(x, x.shape[-1:]) if self.layer_norm else x
                x = self.activation(x)
        return x
