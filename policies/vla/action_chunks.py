"""Action chunks: a policy predicts several actions at once, which are executed open loop until the next inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Generator, Tensor

from embodied.core.hooks import PROPRIO
from embodied.env.step import LazyObservation
from embodied.env.wrappers.instructions import InstructionSource
from embodied.errors import EmbodiedError


class ChunkPlanner(Protocol):
    """Predictor of action chunks from observations and encoded instructions."""

    @property
    def device(self) -> torch.device: ...

    @property
    def groups(self) -> tuple[str, ...]:
        """Observation groups that it reads."""
        ...

    @property
    def chunk(self) -> int:
        """Actions of a chunk."""
        ...

    @property
    def execute(self) -> int:
        """Actions of a chunk that are executed before the next inference."""
        ...

    @property
    def action_size(self) -> int: ...

    def encode_instructions(self, instructions: Sequence[str], /) -> Tensor:
        """(k, width) of k instructions."""
        ...

    def plan(
        self, obs: Mapping[str, Tensor], text: Tensor, temperature: float | None, generator: Generator | None, /
    ) -> Tensor:
        """(k, chunk, A) in [-1, 1], from observation groups (k, ...) and encoded instructions (k, width)."""
        ...


class ChunkedPolicy:
    """A policy of N environments: observation groups to actions (N, A), with inference only where a chunk has run out.

    It keeps the chunks, so it belongs to one set of environments and is called once per control step.
    """

    def __init__(
        self,
        planner: ChunkPlanner,
        instructions: Sequence[str],
        restarted: Callable[[], Tensor],
        *,
        source: InstructionSource | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> None:
        """Encode the instructions, once: weights may change later, but not those that encode instructions.

        There is one for each environment, N. `restarted` gives which episodes have just begun, (N,) bool; `source`, if
        there is one, gives their instructions. `temperature` None: the planner's own.
        """
        self.planner, self.instructions, self.temperature = planner, tuple(instructions), temperature
        self._restarted, self._source = restarted, source
        self._generator = Generator(planner.device).manual_seed(seed)
        self._text = self._encode(self.instructions)
        count = len(self.instructions)
        self._chunk = torch.zeros(count, planner.chunk, planner.action_size, device=planner.device)
        self._next = torch.full((count,), planner.execute, device=planner.device)

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, A) in [-1, 1].

        Raises:
            EmbodiedError: the observation is of another number of environments.
        """
        begun = self._restarted()
        if self._source is not None and begun.any():
            self._instruct(self._source, torch.nonzero(begun)[:, 0], obs)
        due = begun | (self._next >= self.planner.execute)
        rows = torch.nonzero(due)[:, 0]
        if len(rows):
            if (count := len(obs[PROPRIO])) != len(self.instructions):
                raise EmbodiedError(
                    f"{count} environments were observed, but {len(self.instructions)} were told what to do"
                )
            seen = select_rows(obs, self.planner.groups, rows)
            self._chunk[rows] = self.planner.plan(seen, self._text[rows], self.temperature, self._generator)
            self._next[rows] = 0
        action = self._chunk[torch.arange(len(self._chunk), device=self._next.device), self._next]
        self._next += 1
        return action

    def _instruct(self, source: InstructionSource, rows: Tensor, obs: Mapping[str, Tensor]) -> None:
        """Take the instructions of the environments `rows`, whose episodes begin."""
        begun = dict(zip(rows.tolist(), source(rows, obs), strict=True))
        self.instructions = tuple(begun.get(row, text) for row, text in enumerate(self.instructions))
        self._text[rows] = self._encode(tuple(begun.values()))

    @torch.no_grad()
    def _encode(self, instructions: Sequence[str]) -> Tensor:
        """(k, width) of k instructions, each different one encoded once."""
        texts = tuple(dict.fromkeys(instructions))
        encoded = self.planner.encode_instructions(texts)
        return encoded[torch.tensor([texts.index(text) for text in instructions], device=self.planner.device)]


def select_rows(obs: Mapping[str, Tensor], groups: Sequence[str], rows: Tensor) -> dict[str, Tensor]:
    """Some groups of the environments `rows` (k,), ascending; images of the others are not rendered."""
    if isinstance(obs, LazyObservation):
        return obs.select(rows, groups)
    return {group: obs[group][rows] for group in groups}
