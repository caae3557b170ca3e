"""Demonstrations of one robot: which episodes of a dataset are used, whether they fit together, which are held out."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from embodied.core.instruction import check_instruction
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.reader import Dataset, open_dataset
from policies.vla.data.robot_spec import RobotSpec, TrainingTask


@dataclasses.dataclass(frozen=True, eq=False)
class Demonstrations:
    """Episodes of one robot, of any number of tasks."""

    episodes: tuple[Episode, ...]
    spec: RobotSpec

    @classmethod
    def of(cls, episodes: Iterable[Episode], control_dt: float, *, failures: bool = False) -> Demonstrations:
        """Check that episodes fit together, and leave out those that never succeeded unless `failures`.

        Images stay in memory as they are; an action takes `control_dt` s.

        Raises:
            EmbodiedError: none is left; cameras, resolution or sizes differ; or an instruction is empty.
        """
        every = tuple(episodes)
        kept = tuple(episode for episode in every if len(episode) and (failures or episode.success))
        if not kept:
            raise EmbodiedError(f"none of {len(every)} demonstrated episodes succeeded; there is nothing to learn from")
        first = _spec_of(kept[0], control_dt)
        for number, episode in enumerate(kept):
            check_instruction(episode.instruction)
            if (found := _spec_of(episode, control_dt)) != first:
                raise EmbodiedError(f"episode {number} ({episode.task}) {found.difference(first)}, unlike the first")
        return cls(kept, first)

    @property
    def steps(self) -> int:
        """Of all episodes."""
        return sum(len(episode) for episode in self.episodes)

    @property
    def fingerprint(self) -> str:
        """Numbers of episodes and steps, and a checksum, by which a resumed training knows its demonstrations."""
        checksum = 0
        for episode in self.episodes:
            for array in (episode.action, episode.state):
                checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
        return f"{len(self.episodes)} episodes, {self.steps} steps, checksum {checksum:08x}"

    @property
    def keypoints(self) -> int:
        """Number of things whose places in the images every episode holds."""
        counts = {rows.shape[1] // 2 for episode in self.episodes for rows in episode.keypoints.values()}
        return counts.pop() if len(counts) == 1 and all(episode.keypoints for episode in self.episodes) else 0

    @property
    def without_keypoints(self) -> int:
        """Number of episodes without such places, where others have them."""
        silent = sum(not episode.keypoints for episode in self.episodes)
        return silent if silent < len(self.episodes) else 0

    @property
    def training_tasks(self) -> tuple[TrainingTask, ...]:
        """Each task, with the instructions of its demonstrations."""
        instructions: dict[str, dict[str, None]] = {}
        for episode in self.episodes:
            instructions.setdefault(episode.task, {})[episode.instruction] = None
        return tuple(TrainingTask(task, tuple(texts)) for task, texts in instructions.items())

    def split(self, held_out: float, seed: int) -> tuple[tuple[Episode, ...], tuple[Episode, ...]]:
        """Training and held-out episodes: the same share of every task, but never all of it."""
        by_task: dict[str, list[int]] = {}
        for number, episode in enumerate(self.episodes):
            by_task.setdefault(episode.task, []).append(number)
        generator, apart = np.random.default_rng(seed), set[int]()
        for numbers in by_task.values():
            count = min(max(round(held_out * len(numbers)), 1), len(numbers) - 1) if held_out else 0
            apart.update(generator.permutation(numbers)[:count].tolist())
        train = tuple(episode for number, episode in enumerate(self.episodes) if number not in apart)
        return train, tuple(self.episodes[number] for number in sorted(apart))


class EpisodeInfo(Protocol):
    """Description of an episode before its images are decoded."""

    @property
    def task(self) -> str: ...

    @property
    def success(self) -> bool: ...


@dataclasses.dataclass(frozen=True)
class EpisodeSelection:
    """Which episodes of a dataset to use."""

    tasks: tuple[str, ...] = ()
    """Of these tasks; none: of all."""
    per_task: int = 0
    """The first so many of each task of each dataset, in its order; 0: all."""
    failures: bool = False
    """Unsuccessful ones too."""

    def indices(self, episodes: Sequence[EpisodeInfo]) -> tuple[int, ...]:
        """Indices of the selected episodes, ascending.

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


def load_demonstrations(
    folders: Sequence[Path], cameras: tuple[str, ...] = (), selection: EpisodeSelection = EpisodeSelection()
) -> Demonstrations:
    """The demonstrations in datasets' folders, in memory; videos of episodes that are not selected are not decoded.

    Raises:
        EmbodiedError: there is no dataset, it is damaged, two do not fit together, or a task was not demonstrated, or
            not often enough.
    """
    first = open_dataset(folders[0], cameras=cameras or None)
    seen, fps = first.info.cameras, first.info.fps
    datasets = [first, *(open_dataset(folder, cameras=seen, fps=fps) for folder in folders[1:])]
    # A task that no dataset has is an error at once; one that only some of them have is none.
    dataclasses.replace(selection, per_task=0).indices([row for dataset in datasets for row in dataset.rows])
    return Demonstrations.of(_chosen(datasets, selection), 1.0 / fps, failures=selection.failures)


def _chosen(datasets: Sequence[Dataset], selection: EpisodeSelection) -> Iterator[Episode]:
    """The selected episodes of each dataset, one after the other."""
    for dataset in datasets:
        there = {row.task for row in dataset.rows}
        tasks = tuple(task for task in selection.tasks if task in there)
        if selection.tasks and not tasks:
            continue
        own = dataclasses.replace(selection, tasks=tasks).indices(dataset.rows)
        # Read in order, each video is decoded once; a few episodes are found faster one by one.
        yield from dataset if len(own) == len(dataset) else (dataset[index] for index in own)


def _spec_of(episode: Episode, control_dt: float) -> RobotSpec:
    """The spec of the robot that an episode was recorded with.

    Raises:
        EmbodiedError: it has no images, or not RGB bytes.
    """
    shapes = {frames.shape[1:] for frames in episode.images.values()}
    kinds = {frames.dtype for frames in episode.images.values()}
    if len(shapes) != 1 or kinds != {np.dtype(np.uint8)} or len(shape := next(iter(shapes))) != 3 or shape[2] != 3:
        raise EmbodiedError(
            f"pictures of an episode of {episode.task} have shapes {sorted(shapes)} and types "
            f"{sorted(map(str, kinds))}; expected one or more cameras of the same (height, width, 3) uint8"
        )
    height, width, _ = shape
    cameras = tuple(episode.images)
    return RobotSpec(cameras, (width, height), episode.state.shape[1], episode.action.shape[1], round(control_dt, 6))
