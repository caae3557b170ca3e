"""A critic, and the target network that slowly follows it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from policies.networks.ensemble import CriticEnsemble
from policies.networks.value_heads import CategoricalHead, ScalarHead, ValueHead
from policies.off_policy.actor_critics import OffPolicyConfig, PolicyValue
from policies.off_policy.config import MemoryConfig
from policies.off_policy.replay_buffer import Batch
from policies.optim.flat_parameters import VectorizedSimulator, join

C = TypeVar("C", bound=nn.Module)


class TargetedCritic(Generic[C]):
    """What all learners of values keep, whatever their critic is."""

    def __init__(self, critic: C, config: MemoryConfig) -> None:
        """Take over a critic that is on its device by now."""
        self.critic = critic
        self.simulator = VectorizedSimulator(
            critic.parameters(),
            config.critic_learning_rate,
            weight_decay=config.weight_decay,
            max_grad_norm=config.max_grad_norm,
        )
        self.target_critic = copy.deepcopy(critic)
        self.target_vector = join(self.target_critic.parameters())

    def track(self, tau: float) -> None:
        """Mix that share of the critic into its target network."""
        self.target_vector.lerp_(self.simulator.vector, tau)

    def state(self) -> dict[str, Any]:
        """Critic with its moments, and target network."""
        return {"critic": self.simulator.state(), "target": self.target_vector.clone()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.simulator.load_state(tree["critic"])
        self.target_vector.copy_(tree["target"])


CLIMBED = {
    PolicyValue.LOWEST: lambda values: values.amin(0),
    PolicyValue.MEAN: lambda values: values.mean(0),
    PolicyValue.FIRST: lambda values: values[0],
}
"""From the values (E, B) of E critics to what the policy climbs, (B,)."""

Ensemble = TypeVar("Ensemble", bound=CriticEnsemble)


class ValueLearner(TargetedCritic[Ensemble]):
    """Critics of normalised observations and actions, and the target networks that follow them."""

    def __init__(self, critic: Ensemble, head: ValueHead, config: OffPolicyConfig) -> None:
        """Teach critics, which are on their device by now, what their outputs mean by `head`."""
        self.config, self.head = config, head
        super().__init__(critic, config)

    def learn(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """One step of the critics.

        Args:
            batch: Actions, rewards and discounts.
            obs: (B, size) normalised observations where its transitions begin.
            next_obs: (B, size) those where they end.
            next_action: (B, A) what is supposed to follow there.
            bonus: (B,) what else those states are worth.
            generator: Draws which critics are asked.

        Returns:
            Measures.
        """
        with torch.no_grad():
            target = self.target(self.target_critic(next_obs, next_action), batch, bonus, generator)
        outputs, loss, further = self.loss(obs, batch.action, target, generator)
        measures = {
            "critic_loss": loss.detach(),
            "critic_gradient_norm": self.simulator.descend(loss),
            "value": self.head.value(outputs.detach()).mean(),
        }
        measures |= further
        if isinstance(self.head, CategoricalHead):
            measures["support_edge"] = target[..., (0, -1)].sum(-1).mean()
        return measures

    def loss(
        self, obs: Tensor, action: Tensor, target: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The critics' outputs, what they minimise, and further measures."""
        del generator
        outputs = self.critic(obs, action)
        return outputs, self.head.loss(outputs, target), {}

    def target(self, outputs: Tensor, batch: Batch, bonus: Tensor | float, generator: torch.Generator) -> Tensor:
        """(E or 1, B, K): what critics should have said, of the lowest of those that are asked where so configured."""
        if self.config.clipped_double:
            if asked := self.config.target_critics:
                order = torch.randperm(self.config.critics, generator=generator, device=outputs.device)
                outputs = outputs[order[:asked]]
            lowest = self.head.value(outputs).argmin(0)
            outputs = outputs[lowest, torch.arange(outputs.shape[1], device=outputs.device)][None]
        return self.head.target(outputs, batch.reward, batch.discount, bonus)

    def climbed(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) what the policy climbs."""
        return CLIMBED[self.config.policy_value](self.head.value(self.critic(obs, action)))


def make_head(config: OffPolicyConfig, device: torch.device) -> ValueHead:
    """What the critics' outputs mean."""
    if config.atoms == 1:
        return ScalarHead()
    return CategoricalHead(config.atoms, config.value_low, config.value_high, device)
