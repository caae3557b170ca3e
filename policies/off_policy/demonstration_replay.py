"""Replay with demonstrations: they prefill the replay buffer, or lie beside it and are a share of each batch.

RLPD (Ball et al. 2023) keeps them beside the buffer, where they are never overwritten; AWAC prefills the buffer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from policies.data.replay_buffer import Batch, ReplayBuffer, Transitions, combined, split_into_envs
from policies.off_policy.config import OffPolicyConfig


class DemonstrationReplay:
    """A replay buffer, and demonstrations in it or beside it."""

    demonstrations: ReplayBuffer | None = None
    """Demonstrations beside the buffer."""
    prefilled = False
    """Whether the buffer began with others' steps: demonstrations, or those of another learner."""

    def __init__(
        self,
        config: OffPolicyConfig,
        num_envs: int,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        device: torch.device,
        first_obs_spec: Mapping[str, ObservationSpec],
        reward_size: int | None = None,
    ) -> None:
        """Allocate the buffer; arguments as of `ReplayBuffer`. Demonstrations have zeros in `first_obs_spec`."""
        self._config, self._spec, self._action_size, self._device = config, observation_spec, action_size, device
        self._first_obs_spec, self._reward_size = first_obs_spec, reward_size
        self.buffer = self._make_buffer(config.buffer_size, num_envs)

    @property
    def ready(self) -> bool:
        """Whether it can be sampled: prefilled, or after the warm-up; a smaller buffer is ready when it is full."""
        return self.prefilled or len(self.buffer) >= min(self._config.warm_up, self.buffer.rows * self.buffer.num_envs)

    @property
    def has_demonstrations(self) -> bool:
        return self.prefilled or self.demonstrations is not None

    def extend(self, steps: Transitions) -> None:
        """Append the learner's own steps; their rewards are stored scaled."""
        self.buffer.extend(self._scaled(steps))

    def add_demonstrations(self, steps: Transitions) -> None:
        """Put demonstrations, (T, 1, ...), into the buffer, or beside it in place of earlier ones.

        Raises:
            EmbodiedError: They do not fit into the buffer.
        """
        if self._config.demonstrations_in_buffer:
            rows, num_envs = split_into_envs(steps, self.buffer.num_envs), self.buffer.num_envs
            if len(rows.reward) > self.buffer.rows:
                raise EmbodiedError(
                    f"{len(steps.reward)} demonstrated steps do not fit into a buffer of {self.buffer.rows} steps of "
                    f"{num_envs} environments; expected buffer_size={len(rows.reward) * num_envs} or more"
                )
            self.buffer.extend(self._scaled(rows))
            self.prefilled = True
            return
        count, num_envs = steps.terminated.shape
        self.demonstrations = self._make_buffer(count * num_envs, num_envs)
        self.demonstrations.extend(self._scaled(steps))

    def open_with(self, steps: Transitions) -> None:
        """Begin the buffer with another learner's steps, (T, N, ...), whose rewards are scaled already.

        Raises:
            EmbodiedError: they are more than the buffer's rows, or of another number of environments.
        """
        count, num_envs = steps.terminated.shape
        if num_envs != self.buffer.num_envs:
            raise EmbodiedError(
                f"steps of {num_envs} environments cannot open a replay buffer of {self.buffer.num_envs} environments"
            )
        self.buffer.extend(steps)
        self.prefilled = self.prefilled or count > 0

    def sample(self, generator: torch.Generator) -> Batch:
        """A batch with its share of demonstrations (Ball et al. 2023: half)."""
        count = self._config.batch_size
        demos = round(self._config.demonstration_share * count) if self.demonstrations is not None else 0
        if self.demonstrations is None or not demos:
            return self.buffer.sample(count, generator)
        demonstrated = self.demonstrations.sample(demos, generator)
        if demos == count:
            return demonstrated
        return combined([self.buffer.sample(count - demos, generator), demonstrated], torch.cat)

    def sample_demonstrations(self, generator: torch.Generator) -> Batch:
        """A batch of demonstrations alone; for a prefilled buffer, before own steps joined them."""
        return (self.demonstrations or self.buffer).sample(self._config.batch_size, generator)

    def state(self) -> dict[str, Any]:
        """Both buffers with their shapes; nothing where the config keeps them out of checkpoints."""
        if not self._config.save_buffer:
            return {}
        saved = {"buffer": self.buffer, "demonstrations": self.demonstrations}
        return {"prefilled": self.prefilled} | {
            name: {"rows": buffer.rows, "num_envs": buffer.num_envs, **buffer.state()}
            for name, buffer in saved.items()
            if buffer is not None
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned.

        Raises:
            EmbodiedError: It was made by a buffer of another shape.
        """
        if "buffer" in tree:
            self.buffer.load_state(tree["buffer"])
            self.prefilled = bool(tree["prefilled"])
        if "demonstrations" in tree:
            rows, num_envs = (int(tree["demonstrations"][name]) for name in ("rows", "num_envs"))
            self.demonstrations = self._make_buffer(rows * num_envs, num_envs)
            self.demonstrations.load_state(tree["demonstrations"])

    def _make_buffer(self, capacity: int, num_envs: int) -> ReplayBuffer:
        config = self._config
        return ReplayBuffer(
            capacity, num_envs, self._spec, self._action_size, gamma=config.gamma, n_step=config.n_step,
            first_obs_spec=self._first_obs_spec, reward_size=self._reward_size, dtype=config.buffer_dtype,
            device=self._device,
        )  # fmt: skip

    def _scaled(self, steps: Transitions) -> Transitions:
        reward = self._config.reward_scale * steps.reward
        absent = {
            group: torch.zeros(*steps.terminated.shape, *spec.shape, dtype=spec.dtype, device=reward.device)
            for group, spec in self._first_obs_spec.items()
        }
        return dataclasses.replace(steps, obs=absent | dict(steps.obs), reward=reward)
