"""A transformer over the parts of a body, for any number of parts, whose actions do not change when the world turns.

Turning the world about the vertical, with the body and its target in it, must not change what the joints do: torques
about a body's own axes are scalars. The network has this by construction. It writes every horizontal vector in the
frame of the direction to the target, which turns with the world, and keeps vertical components, since gravity does not
turn: what is left are invariants, and nothing is lost. (Chen et al., "Subequivariant graph reinforcement learning in
3D environment", ICML 2023, call it subequivariance and build it from scalar products instead.)

Parts have no order either. A part knows which others it hangs on, which hang on it and beside it, by a bias on the
attention between the two; that is the body's form, together with the features in the rows of `embodied.core.body_rows`.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from embodied.core.body_rows import COLUMNS, FEATURES, SLOTS, VECTOR_WIDTH, VECTORS, WIDTH, actions_of, parts_in
from policies.networks.mlp import HIDDEN_GAIN, Critic, GaussianActor, NetworkConfig, linear, nonlinearity

RELATIONS = 6
"""Kinds of relation between two parts: self, parent, child, sibling, grandparent, grandchild."""
TARGET = VECTORS.index(next(feature for feature in VECTORS if feature.name == "target"))


def canonical(rows: Tensor) -> Tensor:
    """Rows as they would be if the target lay along +x: (..., parts, WIDTH), the same for any turn about z."""
    vectors = rows[..., :VECTOR_WIDTH].unflatten(-1, (len(VECTORS), 3))
    ahead = vectors[..., TARGET, :2]
    cosine, sine = (ahead / ahead.norm(dim=-1, keepdim=True).clamp(min=1e-6)).unsqueeze(-2).unbind(-1)
    x, y, z = vectors.unbind(-1)
    turned = torch.stack([cosine * x + sine * y, cosine * y - sine * x, z], -1)
    return torch.cat([turned.flatten(-2), rows[..., VECTOR_WIDTH:]], -1)


def kinship(rows: Tensor) -> Tensor:
    """(..., parts, parts, RELATIONS) relation of the second part to the first: 0 or 1 for each kind."""
    parts = rows.shape[-2]
    numbers = torch.arange(1, parts + 1, device=rows.device, dtype=rows.dtype)
    parent = (rows[..., COLUMNS["parent"]] == numbers).to(rows.dtype)  # row: child, column: its parent
    child = parent.transpose(-1, -2)
    grandparent = parent @ parent
    same = torch.eye(parts, device=rows.device, dtype=rows.dtype).expand_as(parent)
    sibling = parent @ child * (1 - same)
    return torch.stack([same, parent, child, sibling, grandparent, grandparent.transpose(-1, -2)], -1)


class Layer(nn.Module):
    """Attention among the parts, then a perceptron on each, both added to what was there (Xiong et al. 2020)."""

    def __init__(self, config: NetworkConfig, generator: Generator | None) -> None:
        super().__init__()
        width, self.heads = config.hidden[0], config.heads
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = linear(width, 3 * width, 1.0, generator)
        self.gather = linear(width, width, 1.0 / math.sqrt(2 * len(config.hidden)), generator)
        self.widen = linear(width, 2 * width, HIDDEN_GAIN, generator)
        self.activation = nonlinearity(config.activation)
        self.narrow = linear(2 * width, width, 1.0 / math.sqrt(2 * len(config.hidden)), generator)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """(N, parts, width) to the same, with `bias` (N, heads, parts, parts) on the attention."""
        split = self.queries_keys_values(self.before_attention(x)).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        x = x + self.gather(seen.transpose(1, 2).flatten(-2))
        return x + self.narrow(self.activation(self.widen(self.before_perceptron(x))))


class Trunk(nn.Module):
    """Observations of parts to a description of each, invariant to turns about the vertical."""

    scale: Tensor
    """(WIDTH,) factors that bring features to about 1."""

    def __init__(self, config: NetworkConfig, generator: Generator | None) -> None:
        super().__init__()
        scales = [feature.scale for feature in FEATURES for _ in range(feature.size)]
        self.register_buffer("scale", torch.tensor(scales), persistent=False)
        width = config.hidden[0]
        self.embed = linear(WIDTH, width, 1.0, generator)
        self.kinship = linear(RELATIONS, len(config.hidden) * config.heads, 1.0, generator)
        self.layers = nn.ModuleList([Layer(config, generator) for _ in config.hidden])
        self.last = nn.LayerNorm(width)

    def forward(self, rows: Tensor) -> Tensor:
        """(N, parts, WIDTH) to (N, parts, width). Rows of parts that are not there are seen by no other."""
        x = self.embed(canonical(rows) * self.scale)
        absent = rows[:, None, None, :, COLUMNS["present"].start] == 0
        biases = self.kinship(kinship(rows)).permute(0, 3, 1, 2).masked_fill(absent, -torch.inf)
        for layer, bias in zip(self.layers, biases.chunk(len(self.layers), 1), strict=True):
            x = layer(x, bias)
        return self.last(x)


class PartsMean(nn.Module):
    """Flat observations of any body to its actions: three for each part but the root."""

    def __init__(self, config: NetworkConfig, generator: Generator | None = None) -> None:
        super().__init__()
        self.trunk = Trunk(config, generator)
        self.act = linear(config.hidden[0], SLOTS, config.output_gain, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """(N, parts x WIDTH) to (N, 3 (parts - 1)); zero for slots without a motor."""
        rows = obs.unflatten(-1, (parts_in(obs.shape[-1]), WIDTH))
        actions = self.act(self.trunk(rows)) * (rows[..., COLUMNS["strength"]] > 0)
        return actions[:, 1:].flatten(1)


class PartsValue(nn.Module):
    """Flat observations of any body to one number, from the root's description and the mean over all parts."""

    def __init__(self, config: NetworkConfig, generator: Generator | None = None) -> None:
        super().__init__()
        self.trunk = Trunk(config, generator)
        self.value = linear(2 * config.hidden[0], 1, config.output_gain, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """(N, parts x WIDTH) to (N, 1)."""
        rows = obs.unflatten(-1, (parts_in(obs.shape[-1]), WIDTH))
        x, present = self.trunk(rows), rows[..., COLUMNS["present"]]
        mean = (x * present).sum(1) / present.sum(1).clamp(min=1.0)
        return self.value(torch.cat([x[:, 0], mean], -1))


class PartsActor(GaussianActor):
    """A Gaussian around `PartsMean`, with one standard deviation for all joints of all bodies."""

    def build_mean(self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None) -> PartsMean:
        parts = parts_in(inputs)
        if actions != actions_of(parts):
            raise ValueError(f"{actions} actions: a body of {parts} parts takes {actions_of(parts)}")
        return PartsMean(config, generator)

    def add_deviation(self, actions: int, initial: float) -> None:
        self.spread = nn.Parameter(torch.full((1,), math.log(initial)))

    @property
    def log_std(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(A,) natural logarithm of the standard deviation, for the body it was built for."""
        return self.spread.expand(self._sizes[1])

    def fits(self, observation_size: int, action_size: int) -> bool:
        """Whether these are the lengths of some body's observation and action."""
        try:
            return action_size == actions_of(parts_in(observation_size))
        except ValueError:
            return False

    def deviation(self, actions: int) -> Tensor:
        """(actions,) standard deviation, for a body with that many actions."""
        return self.spread.exp().expand(actions)

    def statistics(self, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """None: observations come as they are, from bodies of any size.

        Running statistics would scale the components of a vector unequally, and the network would lose its invariance.
        """
        return torch.zeros_like(mean[:1]), torch.ones_like(scale[:1])


class PartsCritic(Critic):
    """Values of bodies of any number of parts."""

    def build_value(self, inputs: int, config: NetworkConfig, generator: Generator | None) -> PartsValue:
        parts_in(inputs)
        return PartsValue(config, generator)
