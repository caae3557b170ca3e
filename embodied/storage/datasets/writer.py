"""`DatasetWriter`: episodes to a folder in LeRobot's format v3.0, which appears when it is complete, or never."""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
import uuid
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from embodied.errors import EmbodiedError, reason
from embodied.rendering.video_files import X264
from embodied.storage.datasets import layout
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import DATA_MB, IMAGES, VIDEO_MB, DatasetInfo
from embodied.storage.datasets.statistics import Statistics, of_images, of_numbers, pooled
from embodied.storage.datasets.tables import EpisodeRow, episode_table, frame_table, instruction_table
from embodied.storage.files import TEMPORARY, dumps, jsonable, locked
from embodied.viewer.film import VideoWriter

MB = 1 << 20
LONGEST_VIDEO = 400.0  # s: LeRobot looks for frames by float32 times within 0.1 ms, which they resolve up to 1,000 s


class DatasetWriter:
    """Writes episodes one after another.

    with DatasetWriter(folder, info) as writer:
        writer.add(episode)

    Everything goes to a folder beside the target, whose name begins with `.tmp-`; it gets its own name at the end. An
    exception removes it; what a killed process leaves behind bears the first name and lacks `meta/info.json`, and the
    next one that writes this dataset removes it.
    """

    def __init__(self, folder: Path, info: DatasetInfo, longest_video: float = LONGEST_VIDEO) -> None:
        """Begin a dataset.

        Args:
            info: What its frames have in common.
            longest_video: s after which a new file begins.

        Raises:
            EmbodiedError: the folder exists, cannot be made, or the images' sides are odd, which H.264 does not store.
        """
        if folder.exists():
            raise EmbodiedError(f"'{folder}' exists, and nothing is overwritten; choose another name or remove it")
        if any(side % 2 for side in info.size):
            raise EmbodiedError(f"cannot store {info.size[0]} x {info.size[1]} pixels as video; expected even numbers")
        self.folder, self.info, self.longest_video = folder, info, longest_video
        _remove_remains(folder)
        self._temporary = folder.with_name(f"{TEMPORARY}{folder.name}-{uuid.uuid4().hex[:8]}")
        try:
            self._temporary.mkdir(parents=True)
            self._lock = locked(self._temporary)
        except OSError as error:
            raise EmbodiedError(f"cannot write a dataset to '{folder}': {reason(error)}") from error
        self._rows: list[EpisodeRow] = []
        self._statistics: list[dict[str, Statistics]] = []
        self._instructions: dict[str, int] = {}
        self._frames = 0
        self._file = -1  # number of the files that are open
        self._frames_in_file = 0
        self._table: pq.ParquetWriter | None = None
        self._videos: dict[str, VideoWriter] = {}

    def add(self, episode: Episode, noise: float = 0.0) -> None:
        """Append an episode; `noise` is the standard deviation of the noise on its actions.

        Raises:
            EmbodiedError: it has other cameras or sizes than the dataset, or holds numbers that are not finite.
            OSError: the disk refuses.
        """
        self._check(episode)
        if self._file < 0 or self._is_full(len(episode)):
            self._next_file()
        number, info = len(self._rows), self.info
        instruction = self._instructions.setdefault(episode.instruction, len(self._instructions))
        table = frame_table(episode, info, number, self._frames, instruction)
        assert self._table is not None
        self._table.write_table(table)
        for camera, video in self._videos.items():
            for frame in episode.images[camera]:
                video.add(frame)
        start = self._frames_in_file / info.fps
        self._rows.append(
            EpisodeRow(
                task=episode.task,
                instruction=episode.instruction,
                length=len(episode),
                first=self._frames,
                data_file=self._file,
                video_files=dict.fromkeys(info.cameras, self._file),
                video_starts=dict.fromkeys(info.cameras, start),
                success=bool(episode.success),
                seed=episode.seed,
                noise=float(noise),
            )
        )
        self._statistics.append(self._measured(episode, table))
        self._frames += len(episode)
        self._frames_in_file += len(episode)

    def close(self) -> DatasetInfo:
        """Complete the dataset and give it its name.

        Raises:
            EmbodiedError: there are no episodes.
            OSError: the disk refuses.
        """
        if not self._rows:
            self.discard()
            raise EmbodiedError(f"no episodes were recorded, so '{self.folder}' was not written")
        self._close_file()
        counts = {"episodes": len(self._rows), "frames": self._frames, "instructions": len(self._instructions)}
        info = dataclasses.replace(self.info, **counts)
        episodes = self._temporary / layout.EPISODES_PATH.format(**layout.chunk_and_file(0))
        episodes.parent.mkdir(parents=True)
        pq.write_table(episode_table(self._rows, self._statistics, info), episodes)
        pq.write_table(instruction_table(list(self._instructions)), self._temporary / layout.TASKS)
        whole = {feature: pooled([part[feature] for part in self._statistics]) for feature in self._statistics[0]}
        (self._temporary / layout.STATS).write_bytes(dumps(jsonable(whole)))
        # The last file of all: without it a folder is no dataset.
        (self._temporary / layout.INFO).write_bytes(layout.to_bytes(info))
        try:
            os.rename(self._temporary, self.folder)
        except OSError as error:
            raise EmbodiedError(f"the dataset is complete in '{self._temporary}': {reason(error)}") from error
        self._unlock()
        return info

    def discard(self) -> None:
        """Stop without a dataset."""
        for video in self._videos.values():
            video.discard()
        if self._table is not None:
            self._table.close()
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _check(self, episode: Episode) -> None:
        """Compare an episode with what all have in common."""
        info = self.info
        width, height = info.size
        found = {camera: tuple(frames.shape[1:]) for camera, frames in episode.images.items()}
        expected = dict.fromkeys(info.cameras, (height, width, 3))
        if found != expected:
            raise EmbodiedError(f"an episode has images {found}; the dataset's are {expected}")
        sizes = {name: len(names) for name, names in info.vectors.items()}
        shapes = {name: tuple(rows.shape[1:]) for name, rows in episode.vectors.items()}
        if shapes != {name: (size,) for name, size in sizes.items()}:
            raise EmbodiedError(f"an episode has sizes {shapes}; the dataset's are {sizes}")
        if not len(episode):
            raise EmbodiedError("an episode without a step cannot be stored")
        if not all(np.isfinite(rows).all() for rows in episode.vectors.values()):
            raise EmbodiedError(f"an episode of {episode.task} holds numbers that are not finite")

    def _is_full(self, more: int) -> bool:
        """Whether the open files have no room for so many more frames."""
        if (self._frames_in_file + more) / self.info.fps > self.longest_video:
            return True
        table = layout.data_path(self._temporary, self._file).stat().st_size
        video = max(video.written for video in self._videos.values())
        # One episode more must fit too; its size is estimated from the frames so far.
        growth = 1 + more / self._frames_in_file
        return table * growth > DATA_MB * MB or video * growth > VIDEO_MB * MB

    def _next_file(self) -> None:
        """Close the open files and begin others."""
        self._close_file()
        self._file, self._frames_in_file = self._file + 1, 0
        path = layout.data_path(self._temporary, self._file)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._table = pq.ParquetWriter(path, self._schema(), compression="snappy")
        self._videos = {
            camera: VideoWriter(layout.video_path(self._temporary, camera, self._file), self.info.fps, X264)
            for camera in self.info.cameras
        }

    def _close_file(self) -> None:
        if self._table is not None:
            self._table.close()
        for video in self._videos.values():
            video.close()
        self._table, self._videos = None, {}

    def _schema(self) -> pa.Schema:
        """Of the frames' tables."""
        state, action = np.zeros((1, self.info.state_size)), np.zeros((1, self.info.action_size))
        places = {camera: np.zeros((1, 2 * len(self.info.keypoint_names))) for camera in self.info.cameras}
        empty = Episode("", "", {}, state, action, success=False, keypoints=places)
        return frame_table(empty, self.info, 0, 0, 0).schema

    def _measured(self, episode: Episode, table: pa.Table) -> dict[str, Statistics]:
        counters = {name: table[name].to_numpy() for name in layout.COUNTERS}
        images = {IMAGES + camera: of_images(episode.images[camera]) for camera in self.info.cameras}
        return images | {name: of_numbers(values) for name, values in (episode.vectors | counters).items()}


def _remove_remains(folder: Path) -> None:
    """Remove what killed processes have left of a dataset of this name, unless it is complete.

    What another process writes is locked.
    """
    for remains in folder.parent.glob(f"{TEMPORARY}{glob.escape(folder.name)}-????????"):
        try:
            lock = locked(remains)
        except OSError:
            continue
        if lock is not None:
            if not (remains / layout.INFO).exists():
                shutil.rmtree(remains, ignore_errors=True)
            os.close(lock)
