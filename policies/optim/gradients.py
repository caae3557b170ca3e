"""The actor's and critic's forward passes and the gradient of a minibatch, a chunk at a time on every core."""

import torch
from torch import Tensor

from policies.networks.mlp import MLP, Critic, GaussianActor
from policies.optim.backprop import Tape
from policies.optim.optimizer import FlatAdam
from policies.optim.parallel import PerThread, Workers
from policies.ppo.config import PPOConfig
from policies.ppo.losses import policy_loss, value_loss
from policies.ppo.rollout_buffer import Rollout

MEASURES = ("policy_loss", "value_loss", "kl", "clip_fraction")
"""Means over a minibatch that are measured along with its gradient."""


class PartialGradient:
    """Where one chunk of a minibatch leaves its share of the gradient and of the measures, as one vector."""

    def __init__(self, optimizer: FlatAdam) -> None:
        self.vector = torch.empty(len(optimizer.flat) + len(MEASURES), device=optimizer.flat.device)
        self.parts = optimizer.views(self.vector[: -len(MEASURES)])
        self.measures = self.vector[-len(MEASURES) :]


class Gradients:
    """Passes through an actor and a critic that share one optimiser."""

    def __init__(
        self, actor: GaussianActor, critic: Critic, optimizer: FlatAdam, config: PPOConfig, largest_batch: int
    ) -> None:
        """Start the workers.

        Args:
            actor: Its parameters come first in the optimiser.
            critic: Its parameters come next.
            optimizer: Holds them all.
            config: Settings of the losses.
            largest_batch: Rows of the largest batch there will be.
        """
        self.actor, self.critic, self.optimizer, self.config = actor, critic, optimizer, config
        device, networks = optimizer.flat.device, (actor.mean, critic.value)
        self.workers = Workers(device)
        self._tapes = PerThread(lambda: Tape(networks, min(self.workers.chunk, largest_batch), device))
        self._partial: list[PartialGradient] = []
        self._policy_loss = torch.compile(policy_loss) if config.compile else policy_loss
        self._value_loss = torch.compile(value_loss) if config.compile else value_loss

    @torch.no_grad()
    def forward(self, mlp: MLP, rows: Tensor, out: Tensor) -> Tensor:
        """Write `mlp(rows)` into `out`."""
        chunks = list(zip(self.workers.split(rows), self.workers.split(out), strict=True))
        self.workers.map(lambda chunk: self._tapes.mine.forward(mlp, *chunk), chunks)
        return out

    @torch.no_grad()
    def minibatch(self, rollout: Rollout, index: Tensor, old_log_std: Tensor) -> Tensor:
        """Gradient of the loss of the transitions at `index`, followed by the measures, as one vector.

        Args:
            rollout: Where the transitions are.
            index: (B,) their numbers.
            old_log_std: (A,) log deviation of the actions during the rollout.
        """
        chunks = self.workers.split(index)
        while len(self._partial) < len(chunks):
            self._partial.append(PartialGradient(self.optimizer))
        jobs = list(zip(chunks, self._partial, strict=False))
        self.workers.map(lambda job: self._chunk(rollout, *job, old_log_std, len(index)), jobs)
        return torch.stack([part.vector for _, part in jobs]).sum(0)

    @torch.no_grad()
    def _chunk(self, rollout: Rollout, rows: Tensor, into: PartialGradient, old_log_std: Tensor, size: int) -> None:
        """Differentiate the loss of one chunk of a minibatch of `size` transitions."""
        tape, actor, critic, config = self._tapes.mine, self.actor.mean, self.critic.value, self.config
        log_std, weights = into.parts[0], into.parts[1:]

        batch = rollout.actor_batch(rows)
        mean = tape.forward(actor, batch.obs)
        policy = self._policy_loss(mean, self.actor.log_std, old_log_std, batch, size, config)
        log_std.copy_(policy.by_log_std)
        tape.backward(actor, batch.obs, policy.by_mean, weights[: 2 * len(actor.linears)])

        targets = rollout.critic_batch(rows)
        value = tape.forward(critic, targets.obs).squeeze(-1)
        loss = self._value_loss(value, targets, size, config)
        tape.backward(critic, targets.obs, loss.by_value[:, None], weights[2 * len(actor.linears) :])
        torch.stack([policy.surrogate, loss.error, policy.kl, policy.clipped], out=into.measures)
