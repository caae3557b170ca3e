"""Chunks carried out open loop: decided at once, one action after another, until the next look or the episode's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

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
        temperature: float | None = None,
        seed: int = 0,
    ) -> None:
        """Read the instructions; weights that change later are seen, but not by what was read.

        Args:
            policy: What decides.
            instructions: What each environment is told, N.
            restarted: Tells which episodes have just begun, (N,) bool.
            temperature: As of `VLAPolicy.plan`.
            seed: Of sampling.
        """
        self.policy, self.instructions, self.temperature = policy, tuple(instructions), temperature
        self._restarted = restarted
        self._generator = torch.Generator(policy.device).manual_seed(seed)
        texts = tuple(dict.fromkeys(self.instructions))
        with torch.no_grad():
            read = policy.network.read(texts)
        self._words = read[torch.tensor([texts.index(text) for text in self.instructions], device=policy.device)]
        count, config = len(self.instructions), policy.network.config
        self._chunk = torch.zeros(count, config.chunk, policy.senses.action_size, device=policy.device)
        self._next = torch.full((count,), policy.execute, device=policy.device)

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, A) in [-1, 1].

        Raises:
            EmbodiedError: the observation is of another number of environments.
        """
        due = self._restarted() | (self._next >= self.policy.execute)
        rows = torch.nonzero(due)[:, 0]
        if len(rows):
            seen = {group: obs[group] for group in self.policy.groups}
            if (count := len(next(iter(seen.values())))) != len(self.instructions):
                raise EmbodiedError(
                    f"{count} environments were observed, but {len(self.instructions)} were told what to do"
                )
            if len(rows) < count:
                seen = {group: values[rows] for group, values in seen.items()}
            self._chunk[rows] = self.policy.plan(seen, self._words[rows], self.temperature, self._generator)
            self._next[rows] = 0
        action = self._chunk[torch.arange(len(self._chunk), device=self._next.device), self._next]
        self._next += 1
        return action
