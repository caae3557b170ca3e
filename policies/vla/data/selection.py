"""Which episodes of a dataset a policy learns from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from embodied.errors import EmbodiedError, UnknownNameError
from policies.vla.data.batches import Demonstrations


class Described(Protocol):
    """What is known of an episode before its pictures are decoded."""

    @property
    def task(self) -> str:
        """Registered name of its task."""
        ...

    @property
    def success(self) -> bool:
        """Whether it was solved."""
        ...


@dataclasses.dataclass(frozen=True)
class Selection:
    """Some of the episodes of a dataset."""

    tasks: tuple[str, ...] = ()
    """Of these tasks; none: of all."""
    per_task: int = 0
    """The first so many of each task, in the dataset's order; 0: all."""
    failures: bool = False
    """Those that failed, too."""

    def of(self, episodes: Sequence[Described]) -> tuple[int, ...]:
        """Their numbers, ascending.

        Raises:
            EmbodiedError: a task was not demonstrated, or not so often.
        """
        known = tuple(dict.fromkeys(episode.task for episode in episodes))
        for task in self.tasks:
            if task not in known:
                raise UnknownNameError("task among the demonstrations", task, known)
        chosen: dict[str, list[int]] = {task: [] for task in self.tasks or known}
        for number, episode in enumerate(episodes):
            if episode.task in chosen and (self.failures or episode.success):
                chosen[episode.task].append(number)
        for task, numbers in chosen.items():
            if len(numbers) < self.per_task:
                what = "episodes" if self.failures else "successful episodes"
                raise EmbodiedError(f"'{task}' has {len(numbers)} {what}; {self.per_task} of each task were asked for")
        if not any(chosen.values()):
            raise EmbodiedError(
                f"none of {len(episodes)} demonstrated episodes succeeded; there is nothing to learn from"
            )
        return tuple(sorted(number for numbers in chosen.values() for number in numbers[: self.per_task or None]))


def read(dataset: Path, cameras: tuple[str, ...] = (), chosen: Selection = Selection()) -> Demonstrations:
    """The demonstrations of a folder, in state; films of episodes that are not chosen are not decoded.

    Raises:
        EmbodiedError: there is none, it is damaged, or a task was not demonstrated often enough.
    """
    from embodied.datasets.reader import open_dataset

    found = open_dataset(dataset, cameras=cameras or None)
    numbers = chosen.of(found.rows)
    # Read in order, each film is decoded once; a few episodes are found faster one by one.
    episodes = found if len(numbers) == len(found) else (found[number] for number in numbers)
    return Demonstrations.of(episodes, 1.0 / found.info.fps, failures=chosen.failures)
