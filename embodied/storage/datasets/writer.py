"""`DatasetWriter`: episodes to a folder in LeRobot's format v3.0, which appears when it is complete, or never."""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from embodied.errors import EmbodiedError, listing, reason
from embodied.rendering.video_files import X264
from embodied.storage.datasets import layout
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import IMAGES, DatasetInfo, read_info
from embodied.storage.datasets.statistics import Statistics, of_images, of_numbers, pooled
from embodied.storage.datasets.tables import (
    EpisodeRow,
    episode_table,
    frame_table,
    instruction_table,
    read_episodes,
    read_statistics,
)
from embodied.storage.files import TEMPORARY, dumps, jsonable, locked, read_json, sync_file, write_atomic
from embodied.viewer.film import VideoWriter

LONGEST_VIDEO = 400.0  # s: LeRobot looks for frames by float32 times within 0.1 ms, which they resolve up to 1,000 s
MOST_FRAMES = 1000  # after which a file ends: what a killed process loses, and one episode, at most
ORIGIN = "meta/embodied.json"
"""How the episodes were recorded: who goes on must record them alike."""
BUSY = "'{}' is being written by another process; wait for it, or end it"
PARTS = "parts"
"""Folder of an unfinished dataset: for each file that is whole, the table of its episodes."""


class DatasetWriter:
    """Writes episodes one after another.

    with DatasetWriter(folder, info) as writer:
        writer.add(episode)

    Everything goes to a folder beside the target, whose name begins with `.tmp-`; it gets its own name at the end. What
    a killed process leaves behind bears the first name and lacks `meta/info.json`; so does what an exception leaves,
    where a file is whole. The next one that writes this dataset goes on from there, if it is to `resume`.

    Where files end depends on the episodes alone, so that the files of a dataset are the same however often it was
    resumed.
    """

    def __init__(
        self,
        folder: Path,
        info: DatasetInfo,
        longest_video: float = LONGEST_VIDEO,
        *,
        origin: Mapping[str, Any] | None = None,
        resume: bool = False,
    ) -> None:
        """Begin a dataset, or go on with one.

        Args:
            info: What its frames have in common.
            longest_video: s after which a new file begins.
            origin: How the episodes are recorded, as JSON values.
            resume: Whether to go on with what there is, `rows`: unfinished, or finished with too few episodes. Files
                that had room for more are written anew.

        Raises:
            EmbodiedError: the folder exists, holds other episodes or cannot be made; a killed process left some; or the
                images' sides are odd, which H.264 does not store.
        """
        if folder.exists() and not resume:
            raise EmbodiedError(f"'{folder}' exists, and nothing is overwritten; choose another name or remove it")
        if any(side % 2 for side in info.size):
            raise EmbodiedError(f"cannot store {info.size[0]} x {info.size[1]} pixels as video; expected even numbers")
        self.folder, self.info, self.longest_video = folder, info, longest_video
        self.rows: list[EpisodeRow] = []
        """Of the episodes so far."""
        self._statistics: list[dict[str, Statistics]] = []
        self._instructions: dict[str, int] = {}
        self._frames = 0
        self._file = -1  # number of the newest files
        self._frames_in_file = 0
        self._table: pq.ParquetWriter | None = None
        self._videos: dict[str, VideoWriter] = {}
        self._lock: int | None = None
        self._spare: list[tuple[EpisodeRow, dict[str, Statistics]]] = []
        found = _found(folder, resume=resume)
        named = folder.with_name(f"{TEMPORARY}{folder.name}-{uuid.uuid4().hex[:8]}")
        self._temporary = named if found in (None, folder) else found
        try:
            if found is None:
                (self._temporary / ORIGIN).parent.mkdir(parents=True)
                (self._temporary / ORIGIN).write_bytes(dumps(jsonable(origin or {})))
            self._lock = locked(found or self._temporary)
            if found is not None:
                self._go_on(found, origin or {})
        except BlockingIOError:
            raise EmbodiedError(BUSY.format(folder)) from None
        except OSError as error:
            raise EmbodiedError(f"cannot write a dataset to '{folder}': {reason(error)}") from error
        except EmbodiedError:
            self._unlock()
            raise

    def _go_on(self, found: Path, origin: Mapping[str, Any]) -> None:
        """Take up what there is: all files but the last, where that has room for more.

        Raises:
            EmbodiedError: it was recorded otherwise, or is damaged.
        """
        folder, info = self._temporary, self.info
        try:
            held, wanted = dict(read_json(found / ORIGIN)), jsonable(origin)
        except (OSError, TypeError, ValueError) as error:
            raise EmbodiedError(f"cannot go on with '{found}': {reason(error)} ({ORIGIN})") from error
        if differ := [name for name in {**held, **wanted} if held.get(name) != wanted.get(name)]:
            changes = listing(f"{name} {held.get(name)}, not {wanted.get(name)}" for name in differ)
            raise EmbodiedError(f"'{found}' was begun with {changes}; go on with the same, or choose another name")
        finished = (found / layout.INFO).exists()
        tables = sorted((found / (layout.EPISODES if finished else PARTS)).rglob("*.parquet"))
        episodes = list(zip(read_episodes(tables, info, layout.CHUNK), read_statistics(tables), strict=True))
        if found != folder:
            os.rename(found, folder)
        last = max((row.data_file for row, _ in episodes), default=0)
        self._spare = [(row, measured) for row, measured in episodes if row.data_file == last]
        if sum(row.length for row, _ in self._spare) >= MOST_FRAMES:
            self._spare = []
        for row, measured in episodes[: len(episodes) - len(self._spare)]:
            self._note(row, measured)
        self._file = self.rows[-1].data_file if self.rows else -1
        if finished:
            for file in range(self._file + 1):
                self._write_part(file)
            (folder / layout.INFO).unlink()
            shutil.rmtree(folder / layout.EPISODES)
        whole = {path for file in range(self._file + 1) for path in (*self._files(file), self._part(file))}
        for path in [path for path in folder.rglob("*") if path.is_file() and path not in {*whole, folder / ORIGIN}]:
            if self._spare and path in self._files(last):
                path.rename(_spared(path))
            else:
                path.unlink()

    def _files(self, file: int) -> list[Path]:
        """The table and the videos of a number."""
        videos = [layout.video_path(self._temporary, camera, file) for camera in self.info.cameras]
        return [layout.data_path(self._temporary, file), *videos]

    def _restore(self) -> None:
        """Leave the open files, and take those that they were to replace."""
        self._abandon()
        self._file = self._spare[0][0].data_file
        kept = [(row, measured) for row, measured in zip(self.rows, self._statistics, strict=True)
                if row.data_file != self._file]  # fmt: skip
        self.rows, self._statistics, self._frames = [], [], 0
        for row, measured in [*kept, *self._spare]:
            self._note(row, measured)
        for path in self._files(self._file):
            _spared(path).replace(path)
        self._spare = []
        self._write_part(self._file)

    def _abandon(self) -> None:
        """Stop writing the open files."""
        for video in self._videos.values():
            video.discard()
        if self._table is not None:
            self._table.close()
        self._table, self._videos = None, {}

    def _note(self, row: EpisodeRow, statistics: dict[str, Statistics]) -> None:
        """Count an episode that is written."""
        self.rows.append(row)
        self._statistics.append(statistics)
        self._instructions.setdefault(row.instruction, len(self._instructions))
        self._frames += row.length

    def add(self, episode: Episode, noise: float = 0.0, tried: int | None = None) -> None:
        """Append an episode.

        Args:
            noise: Standard deviation of the noise on its actions.
            tried: Episodes of its task that were tried up to this one.

        Raises:
            EmbodiedError: it has other cameras or sizes than the dataset, or holds numbers that are not finite.
            OSError: the disk refuses.
        """
        self._check(episode)
        if self._table is None or (self._frames_in_file + len(episode)) / self.info.fps > self.longest_video:
            self._next_file()
        number, info = len(self.rows), self.info
        instruction = self._instructions.setdefault(episode.instruction, len(self._instructions))
        table = frame_table(episode, info, number, self._frames, instruction)
        assert self._table is not None
        self._table.write_table(table)
        for camera, video in self._videos.items():
            for frame in episode.images[camera]:
                video.add(frame)
        start = self._frames_in_file / info.fps
        row = EpisodeRow(
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
            tried=tried,
        )
        self._note(row, self._measured(episode, table))
        self._frames_in_file += len(episode)
        if self._frames_in_file >= MOST_FRAMES:
            self._close_file()

    def close(self) -> DatasetInfo:
        """Complete the dataset and give it its name.

        Raises:
            EmbodiedError: there are no episodes.
            OSError: the disk refuses.
        """
        if not (self.rows or self._spare):
            self.discard()
            raise EmbodiedError(f"no episodes were recorded, so '{self.folder}' was not written")
        if len(self._spare) > sum(row.data_file == self._file for row in self.rows if self._table is not None):
            self._restore()
        self._close_file()
        counts = {"episodes": len(self.rows), "frames": self._frames, "instructions": len(self._instructions)}
        info = dataclasses.replace(self.info, **counts)
        episodes = self._temporary / layout.EPISODES_PATH.format(**layout.chunk_and_file(0))
        episodes.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(episode_table(self.rows, self._statistics, info), episodes)
        pq.write_table(instruction_table(list(self._instructions)), self._temporary / layout.TASKS)
        whole = {feature: pooled([part[feature] for part in self._statistics]) for feature in self._statistics[0]}
        (self._temporary / layout.STATS).write_bytes(dumps(jsonable(whole)))
        # The last file of all: without it a folder is no dataset.
        (self._temporary / layout.INFO).write_bytes(layout.to_bytes(info))
        shutil.rmtree(self._temporary / PARTS)
        try:
            os.rename(self._temporary, self.folder)
        except OSError as error:
            raise EmbodiedError(f"the dataset is complete in '{self._temporary}': {reason(error)}") from error
        self._unlock()
        return info

    def discard(self) -> None:
        """Stop without a dataset; files that are whole stay, to go on from."""
        if self._spare:
            self._restore()
        self._abandon()
        if not (self._temporary / PARTS).exists():
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
        """Finish the open files, and note their episodes: from then on they survive whatever ends the process."""
        if self._table is None:
            return
        self._table.close()
        for video in self._videos.values():
            video.close()
            sync_file(video.path)
        sync_file(layout.data_path(self._temporary, self._file))
        self._table, self._videos = None, {}
        self._write_part(self._file)
        if self._spare:
            self._spare = []
            for path in self._files(self._file):
                _spared(path).unlink()

    def _write_part(self, file: int) -> None:
        inside = [number for number, row in enumerate(self.rows) if row.data_file == file]
        rows, statistics = [self.rows[number] for number in inside], [self._statistics[number] for number in inside]
        sink = pa.BufferOutputStream()
        pq.write_table(episode_table(rows, statistics, self.info, inside[0]), sink)
        self._part(file).parent.mkdir(exist_ok=True)
        write_atomic(self._part(file), sink.getvalue().to_pybytes())

    def _part(self, file: int) -> Path:
        return self._temporary / PARTS / f"{file:06d}.parquet"

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


def _spared(path: Path) -> Path:
    """Name of a file that is written anew, until the new one is whole."""
    return path.with_name(f"{TEMPORARY}{path.name}")


def _found(folder: Path, *, resume: bool) -> Path | None:
    """The folder to go on with; None: there is none.

    What killed processes have left of a dataset of this name is removed if nothing in it is whole. What another process
    writes is locked.

    Raises:
        EmbodiedError: something is whole, but not to be gone on with.
    """
    if resume and folder.exists():
        read_info(folder)  # or else it is no dataset
        return folder
    for remains in sorted(folder.parent.glob(f"{TEMPORARY}{glob.escape(folder.name)}-????????")):
        try:
            lock = locked(remains)
        except OSError:
            if resume:
                raise EmbodiedError(BUSY.format(folder)) from None
            continue
        parts, finished = (remains / PARTS).exists(), (remains / layout.INFO).exists()
        if not (parts or finished):
            shutil.rmtree(remains, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        if resume and (parts or finished):
            return remains
        if parts:
            raise EmbodiedError(f"a process that was ended left '{remains}'; go on with --resume, or remove it")
    return None
