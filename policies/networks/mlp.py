"""Multilayer perceptrons and the Gaussian actor built on them."""

import itertools
import math

import torch
from torch import Generator, Tensor, nn

from policies.networks.config import Activation, NetworkConfig
from policies.networks.config import Architecture as Architecture
from policies.networks.optim.parallel import one_thread

HIDDEN_GAIN = math.sqrt(2)  # keeps the variance of a ReLU layer's output at that of its input
NONLINEARITIES: dict[Activation, type[nn.Module]] = {
    Activation.ELU: nn.ELU,
    Activation.TANH: nn.Tanh,
    Activation.RELU: nn.ReLU,
    Activation.SILU: nn.SiLU,
}


def nonlinearity(activation: Activation) -> nn.Module:
    """The layer between linear layers that an activation names."""
    return NONLINEARITIES[activation]()


class MLP(nn.Sequential):
    """Linear layers with a nonlinearity between them, orthogonal weights and zero biases."""

    activation: Activation
    """Between the layers."""
    linears: list[nn.Linear]
    """The layers that hold parameters, in order."""

    def __init__(self, inputs: int, outputs: int, config: NetworkConfig, generator: Generator | None = None) -> None:
        """Build and initialise it on the CPU; `generator` makes the weights reproducible."""
        widths = (inputs, *config.hidden, outputs)
        layers: list[nn.Module] = []
        for i, (wide, next_wide) in enumerate(itertools.pairwise(widths)):
            last = i == len(widths) - 2
            layers.append(linear(wide, next_wide, config.output_gain if last else HIDDEN_GAIN, generator))
            if not last:
                layers.append(nonlinearity(config.activation))
        super().__init__(*layers)
        self.activation = config.activation
        self.linears = [layer for layer in layers if isinstance(layer, nn.Linear)]


class Actor(nn.Module):
    """A network that chooses actions."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Lengths of the observation and of the action that it was built for."""
        raise NotImplementedError

    def fits(self, observation_size: int, action_size: int) -> bool:
        """Whether it can act where observations and actions have these lengths."""
        return (observation_size, action_size) == self.sizes

    def statistics(self, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The part of the observations' statistics that belongs to it: all of them."""
        return mean, scale


class GaussianActor(Actor):
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
        generator: Generator | None = None,
    ) -> None:
        """Build it on the CPU for observations of length `inputs`; `generator` makes the weights reproducible.

        Raises:
            ValueError: Of networks that read a number of rows: no observation has that length.
        """
        super().__init__()
        self._sizes = inputs, actions
        self.mean = self.build_mean(inputs, actions, config, generator)
        self.add_deviation(actions, initial_std)

    def build_mean(self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None) -> nn.Module:
        """The network of the mean: what other actors replace."""
        return MLP(inputs, actions, config, generator)

    def add_deviation(self, actions: int, initial: float) -> None:
        """Add the parameter of the standard deviation."""
        self.log_std = nn.Parameter(torch.full((actions,), math.log(initial)))

    def forward(self, obs: Tensor) -> Tensor:
        """Mean action, not squashed: (N, inputs) to (N, A)."""
        return self.mean(obs)

    @property
    def sizes(self) -> tuple[int, int]:
        return self._sizes

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The action, not bounded, of standard normal `noise` (N, A)."""
        return torch.addcmul(self(obs), noise, self.deviation(noise.shape[-1]))

    def deviation(self, actions: int) -> Tensor:
        """(actions,) standard deviation."""
        return self.log_std.exp().expand(actions)


class Critic(nn.Module):
    """Maps observations to the expected return."""

    value: nn.Module
    """(N, inputs) to (N, 1)."""

    def __init__(self, inputs: int, config: NetworkConfig, generator: Generator | None = None) -> None:
        """Build it on the CPU; arguments and errors are those of `GaussianActor`."""
        super().__init__()
        self.value = self.build_value(inputs, config, generator)

    def build_value(self, inputs: int, config: NetworkConfig, generator: Generator | None) -> nn.Module:
        """The network of the value: what other critics replace."""
        return MLP(inputs, 1, config, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """Value: (N, inputs) to (N,)."""
        return self.value(obs).squeeze(-1)


def orthogonal(shape: tuple[int, int], gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """A random matrix with orthogonal rows or columns (Saxe et al. 2014), times `gain`, on the CPU.

    By one thread: with several, the last bits of its factorisation depend on how many there are.
    """
    with one_thread():
        return nn.init.orthogonal_(torch.empty(shape), gain, generator=generator)


def linear(inputs: int, outputs: int, gain: float, generator: Generator | None) -> nn.Linear:
    """A linear layer with orthogonal weights of that gain and zero biases."""
    layer = nn.Linear(inputs, outputs, device="meta")  # its own initialisation would draw from the global generator
    layer.weight = nn.Parameter(orthogonal((outputs, inputs), gain, generator))
    layer.bias = nn.Parameter(torch.zeros(outputs))
    return layer
