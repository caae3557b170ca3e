"""`Network`: the numbers of a policy, as every export writes them: statistics of observations, then linear layers.

A squashed policy, as off-policy learners train them, ends in a hyperbolic tangent; any other is clipped where it acts.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

import numpy as np

from embodied.errors import EmbodiedError
from policies.networks.mlp import MLP, Activation, Architecture, GaussianActor
from policies.networks.squashed import SquashedActor

if TYPE_CHECKING:
    from torch import Tensor

    from policies.policy import Policy

GOLDEN_SEED = 0
GOLDEN_SPREADS = (1.0,) * 20 + (3.0,) * 8 + (100.0,) * 2  # standard deviations; the last ones reach the clip


class ExportError(EmbodiedError):
    """A policy that cannot be exported, or a place where no bundle can be written."""


@dataclasses.dataclass(frozen=True)
class Layer:
    """y = W x + b."""

    weight: np.ndarray
    """(outputs, inputs) float32."""
    bias: np.ndarray
    """(outputs,) float32."""


@dataclasses.dataclass(frozen=True)
class Network:
    """Clipped, normalised observation through linear layers with a nonlinearity between them."""

    mean: np.ndarray
    """(n,) float32, subtracted from the observation."""
    scale: np.ndarray
    """(n,) float32, factor on the difference."""
    clip: float
    """Largest absolute value of a normalised number."""
    layers: tuple[Layer, ...]
    activation: Activation
    squashed: bool = False
    """Whether a hyperbolic tangent follows the last layer."""

    @classmethod
    def of(cls, policy: Policy) -> Network:
        """The numbers of a policy.

        Raises:
            ExportError: its architecture cannot be exported, or a number is not finite.
        """
        if policy.config.architecture is not Architecture.MLP:
            raise ExportError(
                f"a policy of architecture '{policy.config.architecture}' cannot be exported; "
                f"'{Architecture.MLP}' can, with activations {', '.join(Activation)}"
            )
        network = policy.network
        actor = network.actor
        perceptron = actor.mean if type(actor) in (GaussianActor, SquashedActor) else None
        if not isinstance(perceptron, MLP):
            raise ExportError(
                f"a policy of kind '{policy.kind}' cannot be exported; perceptrons can: clone it with learner bc"
            )
        layers = tuple(Layer(_array(linear.weight), _array(linear.bias)) for linear in perceptron.linears)
        mean, scale = _array(network.observation_mean), _array(network.observation_scale)
        made = cls(mean, scale, float(network.clip), layers, policy.config.activation, policy.squashed)
        if not all(np.isfinite(array).all() for array in made.arrays):
            raise ExportError("the policy holds numbers that are not finite; its training diverged")
        return made

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.mean, self.scale, *(part for layer in self.layers for part in (layer.weight, layer.bias)))

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.mean), len(self.layers[-1].bias)

    @property
    def widest(self) -> int:
        """Largest width of any layer, inputs included."""
        return max(len(self.mean), *(len(layer.bias) for layer in self.layers))

    @property
    def parameters(self) -> int:
        """Number of parameters, normalisation statistics included."""
        return sum(array.size for array in self.arrays)

    def digest(self, contract_json: str) -> str:
        """SHA-256, in hexadecimal, of the network and of its contract: the same wherever both are."""
        squashed = " squashed" if self.squashed else ""
        seen = hashlib.sha256(f"{contract_json}\n{self.activation} {self.clip!r}{squashed}\n".encode())
        for array in self.arrays:
            seen.update(f"{array.shape}".encode() + array.astype("<f4").tobytes())
        return seen.hexdigest()

    def golden_observations(self) -> np.ndarray:
        """(32, n) float32 observations to prove an export with: zeros, the mean, and draws around it as wide as in
        training, three times as wide, and wide enough to reach the clip."""
        rng = np.random.default_rng(GOLDEN_SEED)
        spread = np.array(GOLDEN_SPREADS)[:, None]
        drawn = self.mean + spread * rng.standard_normal((len(spread), len(self.mean))) / self.scale
        return np.concatenate([np.zeros_like(self.mean)[None], self.mean[None], drawn]).astype(np.float32)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().float().numpy().copy()
