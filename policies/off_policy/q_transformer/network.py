"""Values of actions one component at a time: a transformer knows those that were chosen already, and says what each
bin of the next is worth if the rest is chosen best (Q-Transformer, Chebotar et al. 2023, arXiv:2309.10150)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.networks.mlp import HIDDEN_GAIN, MLP, NetworkConfig, linear
from policies.networks.structured_actor import FormedActor
from policies.off_policy.cqn.network import centres_of, digits_of


def bins_of(action: Tensor, bins: int) -> Tensor:
    """(B, A) in [-1, 1] to numbers of bins (B, A) int64."""
    return digits_of(action, 1, bins)[:, 0]


def action_of(chosen: Tensor, bins: int) -> Tensor:
    """Numbers of bins (B, A) to their centres."""
    return centres_of(chosen[:, None], bins)[:, -1]


@dataclass(frozen=True)
class AutoregressiveForm:
    """Numbers that describe an `AutoregressiveActor`."""

    bins: int
    layers: int
    """Of the transformer."""
    heads: int
    noise: float
    """Standard deviation of exploring actions."""


class CausalBlock(nn.Module):
    """Attention to oneself and to what came before, then a perceptron, each beside a short cut and normalised first."""

    def __init__(self, width: int, heads: int, config: NetworkConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads, self.activation = heads, config.activation.module()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asks = linear(width, 3 * width, 1.0, generator)
        self.answers = linear(width, width, 1.0, generator)
        self.wide = linear(width, 2 * width, HIDDEN_GAIN, generator)
        self.narrow = linear(2 * width, width, 1.0, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(B, tokens, width) to the same."""
        parts = self.asks(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.answers(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(self.activation(self.wide(self.between(x))))


class AutoregressiveNetwork(nn.Module):
    """Tokens of the observation and of the components chosen so far, to the values of the next one's bins."""

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        form: AutoregressiveForm,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        width = config.hidden[-1]
        body = NetworkConfig(config.hidden[:-1], config.activation, HIDDEN_GAIN)
        self.body = MLP(inputs, width, body, generator)
        self.chosen = nn.Parameter(torch.randn(form.bins, width, generator=generator))
        self.place = nn.Parameter(torch.randn(actions, width, generator=generator))
        self.blocks = nn.ModuleList(CausalBlock(width, form.heads, config, generator) for _ in range(form.layers))
        self.norm = nn.LayerNorm(width)
        self.values = linear(width, form.bins, config.output_gain, generator)

    def forward(self, obs: Tensor, chosen: Tensor) -> Tensor:
        """Values of all bins of the first d + 1 components.

        Args:
            obs: (B, inputs).
            chosen: (B, d) bins of the first d components, d < A.

        Returns:
            (B, d + 1, bins).
        """
        x = torch.cat([self.body(obs)[:, None], self.chosen[chosen]], 1)
        x = x + self.place[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.values(self.norm(x))


class AutoregressiveActor(FormedActor):
    """Chooses the best bin of one component after the other."""

    kind = "autoregressive"
    form_type = AutoregressiveForm

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        form: AutoregressiveForm,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(inputs, actions, config, form, generator)
        self.critic = AutoregressiveNetwork(inputs, actions, config, form, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """(N, inputs) to (N, A)."""
        chosen = torch.zeros(len(obs), 0, dtype=torch.int64, device=obs.device)
        for _ in range(self.sizes[1]):
            best = self.critic(obs, chosen)[:, -1].argmax(-1)
            chosen = torch.cat([chosen, best[:, None]], 1)
        return action_of(chosen, self.form.bins)
