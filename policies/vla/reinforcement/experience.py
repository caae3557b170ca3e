"""What a policy decided in some episodes, and what came of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Experience:
    """M decisions for a chunk of actions each, in E episodes; only decisions that were carried out are there."""

    pixels: Tensor
    """(M, cameras, height, width, 3) uint8."""
    state: Tensor
    """(M, S) in the task's units."""
    knowledge: Tensor
    """(M, K) what the simulation knew; what is shorter ends in zeros."""
    elapsed: Tensor
    """(M,) share of the horizon that had passed."""
    tokens: Tensor
    """(M, chunk, A) int16, what was drawn."""
    log_prob: Tensor
    """(M, chunk, A) of the tokens when they were drawn, nats."""
    acted: Tensor
    """(M, chunk) bool, whether the action was carried out before the episode was over."""
    episode: Tensor
    """(M,) int64, of which episode it is a part; those of an episode stand in their order."""
    text: Tensor
    """(E,) int64, which of `texts` it was told."""
    task: Tensor
    """(E,) int64, the number of its task."""
    group: Tensor
    """(E,) int64; episodes of a group began alike and were told the same."""
    success: Tensor
    """(E,) bool, whether the task was solved within the horizon."""
    progress: Tensor
    """(E,) from 0 to 1, the farthest that the task was done; 0 where it does not tell."""
    length: Tensor
    """(E,) int64, control steps until it was solved, or over."""
    texts: tuple[str, ...]
    """Every instruction."""

    def __len__(self) -> int:
        """E."""
        return len(self.success)

    def score(self, partial_credit: float) -> Tensor:
        """(E,) what each episode was worth: 1 where the task was solved, else its progress times `partial_credit`."""
        return torch.where(self.success, 1.0, partial_credit * self.progress)

    @property
    def places(self) -> Tensor:
        """(M,) int64, each decision's place in its episode, from 0."""
        order = torch.argsort(self.episode, stable=True)
        counts = torch.bincount(self.episode, minlength=len(self))
        first = counts.cumsum(0) - counts
        ranks = torch.arange(len(order), device=order.device) - first[self.episode[order]]
        return torch.empty_like(ranks).index_copy_(0, order, ranks)

    @property
    def actions(self) -> Tensor:
        """(E,) how many actions were carried out in each episode."""
        counts = self.acted.sum(1)
        return torch.zeros(len(self), dtype=counts.dtype, device=counts.device).index_add_(0, self.episode, counts)

    def only(self, kept: Tensor) -> Experience:
        """That of the episodes `kept` (E,) bool."""
        decisions = kept[self.episode]
        renumbered = kept.cumsum(0) - 1
        parts = {name: getattr(self, name)[decisions] for name in DECISIONS}
        parts["episode"] = renumbered[parts["episode"]]
        return Experience(**parts, **{name: getattr(self, name)[kept] for name in EPISODES}, texts=self.texts)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Experience:
        """Several one after the other, as of groups of their own."""
        texts = tuple(dict.fromkeys(text for part in parts for text in part.texts))
        size = max(part.knowledge.shape[1] for part in parts)
        moved, episodes, groups = [], 0, 0
        for part in parts:
            place = torch.tensor([texts.index(text) for text in part.texts], device=part.text.device)
            moved.append(
                dataclasses.replace(
                    part,
                    knowledge=torch.nn.functional.pad(part.knowledge, (0, size - part.knowledge.shape[1])),
                    episode=part.episode + episodes,
                    group=part.group + groups,
                    text=place[part.text],
                )
            )
            episodes += len(part)
            groups += int(part.group.max()) + 1 if len(part) else 0
        names = (*DECISIONS, *EPISODES)
        return Experience(**{name: torch.cat([getattr(part, name) for part in moved]) for name in names}, texts=texts)


DECISIONS = ("pixels", "state", "knowledge", "elapsed", "tokens", "log_prob", "acted", "episode")
"""Fields with a row for each decision."""
EPISODES = ("text", "task", "group", "success", "progress", "length")
"""Fields with a row for each episode."""
