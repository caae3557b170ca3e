"""Coarse-to-fine values of actions: each level divides what is left of the range and looks closer at one part.

A part is named by a digit, a sequence of parts by digits: with three levels of five bins, 0 to 124 in base five.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from policies.networks.mlp import HIDDEN_GAIN, MLP, NetworkConfig, linear
from policies.networks.structured_actor import FormedActor

Judge = Callable[[int, Tensor], Tensor]
"""Level and centres (B, D) of what is left of the range, to values of its parts, (B, D, bins)."""


def digits_of(action: Tensor, levels: int, bins: int) -> Tensor:
    """In which part of each level actions lie: (B, D) in [-1, 1] to (B, levels, D) int64."""
    cells = bins**levels
    cell = ((action + 1) * (cells / 2)).long().clamp(0, cells - 1)
    powers = bins ** torch.arange(levels - 1, -1, -1, device=action.device)
    return (cell[:, None] // powers[:, None]) % bins


def centres_of(digits: Tensor, bins: int) -> Tensor:
    """What is left of the range before each level and after the last: (B, levels, D) to centres (B, levels + 1, D)."""
    widths = 2.0 * float(bins) ** -torch.arange(1.0, digits.shape[1] + 1, device=digits.device)
    moved = ((digits - (bins - 1) / 2) * widths[:, None]).cumsum(1)
    return torch.cat([moved.new_zeros(len(moved), 1, moved.shape[-1]), moved], 1)


def zoom(judge: Judge, batch: int, size: int, levels: int, bins: int, device: torch.device) -> Tensor:
    """Descend to the best part of the best part: digits (B, levels, D) that a judge of values leads to."""
    digits = torch.zeros(batch, 0, size, dtype=torch.int64, device=device)
    for level in range(levels):
        values = judge(level, centres_of(digits, bins)[:, -1])
        digits = torch.cat([digits, values.argmax(-1)[:, None]], 1)
    return digits


@dataclass(frozen=True)
class CoarseToFineForm:
    """Numbers that describe a `CoarseToFineActor`."""

    levels: int
    bins: int
    sequence: int
    """K, consecutive actions that are judged together."""
    atoms: int
    value_low: float
    value_high: float
    noise: float
    """Standard deviation of exploring actions."""


class CoarseToFineNetwork(nn.Module):
    """Distributions of returns of all parts of every level, dueling (Wang et al. 2016), recurrent over a sequence."""

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        form: CoarseToFineForm,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self._form, self._actions, width = form, actions, config.hidden[-1]
        body = NetworkConfig(config.hidden[:-1], config.activation, HIDDEN_GAIN)
        self.body = MLP(inputs, width, body, generator)
        self.activation = config.activation.module()
        self.mix = linear(width + actions + form.levels + form.sequence, width, HIDDEN_GAIN, generator)
        self.memory = _gru(width, generator) if form.sequence > 1 else None
        self.value = linear(width, actions * form.atoms, config.output_gain, generator)
        self.advantage = linear(width, actions * form.bins * form.atoms, config.output_gain, generator)

    def features(self, obs: Tensor) -> Tensor:
        """What all levels see of an observation: (B, inputs) to (B, width)."""
        return self.activation(self.body(obs))

    def forward(self, features: Tensor, centres: Tensor, first: int = 0) -> Tensor:
        """Logits of returns.

        Args:
            features: (B, width).
            centres: (B, L, K A) of what is left of the range before each of L levels.
            first: Number of the first of them.

        Returns:
            (B, L, K A, bins, atoms).
        """
        form, (batch, levels, _) = self._form, centres.shape
        shape = (batch, levels, form.sequence)
        level = torch.eye(form.levels, device=centres.device)[first : first + levels, None]
        step = torch.eye(form.sequence, device=centres.device)
        parts = (
            features[:, None, None].expand(*shape, -1),
            centres.unflatten(-1, (form.sequence, self._actions)),
            level.expand(*shape, -1),
            step.expand(*shape, -1),
        )
        x = self.activation(self.mix(torch.cat(parts, -1)))
        if self.memory is not None:
            x = self.memory(x.flatten(0, 1))[0].unflatten(0, (batch, levels))
        value = self.value(x).unflatten(-1, (self._actions, 1, form.atoms))
        advantage = self.advantage(x).unflatten(-1, (self._actions, form.bins, form.atoms))
        return (value + advantage - advantage.mean(-2, keepdim=True)).flatten(2, 3)


class CoarseToFineActor(FormedActor):
    """Executes the first action of the sequence that its critic leads to."""

    kind = "coarse-to-fine"
    form_type = CoarseToFineForm
    support: Tensor

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        form: CoarseToFineForm,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(inputs, actions, config, form, generator)
        self.critic = CoarseToFineNetwork(inputs, actions, config, form, generator)
        support = torch.linspace(form.value_low, form.value_high, form.atoms)
        self.register_buffer("support", support, persistent=False)

    def best(self, obs: Tensor) -> Tensor:
        """The whole sequence, (N, K A)."""
        form, features = self.form, self.critic.features(obs)

        def judge(level: int, centre: Tensor) -> Tensor:
            return self.critic(features, centre[:, None], level)[:, 0].softmax(-1) @ self.support

        size = form.sequence * self.sizes[1]
        digits = zoom(judge, len(obs), size, form.levels, form.bins, obs.device)
        return centres_of(digits, form.bins)[:, -1]

    def forward(self, obs: Tensor) -> Tensor:
        """Its first action."""
        return self.best(obs)[:, : self.sizes[1]]


def _gru(width: int, generator: torch.Generator | None) -> nn.GRU:
    """A recurrent layer with orthogonal weights and zero biases, drawn from `generator` alone."""
    layer = nn.GRU(width, width, batch_first=True, device="meta").to_empty(device="cpu")
    for name, parameter in layer.named_parameters():
        with torch.no_grad():
            if name.startswith("weight"):
                nn.init.orthogonal_(parameter, generator=generator)
            else:
                parameter.zero_()
    return layer
