"""Self-imitation: what succeeded so far is cloned, again and again.

Self-imitation learning (Oh et al. 2018, arXiv:1806.05635, eq. 2) whose returns are 1 and 0 and whose value is 0:
behaviour cloning of the policy's own successes, also called filtered cloning or rejection sampling fine-tuning.
A policy gradient uses every episode once; this uses each success until later ones have taken its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from policies.vla.reinforcement.advantages import Advantages
from policies.vla.reinforcement.rollouts import PER_DECISION, PER_EPISODE, RolloutBatch
from policies.vla.reinforcement.settings import RLConfig

SAID = "instructions"  # entry of the state, beside the parts of a batch: lines of text, as bytes


class SelfImitationEstimator:
    """The latest successes of each task, from which every iteration draws as many of each."""

    group_size = 1

    def __init__(self, config: RLConfig, seed: int) -> None:
        """Begin without any; `seed` is that of what is drawn."""
        self._config = config
        self._memory: RolloutBatch | None = None
        self._draws = torch.Generator().manual_seed(seed)

    def keep_mask(self, batch: RolloutBatch) -> Tensor:
        """Episodes that succeed."""
        return batch.success

    def estimate(self, batch: RolloutBatch) -> Advantages:
        """Every number of every action that is replayed counts the same."""
        known = batch if self._memory is None else RolloutBatch.concatenate([self._memory, batch])
        self._memory = known.select(_latest(known.task, self._config.memory))
        replayed = self._memory.select(_drawn(self._memory.task, self._config.replay, self._draws))
        one = torch.ones_like(replayed.elapsed)
        total = replayed.executed.sum() * replayed.tokens.shape[-1]
        return Advantages(one, one / total, {"remembered": float(len(self._memory))}, replayed=replayed)

    def state(self) -> dict[str, Any]:
        if self._memory is None:
            return {"draws": self._draws.get_state(), "memory": {}}
        parts = {name: getattr(self._memory, name) for name in (*PER_DECISION, *PER_EPISODE)}
        said = "\n".join(self._memory.instructions).encode()
        return {"draws": self._draws.get_state(), "memory": parts | {SAID: torch.tensor(list(said), dtype=torch.uint8)}}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self._draws.set_state(tree["draws"].cpu())
        parts = dict(tree["memory"])
        said = parts.pop(SAID, None)
        self._memory = None
        if said is not None:
            self._memory = RolloutBatch(**parts, instructions=tuple(bytes(said.tolist()).decode().split("\n")))


def _latest(task: Tensor, count: int) -> Tensor:
    """(E,) bool: the last `count` episodes of each task."""
    same = task[:, None] == task[None, :]
    return torch.triu(same, diagonal=1).sum(1) < count


def _drawn(task: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(E,) bool: `count` episodes of each task, drawn without replacement; all where there are fewer."""
    order = torch.randperm(len(task), generator=generator).to(task.device)
    chosen = torch.zeros_like(task, dtype=torch.bool)
    chosen[order] = _latest(task[order], count)
    return chosen
