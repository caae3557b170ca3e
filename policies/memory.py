"""What an off-policy learner remembers: its own steps, and those that it was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from policies.off_policy_config import OffPolicyConfig
from policies.replay import Batch, ReplayBuffer, Transitions, concatenated


class Memory:
    """A replay buffer and, beside it, demonstrations, which are never forgotten and make up a share of each batch."""

    demonstrations: ReplayBuffer | None = None
    """Steps that were shown."""

    def __init__(
        self,
        config: OffPolicyConfig,
        num_envs: int,
        observation_sizes: Mapping[str, int],
        action_size: int,
        device: torch.device,
    ) -> None:
        """Allocate the buffer; arguments as of `ReplayBuffer`."""
        self._config, self._sizes, self._action_size, self._device = config, observation_sizes, action_size, device
        self.buffer = self._make_buffer(config.buffer_size, num_envs)

    @property
    def warm(self) -> bool:
        """Whether enough is remembered to learn from; a buffer smaller than the warm-up is enough when it is full."""
        return len(self.buffer) >= min(self._config.warm_up, self.buffer.rows * self.buffer.num_envs)

    def extend(self, steps: Transitions) -> None:
        """Remember own steps, whose rewards are scaled on the way."""
        self.buffer.extend(self._scaled(steps))

    def demonstrate(self, steps: Transitions) -> None:
        """Remember these instead of what was shown before."""
        count, num_envs = steps.reward.shape
        self.demonstrations = self._make_buffer(count * num_envs, num_envs)
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

    def state(self) -> dict[str, Any]:
        """Both buffers with their shapes; nothing where the config keeps them out of checkpoints."""
        if not self._config.save_buffer:
            return {}
        kept = {"buffer": self.buffer, "demonstrations": self.demonstrations}
        return {
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
        if "demonstrations" in tree:
            rows, num_envs = (int(tree["demonstrations"][name]) for name in ("rows", "num_envs"))
            self.demonstrations = self._make_buffer(rows * num_envs, num_envs)
            self.demonstrations.load_state(tree["demonstrations"])

    def _make_buffer(self, capacity: int, num_envs: int) -> ReplayBuffer:
        config = self._config
        return ReplayBuffer(
            capacity, num_envs, self._sizes, self._action_size,
            gamma=config.gamma, n_step=config.n_step, storage=config.storage, device=self._device,
        )  # fmt: skip

    def _scaled(self, steps: Transitions) -> Transitions:
        reward = self._config.reward_scale * steps.reward
        return Transitions(steps.obs, steps.action, reward, steps.terminated, steps.truncated, steps.next_obs)
