"""Actors that are no perceptron: their choice is an algorithm, whose numbers are stored with their weights."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Generator, Tensor

from policies.networks.mlp import Actor, NetworkConfig


class StructuredActor(Actor):
    """An actor with a structure: a frozen dataclass of numbers from which, with the layers' widths, it is rebuilt."""

    kind: ClassVar[str]
    """Name of a stored policy with this actor."""
    structure_type: ClassVar[type[Any]]
    structure: Any

    def __init__(
        self, inputs: int, actions: int, config: NetworkConfig, structure: Any, generator: Generator | None = None
    ) -> None:
        """Keep what it is built from, and build the networks; of a team, `inputs` and `actions` are one agent's."""
        super().__init__()
        self.structure, self._inputs, self._actions = structure, inputs, actions
        self.build(inputs, actions, config, generator)

    def build(self, inputs: int, actions: int, config: NetworkConfig, generator: Generator | None) -> None:
        """Add the networks."""
        raise NotImplementedError

    @property
    def team_size(self) -> int:
        """Agents for which it acts at once; 1 where each acts by itself."""
        return 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Lengths of the observation and of the action that it was built for; for a team, one agent's."""
        return self._inputs, self._actions

    def forward(self, obs: Tensor) -> Tensor:
        """Best actions by its own estimate: (N, inputs) to (N, A)."""
        raise NotImplementedError

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The exploring action of standard normal `noise` (N, A): of the structure's deviation about the best one."""
        return (self(obs) + self.structure.noise * noise).clamp(-1.0, 1.0)
