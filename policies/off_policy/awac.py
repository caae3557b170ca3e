"""AWAC, advantage-weighted actor-critic (Nair et al. 2020, arXiv:2006.09359): from demonstrations to own steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Generator, Tensor

from embodied.storage.bounds import NOT_NEGATIVE, POSITIVE
from policies.imitation.advice import Penalty, QFunction
from policies.imitation.losses import log_likelihood
from policies.networks.squashed import SquashedActor
from policies.off_policy.actors import ActorUpdate, LearnedActorUpdate
from policies.off_policy.config import ActorCriticConfig, Sizes
from policies.off_policy.critics import CriticUpdate


@dataclass(frozen=True)
class AWACConfig(ActorCriticConfig):
    """Advantage-weighted actor-critic (Nair et al. 2020), from demonstrations to own steps.

    Batches and networks are smaller than the paper's (1,024; a policy of four layers of 256).
    """

    demonstrations_in_buffer: bool = True
    offline_updates: int = 25_000
    temperature: Annotated[float, POSITIVE] = 1.0
    """λ: advantage by which an action's weight grows e times, in scaled rewards; large: all actions are cloned alike.
    The metric effective_share is the effective part of a batch: near 0 the temperature is too small."""
    blur: Annotated[float, NOT_NEGATIVE] = 0.1
    """Standard deviation, before the tanh, of Gaussian noise around the replay buffer's actions: the least with which
    the policy will explore. A script repeats itself exactly."""

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        actor = AWACActorUpdate(self.build_actor(sizes, generator, stochastic=True), self)
        return actor, self.build_critics(sizes, generator)


class AWACActorUpdate(LearnedActorUpdate):
    """Advantage-weighted likelihood of the replay buffer's actions.

    The actor does not maximise Q-values directly: it clones the buffer's actions, those above its own average more than
    others, and so stays near the data that the critics have seen.
    """

    def __init__(self, actor: SquashedActor, config: AWACConfig) -> None:
        """Take over a stochastic actor."""
        super().__init__(actor, config.actor_optimizer(actor))
        self._temperature, self._blur = config.temperature, config.blur

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, float]:
        """A sample of the policy."""
        return self.actor.sample(obs, noise), 0.0

    def update(
        self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Maximise exp(A / λ) log π(a|s) (eq. 13), with A = Q(s, a) - Q(s, a'), where a' is a sample of the policy."""
        del penalty
        with torch.no_grad():
            advantage = q_value(action) - q_value(self.actor.sample(obs, noise))
            weight = advantage_weights(advantage, self._temperature)
        likelihood = log_likelihood(self.actor, obs, action, self._blur)
        loss = -(weight * likelihood).mean()
        return {
            "policy_loss": loss.detach(),
            "policy_gradient_norm": self.optimizer.descend(loss),
            "likelihood": likelihood.detach().mean(),
            "advantage": advantage.mean(),
            "effective_share": weight.mean().square() / weight.square().mean(),
        }

    def update_offline(self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction) -> dict[str, Tensor]:
        """The same update."""
        return self.update(obs, action, noise, q_value)


def advantage_weights(advantage: Tensor, temperature: float) -> Tensor:
    """exp(A / λ) over its mean in the batch, (B,) to (B,): all 1 as λ grows, and always finite."""
    return (advantage / temperature).softmax(0) * len(advantage)
