"""IDQL: settings, implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169), and a diffusion model as policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Generator, Tensor

from embodied.storage.bounds import FRACTION, POSITIVE, Bound, at_least
from policies.data.replay_buffer import Batch
from policies.imitation.advice import Penalty, QFunction
from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import Critic
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.structured.diffusion import IDQLActor, IDQLStructure
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import OffPolicyConfig, Sizes
from policies.off_policy.critics import CriticUpdate, critic_loss


@dataclass(frozen=True)
class IDQLConfig(OffPolicyConfig):
    """Implicit Q-learning with a diffusion model as policy (IDQL, Hansen-Estruch et al. 2023, arXiv:2304.10573).

    Q-values are learned without evaluating actions outside the data; the policy samples actions from a diffusion model
    of the data and takes the one of the highest Q-value. `critic` also gives the diffusion model's width, and one
    residual block for each of its layers.
    """

    expectile: Annotated[float, Bound("above 0 and below 1", lambda value: 0 < value < 1)] = 0.7
    """A state's value is this expectile τ of its actions' Q-values; 0.5: their mean, near 1 their maximum."""
    critics: Annotated[int, at_least(1)] = 2
    """Number of critics, of which the minimum counts."""
    diffusion_steps: Annotated[int, at_least(1)] = 5
    """Steps from noise to an action."""
    samples: Annotated[int, at_least(1)] = 64
    """Actions that the policy samples, of which it takes the best."""
    exploration: Annotated[float, FRACTION] = 0.5
    """Share of the variance of the noise that is drawn anew at every step while exploring; the rest is fixed."""
    actor_learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Adam's step size for the diffusion model."""
    demonstrations_in_buffer: bool = True
    offline_updates: int = 25_000
    random_warm_up: bool = False

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        """The diffusion policy and its critics."""
        structure = IDQLStructure(self.diffusion_steps, self.samples, self.critics, self.exploration)
        actor = IDQLActor(sizes.policy, sizes.action, self.critic, structure, generator).to(sizes.device)
        state_value = Critic(sizes.policy, self.critic, generator).to(sizes.device)
        return IDQLActorUpdate(actor, self), IQLUpdate(actor, state_value, self)


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """|τ - 1(u < 0)| u² (Kostrikov et al., eq. 3), of the same shape."""
    return torch.where(difference < 0, 1 - expectile, expectile) * difference.square()


class IQLUpdate(CriticUpdate[CriticEnsemble]):
    """Implicit Q-learning: V is an expectile of Q over the data's actions, Q bootstraps from V."""

    def __init__(self, actor: IDQLActor, state_value: Critic, config: IDQLConfig) -> None:
        """Train the critics of an actor and a state-value network."""
        super().__init__(actor.critic, config.critic_optimizer(actor.critic))
        self.config, self.state_value = config, state_value
        self.state_value_optimizer = FlatAdamW(state_value.parameters(), config.critic_learning_rate)

    def update(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: Generator,
    ) -> dict[str, Tensor]:
        """One step of V (eq. 5), then of Q (eq. 6)."""
        del next_action, bonus, generator
        with torch.no_grad():
            data_value = self.target_critic(obs, batch.action).squeeze(-1).amin(0)
        value = self.state_value(obs)
        state_loss = expectile_loss(data_value - value, self.config.expectile).mean()
        norm = self.state_value_optimizer.descend(state_loss)
        with torch.no_grad():
            target = (batch.reward + batch.discount * self.state_value(next_obs))[None, :, None]
        outputs = self.critic(obs, batch.action)
        loss = critic_loss(outputs, target)
        return {
            "critic_loss": loss.detach(),
            "critic_gradient_norm": self.optimizer.descend(loss),
            "value": outputs.detach().mean(),
            "state_value_loss": state_loss.detach(),
            "state_value_gradient_norm": norm,
        }

    def q_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) minimum over the critics."""
        return self.critic(obs, action).squeeze(-1).amin(0)

    def state(self) -> dict[str, Any]:
        return super().state() | {"state_value": self.state_value_optimizer.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        super().load_state(tree)
        self.state_value_optimizer.load_state(tree["state_value"])


class IDQLActorUpdate(ActorUpdate):
    """Trains the diffusion model on all actions of the data, good or bad: choosing is the critics' part."""

    actor: IDQLActor

    def __init__(self, actor: IDQLActor, config: IDQLConfig) -> None:
        super().__init__(actor)
        self.optimizer = config.optimizer(actor.denoiser.parameters(), config.actor_learning_rate)

    def update(
        self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """One step of the diffusion model."""
        del q_value, penalty
        loss = self.actor.denoiser.loss(action, obs, noise)
        return {"policy_loss": loss.detach(), "policy_gradient_norm": self.optimizer.descend(loss)}

    def state(self) -> dict[str, Any]:
        return {"denoiser": self.optimizer.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.optimizer.load_state(tree["denoiser"])
