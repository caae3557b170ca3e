"""Q-Transformer's critic (Chebotar et al. 2023, arXiv:2309.10150): autoregressive Q-values, one component at a time.

Given the observation and the bins of the first components, a causal transformer gives the Q-values of the next
component's bins, if the rest is chosen greedily.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.networks.mlp import HIDDEN_GAIN, MLP, NetworkConfig, linear, nonlinearity
from policies.networks.structured_actor import StructuredActor
from policies.off_policy.cqn.network import bin_indices, interval_centres


def to_bins(action: Tensor, bins: int) -> Tensor:
    """(B, A) in [-1, 1] to bins (B, A) int64."""
    return bin_indices(action, 1, bins)[:, 0]


def to_action(chosen: Tensor, bins: int) -> Tensor:
    """Bins (B, A) to their centres."""
    return interval_centres(chosen[:, None], bins)[:, -1]


@dataclass(frozen=True)
class QTransformerStructure:
    """Numbers that describe an `QTransformerActor`."""

    bins: int
    layers: int
    heads: int
    noise: float
    """Standard deviation of the exploration noise."""


class CausalBlock(nn.Module):
    """A pre-norm transformer block with causal self-attention."""

    def __init__(self, width: int, heads: int, config: NetworkConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads, self.activation = heads, nonlinearity(config.activation)
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = linear(width, 3 * width, 1.0, generator)
        self.attention_output = linear(width, width, 1.0, generator)
        self.mlp_input = linear(width, 2 * width, HIDDEN_GAIN, generator)
        self.mlp_output = linear(2 * width, width, 1.0, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(B, tokens, width) to the same."""
        parts = self.query_key_value(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.attention_output(attended.transpose(1, 2).flatten(2))
        return x + self.mlp_output(self.activation(self.mlp_input(self.mlp_norm(x))))


class QTransformerNetwork(nn.Module):
    """Tokens of the observation and of the components chosen so far, to the Q-values of the next one's bins."""

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        structure: QTransformerStructure,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        width = config.hidden[-1]
        body = NetworkConfig(config.hidden[:-1], config.activation, HIDDEN_GAIN)
        self.body = MLP(inputs, width, body, generator)
        self.bin_embedding = nn.Parameter(torch.randn(structure.bins, width, generator=generator))
        self.position_embedding = nn.Parameter(torch.randn(actions, width, generator=generator))
        self.blocks = nn.ModuleList(
            CausalBlock(width, structure.heads, config, generator) for _ in range(structure.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.values = linear(width, structure.bins, config.output_gain, generator)

    def forward(self, obs: Tensor, chosen: Tensor) -> Tensor:
        """Q-values of all bins of the first d + 1 components.

        Args:
            obs: (B, inputs).
            chosen: (B, d) bins of the first d components, d < A.

        Returns:
            (B, d + 1, bins).
        """
        x = torch.cat([self.body(obs)[:, None], self.bin_embedding[chosen]], 1)
        x = x + self.position_embedding[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.values(self.norm(x))


class QTransformerActor(StructuredActor):
    """Chooses the bin of the highest Q-value, one component after the other."""

    kind = "q-transformer"
    structure_type = QTransformerStructure

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        structure: QTransformerStructure,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(inputs, actions, config, structure, generator)
        self.critic = QTransformerNetwork(inputs, actions, config, structure, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """(N, inputs) to (N, A)."""
        chosen = torch.zeros(len(obs), 0, dtype=torch.int64, device=obs.device)
        for _ in range(self.sizes[1]):
            best = self.critic(obs, chosen)[:, -1].argmax(-1)
            chosen = torch.cat([chosen, best[:, None]], 1)
        return to_action(chosen, self.structure.bins)
