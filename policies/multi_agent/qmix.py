"""QMIX and VDN on binned actions: a team's Q-value of its agents' utilities, by which each then acts for itself.

Q_tot = f(u_1, ..., u_n; s) rises with every unit's utility (`policies.multi_agent.mixers`), so the greedy bins of all
units are the joint maximum, and the temporal difference of Q_tot alone teaches the agents what each contributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Generator, Tensor, nn

from embodied.env.vec_env import ObservationSpec
from embodied.storage.bounds import FRACTION, NOT_NEGATIVE, at_least
from policies.data.replay_buffer import Batch
from policies.multi_agent.mixers import Mixer
from policies.networks.normalizer import Normalizer
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.structured.team_bins import TeamBinsActor, TeamBinsStructure, nearest_bins
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import ObservationGroups, OffPolicyConfig, Sizes
from policies.off_policy.critics import CriticUpdate

JointObs = tuple[Tensor, Tensor]
"""Observations of the agents, (B, M S), and the state that the mixer reads, (B, size); both normalised."""


class JointGroups(ObservationGroups):
    """Groups of which the critic is given both: what the agents observe, and the state."""

    def inputs(self, obs: Mapping[str, Tensor], normalizers: Mapping[str, Normalizer]) -> tuple[Tensor, JointObs]:
        actor, state = super().inputs(obs, normalizers)
        return actor, (actor, state)


@dataclass(frozen=True)
class QMIXConfig(OffPolicyConfig):
    """QMIX (Rashid et al. 2018) on binned actions; with the mixer `sum` it is VDN (Sunehag et al. 2017).

    There is no actor network: every agent's Q-network, `critic`, says which bin of each component is best.
    """

    mixer: Mixer = Mixer.MONOTONE
    """Mixing of the units' utilities into the team's Q-value: monotone (QMIX) or sum (VDN)."""
    mixer_width: Annotated[int, at_least(1)] = 32
    """Width of the monotone mixing network's hidden layer."""
    bins: Annotated[int, at_least(2)] = 5
    """Values of each component of an action, equally spaced from -1 to 1."""
    epsilon_start: Annotated[float, FRACTION] = 1.0
    """Probability with which a unit takes a random bin, at the first action after the warm-up."""
    epsilon_end: Annotated[float, FRACTION] = 0.05
    """The same after epsilon_steps."""
    epsilon_steps: Annotated[int, NOT_NEGATIVE] = 50_000
    """Transitions after the warm-up over which it falls linearly; 0: it is epsilon_end at once."""
    critic_group: str = "critic"
    """Observation group that the mixer reads as state; where the environment has no such group, it reads what the
    agents observe."""

    def epsilon(self, steps: int) -> float:
        """Probability of a random bin after so many transitions."""
        share = 1.0 if steps >= self.epsilon_steps else steps / self.epsilon_steps
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * share

    def groups(self, spec: Mapping[str, ObservationSpec]) -> JointGroups:
        """The agents' group and the mixer's."""
        found = super().groups(spec)
        return JointGroups(found.spec, found.actor, found.critic)

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        structure = TeamBinsStructure(sizes.team, self.bins, self.epsilon_end)
        own = sizes.policy // sizes.team, sizes.action // sizes.team
        actor = TeamBinsActor(*own, self.critic, structure, generator)
        mixer = self.mixer.build(sizes.action, sizes.critic, self.mixer_width, generator)
        critic = MixedCritic(actor, mixer).to(sizes.device)
        return QMIXActorUpdate(actor, self), QMIXUpdate(critic, self.critic_optimizer(critic))


class MixedCritic(nn.Module):
    """The agents' Q-networks and the mixer."""

    def __init__(self, actor: TeamBinsActor, mixer: nn.Module) -> None:
        super().__init__()
        self.actor, self.mixer = actor, mixer

    def forward(self, obs: JointObs, bins: Tensor) -> Tensor:
        """(B,) Q_tot of the units' bins (B, M A)."""
        seen, state = obs
        chosen = self.actor.utilities(seen).gather(-1, bins[..., None])[..., 0]
        return self.mixer(chosen, state)


class QMIXActorUpdate(ActorUpdate):
    """ε-greedy exploration of units, and greedy actions for double Q-learning; there is nothing to update."""

    actor: TeamBinsActor

    def __init__(self, actor: TeamBinsActor, config: QMIXConfig) -> None:
        """Act by the agents' Q-networks, which their critic trains."""
        super().__init__(actor)
        self._config, self._steps = config, 0

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        epsilon = self._config.epsilon(self._steps)
        self._steps += len(obs)
        return self.actor.explore(obs, noise, epsilon)

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, float]:
        """The greedy action, which the target networks rate (van Hasselt et al. 2016, arXiv:1509.06461, eq. 4)."""
        del noise
        return self.actor(obs), 0.0

    def state(self) -> dict[str, Any]:
        return {"steps": self._steps}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self._steps = int(tree["steps"])


class QMIXUpdate(CriticUpdate[MixedCritic]):
    """The squared temporal difference of Q_tot (Rashid et al. 2018, eq. 6), from the team's mean reward."""

    def __init__(self, critic: MixedCritic, optimizer: FlatAdamW) -> None:
        super().__init__(critic, optimizer)
        self._bins = critic.actor.structure.bins

    def update(
        self,
        batch: Batch,
        obs: JointObs,
        next_obs: JointObs,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: Generator,
    ) -> dict[str, Tensor]:
        del bonus, generator
        with torch.no_grad():
            following = self.target_critic(next_obs, nearest_bins(next_action, self._bins))
            target = batch.reward + batch.discount * following
        value = self.q_value(obs, batch.action)
        loss = (value - target).square().mean()
        return {
            "critic_loss": loss.detach(),
            "critic_gradient_norm": self.optimizer.descend(loss),
            "value": value.detach().mean(),
        }

    def q_value(self, obs: JointObs, action: Tensor) -> Tensor:
        """(B,) Q_tot of the bins nearest to joint actions (B, M A)."""
        return self.critic(obs, nearest_bins(action, self._bins))
