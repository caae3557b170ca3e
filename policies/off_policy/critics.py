"""The critics' side of an off-policy algorithm: Q-networks, their target networks, and the Bellman update."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

import torch
from torch import Generator, Tensor, nn

from policies.data.replay_buffer import Batch
from policies.networks.ensemble import CriticEnsemble
from policies.networks.optim.flat_parameters import FlatAdamW, join

C = TypeVar("C", bound=nn.Module)
Ensemble = TypeVar("Ensemble", bound=CriticEnsemble)


def bellman_target(values: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float) -> Tensor:
    """Targets r + γ (Q + bonus), (E, B, 1), from each target critic's Q-values (E, B, 1) of the next state and action.

    All else is (B,); the discount γ is 0 after a failure.
    """
    return (reward + discount * (values.squeeze(-1) + bonus)).unsqueeze(-1)


def critic_loss(values: Tensor, target: Tensor) -> Tensor:
    """Squared error, mean over the batch, summed over critics: (E, B, 1) and (E or 1, B, 1) to ()."""
    return (values - target).square().mean(1).sum()


class CriticUpdate(Generic[C]):
    """A Q-network with its optimiser and its target network; observations are normalised."""

    def __init__(self, critic: C, optimizer: FlatAdamW) -> None:
        """Copy a critic, which is on its device by now and whose parameters the optimiser holds, as target network."""
        self.critic, self.optimizer = critic, optimizer
        self.target_critic = copy.deepcopy(critic)
        self.target_parameters = join(self.target_critic.parameters())

    def update(
        self, batch: Batch, obs: Any, next_obs: Any, next_action: Tensor, bonus: Tensor | float, generator: Generator
    ) -> dict[str, Tensor]:
        """Take one gradient step; returns metrics.

        First and last observations are (B, size), normalised; of other critics, what they read. `next_action` (B, A)
        and `bonus` (B,), which is added to the next Q-value, are those of `ActorUpdate.next_action`.
        """
        raise NotImplementedError

    def q_value(self, obs: Any, action: Tensor) -> Tensor:
        """(B,) Q-values as the actor maximises them."""
        raise NotImplementedError

    def encoded(self, obs: Any) -> Any:
        """Input of the actor and its Q-values from (B, ...) observations: with an encoder, its output."""
        return obs

    def update_target(self, tau: float) -> None:
        """Polyak-average the critic into its target network."""
        self.target_parameters.lerp_(self.optimizer.vector, tau)

    def state(self) -> dict[str, Any]:
        return {"critic": self.optimizer.state(), "target": self.target_parameters.clone()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.optimizer.load_state(tree["critic"])
        self.target_parameters.copy_(tree["target"])


class PolicyValue(StrEnum):
    """Which of the critics' Q-values an actor maximises."""

    LOWEST = "lowest"
    MEAN = "mean"
    FIRST = "first"

    def of(self, values: Tensor) -> Tensor:
        """(E, B) of E critics to (B,)."""
        match self:
            case PolicyValue.LOWEST:
                return values.amin(0)
            case PolicyValue.MEAN:
                return values.mean(0)
            case PolicyValue.FIRST:
                return values[0]


class BellmanUpdate(CriticUpdate[Ensemble]):
    """The update of an actor-critic's E critics towards r + γ (Q(s', a') + bonus)."""

    def __init__(
        self,
        critic: Ensemble,
        optimizer: FlatAdamW,
        *,
        clipped_double: bool = True,
        target_critics: int | None = None,
        policy_value: PolicyValue = PolicyValue.LOWEST,
    ) -> None:
        """See `ActorCriticConfig` for the last three."""
        super().__init__(critic, optimizer)
        self._clipped_double, self._target_critics, self._policy_value = clipped_double, target_critics, policy_value

    def update(
        self, batch: Batch, obs: Any, next_obs: Any, next_action: Tensor, bonus: Tensor | float, generator: Generator
    ) -> dict[str, Tensor]:
        with torch.no_grad():
            target = self.target(self.target_critic(next_obs, next_action), batch, bonus, generator)
        outputs, loss, further = self.loss(obs, batch.action, target, generator)
        metrics = {
            "critic_loss": loss.detach(),
            "critic_gradient_norm": self.optimizer.descend(loss),
            "value": outputs.detach().mean(),
        }
        return metrics | further

    def loss(
        self, obs: Any, action: Tensor, target: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The critics' outputs, their loss, and further metrics."""
        del generator
        outputs = self.critic(obs, action)
        return outputs, critic_loss(outputs, target), {}

    def target(self, outputs: Tensor, batch: Batch, bonus: Tensor | float, generator: Generator) -> Tensor:
        """Bellman targets (E or 1, B, 1) from the target critics' outputs (E, B, 1) for the next state and action."""
        if self._clipped_double:
            if self._target_critics:
                order = torch.randperm(len(outputs), generator=generator, device=outputs.device)
                outputs = outputs[order[: self._target_critics]]
            lowest = outputs.squeeze(-1).argmin(0)
            outputs = outputs[lowest, torch.arange(outputs.shape[1], device=outputs.device)][None]
        return bellman_target(outputs, batch.reward, batch.discount, bonus)

    def q_value(self, obs: Any, action: Tensor) -> Tensor:
        """(B,) Q-values as the actor maximises them."""
        return self._policy_value.of(self.critic(obs, action).squeeze(-1))
