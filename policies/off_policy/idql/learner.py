"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169), whose policy is a model of behaviour (IDQL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from policies.networks.ensemble import CriticEnsemble
from policies.networks.mlp import Critic
from policies.networks.value_heads import ScalarHead
from policies.off_policy.critics import TargetedCritic
from policies.off_policy.greedy import GreedyRule
from policies.off_policy.idql.actor import BehaviourActor, BehaviourForm
from policies.off_policy.idql.config import IDQLConfig
from policies.off_policy.replay_buffer import Batch
from policies.off_policy.sizes import Extent
from policies.off_policy.update_rules import Penalty, Values
from policies.optim.flat_parameters import VectorizedSimulator


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """|τ - 1(u < 0)| u² (Kostrikov et al., eq. 3), of the same shape: too low a value costs τ, too high a one 1 - τ."""
    return torch.where(difference < 0, 1 - expectile, expectile) * difference.square()


class ImplicitValues(TargetedCritic[CriticEnsemble]):
    """Q of what was done, and V, an expectile of it over what is done in a state: the best that data support."""

    def __init__(self, actor: BehaviourActor, state_value: Critic, config: IDQLConfig) -> None:
        """Teach the critics of an actor, with the help of a value of states."""
        super().__init__(actor.critic, config)
        self.config, self.head, self.state_value = config, ScalarHead(), state_value
        self.state_stepper = VectorizedSimulator(state_value.parameters(), config.critic_learning_rate)

    def learn(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: Generator,
    ) -> dict[str, Tensor]:
        """One step of V (eq. 5), then of Q (eq. 6); arguments as of `ValueLearner.learn`."""
        del next_action, bonus, generator
        with torch.no_grad():
            supported = self.head.value(self.target_critic(obs, batch.action)).amin(0)
        worth = self.state_value(obs)
        state_loss = expectile_loss(supported - worth, self.config.expectile).mean()
        norm = self.state_stepper.descend(state_loss)
        with torch.no_grad():
            target = (batch.reward + batch.discount * self.state_value(next_obs))[None, :, None]
        outputs = self.critic(obs, batch.action)
        loss = self.head.loss(outputs, target)
        return {
            "critic_loss": loss.detach(),
            "critic_gradient_norm": self.simulator.descend(loss),
            "value": self.head.value(outputs.detach()).mean(),
            "state_value_loss": state_loss.detach(),
            "state_value_gradient_norm": norm,
        }

    def climbed(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) lowest values of (B, A) actions."""
        return self.head.value(self.critic(obs, action)).amin(0)

    def state(self) -> dict[str, Any]:
        """Critics, targets, and the value of states."""
        return super().state() | {"state_value": self.state_stepper.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        super().load_state(tree)
        self.state_stepper.load_state(tree["state_value"])


class BehaviourRule(GreedyRule):
    """Teaches an actor's model of behaviour what was done, good or bad: choosing is the critics' part."""

    actor: BehaviourActor

    def __init__(self, actor: BehaviourActor, config: IDQLConfig) -> None:
        super().__init__(actor)
        self._simulator = VectorizedSimulator(
            actor.denoiser.parameters(),
            config.actor_learning_rate,
            weight_decay=config.weight_decay,
            max_grad_norm=config.max_grad_norm,
        )

    def improve(
        self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """One step of the model of behaviour."""
        del values, penalty
        loss = self.actor.denoiser.loss(taken, obs, noise)
        return {"policy_loss": loss.detach(), "policy_gradient_norm": self._simulator.descend(loss)}

    def state(self) -> dict[str, Any]:
        """The model with its moments."""
        return {"denoiser": self._simulator.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._simulator.load_state(tree["denoiser"])


def make_idql(config: IDQLConfig, extent: Extent, weights: Generator) -> tuple[BehaviourRule, ImplicitValues]:
    """Both parts."""
    form = BehaviourForm(config.diffusion_steps, config.samples, config.critics, config.exploration)
    actor = BehaviourActor(extent.policy, extent.action, config.critic, form, weights).to(extent.device)
    state_value = Critic(extent.policy, config.critic, weights).to(extent.device)
    return BehaviourRule(actor, config), ImplicitValues(actor, state_value, config)
