"""Multilayer perceptrons and the Gaussian actor built on them."""

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn

from policies.optim.parallel import one_thread

HIDDEN_GAIN = math.sqrt(2)  # keeps the variance of a ReLU layer's output at that of its input


class Activation(StrEnum):
    """Nonlinearity between layers. Time per 64 values on one CPU core: relu 10 ns, tanh 20, silu 30, elu 90."""

    ELU = "elu"
    TANH = "tanh"
    RELU = "relu"
    SILU = "silu"

    def module(self) -> nn.Module:
        """Layer that applies it."""
        layers = {"elu": nn.ELU, "tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU}
        return layers[self.value]()


class Architecture(StrEnum):
    """What kind of network reads an observation."""

    MLP = "mlp"
    """A multilayer perceptron."""
    PARTS = "parts"
    """A transformer over body parts that turns with the world, for observations laid out by `embodied.core.parts`."""
    GRU = "gru"
    """A gated recurrent unit, which remembers, before a multilayer perceptron."""
    ENTITIES = "entities"
    """Attention over what is around an agent, for observations laid out by `embodied.core.entities`."""


@dataclass(frozen=True)
class NetworkConfig:
    """Shape of a network."""

    hidden: tuple[int, ...] = (64, 64)
    """Width of each hidden layer; of architecture parts, of each layer of the transformer, all of the same width."""
    activation: Activation = Activation.TANH
    """Nonlinearity between layers."""
    output_gain: float = 0.01
    """Scale of the last layer's orthogonal weights; small, so that the first actions are near zero."""
    architecture: Architecture = Architecture.MLP
    """mlp; gru, which remembers what it observed; parts for tasks that observe a body part by part; entities for tasks
    of many agents."""
    heads: int = 4
    """Attention heads of architectures parts and entities; they divide the first layer's width among them."""
    own: int = 0
    """Of architecture entities: with how many numbers of the agent's own an observation begins."""

    memory: int = 0
    """Of architecture gru: units of the gated recurrent unit before the layers."""

    def __post_init__(self) -> None:
        attends = self.architecture in (Architecture.PARTS, Architecture.ENTITIES)
        if attends and (self.heads < 1 or self.hidden[0] % self.heads):
            raise ValueError(f"hidden={self.hidden} heads={self.heads}: the first width must be divisible by heads")
        if self.architecture is Architecture.PARTS and len(set(self.hidden)) != 1:
            raise ValueError(f"hidden={self.hidden}: a transformer needs layers of one width")
        if (self.architecture is Architecture.ENTITIES) != (self.own > 0):
            raise ValueError(f"own={self.own}: positive with architecture entities, 0 with any other")
        if (self.architecture is Architecture.GRU) != (self.memory > 0):
            raise ValueError(f"memory={self.memory}: positive with architecture gru, 0 with any other")
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden={self.hidden}: every layer needs at least one unit")
        if not (math.isfinite(self.output_gain) and self.output_gain > 0):
            raise ValueError(f"output_gain={self.output_gain} must be positive and finite")


class MLP(nn.Sequential):
    """Linear layers with a nonlinearity between them, orthogonal weights and zero biases."""

    activation: Activation
    """Between the layers."""
    linears: list[nn.Linear]
    """The layers that hold parameters, in order."""

    def __init__(
        self, inputs: int, outputs: int, config: NetworkConfig, generator: torch.Generator | None = None
    ) -> None:
        """Build and initialise it on the CPU; `generator` makes the weights reproducible."""
        widths = (inputs, *config.hidden, outputs)
        layers: list[nn.Module] = []
        for i, (wide, next_wide) in enumerate(itertools.pairwise(widths)):
            last = i == len(widths) - 2
            layers.append(linear(wide, next_wide, config.output_gain if last else HIDDEN_GAIN, generator))
            if not last:
                layers.append(config.activation.module())
        super().__init__(*layers)
        self.activation = config.activation
        self.linears = [layer for layer in layers if isinstance(layer, nn.Linear)]


class GaussianActor(nn.Module):
    """Maps observations to the mean of a Gaussian whose standard deviation is a parameter of its own."""

    mean: nn.Module
    """From observations to mean actions, not squashed."""
    log_std: nn.Parameter
    """(A,) natural logarithm of the standard deviation, the same for every state."""

    def __init__(
        self,
        inputs: int,
        actions: int,
        config: NetworkConfig,
        initial_std: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self._sizes = inputs, actions
        self.mean = MLP(inputs, actions, config, generator)
        self.log_std = nn.Parameter(torch.full((actions,), math.log(initial_std)))

    def forward(self, obs: Tensor) -> Tensor:
        """Mean action, not squashed: (N, inputs) to (N, A)."""
        return self.mean(obs)

    @property
    def sizes(self) -> tuple[int, int]:
        """Lengths of the observation and of the action that it was built for."""
        return self._sizes

    def fits(self, observation_size: int, action_size: int) -> bool:
        """Whether it can act where observations and actions have these lengths."""
        return (observation_size, action_size) == self.sizes

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The action, not bounded, of standard normal `noise` (N, A)."""
        return torch.addcmul(self(obs), noise, self.deviation(noise.shape[-1]))

    def deviation(self, actions: int) -> Tensor:
        """(actions,) standard deviation."""
        return self.log_std.exp().expand(actions)

    def statistics(self, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The part of the observations' statistics that belongs to it: all of them."""
        return mean, scale


class Critic(nn.Module):
    """Maps observations to the expected return."""

    value: nn.Module
    """(N, inputs) to (N, 1)."""

    def __init__(self, inputs: int, config: NetworkConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.value = MLP(inputs, 1, config, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """Value: (N, inputs) to (N,)."""
        return self.value(obs).squeeze(-1)


def orthogonal(shape: tuple[int, int], gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """A random matrix with orthogonal rows or columns (Saxe et al. 2014), times `gain`, on the CPU.

    By one thread: with several, the last bits of its factorisation depend on how many there are.
    """
    with one_thread():
        return nn.init.orthogonal_(torch.empty(shape), gain, generator=generator)


def linear(inputs: int, outputs: int, gain: float, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer with orthogonal weights of that gain and zero biases."""
    layer = nn.Linear(inputs, outputs, device="meta")  # its own initialisation would draw from the global generator
    layer.weight = nn.Parameter(orthogonal((outputs, inputs), gain, generator))
    layer.bias = nn.Parameter(torch.zeros(outputs))
    return layer
