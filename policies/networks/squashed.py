"""Squashed actors: a hyperbolic tangent keeps actions within [-1, 1]."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from policies.networks.gaussian import LOG_TWO_PI
from policies.networks.mlp import MLP, Actor, NetworkConfig, linear

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0  # bounds of log σ, before the tanh
LOG_STD_GAIN = 0.01  # of the layer of log σ: at first nearly the same for every state


class SquashedActor(Actor):
    """Maps observations to tanh(μ), or to the tanh of a Gaussian whose standard deviation depends on the state too."""

    mean: MLP
    """From the observation to μ."""
    log_std: nn.Linear | None
    """From the last hidden layer to log σ, before it is bounded; None for a deterministic actor."""

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        *,
        stochastic: bool,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.mean = MLP(inputs, actions, config, generator)
        widest = (inputs, *config.hidden)[-1]
        self.log_std = linear(widest, actions, LOG_STD_GAIN, generator) if stochastic else None

    def forward(self, obs: Tensor) -> Tensor:
        """The mean action, tanh(μ): (N, inputs) to (N, A)."""
        return self.mean(obs).tanh()

    @property
    def sizes(self) -> tuple[int, int]:
        return self.mean.linears[0].in_features, self.mean.linears[-1].out_features

    def learned_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters that the actor's loss trains."""
        return self.parameters()

    def distribution(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """μ and log σ of the Gaussian before the tanh, (N, A) each."""
        if self.log_std is None:
            raise ValueError("this actor has no standard deviation; it was built with stochastic=False")
        *hidden, output = self.mean
        features = obs
        for layer in hidden:
            features = layer(features)
        # Bounded smoothly: a clamp would have no gradient beyond the bounds.
        unit = 0.5 * (1 + self.log_std(features).tanh())
        return output(features), LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) * unit

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The action of standard normal `noise` (N, A); of a deterministic actor the mean one."""
        if self.log_std is None:
            return self(obs)
        mean, log_std = self.distribution(obs)
        return torch.addcmul(mean, noise, log_std.exp()).tanh()

    def sample_with_density(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The action of standard normal `noise`, (N, A), and its log density, (N,)."""
        mean, log_std = self.distribution(obs)
        before = torch.addcmul(mean, noise, log_std.exp())
        return before.tanh(), log_density(before, noise, log_std)


def log_density(before: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    """Log density of a = tanh(u), u = μ + σ ε (Haarnoja et al. 2018, arXiv:1812.05905, eq. 26), shape (...).

    log π(a) = Σ log N(ε) - log σ - log(1 - tanh² u), the last written so that large u lose nothing:
    log(1 - tanh² u) = 2 (log 2 - u - softplus(-2 u)).
    """
    normal = -0.5 * noise.square() - log_std - 0.5 * LOG_TWO_PI
    squash = 2 * (math.log(2) - before - functional.softplus(-2 * before))
    return (normal - squash).sum(-1)
