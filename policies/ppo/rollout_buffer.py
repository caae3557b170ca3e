"""One rollout: T steps of N environments, in memory allocated once."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from embodied.env.vec_env import POLICY
from policies.algorithm import SettingsError
from policies.networks.recurrent import Sequences
from policies.ppo.config import PPOConfig


class ActorBatch(NamedTuple):
    """Batch for the actor, in contiguous memory."""

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
    sequences: Sequences | None = None
    """Starts of the sequences, where the transitions are whole sequences, step after step of all."""


class CriticBatch(NamedTuple):
    """Batch for the critic, in contiguous memory."""

    obs: Tensor
    """(B, size) normalised observations."""
    value: Tensor
    """(B,) value estimated with the parameters of the rollout."""
    returns: Tensor
    """(B,) target of the value."""
    sequences: Sequences | None = None
    """As of the actor's batch."""


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
        actor_memory: int = 0,
        critic_memory: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocate T `steps` of N environments; groups that are the same share memory.

        Actor and critic remember so many numbers; if one of them does, batches are of whole sequences.
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
        self.actor_memory, self.critic_memory = (
            torch.zeros(num_envs, size, device=device) for size in (actor_memory, critic_memory)
        )
        """(N, H) hidden states before the first step."""
        self.whole = actor_memory + critic_memory > 0
        """Whether batches are of whole sequences."""
        actor = (self.actor_obs, self.action, self.mean, self.log_prob, self.advantage)
        self._actor_rows = [buffer.flatten(0, 1) for buffer in actor]
        self._critic_rows = [buffer.flatten(0, 1) for buffer in (self.critic_obs, self.value, self.returns)]

    def __len__(self) -> int:
        """Number of transitions, T N."""
        return self.steps * self.num_envs

    @property
    def units(self) -> int:
        """Number of units to draw minibatches of: transitions, or environments with their whole sequence."""
        return self.num_envs if self.whole else len(self)

    @property
    def begins(self) -> Tensor:
        """(T, N) bool, an episode begins with step t; false for the first step, where the hidden states show it."""
        ended = self.terminated | self.truncated
        return torch.cat([torch.zeros_like(ended[:1]), ended[:-1]])

    def minibatches(self, count: int, generator: Generator) -> Iterator[Tensor]:
        """Divide all units at random into `count` index vectors, as equal in length as can be."""
        order = torch.randperm(self.units, generator=generator, device=self.device)
        yield from order.tensor_split(count)

    def size(self, index: Tensor) -> int:
        """Number of transitions in the units at `index`."""
        return len(index) * self.steps if self.whole else len(index)

    def actor_batch(self, index: Tensor) -> ActorBatch:
        """Copy the units at `index`, for the actor."""
        rows, sequences = self._rows(index, self.actor_memory)
        return ActorBatch(*(own.index_select(0, rows) for own in self._actor_rows), sequences=sequences)

    def critic_batch(self, index: Tensor) -> CriticBatch:
        """Copy the units at `index`, for the critic."""
        rows, sequences = self._rows(index, self.critic_memory)
        return CriticBatch(*(own.index_select(0, rows) for own in self._critic_rows), sequences=sequences)

    def _rows(self, index: Tensor, hidden: Tensor) -> tuple[Tensor, Sequences | None]:
        """Rows of the flattened buffers, and the starts of sequences where they are whole ones."""
        if not self.whole:
            return index, None
        first = torch.arange(self.steps, device=self.device)[:, None] * self.num_envs
        return (first + index).flatten(), Sequences(hidden[index], self.begins[:, index])


def rollout_of(
    config: PPOConfig, num_envs: int, sizes: Mapping[str, int], action_size: int, critic_group: str,
    device: torch.device,
) -> Rollout:  # fmt: skip
    """The rollout that a learner's settings describe.

    Raises:
        SettingsError: it cannot be divided into as many minibatches.
    """
    rollout = Rollout(
        config.unroll, num_envs, sizes, action_size, actor_group=POLICY, critic_group=critic_group,
        actor_memory=config.actor.memory, critic_memory=config.critic.memory, device=device,
    )  # fmt: skip
    if config.minibatches > rollout.units:
        units = (
            f"{num_envs} environments, of which a network that remembers learns whole sequences"
            if rollout.whole
            else f"{rollout.units} transitions of a rollout (unroll={config.unroll} x {num_envs} environments)"
        )
        raise SettingsError(f"minibatches={config.minibatches} exceeds the {units}")
    return rollout
