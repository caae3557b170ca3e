"""CQN's critic: Q-values of a hierarchy of bins. Each level divides the interval that the level before chose.

With three levels of five bins an action component is one of 125 intervals: a number of three digits in base five.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from policies.networks.mlp import HIDDEN_GAIN, MLP, NetworkConfig, linear, nonlinearity, orthogonal
from policies.networks.structured_actor import ActorMemory, StructuredActor
from policies.off_policy.cqn.temporal_ensemble import TemporalEnsemble

TIE = 1e-4
"""Difference of Q-values below which bins count as equally good (the authors' `random_action_if_within_delta`)."""

BinValues = Callable[[int, Tensor], Tensor]
"""Level and interval centres (B, D) to the Q-values of the interval's bins, (B, D, bins)."""


def bin_indices(action: Tensor, levels: int, bins: int) -> Tensor:
    """Bins that hold an action: (B, D) in [-1, 1] to (B, levels, D) int64."""
    cells = bins**levels
    cell = ((action + 1) * (cells / 2)).long().clamp(0, cells - 1)
    powers = bins ** torch.arange(levels - 1, -1, -1, device=action.device)
    return (cell[:, None] // powers[:, None]) % bins


def interval_centres(indices: Tensor, bins: int) -> Tensor:
    """Centres of the intervals before each level and after the last: (B, levels, D) to (B, levels + 1, D)."""
    widths = 2.0 * float(bins) ** -torch.arange(1.0, indices.shape[1] + 1, device=indices.device)
    moved = ((indices - (bins - 1) / 2) * widths[:, None]).cumsum(1)
    return torch.cat([moved.new_zeros(len(moved), 1, moved.shape[-1]), moved], 1)


def coarse_to_fine_search(
    values_of: BinValues,
    batch: int,
    size: int,
    levels: int,
    bins: int,
    device: torch.device,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The greedy bins (B, levels, D): at each level the one of the highest Q-value.

    A generator breaks ties at random; without one the first bin is taken, which in an untrained critic is a corner.
    """
    indices = torch.zeros(batch, 0, size, dtype=torch.int64, device=device)
    for level in range(levels):
        values = values_of(level, interval_centres(indices, bins)[:, -1])
        if generator is not None:
            tied = values >= values.amax(-1, keepdim=True) - TIE
            values = tied * torch.rand(values.shape, generator=generator, device=values.device)
        indices = torch.cat([indices, values.argmax(-1)[:, None]], 1)
    return indices


@dataclass(frozen=True)
class CQNStructure:
    """Numbers that describe a `CQNActor`."""

    levels: int
    bins: int
    sequence: int
    """K, consecutive actions of one Q-value."""
    atoms: int
    value_low: float
    value_high: float
    noise: float
    """Standard deviation of the exploration noise."""
    ensemble_decay: float | None = None
    """m of `TemporalEnsemble`; None: the newest sequence alone acts."""


class CQNNetwork(nn.Module):
    """Return distributions of all bins of every level, dueling (Wang et al. 2016), with a GRU over action sequences."""

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        structure: CQNStructure,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self._structure, self._actions, width = structure, actions, config.hidden[-1]
        body = NetworkConfig(config.hidden[:-1], config.activation, HIDDEN_GAIN)
        self.body = MLP(inputs, width, body, generator)
        self.activation = nonlinearity(config.activation)
        self.mix = linear(width + actions + structure.levels + structure.sequence, width, HIDDEN_GAIN, generator)
        self.gru = _gru(width, generator) if structure.sequence > 1 else None
        self.value = linear(width, actions * structure.atoms, config.output_gain, generator)
        self.advantage = linear(width, actions * structure.bins * structure.atoms, config.output_gain, generator)

    def features(self, obs: Tensor) -> Tensor:
        """Features that all levels share: (B, inputs) to (B, width)."""
        return self.activation(self.body(obs))

    def forward(self, features: Tensor, centres: Tensor, first: int = 0) -> Tensor:
        """Logits of returns.

        Args:
            features: (B, width).
            centres: (B, L, K A) of the intervals that L levels divide.
            first: Number of the first of them.

        Returns:
            (B, L, K A, bins, atoms).
        """
        structure, (batch, levels, _) = self._structure, centres.shape
        shape = (batch, levels, structure.sequence)
        level = torch.eye(structure.levels, device=centres.device)[first : first + levels, None]
        step = torch.eye(structure.sequence, device=centres.device)
        parts = (
            features[:, None, None].expand(*shape, -1),
            centres.unflatten(-1, (structure.sequence, self._actions)),
            level.expand(*shape, -1),
            step.expand(*shape, -1),
        )
        x = self.activation(self.mix(torch.cat(parts, -1)))
        if self.gru is not None:
            x = self.gru(x.flatten(0, 1))[0].unflatten(0, (batch, levels))
        value = self.value(x).unflatten(-1, (self._actions, 1, structure.atoms))
        advantage = self.advantage(x).unflatten(-1, (self._actions, structure.bins, structure.atoms))
        return (value + advantage - advantage.mean(-2, keepdim=True)).flatten(2, 3)


class CQNActor(StructuredActor):
    """Executes the first action of the greedy action sequence; with a memory, what the last sequences say of now."""

    kind = "cqn"
    structure_type = CQNStructure
    support: Tensor

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        structure: CQNStructure,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(inputs, actions, config, structure, generator)
        self.critic = CQNNetwork(inputs, actions, config, structure, generator)
        support = torch.linspace(structure.value_low, structure.value_high, structure.atoms)
        self.register_buffer("support", support, persistent=False)

    def best(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The greedy action sequence, (N, K A); a generator breaks ties at random."""
        structure, features = self.structure, self.critic.features(obs)

        def values_of(level: int, centre: Tensor) -> Tensor:
            return self.critic(features, centre[:, None], level)[:, 0].softmax(-1) @ self.support

        size = structure.sequence * self.sizes[1]
        indices = coarse_to_fine_search(
            values_of, len(obs), size, structure.levels, structure.bins, obs.device, generator
        )
        return interval_centres(indices, structure.bins)[:, -1]

    def forward(self, obs: Tensor) -> Tensor:
        return self.best(obs)[:, : self.sizes[1]]

    def ensemble(self, num_envs: int) -> TemporalEnsemble | None:
        """A temporal ensemble of so many environments; None without one, and where a sequence is one action."""
        decay, sequence = self.structure.ensemble_decay, self.structure.sequence
        if decay is None or sequence == 1:
            return None
        return TemporalEnsemble(num_envs, sequence, self.sizes[1], decay, self.support.device)

    def memory(self, rows: int) -> ActorMemory | None:
        ensemble = self.ensemble(rows)
        if ensemble is None:
            return None
        shape = (self.structure.sequence, self.sizes[1])
        return lambda obs, begun: ensemble(self.best(obs).unflatten(-1, shape), begun)


def _gru(width: int, generator: torch.Generator | None) -> nn.GRU:
    """A recurrent layer with orthogonal weights and zero biases, drawn from `generator` alone."""
    layer = nn.GRU(width, width, batch_first=True, device="meta").to_empty(device="cpu")
    for name, parameter in layer.named_parameters():
        with torch.no_grad():
            if name.startswith("weight"):
                parameter.copy_(orthogonal((parameter.shape[0], parameter.shape[1]), generator=generator))
            else:
                parameter.zero_()
    return layer
