"""The actor's side of an off-policy algorithm: exploration, the next action in Bellman targets, the actor's update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from policies.imitation.advice import Penalty, QFunction
from policies.imitation.losses import imitation_loss
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.squashed import SquashedActor
from policies.networks.structured.actor import StructuredActor


class ActorUpdate:
    """Update of an actor; here, of one without parameters: the policy maximises the critic, which alone learns.

    Observations are normalised; `noise` is standard normal, of the actions' shape.
    """

    def __init__(self, actor: SquashedActor | StructuredActor) -> None:
        self.actor = actor

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Exploring actions for all N environments, (N, A)."""
        return self.actor.sample(obs, noise)

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | float]:
        """The action of Bellman targets (B, A), and a bonus on its Q-value (B,).

        Here (B, 0) and 0: these critics choose the next action themselves.
        """
        del noise
        return obs.new_zeros(len(obs), 0), 0.0

    def update(
        self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Take one gradient step on observations (B, size) and the replay buffer's actions (B, A); returns metrics.

        `q_value` are the critics in these states; `penalty` is a further loss of actors that maximise Q-values.
        """
        del obs, action, noise, q_value, penalty
        return {}

    def update_offline(self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction) -> dict[str, Tensor]:
        """The update on demonstrations alone, before the first own step."""
        return self.update(obs, action, noise, q_value)

    def update_target(self, tau: float) -> None:
        """Polyak-average the actor into its target network, if there is one."""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        pass


class LearnedActorUpdate(ActorUpdate):
    """Update of an actor with an optimiser of its own; on demonstrations alone it clones behaviour.

    Q-values of actions that no demonstration shows are not to be maximised before such actions were tried.
    """

    actor: SquashedActor

    def __init__(self, actor: SquashedActor, optimizer: FlatAdamW) -> None:
        super().__init__(actor)
        self.optimizer = optimizer

    def update_offline(self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction) -> dict[str, Tensor]:
        """One step of behaviour cloning."""
        loss = imitation_loss(self.actor, obs, action)
        return {"imitation_loss": loss.detach(), "policy_gradient_norm": self.optimizer.descend(loss)}

    def state(self) -> dict[str, Any]:
        return {"actor": self.optimizer.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.optimizer.load_state(tree["actor"])
