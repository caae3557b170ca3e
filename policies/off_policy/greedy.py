"""The policy's part where there is no policy to learn: it is read off what others learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from policies.networks.structured_actor import FormedActor
from policies.off_policy.update_rules import Penalty, Values


class GreedyRule:
    """Follows an actor whose weights belong to the critic."""

    def __init__(self, actor: FormedActor) -> None:
        """Take over an actor."""
        self.actor = actor

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The actor's exploring action."""
        return self.actor.sample(obs, noise)

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, float]:
        """None, (B, 0): the critic's targets are maxima of their own."""
        del noise
        return obs.new_zeros(len(obs), 0), 0.0

    def improve(
        self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Nothing."""
        del obs, taken, noise, values, penalty
        return {}

    def learn_offline(self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values) -> dict[str, Tensor]:
        """Nothing."""
        return self.improve(obs, taken, noise, values)

    def track(self, tau: float) -> None:
        """The critic's target network is the critic's."""

    def state(self) -> dict[str, Any]:
        """Nothing of its own."""
        return {}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Nothing of its own."""
