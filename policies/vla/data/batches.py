"""Demonstrations as a policy learns from them: which fit together, which are held out, and batches of moments."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from embodied.datasets.episode import Episode
from embodied.errors import EmbodiedError, listing
from policies.vla.model.text_encoder import check_instruction


@dataclasses.dataclass(frozen=True)
class Senses:
    """What a policy needs to know of a robot before it can act: a policy fits where these agree."""

    cameras: tuple[str, ...]
    """Names, in the order in which the policy takes their pictures."""
    resolution: tuple[int, int]
    """Width and height of a picture in pixels."""
    state_size: int
    """Length of the observation group `proprio`."""
    action_size: int
    """Length of an action."""
    control_dt: float
    """s per action."""


@dataclasses.dataclass(frozen=True)
class Lesson:
    """One task that was demonstrated."""

    task: str
    """Its registered name."""
    instructions: tuple[str, ...]
    """In what words."""


@dataclasses.dataclass(frozen=True, eq=False)
class Demonstrations:
    """Episodes of one robot, of any number of tasks."""

    episodes: tuple[Episode, ...]
    senses: Senses

    @classmethod
    def of(cls, episodes: Iterable[Episode], control_dt: float, *, failures: bool = False) -> Demonstrations:
        """Check that episodes fit together, and leave out those that never succeeded unless `failures`.

        Any iterable will do: a list, or a reader of a dataset. Pictures stay in state as they are.

        Args:
            episodes: Of one robot.
            control_dt: s per action.
            failures: Keep what never succeeded too.

        Raises:
            EmbodiedError: none is left; cameras, resolution or sizes differ; or an instruction says nothing.
        """
        every = tuple(episodes)
        kept = tuple(episode for episode in every if len(episode) and (failures or episode.success))
        if not kept:
            raise EmbodiedError(f"none of {len(every)} demonstrated episodes succeeded; there is nothing to learn from")
        first = _senses(kept[0], control_dt)
        for number, episode in enumerate(kept):
            check_instruction(episode.instruction)
            if (found := _senses(episode, control_dt)) != first:
                raise EmbodiedError(f"episode {number} ({episode.task}) {difference(found, first)}, unlike the first")
        return cls(kept, first)

    @property
    def steps(self) -> int:
        """Of all episodes."""
        return sum(len(episode) for episode in self.episodes)

    @property
    def fingerprint(self) -> str:
        """By which a resumed training knows its demonstrations: numbers of episodes and steps, and a checksum."""
        checksum = 0
        for episode in self.episodes:
            for array in (episode.action, episode.state):
                checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
        return f"{len(self.episodes)} episodes, {self.steps} steps, checksum {checksum:08x}"

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """Each task, with the words in which it was demonstrated."""
        taught: dict[str, dict[str, None]] = {}
        for episode in self.episodes:
            taught.setdefault(episode.task, {})[episode.instruction] = None
        return tuple(Lesson(task, tuple(texts)) for task, texts in taught.items())

    def split(self, held_out: float, seed: int) -> tuple[tuple[Episode, ...], tuple[Episode, ...]]:
        """Episodes to learn from, and those held out: the same share of every task, but never all of it."""
        by_task: dict[str, list[int]] = {}
        for number, episode in enumerate(self.episodes):
            by_task.setdefault(episode.task, []).append(number)
        generator, apart = np.random.default_rng(seed), set[int]()
        for numbers in by_task.values():
            count = min(max(round(held_out * len(numbers)), 1), len(numbers) - 1) if held_out else 0
            apart.update(generator.permutation(numbers)[:count].tolist())
        train = tuple(episode for number, episode in enumerate(self.episodes) if number not in apart)
        return train, tuple(self.episodes[number] for number in sorted(apart))


@dataclasses.dataclass(frozen=True)
class Batch:
    """B moments, and what was done from then on."""

    pixels: Tensor
    """(B, cameras, height, width, 3) uint8."""
    state: Tensor
    """(B, S) in the task's units."""
    text: Tensor
    """(B,) int64, which of `Moments.instructions` was given."""
    action: Tensor
    """(B, chunk, A) in [-1, 1]; beyond the episode's end, its last."""
    exists: Tensor
    """(B, chunk) bool, whether the episode went on that long."""


class Moments:
    """Every step of some episodes, by number."""

    def __init__(self, episodes: Sequence[Episode], cameras: Sequence[str], chunk: int) -> None:
        """Index them; pictures are not copied."""
        self.cameras = tuple(cameras)
        self.instructions = tuple(dict.fromkeys(check_instruction(episode.instruction) for episode in episodes))
        lengths = np.array([len(episode) for episode in episodes])
        self._images = [[episode.images[camera] for camera in self.cameras] for episode in episodes]
        self._state = torch.from_numpy(np.concatenate([episode.state for episode in episodes]))
        self._action = torch.from_numpy(np.concatenate([episode.action for episode in episodes]))
        place = {text: number for number, text in enumerate(self.instructions)}
        self._text = torch.tensor([place[check_instruction(episode.instruction)] for episode in episodes])
        self._episode = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths))
        ends = torch.from_numpy(lengths.cumsum())
        self._first, self._last = ends - torch.from_numpy(lengths), ends - 1
        self._ahead = torch.arange(chunk)

    def __len__(self) -> int:
        """Steps of all episodes."""
        return len(self._action)

    def batch(self, numbers: Tensor) -> Batch:
        """Those of some numbers (B,), int64."""
        episode = self._episode[numbers]
        wanted = numbers[:, None] + self._ahead
        last = self._last[episode][:, None]
        times = (numbers - self._first[episode]).tolist()
        shown = [
            [images[time] for images in self._images[which]]
            for which, time in zip(episode.tolist(), times, strict=True)
        ]
        pixels = torch.from_numpy(np.stack([np.stack(views) for views in shown]))
        action = self._action[torch.minimum(wanted, last)]
        return Batch(pixels, self._state[numbers], self._text[episode], action, wanted <= last)


def difference(found: Senses, expected: Senses) -> str:
    """In what two differ, in words that follow a noun: "has cameras front, expected front, wrist"."""
    names = [field.name for field in dataclasses.fields(Senses)]
    pairs = [(name, getattr(found, name), getattr(expected, name)) for name in names]
    said = [f"{name} {_say(a)}, expected {_say(b)}" for name, a, b in pairs if a != b]
    return "has " + "; ".join(said)


def _say(value: object) -> str:
    return listing(value) if isinstance(value, tuple) else f"{value}"


def _senses(episode: Episode, control_dt: float) -> Senses:
    """Those that an episode was recorded with.

    Raises:
        EmbodiedError: it has no pictures, or not RGB bytes.
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
    return Senses(cameras, (width, height), episode.state.shape[1], episode.action.shape[1], round(control_dt, 6))
