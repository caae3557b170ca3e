"""`ActorCritic`: actor and critic of proximal policy optimisation, evaluated in chunks by several threads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from embodied.env.rollout import PerceptronActor
from policies.networks.build import make_actor, make_critic
from policies.networks.mlp import MLP, Architecture, Critic
from policies.networks.normalizer import Normalizer
from policies.networks.optim.parallel import ATTENTION, PLAIN, Workers
from policies.networks.recurrent import RecurrentNetwork, Sequences
from policies.ppo.config import PPOConfig
from policies.ppo.rollout_buffer import Rollout


class ActorCritic:
    """The networks of a learner and the threads that run them."""

    def __init__(self, actor: Any, critic: Critic, workers: Workers) -> None:
        self.actor, self.critic, self.workers = actor, critic, workers
        self.critic_memory: Tensor | None = None
        """(N, H) hidden states of a recurrent critic after the last rollout that it valued."""

    @classmethod
    def of(
        cls, config: PPOConfig, observed: tuple[int, int], action_size: int, device: torch.device, seed: int
    ) -> ActorCritic:
        """Build both for observations of these sizes; `seed` fixes their weights."""
        weights = Generator().manual_seed(seed)
        actor = make_actor(observed[0], action_size, config.actor, config.initial_std, weights)
        critic = make_critic(observed[1], config.critic, weights)
        attends = {config.actor.architecture, config.critic.architecture} - {Architecture.MLP, Architecture.GRU}
        return cls(actor.to(device), critic.to(device), Workers(device, chunk=ATTENTION if attends else PLAIN))

    @torch.no_grad()
    def act(self, obs: Tensor, hidden: Tensor, out: Tensor) -> Tensor:
        """Write mean actions (N, A) for normalised observations (N, size) into `out`, and a memory into `hidden`."""
        network = self.actor.mean
        if not isinstance(network, RecurrentNetwork):
            return self.forward(network, obs, out)

        def run(chunk: tuple[Tensor, Tensor, Tensor]) -> None:
            with torch.no_grad():  # the setting belongs to a thread
                mean, following = network(chunk[0], chunk[1])
            chunk[1].copy_(following)
            chunk[2].copy_(mean)

        self.workers.map(run, list(zip(*map(self.workers.split, (obs, hidden, out)), strict=True)))
        return out

    def forward(self, network: nn.Module, rows: Tensor, out: Tensor) -> Tensor:
        """Write a network's outputs for `rows` into `out`, a chunk at a time."""

        def run(chunk: tuple[Tensor, Tensor]) -> None:
            with torch.no_grad():  # the setting belongs to a thread
                chunk[1].copy_(network(chunk[0]))

        self.workers.map(run, list(zip(self.workers.split(rows), self.workers.split(out), strict=True)))
        return out

    @torch.no_grad()
    def values(self, rollout: Rollout, normalizer: Normalizer, last_obs: Tensor) -> tuple[Tensor, Tensor]:
        """Fill in the values of a rollout.

        Only terminal observations of truncated episodes are evaluated; elsewhere the value is never read.

        Returns:
            (T, N) values where the time limit ended an episode, and (N,) values after the last step.
        """
        network = self.critic.value
        final_value, rows = torch.zeros_like(rollout.value), rollout.truncated.nonzero(as_tuple=True)
        final_obs, last_obs = normalizer(rollout.final_obs[rows]), normalizer(last_obs)
        if isinstance(network, RecurrentNetwork):
            sequences = Sequences(rollout.critic_memory, rollout.begins)
            values, states = network.over(rollout.critic_obs.flatten(0, 1), sequences)
            rollout.value.view(-1, 1).copy_(values)
            final_value[rows] = network(final_obs, states[rows])[0].squeeze(-1)
            ended = rollout.terminated[-1] | rollout.truncated[-1]
            self.critic_memory = states[-1].masked_fill(ended[:, None], 0.0)
            return final_value, network(last_obs, self.critic_memory)[0].squeeze(-1)
        self.forward(network, rollout.critic_obs.flatten(0, 1), rollout.value.view(-1, 1))
        if len(rows[0]):
            final_value[rows] = self.critic(final_obs)
        return final_value, self.critic(last_obs)

    def perceptron(self, log_std: Tensor, normalizer: Normalizer, clip: float, activation: str) -> PerceptronActor:
        """The actor and its normaliser as the numbers that a rollout's program takes."""
        network = self.actor.mean
        assert isinstance(network, MLP)
        return PerceptronActor(
            weights=tuple(layer.weight.detach() for layer in network.linears),
            biases=tuple(layer.bias.detach() for layer in network.linears),
            log_std=log_std,
            observation_mean=normalizer.mean,
            observation_scale=normalizer.scale,
            observation_clip=clip,
            activation=activation,
        )
