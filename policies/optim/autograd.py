"""Gradients of any actor and critic by autograd, where `policies.optim.backprop` has no passes written out for them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from policies.networks.mlp import MLP, Critic, GaussianActor
from policies.optim.gradients import Gradients, PartialGradient
from policies.optim.optimizer import FlatAdam
from policies.ppo.config import PPOConfig
from policies.ppo.rollout_buffer import Rollout

CPU_CHUNK = 512
"""Rows per chunk on a CPU: autograd keeps all activations, of every part, which should stay in the cache."""
GPU_CHUNK = 1 << 14
"""Rows per chunk on a GPU, which bounds the memory for activations."""


class AutogradGradients(Gradients):
    """As `Gradients`, for networks of any kind: the losses' derivatives are written out, the rest is autograd's."""

    def __init__(
        self, actor: GaussianActor, critic: Critic, optimizer: FlatAdam, config: PPOConfig, largest_batch: int
    ) -> None:
        super().__init__(actor, critic, optimizer, config, largest_batch)
        self.workers.chunk = CPU_CHUNK if optimizer.flat.device.type == "cpu" else GPU_CHUNK
        self._counts = len(list(actor.parameters())), len(list(critic.parameters()))

    @torch.no_grad()
    def forward(self, mlp: nn.Module, rows: Tensor, out: Tensor) -> Tensor:
        """Write the network's answer to `rows` into `out`."""
        chunks = list(zip(self.workers.split(rows), self.workers.split(out), strict=True))

        def run(chunk: tuple[Tensor, Tensor]) -> None:
            with torch.no_grad():  # the setting belongs to a thread
                chunk[1].copy_(mlp(chunk[0]))

        self.workers.map(run, chunks)
        return out

    def _chunk(self, rollout: Rollout, rows: Tensor, into: PartialGradient, old_log_std: Tensor, size: int) -> None:
        """Differentiate the loss of one chunk of a minibatch of `size` transitions."""
        batch, targets = rollout.actor_batch(rows), rollout.critic_batch(rows)
        with torch.enable_grad():
            mean, log_std = self.actor(batch.obs), self.actor.log_std
            value = self.critic(targets.obs)
        with torch.no_grad():
            policy = self._policy_loss(mean.detach(), log_std.detach(), old_log_std, batch, size, self.config)
            loss = self._value_loss(value.detach(), targets, size, self.config)
        actors, _ = self._counts
        parts, parameters = into.parts, self.optimizer.parameters
        derivatives = [
            *torch.autograd.grad([mean, log_std], parameters[:actors], [policy.by_mean, policy.by_log_std]),
            *torch.autograd.grad(value, parameters[actors:], loss.by_value),
        ]
        for part, derivative in zip(parts, derivatives, strict=True):
            part.copy_(derivative)
        torch.stack([policy.surrogate, loss.error, policy.kl, policy.clipped], out=into.measures)


def make_gradients(
    actor: GaussianActor, critic: Critic, optimizer: FlatAdam, config: PPOConfig, largest_batch: int
) -> Gradients:
    """Written-out passes where both networks are multilayer perceptrons, else autograd's."""
    written_out = isinstance(actor.mean, MLP) and isinstance(critic.value, MLP)
    kind = Gradients if written_out else AutogradGradients
    return kind(actor, critic, optimizer, config, largest_batch)
