"""HAPPO, heterogeneous-agent PPO (Kuba et al. 2022, arXiv:2109.11251): agents improve one after the other.

One critic values what the team sees. In random order, each agent takes PPO's steps on the team's advantage, weighted by
the change in likelihood of the actions of those before it (algorithm 4):

    A_i = M_i A,    M_{i+1} = M_i π_i(a_i | o_i) / π_i,old(a_i | o_i),    M_1 = 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from embodied.env.vec_env import POLICY
from policies.algorithm import SettingsError
from policies.networks import gaussian
from policies.networks.build import make_critic
from policies.networks.config import Architecture
from policies.networks.optim import distributed
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.optim.parallel import Workers
from policies.networks.structured.team import GaussianTeamActor, GaussianTeamStructure
from policies.ppo.actor_critic import ActorCritic
from policies.ppo.config import CuriosityConfig, PPOConfig, Schedule, SymmetryConfig
from policies.ppo.losses import PolicyLoss
from policies.ppo.ppo import PPO
from policies.ppo.rollout_buffer import ActorBatch


@dataclass(frozen=True)
class HAPPOConfig(PPOConfig):
    """Heterogeneous-agent proximal policy optimisation (Kuba et al. 2022): PPO's settings, of each agent."""

    schedule: Schedule = Schedule.LINEAR

    def __post_init__(self) -> None:
        super().__post_init__()
        refused = {
            "schedule": self.schedule is Schedule.ADAPTIVE,
            "critic_warm_up": self.critic_warm_up > 0,
            "symmetry": self.symmetry != SymmetryConfig(),
            "curiosity": self.curiosity != CuriosityConfig(),
            "actor.architecture": self.actor.architecture is not Architecture.MLP,
            "critic.architecture": self.critic.architecture is not Architecture.MLP,
        }
        if given := [name for name, holds in refused.items() if holds]:
            raise SettingsError(
                f"happo has no {', '.join(given)} of that kind; expected perceptrons, a schedule fixed or linear, and "
                "neither critic_warm_up, symmetry nor curiosity"
            )


class HAPPO(PPO):
    """PPO of a team: every agent has an actor and an optimiser of its own, and all of them one critic."""

    def __init__(self, *given: Any, team_size: int = 1, **options: Any) -> None:
        """Build networks and buffers; arguments as of `PPO`, of rows that are teams of `team_size` agents."""
        self.team_size = team_size
        super().__init__(*given, **options)

    def _build_networks(self, sizes: Mapping[str, int], action_size: int, seed: int) -> None:
        config, weights, team = self.config, Generator().manual_seed(seed), self.team_size
        own = sizes[POLICY] // team, action_size // team
        actor = GaussianTeamActor(*own, config.actor, GaussianTeamStructure(team, config.initial_std), weights)
        critic = make_critic(sizes[self.critic_group], config.critic, weights)
        self.networks = ActorCritic(actor.to(self.device), critic.to(self.device), Workers(self.device))
        self._optimizers = [self._built_optimizer(actor.of_agent(agent)) for agent in range(team)]
        self.optimizer = self._built_optimizer(list(critic.parameters()))
        self._actor_numbers = 0  # of the optimiser's parameters: all are the critic's
        self._order = Generator().manual_seed(seed)

    def _built_optimizer(self, parameters: list[torch.nn.Parameter]) -> FlatAdamW:
        return FlatAdamW(parameters, self.learning_rate.value, max_grad_norm=self.config.max_grad_norm)

    def _learn(self) -> list[Tensor]:
        """Each agent's steps in random order, then the critic's; returns the measures of all minibatches."""
        rollout, size = self.rollout, self.actor.sizes[1]
        old_log_std = self.collector.log_std.tensor_split(self.team_size)
        action, old_mean = (self._of_agents(buffer) for buffer in (rollout.action, rollout.mean))
        obs, advantage = self._of_agents(rollout.actor_obs), rollout.advantage.flatten()
        factor, policy_measures = torch.ones_like(advantage), list[Tensor]()
        for agent in torch.randperm(self.team_size, generator=self._order).tolist():
            z = gaussian.standardize(action[agent], old_mean[agent], old_log_std[agent])
            old = gaussian.log_density(z, old_log_std[agent])
            data = ActorBatch(obs[agent], action[agent], old_mean[agent], old, factor * advantage)
            policy_measures += self._improve(agent, data, old_log_std[agent])
            with torch.no_grad():
                mean, log_std = torch.empty(len(old), size, device=self.device), self.actor.log_stds[agent]
                self.networks.forward(self.actor.means[agent], obs[agent], mean)
                new = gaussian.log_density(gaussian.standardize(action[agent], mean, log_std), log_std)
                factor = factor * (new - old).exp()
        values = torch.stack(self._fit_critic()).mean(0)
        self._keep_exploring()
        policy = torch.stack(policy_measures).mean(0)
        # In the order of MEASURES: policy_loss, value_loss, kl, clip_fraction, gradient_norm.
        return [torch.stack([policy[0], values[0], policy[1], policy[2], policy[3]])]

    def _of_agents(self, buffer: Tensor) -> tuple[Tensor, ...]:
        """A rollout's (T, N, agents size) as (T N, size) of each agent."""
        return tuple(part.contiguous() for part in buffer.flatten(0, 1).tensor_split(self.team_size, -1))

    def _improve(self, agent: int, data: ActorBatch, old_log_std: Tensor) -> list[Tensor]:
        """PPO's steps of one agent; returns (4,) loss, divergence, share clipped and gradient's norm of each."""
        optimizer, network, log_std = self._optimizers[agent], self.actor.means[agent], self.actor.log_stds[agent]

        def differentiate(rows: Tensor, size: int) -> Tensor:
            obs, action, old_mean, old, advantage = (values.index_select(0, rows) for values in data[:5])
            batch = ActorBatch(obs, action, old_mean, old, advantage)
            with torch.enable_grad():  # the setting belongs to a thread
                loss: PolicyLoss = self._policy_loss(network(batch.obs), log_std, old_log_std, batch, size, self.config)
                gradient = optimizer.gradient(loss.total)
            return torch.cat([gradient, torch.stack([loss.surrogate, loss.kl, loss.clipped])])

        return [self._descend(optimizer, index, differentiate) for index in self._minibatches()]

    def _fit_critic(self) -> list[Tensor]:
        """The critic's steps; returns (2,) error and gradient's norm of each."""

        def differentiate(rows: Tensor, size: int) -> Tensor:
            batch = self.rollout.critic_batch(rows)
            with torch.enable_grad():
                loss = self._value_loss(self.critic(batch.obs), batch, size, self.config)
                gradient = self.optimizer.gradient(loss.total)
            return torch.cat([gradient, loss.error[None]])

        return [self._descend(self.optimizer, index, differentiate) for index in self._minibatches()]

    def _descend(self, optimizer: FlatAdamW, index: Tensor, differentiate: Callable[[Tensor, int], Tensor]) -> Tensor:
        """One step down a gradient, chunk by chunk; returns what `differentiate` measured, and the gradient's norm."""
        size, workers = len(index), self.networks.workers
        chunks = workers.split(index)
        total = distributed.mean_(torch.stack(workers.map(lambda rows: differentiate(rows, size), chunks)).sum(0))
        count = len(optimizer.vector)
        norm = optimizer.step(total[:count])
        return torch.cat([total[count:], norm[None]])

    @torch.no_grad()
    def _keep_exploring(self) -> None:
        """Hold the actions' deviations above their bound."""
        if self.config.min_std:
            for log_std in self.actor.log_stds:
                log_std.clamp_(min=math.log(self.config.min_std))

    def state(self) -> dict[str, Any]:
        actors = {str(agent): optimizer.state() for agent, optimizer in enumerate(self._optimizers)}
        return super().state() | {"actors": actors, "order": self._order.get_state()}

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        for agent, optimizer in enumerate(self._optimizers):
            optimizer.load_state(tree["actors"][str(agent)])
        self._order.set_state(tree["order"].cpu())
        super().load_state(tree, explore_alike=explore_alike)
