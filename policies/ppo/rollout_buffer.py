"""One rollout: T steps of N environments, in memory allocated once."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class ActorBatch(NamedTuple):
    """What the actor learns from, in contiguous memory."""

    obs: Tensor
    """(B, size) normalised observations."""
    action: Tensor
    """(B, A) actions as sampled, before the environment clips them."""
    mean: Tensor
    """(B, A) mean of the distribution they were sampled from."""
    log_prob: Tensor
    """(B,) their log density under it."""
    advantage: Tensor
    """(B,) advantage estimate."""


class CriticBatch(NamedTuple):
    """What the critic learns from, in contiguous memory."""

    obs: Tensor
    """(B, size) normalised observations."""
    value: Tensor
    """(B,) value estimated with the parameters of the rollout."""
    returns: Tensor
    """(B,) what it should have been."""


class Rollout:
    """Preallocated (T, N, ...) buffers on one device; flattened, row i is step i // N of environment i % N."""

    def __init__(
        self,
        steps: int,
        num_envs: int,
        observation_sizes: Mapping[str, int],
        action_size: int,
        *,
        actor_group: str,
        critic_group: str,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocate.

        Args:
            steps: T.
            num_envs: N.
            observation_sizes: Group to flat size.
            action_size: A.
            actor_group: Group the actor reads.
            critic_group: Group the critic reads; shares memory with the actor's where it is the same.
            device: Where everything lies.
        """

        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(steps, num_envs, *shape, dtype=dtype, device=device)

        self.steps, self.num_envs, self.device = steps, num_envs, device
        self.obs = {group: empty(observation_sizes[group]) for group in {actor_group: 0, critic_group: 0}}
        self.actor_obs, self.critic_obs = self.obs[actor_group], self.obs[critic_group]
        self.final_obs = empty(observation_sizes[critic_group])
        self.action, self.mean = empty(action_size), empty(action_size)
        self.reward = empty()
        self.terminated, self.truncated = empty(dtype=torch.bool), empty(dtype=torch.bool)
        self.log_prob, self.value, self.advantage, self.returns = empty(), empty(), empty(), empty()
        actor = ActorBatch(self.actor_obs, self.action, self.mean, self.log_prob, self.advantage)
        critic = CriticBatch(self.critic_obs, self.value, self.returns)
        self._actor_rows = [buffer.flatten(0, 1) for buffer in actor]
        self._critic_rows = [buffer.flatten(0, 1) for buffer in critic]

    def __len__(self) -> int:
        """Number of transitions, T N."""
        return self.steps * self.num_envs

    def minibatches(self, count: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Divide all transitions at random into `count` index vectors, as equal in length as can be."""
        order = torch.randperm(len(self), generator=generator, device=self.device)
        yield from order.tensor_split(count)

    def actor_batch(self, index: Tensor) -> ActorBatch:
        """Copy the transitions at `index`, for the actor."""
        return ActorBatch(*(rows.index_select(0, index) for rows in self._actor_rows))

    def critic_batch(self, index: Tensor) -> CriticBatch:
        """Copy the transitions at `index`, for the critic."""
        return CriticBatch(*(rows.index_select(0, index) for rows in self._critic_rows))
