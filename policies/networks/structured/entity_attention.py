"""Attention over the entities around an agent: any number of them, in any order.

An agent's own features become queries, those of every entity keys and values (Vaswani et al. 2017, one layer, several
heads); the result has the same length however many entities there are.
Without any, the agent attends to a row that stands for nothing, which is learned.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from embodied.core.entity_rows import COLUMNS, FEATURES, WIDTH, rows_in
from policies.networks.mlp import HIDDEN_GAIN, MLP, Critic, GaussianActor, NetworkConfig, linear, nonlinearity


class EntityNetwork(nn.Module):
    """An agent's observation to `outputs` numbers."""

    scale: Tensor
    """(WIDTH,) factors that bring features to about 1."""

    def __init__(self, outputs: int, config: NetworkConfig, generator: Generator | None) -> None:
        super().__init__()
        scales = [feature.scale for feature in FEATURES for _ in range(feature.size)]
        self.register_buffer("scale", torch.tensor(scales), persistent=False)
        self.own, self.heads, width = config.own, config.heads, config.hidden[0]
        self.activation = nonlinearity(config.activation)
        self.self_embedding = linear(config.own, width, HIDDEN_GAIN, generator)
        self.entity_embedding = linear(WIDTH, width, HIDDEN_GAIN, generator)
        self.nothing = nn.Parameter(torch.zeros(1, 1, width))
        self.queries = linear(width, width, 1.0, generator)
        self.keys_values = linear(width, 2 * width, 1.0, generator)
        self.head = MLP(2 * width, outputs, config, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """(N, own + rows x WIDTH) to (N, outputs)."""
        rows = obs[:, self.own :].unflatten(-1, (-1, WIDTH)) if obs.shape[-1] > self.own else None
        itself = self.activation(self.self_embedding(obs[:, : self.own]))
        seen, absent = self.nothing.expand(len(obs), 1, -1), obs.new_zeros(len(obs), 1, dtype=torch.bool)
        if rows is not None:
            seen = torch.cat([seen, self.activation(self.entity_embedding(rows * self.scale))], 1)
            absent = torch.cat([absent, rows[..., COLUMNS["present"].start] == 0], 1)
        return self.head(torch.cat([itself, self._attend(itself, seen, absent)], -1))

    def _attend(self, itself: Tensor, seen: Tensor, absent: Tensor) -> Tensor:
        """(N, width) result of attention to those of (N, rows, width) that are not absent."""
        # Keys K e and values V e of every entity e are never made: a query q scores q.(K e) = (K'q).e, and values
        # add up to V (sum of w e), as the weights w add up to 1. With 22 rows that is an eighth of the arithmetic. The
        # keys' bias adds the same to all scores of a query, which changes no weight.
        keys, values = self.keys_values.weight.unflatten(0, (2, self.heads, -1))  # (heads, width / heads, width) each
        queries = self.queries(itself).unflatten(-1, (self.heads, -1)) / math.sqrt(keys.shape[1])
        fit = torch.einsum("nhd,hdw->nhw", queries, keys) @ seen.transpose(1, 2)  # (N, heads, rows)
        weights = functional.softmax(fit.masked_fill(absent[:, None], -torch.inf), -1)
        answers = torch.einsum("nhw,hdw->nhd", weights @ seen, values).flatten(1)
        return answers + self.keys_values.bias[answers.shape[-1] :]


class EntitiesActor(GaussianActor):
    """A Gaussian around an `EntityNetwork`."""

    mean: EntityNetwork  # pyright: ignore[reportIncompatibleVariableOverride]

    def build_mean(
        self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None
    ) -> EntityNetwork:
        rows_in(inputs, config.own)
        return EntityNetwork(actions, config, generator)

    def fits(self, observation_size: int, action_size: int) -> bool:
        """Whether these are the lengths of an observation with any number of rows, and of its action."""
        try:
            rows_in(observation_size, self.mean.own)
        except ValueError:
            return False
        return action_size == len(self.log_std)

    def statistics(self, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """None: observations come as they are, with any number of rows."""
        return torch.zeros_like(mean[:1]), torch.ones_like(scale[:1])


class EntitiesCritic(Critic):
    """Values of agents with any number of entities around them."""

    def build_value(self, inputs: int, config: NetworkConfig, generator: Generator | None) -> EntityNetwork:
        rows_in(inputs, config.own)
        return EntityNetwork(1, config, generator)
