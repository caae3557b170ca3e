"""Config of a network, which task defaults and command lines read without torch."""

import math
from dataclasses import dataclass
from enum import StrEnum

UNCLIPPED = 1000.0  # a bound that no body part's or entity's observation reaches


class Activation(StrEnum):
    """Nonlinearity between layers. Time per 64 values on one CPU core: relu 10 ns, tanh 20, silu 30, elu 90."""

    ELU = "elu"
    TANH = "tanh"
    RELU = "relu"
    SILU = "silu"


class Architecture(StrEnum):
    """Kind of network that reads an observation."""

    MLP = "mlp"
    """A multilayer perceptron."""
    PARTS = "parts"
    """A transformer over body parts that turns with the world; observations as `embodied.core.body_rows` has them."""
    GRU = "gru"
    """A gated recurrent unit, which remembers, before a multilayer perceptron."""
    ENTITIES = "entities"
    """Attention over what is around an agent, for observations laid out by `embodied.core.entity_rows`."""


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


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Raise a ValueError that names a setting, its value and what was expected, unless `holds`."""
    if not holds:
        raise ValueError(f"{name}={value} must be {expected}")


def require_raw_observations(architecture: Architecture, normalize_observations: bool, observation_clip: float) -> None:
    """Check that networks of parts and of entities read observations as they are.

    Scaling or clipping numbers one by one would depend on how the world is turned, and on which row of the observation
    an entity happens to stand in.

    Raises:
        ValueError: They do not.
    """
    if architecture in (Architecture.PARTS, Architecture.ENTITIES):
        only = f"with architecture {architecture}"
        require(not normalize_observations, "normalize_observations", True, f"False {only}")
        require(observation_clip >= UNCLIPPED, "observation_clip", observation_clip, f"{UNCLIPPED:g} or more {only}")


def relu_network(*hidden: int) -> NetworkConfig:
    """Hidden layers of these widths, two of 256 by default."""
    return NetworkConfig(hidden or (256, 256), Activation.RELU)
