"""Chunks carried out open loop: decided at once, one action after another, until the next look or the episode's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from embodied.core.task import PROPRIO
from embodied.env.dialogue import Tell
from embodied.env.env import Observation
from embodied.errors import EmbodiedError

if TYPE_CHECKING:
    from policies.vla.policy import VLAPolicy


class ChunkedRule:
    """Observation groups of N environments to actions (N, A), looking only where a chunk has run out.

    It remembers what it decided, so that it belongs to one set of environments and is called once per control step.
    """

    def __init__(
        self,
        policy: VLAPolicy,
        instructions: Sequence[str],
        restarted: Callable[[], Tensor],
        *,
        tell: Tell | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> None:
        """Read the instructions; weights that change later are seen, but not by what was read.

        Args:
            policy: What decides.
            instructions: What each environment is told, N.
            restarted: Tells which episodes have just begun, (N,) bool.
            tell: What they are told instead, where that differs between episodes.
            temperature: As of `VLAPolicy.plan`.
            seed: Of sampling.
        """
        self.policy, self.instructions, self.temperature = policy, tuple(instructions), temperature
        self._restarted, self._tell = restarted, tell
        self._generator = torch.Generator(policy.device).manual_seed(seed)
        self._words = self._read(self.instructions)
        count, config = len(self.instructions), policy.network.config
        self._chunk = torch.zeros(count, config.chunk, policy.senses.action_size, device=policy.device)
        self._next = torch.full((count,), policy.execute, device=policy.device)

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, A) in [-1, 1].

        Raises:
            EmbodiedError: the observation is of another number of environments.
        """
        begun = self._restarted()
        if self._tell is not None and begun.any():
            self._hear(torch.nonzero(begun)[:, 0], obs)
        due = begun | (self._next >= self.policy.execute)
        rows = torch.nonzero(due)[:, 0]
        if len(rows):
            if (count := len(obs[PROPRIO])) != len(self.instructions):
                raise EmbodiedError(
                    f"{count} environments were observed, but {len(self.instructions)} were told what to do"
                )
            seen = glimpse(obs, self.policy.groups, rows)
            self._chunk[rows] = self.policy.plan(seen, self._words[rows], self.temperature, self._generator)
            self._next[rows] = 0
        action = self._chunk[torch.arange(len(self._chunk), device=self._next.device), self._next]
        self._next += 1
        return action

    def _hear(self, rows: Tensor, obs: Mapping[str, Tensor]) -> None:
        """Note what the environments `rows`, whose episode begins, are told."""
        assert self._tell is not None
        told = dict(zip(rows.tolist(), self._tell(rows, obs), strict=True))
        self.instructions = tuple(told.get(row, text) for row, text in enumerate(self.instructions))
        self._words[rows] = self._read(tuple(told.values()))

    @torch.no_grad()
    def _read(self, instructions: Sequence[str]) -> Tensor:
        """(k, width) of k instructions, each different one read once."""
        texts = tuple(dict.fromkeys(instructions))
        read = self.policy.network.read(texts)
        return read[torch.tensor([texts.index(text) for text in instructions], device=self.policy.device)]


def glimpse(obs: Mapping[str, Tensor], groups: Sequence[str], rows: Tensor) -> dict[str, Tensor]:
    """Some groups of the environments `rows` (k,), ascending; of `Env`'s observations nothing else is drawn."""
    if isinstance(obs, Observation):
        return obs.rows(rows, groups)
    return {group: obs[group][rows] for group in groups}
