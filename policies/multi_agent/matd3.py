"""MATD3: multi-agent TD3 (Ackermann et al. 2019, arXiv:1910.01465), MADDPG (Lowe et al. 2017) with twin critics.

Every agent i has a deterministic actor, a reward and twin critics Q_i(x, a_1, ..., a_M) of its own. Critics see what
all agents observe, x, and do. With one agent it is TD3, bit for bit.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from policies.data.replay_buffer import Batch
from policies.imitation.advice import Penalty, QFunction
from policies.networks.config import require
from policies.networks.ensemble import CriticEnsemble
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.structured.team import TeamActor, TeamStructure
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import Sizes
from policies.off_policy.critics import BellmanUpdate, CriticUpdate
from policies.off_policy.td3 import DeterministicConfig, TD3ActorUpdate


@dataclass(frozen=True)
class MATD3Config(DeterministicConfig):
    """Multi-agent twin delayed deterministic policy gradient (Ackermann et al. 2019), with a reward of each agent.

    `critics` are each agent's. One optimiser holds all actors and one all critics, so that `max_grad_norm` bounds the
    gradients of all agents together.
    """

    own_rewards = True

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = "None: demonstrations have no reward of each agent"
        require(self.demonstrations is None, "demonstrations", self.demonstrations, unknown)
        require(self.offline_updates == 0, "offline_updates", self.offline_updates, "0: there are no demonstrations")

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        structure = TeamStructure(sizes.team, stochastic=False, noise=self.noise)
        own = sizes.policy // sizes.team, sizes.action // sizes.team
        actor = TeamActor(*own, self.actor, structure, generator).to(sizes.device)
        return MATD3ActorUpdate(actor, self), self.build_critics(sizes, generator)

    def build_critics(self, sizes: Sizes, generator: Generator) -> AgentsBellmanUpdate:
        """Untrained critics of every agent, agent by agent, on their device."""
        critics = CriticEnsemble(
            sizes.team * self.critics, sizes.critic + sizes.action, 1, self.critic,
            layer_norm=self.layer_norm, generator=generator,
        ).to(sizes.device)  # fmt: skip
        return AgentsBellmanUpdate(critics, self.critic_optimizer(critics), self)


class MATD3ActorUpdate(TD3ActorUpdate):
    """The agents' deterministic policy gradients (Lowe et al. 2017, eq. 6); targets are smoothed as TD3's are."""

    def update(
        self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Minimise Σ_i -Q_i(x, a_1, .., μ_i(o_i), .., a_M): the others' actions are those of the replay buffer.

        `q_value` is that of `AgentsBellmanUpdate`.
        """
        del noise, penalty
        loss = -q_value(deviations(action, self.actor(obs), self.actor.team_size)).mean(-1).sum()
        return {"policy_loss": loss.detach(), "policy_gradient_norm": self.optimizer.descend(loss)}


class AgentsBellmanUpdate(BellmanUpdate[CriticEnsemble]):
    """The update of M agents' critics, K of each, towards r_i + γ min_k Q'_ik(x', a'_1, ..., a'_M)."""

    def __init__(self, critic: CriticEnsemble, optimizer: FlatAdamW, config: MATD3Config) -> None:
        """Take over critics in the order of the agents."""
        super().__init__(
            critic, optimizer, clipped_double=config.clipped_double, target_critics=config.target_critics,
            policy_value=config.policy_value,
        )  # fmt: skip
        self._each = config.critics

    def target(self, outputs: Tensor, batch: Batch, bonus: Tensor | float, generator: Generator) -> Tensor:
        """Bellman targets (M K, B, 1) from the target critics' outputs (M K, B, 1), of rewards (B, M)."""
        targets = [
            super(AgentsBellmanUpdate, self).target(
                own, dataclasses.replace(batch, reward=batch.reward[:, agent]), bonus, generator
            )
            for agent, own in enumerate(outputs.split(self._each))
        ]
        return torch.cat([own.expand(self._each, -1, -1) for own in targets])

    def q_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """(M, B) each agent's Q-values of joint actions of its own (M, B, M A)."""
        of_critics = action.repeat_interleave(self._each, 0)
        values = self.critic(obs.expand(len(of_critics), -1, -1), of_critics).squeeze(-1)
        return self._policy_value.of(values.unflatten(0, (-1, self._each)).transpose(0, 1))


def deviations(action: Tensor, own: Tensor, agents: int) -> Tensor:
    """(M, B, M A) joint actions, of which row i is `action` (B, M A) with agent i's part from `own` (B, M A)."""
    mine = torch.eye(agents, dtype=torch.bool, device=action.device)[:, None, :, None]  # (M, 1, M, 1)
    return torch.where(mine, own.unflatten(-1, (agents, -1)), action.unflatten(-1, (agents, -1))).flatten(2)
