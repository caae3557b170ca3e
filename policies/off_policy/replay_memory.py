"""Demonstrations laid out as the steps of many environments, for the replay buffer that they seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from embodied.errors import EmbodiedError
from policies.off_policy.config import MemoryConfig
from policies.off_policy.replay_buffer import Batch, ReplayBuffer, Transitions, concatenated, merged


def folded(steps: Transitions, num_envs: int) -> Transitions:
    """Steps of one environment, (T, 1, ...), laid out as those of N: (⌈T / N⌉, N, ...).

    Each column is a stretch of them whose end counts as cut, since what follows in its column belongs to another
    episode. The last column is filled up from the beginning.
    """
    count = len(steps.reward)
    rows = -(-count // num_envs)
    index = torch.arange(rows * num_envs, device=steps.reward.device) % count
    result = merged([steps], lambda parts: parts[0][index, 0].unflatten(0, (num_envs, rows)).transpose(0, 1).clone())
    result.truncated[-1] |= ~result.terminated[-1]
    return result


class Memory:
    """A replay buffer and demonstrations: in it at first, or beside it, never forgotten and a share of each batch."""

    demonstrations: ReplayBuffer | None = None
    """Steps that were shown, where they are kept apart."""
    seeded = False
    """Whether the buffer began with them."""

    def __init__(
        self,
        config: MemoryConfig,
        num_envs: int,
        observation_sizes: Mapping[str, int],
        action_size: int,
        device: torch.device,
        notes: Mapping[str, int] | None = None,
    ) -> None:
        """Allocate the buffer; arguments as of `ReplayBuffer`. Demonstrations, which lack notes, have zeros there."""
        self._notes = notes or {}
        self._config, self._sizes, self._action_size, self._device = config, observation_sizes, action_size, device
        self.buffer = self._make_buffer(config.buffer_size, num_envs)

    @property
    def warm(self) -> bool:
        """Whether enough is remembered to learn from: demonstrations in the buffer, or as much as the warm-up asks for.

        A buffer smaller than the warm-up is enough when it is full.
        """
        return self.seeded or len(self.buffer) >= min(self._config.warm_up, self.buffer.rows * self.buffer.num_envs)

    def extend(self, steps: Transitions) -> None:
        """Remember own steps, whose rewards are scaled on the way."""
        self.buffer.extend(self._scaled(steps))

    @property
    def shown(self) -> bool:
        """Whether there were demonstrations."""
        return self.seeded or self.demonstrations is not None

    def demonstrate(self, steps: Transitions) -> None:
        """Remember these, (T, 1, ...), in the buffer or beside it, there instead of what was shown before.

        Raises:
            EmbodiedError: They do not fit into the buffer.
        """
        if self._config.demonstrations_in_buffer:
            rows, num_envs = folded(steps, self.buffer.num_envs), self.buffer.num_envs
            if len(rows.reward) > self.buffer.rows:
                raise EmbodiedError(
                    f"{len(steps.reward)} demonstrated steps do not fit into a buffer of {self.buffer.rows} steps of "
                    f"{num_envs} environments; expected buffer_size={len(rows.reward) * num_envs} or more"
                )
            self.buffer.extend(self._scaled(rows))
            self.seeded = True
            return
        count, num_envs = steps.reward.shape
        self.demonstrations = self._make_buffer(count * num_envs, num_envs, shown=True)
        self.demonstrations.extend(self._scaled(steps))

    def sample(self, generator: torch.Generator) -> Batch:
        """A batch, of which demonstrations are their share (Ball et al. 2023: half)."""
        count = self._config.batch_size
        shown = round(self._config.demonstration_share * count) if self.demonstrations is not None else 0
        if self.demonstrations is None or not shown:
            return self.buffer.sample(count, generator)
        demonstrated = self.demonstrations.sample(shown, generator)
        if shown == count:
            return demonstrated
        return concatenated(self.buffer.sample(count - shown, generator), demonstrated)

    def sample_shown(self, generator: torch.Generator) -> Batch:
        """A batch of demonstrations alone; of a buffer that began with them, before own steps joined."""
        batch = (self.demonstrations or self.buffer).sample(self._config.batch_size, generator)
        return dataclasses.replace(batch, shown=torch.ones_like(batch.discount, dtype=torch.bool))

    def state(self) -> dict[str, Any]:
        """Both buffers with their shapes; nothing where the config keeps them out of checkpoints."""
        if not self._config.save_buffer:
            return {}
        kept = {"buffer": self.buffer, "demonstrations": self.demonstrations}
        return {"seeded": self.seeded} | {
            name: {"rows": buffer.rows, "num_envs": buffer.num_envs, **buffer.state()}
            for name, buffer in kept.items()
            if buffer is not None
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned.

        Raises:
            EmbodiedError: It was made by a buffer of another shape.
        """
        if "buffer" in tree:
            self.buffer.load_state(tree["buffer"])
            self.seeded = bool(tree.get("seeded", False))
        if "demonstrations" in tree:
            rows, num_envs = (int(tree["demonstrations"][name]) for name in ("rows", "num_envs"))
            self.demonstrations = self._make_buffer(rows * num_envs, num_envs, shown=True)
            self.demonstrations.load_state(tree["demonstrations"])

    def _make_buffer(self, capacity: int, num_envs: int, *, shown: bool = False) -> ReplayBuffer:
        config = self._config
        return ReplayBuffer(
            capacity, num_envs, self._sizes, self._action_size,
            gamma=config.gamma, n_step=config.n_step, sequence=config.sequence, return_horizon=config.return_horizon,
            shown=shown, notes=self._notes, storage=config.storage, device=self._device,
        )  # fmt: skip

    def _scaled(self, steps: Transitions) -> Transitions:
        reward = self._config.reward_scale * steps.reward
        noted = {group: steps.reward.new_zeros(*reward.shape, size) for group, size in self._notes.items()}
        return Transitions(
            noted | dict(steps.obs), steps.action, reward, steps.terminated, steps.truncated, steps.next_obs
        )
