"""The replay buffer, on the device: steps of N environments, sampled as n-step transitions.

Rows are control steps, columns environments, so the next step of an environment lies one row further. n-step returns
are summed when a transition is sampled, not when it is stored: at the end of an episode, or at the newest row, the sum
is shorter and bootstraps from where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor

from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError, listing
from embodied.storage.trees import key_of


class BufferDtype(StrEnum):
    """Data type in which vectors and actions are stored; images are uint8 and rewards float32 always."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"

    @property
    def torch(self) -> torch.dtype:
        return {BufferDtype.FLOAT32: torch.float32, BufferDtype.FLOAT16: torch.float16}[self]


@dataclass(frozen=True)
class Transitions:
    """T consecutive steps of N environments."""

    obs: Mapping[str, Tensor]
    """Group to (T, N, *shape)."""
    action: Tensor
    """(T, N, A)."""
    reward: Tensor
    """(T, N); for a team whose M agents keep their own, (T, N, M)."""
    terminated: Tensor
    """(T, N) bool, whether the task failed: no reward would have followed."""
    truncated: Tensor
    """(T, N) bool, whether the time limit, or the end of a recording, cut the episode."""
    next_obs: Mapping[str, Tensor]
    """Group to (T, N, *shape): the observation after the step, before any reset."""


@dataclass(frozen=True)
class Batch:
    """B n-step transitions."""

    obs: dict[str, Tensor]
    """Group to (B, *shape): the first observation; vectors are float32, images uint8."""
    action: Tensor
    """(B, A) float32, the first action."""
    reward: Tensor
    """(B,) Σ γᵏ r over the steps taken; for a team whose M agents keep their own, (B, M)."""
    discount: Tensor
    """(B,) factor on the value of `next_obs`: γ to the number of steps, 0 where the task failed."""
    next_obs: dict[str, Tensor]
    """Group to (B, *shape): the observation after the last step."""


Steps = TypeVar("Steps", Transitions, Batch)


class ReplayBuffer:
    """The last steps of N environments; the oldest make room for new ones."""

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        *,
        gamma: float,
        n_step: int = 1,
        first_obs_spec: Mapping[str, ObservationSpec] | None = None,
        reward_size: int | None = None,
        dtype: BufferDtype = BufferDtype.FLOAT32,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocate.

        Args:
            capacity: Transitions, of which at least one step of every environment must fit.
            num_envs: N.
            observation_spec: The groups to store.
            action_size: A.
            gamma: Discount per control step.
            n_step: Most steps of a sampled transition.
            first_obs_spec: Further groups, which only the first observation of a transition has.
            reward_size: M, rewards of a step where the agents of a team keep their own; None: one number.
            dtype: Of vectors and actions; groups that are no floating-point numbers keep their own.
            device: Where everything lies.

        Raises:
            EmbodiedError: Fewer than n_step rows fit.
        """
        self.rows = capacity // num_envs
        if self.rows < n_step:
            raise EmbodiedError(
                f"a buffer of {capacity:,} transitions holds {self.rows} steps of {num_envs:,} environments; expected "
                f"at least n_step={n_step}: buffer_size={n_step * num_envs} or more"
            )
        self.num_envs, self.n_step, self.gamma, self.device = num_envs, n_step, gamma, torch.device(device)

        def empty(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(self.rows, num_envs, *shape, dtype=dtype, device=device)

        def empty_group(spec: ObservationSpec) -> Tensor:
            return empty(*spec.shape, dtype=dtype.torch if spec.dtype.is_floating_point else spec.dtype)

        first = {**observation_spec, **(first_obs_spec or {})}
        self._obs = {group: empty_group(spec) for group, spec in first.items()}
        self._next_obs = {group: empty_group(spec) for group, spec in observation_spec.items()}
        self._action = empty(action_size, dtype=dtype.torch)
        self._reward = empty(*(() if reward_size is None else (reward_size,)), dtype=torch.float32)
        self._terminated, self._truncated = empty(dtype=torch.bool), empty(dtype=torch.bool)
        self._powers = gamma ** torch.arange(n_step + 1, dtype=torch.float32, device=device)
        self._offsets = torch.arange(n_step, device=device)
        self._filled, self._head = 0, 0

    def __len__(self) -> int:
        return self._filled * self.num_envs

    def extend(self, steps: Transitions) -> None:
        """Append steps.

        Raises:
            EmbodiedError: There are more of them than rows.
        """
        count = len(steps.reward)
        if count > self.rows:
            raise EmbodiedError(f"{count} steps were given to a buffer of {self.rows}")
        at = (self._head + torch.arange(count, device=self.device)) % self.rows
        for group in self._obs:
            _write(self._obs[group], at, steps.obs[group])
        for group in self._next_obs:
            _write(self._next_obs[group], at, steps.next_obs[group])
        _write(self._action, at, steps.action)
        self._reward.index_copy_(0, at, steps.reward)
        self._terminated.index_copy_(0, at, steps.terminated)
        self._truncated.index_copy_(0, at, steps.truncated)
        self._head = (self._head + count) % self.rows
        self._filled = min(self._filled + count, self.rows)

    def sample(self, count: int, generator: Generator) -> Batch:
        """Draw transitions uniformly, with replacement.

        Raises:
            EmbodiedError: The buffer is empty.
        """
        if not self._filled:
            raise EmbodiedError("the replay buffer is empty; record a step before sampling")
        return self.gather(torch.randint(len(self), (count,), generator=generator, device=self.device))

    def gather(self, index: Tensor) -> Batch:
        """The transitions that begin at `index` (B,), counted from the oldest: step i // N of environment i % N."""
        at, counts = self._following(index)
        taken = counts.sum(1)
        last = at.gather(1, taken[:, None] - 1)[:, 0]
        reward = self._discounted(at, counts)
        discount = self._powers[taken].masked_fill(self._terminated.view(-1)[last], 0.0)
        first = at[:, 0]
        return Batch(
            {group: _read(buffer, first) for group, buffer in self._obs.items()},
            _read(self._action, first),
            reward,
            discount,
            {group: _read(buffer, last) for group, buffer in self._next_obs.items()},
        )

    def _following(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Positions (B, n) of the n steps from `index` on, and whether its episode has them."""
        steps = (index // self.num_envs)[:, None] + self._offsets
        inside = steps < self._filled
        oldest = self._head if self._filled == self.rows else 0
        row = (oldest + steps.clamp(max=self._filled - 1)) % self.rows
        at = row * self.num_envs + (index % self.num_envs)[:, None]
        # A step counts while the buffer has it and no earlier one ended the episode.
        ended = self._terminated.view(-1)[at] | self._truncated.view(-1)[at]
        return at, inside & ((ended.cumsum(1) - ended.long()) == 0)

    def _discounted(self, at: Tensor, counts: Tensor) -> Tensor:
        """Discounted rewards of the steps `at` (B, n) that count, summed: (B,) or (B, M)."""
        reward, powers = self._reward.flatten(0, 1)[at], self._powers[:-1]
        if reward.dim() == 3:
            counts, powers = counts[..., None], powers[:, None]
        return (reward * powers).masked_fill(~counts, 0.0).sum(1)

    def newest(self, rows: int) -> Transitions:
        """The last `rows` steps (T, N, ...), or all there are, the oldest first; the last one is truncated."""
        count = min(rows, self._filled)
        at = (self._head - count + torch.arange(count, device=self.device)) % self.rows
        terminated, truncated = self._terminated[at], self._truncated[at]
        if count:
            truncated[-1] |= ~terminated[-1]
        groups = [{group: values[at] for group, values in of.items()} for of in (self._obs, self._next_obs)]
        return Transitions(groups[0], self._action[at], self._reward[at], terminated, truncated, groups[1])

    def state(self) -> dict[str, Any]:
        return {
            "head": self._head,
            "filled": self._filled,
            **{name: buffer[: self._filled].clone() for name, buffer in self._buffers().items()},
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned.

        Raises:
            EmbodiedError: It was made by a buffer of another shape.
        """
        filled, head, buffers = int(tree["filled"]), int(tree["head"]), self._buffers()
        wrong = [name for name, own in buffers.items() if name not in tree or tree[name].shape[1:] != own.shape[1:]]
        if wrong or filled > self.rows:
            raise EmbodiedError(
                f"a replay buffer of {self.rows} steps of {self.num_envs} environments cannot take over the saved one "
                f"({filled} steps{'; other shapes: ' + listing(wrong) if wrong else ''})"
            )
        for name, own in buffers.items():
            own[:filled].copy_(tree[name])
        self._head, self._filled = head, filled

    def _buffers(self) -> dict[str, Tensor]:
        groups = {f"obs-{key_of(group)}": buffer for group, buffer in self._obs.items()}
        groups |= {f"next-{key_of(group)}": buffer for group, buffer in self._next_obs.items()}
        rest = {"action": self._action, "reward": self._reward}
        return groups | rest | {"terminated": self._terminated, "truncated": self._truncated}


def combined(parts: Sequence[Steps], combine: Callable[[list[Tensor]], Tensor]) -> Steps:
    """Transitions, or a batch, whose every tensor is `combine` of the parts' tensors."""

    def of_parts(values: list[Any]) -> Any:
        if isinstance(values[0], Mapping):
            return {group: combine([value[group] for value in values]) for group in values[0]}
        return combine(values)

    kind = type(parts[0])
    return kind(*(of_parts([getattr(part, item.name) for part in parts]) for item in fields(kind)))


def split_into_envs(steps: Transitions, num_envs: int) -> Transitions:
    """Steps of one environment, (T, 1, ...), laid out as those of N: (⌈T / N⌉, N, ...).

    Each column is a stretch of them whose last step counts as truncated, since the next row of its column belongs to
    another episode. The last column is filled up from the beginning.
    """
    count = len(steps.reward)
    rows = -(-count // num_envs)
    index = torch.arange(rows * num_envs, device=steps.reward.device) % count
    result = combined([steps], lambda parts: parts[0][index, 0].unflatten(0, (num_envs, rows)).transpose(0, 1).clone())
    result.truncated[-1] |= ~result.terminated[-1]
    return result


def _write(buffer: Tensor, at: Tensor, values: Tensor) -> None:
    if buffer.dtype != values.dtype:
        bounds = torch.finfo(buffer.dtype)  # what is larger would become infinite
        values = values.clamp(bounds.min, bounds.max).to(buffer.dtype)
    buffer.index_copy_(0, at, values)


def _read(buffer: Tensor, at: Tensor) -> Tensor:
    rows = buffer.flatten(0, 1).index_select(0, at)
    return rows.float() if rows.is_floating_point() else rows
