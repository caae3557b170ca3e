"""Training samples of behaviour cloning: an observation, its instruction, and the action chunk that followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from embodied.core.instruction import check_instruction
from embodied.storage.datasets.episode import Episode


@dataclasses.dataclass(frozen=True)
class Batch:
    """B samples."""

    pixels: Tensor
    """(B, cameras, height, width, 3) uint8."""
    state: Tensor
    """(B, S) in the task's units."""
    instruction: Tensor
    """(B,) int64, index into `ChunkDataset.instructions`."""
    action: Tensor
    """(B, chunk, A) in [-1, 1]; beyond the episode's end, its last action."""
    keypoints: Tensor
    """(B, cameras, K, 2) column and row as shares of the image (`Episode.keypoints`); K 0: not recorded."""
    valid: Tensor
    """(B, chunk) bool, False beyond the episode's end."""


class ChunkDataset:
    """Every step of some episodes as a sample, by index."""

    def __init__(self, episodes: Sequence[Episode], cameras: Sequence[str], chunk: int) -> None:
        """Index the steps; images are not copied."""
        self.cameras = tuple(cameras)
        self.instructions = tuple(dict.fromkeys(check_instruction(episode.instruction) for episode in episodes))
        lengths = np.array([len(episode) for episode in episodes])
        self._images = [[episode.images[camera] for camera in self.cameras] for episode in episodes]
        self._state = torch.from_numpy(np.concatenate([episode.state for episode in episodes]))
        self._action = torch.from_numpy(np.concatenate([episode.action for episode in episodes]))
        told = all(set(self.cameras) <= set(episode.keypoints) for episode in episodes)
        seen = [np.stack([e.keypoints[c].reshape(len(e), -1, 2) for c in self.cameras], 1) for e in episodes if told]
        nothing = np.zeros((len(self._action), len(self.cameras), 0, 2), np.float32)
        self._keypoints = torch.from_numpy(np.concatenate(seen) if seen else nothing)
        index = {text: number for number, text in enumerate(self.instructions)}
        self._instruction = torch.tensor([index[check_instruction(episode.instruction)] for episode in episodes])
        self._episode = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths))
        ends = torch.from_numpy(lengths.cumsum())
        self._first, self._last = ends - torch.from_numpy(lengths), ends - 1
        self._ahead = torch.arange(chunk)

    def __len__(self) -> int:
        return len(self._action)

    def first_steps(self, count: int) -> Tensor:
        """Indices (k,) int64 of the first `count` steps of every episode."""
        everything = torch.arange(len(self))
        return everything[everything - self._first[self._episode] < count]

    def batch(self, indices: Tensor) -> Batch:
        """The samples of some indices (B,) int64."""
        episode = self._episode[indices]
        wanted = indices[:, None] + self._ahead
        last = self._last[episode][:, None]
        times = (indices - self._first[episode]).tolist()
        views = [
            [images[time] for images in self._images[which]]
            for which, time in zip(episode.tolist(), times, strict=True)
        ]
        pixels = torch.from_numpy(np.stack([np.stack(images) for images in views]))
        action = self._action[torch.minimum(wanted, last)]
        state, places = self._state[indices], self._keypoints[indices]
        return Batch(pixels, state, self._instruction[episode], action, places, wanted <= last)
