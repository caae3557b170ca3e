"""`Dataset`: episodes from a folder in LeRobot's format v3.0, by any writer.

dataset = open_dataset(Path("demos"), cameras=("front", "wrist"), fps=80, action_size=4)
dataset[7]                       # an Episode
dataset.part(7, 20, 21)          # one step of it, as an Episode of length 1
for episode in dataset: ...      # all of them, each video decoded once

Numbers are kept in memory, images are decoded when they are read. Nothing in a dataset is executed, and no path
that it names is followed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from embodied.errors import EmbodiedError, listing, reason
from embodied.rendering.video_files import Decoder
from embodied.storage.datasets import layout
from embodied.storage.datasets.consistency import (
    check_film,
    check_finite,
    check_frames,
    check_statistics,
    first_frame,
)
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import ACTION, KEYPOINTS, STATE, DatasetInfo, read_info
from embodied.storage.datasets.statistics import Statistics
from embodied.storage.datasets.tables import EpisodeRow, matrix, read_episodes, read_instructions, read_table
from embodied.storage.files import read_json


def open_dataset(
    folder: Path | str,
    *,
    cameras: Sequence[str] | None = None,
    size: tuple[int, int] | None = None,
    fps: int | None = None,
    state_size: int | None = None,
    action_size: int | None = None,
) -> Dataset:
    """Open a dataset and check that it is complete and fits what a policy expects.

    Args:
        cameras: Names of those that are needed; by default all that the dataset has. Others are not decoded.
        size: Width and height of images, pixels; None: any. So are the rest.
        fps: Hz.
        state_size: Length of a state.
        action_size: Length of an action.

    Raises:
        EmbodiedError: there is none, it is of another version or not as expected, or files are missing or truncated.
    """
    folder = Path(folder)
    info = read_info(folder)
    if cameras is not None:
        if missing := [camera for camera in cameras if camera not in info.cameras]:
            raise EmbodiedError(f"dataset '{folder}' has no camera {listing(missing)}; it has {listing(info.cameras)}")
        info = dataclasses.replace(info, cameras=tuple(cameras))
    expected = {"images' width and height": (size, info.size), "rate in Hz": (fps, info.fps),
                "length of a state": (state_size, info.state_size),
                "length of an action": (action_size, info.action_size)}  # fmt: skip
    for what, (wanted, found) in expected.items():
        if wanted is not None and wanted != found:
            raise EmbodiedError(f"dataset '{folder}' does not fit: its {what} is {found}, expected {wanted}")
    return Dataset(folder, info)


class Dataset(Sequence[Episode]):
    """The episodes of a folder. Open it with `open_dataset`."""

    def __init__(self, folder: Path, info: DatasetInfo) -> None:
        """Read the table of episodes and check that all files exist.

        Raises:
            EmbodiedError: one is missing or truncated.
        """
        self.folder, self.info = folder, info
        tables = sorted((folder / layout.EPISODES).glob("chunk-*/file-*.parquet"))
        if not tables:
            raise EmbodiedError(f"dataset '{folder}' has no tables in {layout.EPISODES}")
        self.rows: list[EpisodeRow] = read_episodes(tables, info, layout.CHUNK)
        lengths = sum(row.length for row in self.rows)
        if (len(self.rows), lengths) != (info.episodes, info.frames):
            raise EmbodiedError(
                f"dataset '{folder}' lists {len(self.rows)} episodes of {lengths} frames; "
                f"its {layout.INFO} says {info.episodes} of {info.frames}"
            )
        self.instructions: list[str] = read_instructions(folder / layout.TASKS)
        for camera, file in {(camera, row.video_files[camera]) for row in self.rows for camera in info.cameras}:
            inside = {number: row for number, row in enumerate(self.rows) if row.video_files[camera] == file}
            check_film(layout.video_path(folder, camera, file), camera, inside, info)
        # Numbers are few beside images: reading them all now finds what is missing before a training begins.
        self._numbers = dict(self._read_numbers(index) for index in sorted({row.data_file for row in self.rows}))
        if (folder / layout.STATS).exists():
            every = [vectors for vectors, _ in self._numbers.values()]
            whole = {name: np.concatenate([part[name] for part in every]) for name in info.vectors}
            check_statistics(folder / layout.STATS, self.statistics, whole)

    @functools.cached_property
    def statistics(self) -> dict[str, Statistics]:
        """Feature -> statistics over all frames.

        Raises:
            EmbodiedError: the file is missing or damaged.
        """
        path = self.folder / layout.STATS
        try:
            document = read_json(path)
            return {
                feature: {name: np.asarray(value, np.float64) for name, value in kinds.items()}
                for feature, kinds in document.items()
            }
        except (OSError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise EmbodiedError(f"cannot read '{path}': {reason(error)}") from error

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.rows)

    def __getitem__(self, index: int) -> Episode:  # type: ignore[override]
        return self.part(index)

    def __iter__(self) -> Iterator[Episode]:
        """All episodes in their order; each video is decoded once, from its beginning to its end."""
        with contextlib.ExitStack() as stack:
            decoders: dict[str, tuple[int, Decoder, int]] = {}
            for row in self.rows:
                images = {}
                for camera in self.info.cameras:
                    begin = self._begin(row, camera)
                    file, decoder, place = decoders.get(camera, (-1, None, -1))
                    if file != row.video_files[camera] or place != begin:
                        if decoder is not None:
                            decoder.close()
                        file, decoder = row.video_files[camera], stack.enter_context(self._decoder(row, camera, begin))
                    assert decoder is not None
                    images[camera] = decoder.read(row.length)
                    decoders[camera] = (file, decoder, begin + row.length)
                yield self._episode(row, images, 0, row.length)

    def part(self, index: int, first: int = 0, end: int | None = None) -> Episode:
        """Steps `first` to `end` (not included) of an episode; only their images, and up to nine more, are decoded.

        Raises:
            EmbodiedError: there is no such episode or step, or a video is damaged.
        """
        if not -len(self) <= index < len(self):
            # As sequences do; loops end by it.
            raise IndexError(f"episode {index} of {len(self)}")
        row = self.rows[index]
        end = row.length if end is None else end
        if not 0 <= first < end <= row.length:
            raise EmbodiedError(f"steps {first} to {end} of episode {index}, which has {row.length}")
        images = {}
        for camera in self.info.cameras:
            with self._decoder(row, camera, self._begin(row, camera) + first) as decoder:
                images[camera] = decoder.read(end - first)
        return self._episode(row, images, first, end)

    def numbers(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """States (T, S) and actions (T, A) of an episode, without its images."""
        row = self.rows[index]
        vectors = self._vectors(row, 0, row.length)
        return vectors[STATE], vectors[ACTION]

    def _vectors(self, row: EpisodeRow, first: int, end: int) -> dict[str, np.ndarray]:
        """Feature -> the numbers (end - first, D) of some steps of an episode."""
        vectors, begin = self._numbers[row.data_file]
        place = slice(row.first - begin + first, row.first - begin + end)
        return {name: rows[place] for name, rows in vectors.items()}

    def _episode(self, row: EpisodeRow, images: Mapping[str, np.ndarray], first: int, end: int) -> Episode:
        vectors = self._vectors(row, first, end)
        places = {camera: vectors[KEYPOINTS + camera] for camera in self.info.cameras if KEYPOINTS + camera in vectors}
        return Episode(
            task=row.task,
            instruction=row.instruction,
            images=images,
            state=vectors[STATE],
            action=vectors[ACTION],
            keypoints=places,
            success=row.success,
            seed=row.seed,
        )

    def _begin(self, row: EpisodeRow, camera: str) -> int:
        """Number of an episode's first frame in its video."""
        return first_frame(row, camera, self.info)

    def _decoder(self, row: EpisodeRow, camera: str, first: int) -> Decoder:
        path = layout.video_path(self.folder, camera, row.video_files[camera])
        return Decoder(path, self.info.size, self.info.fps, first)

    def _read_numbers(self, index: int) -> tuple[int, tuple[dict[str, np.ndarray], int]]:
        """File of frames -> the numbers of each feature, and which of the dataset's frames is its first."""
        path, info = layout.data_path(self.folder, index), self.info
        table = read_table(path, (*info.vectors, *layout.COUNTERS))
        inside = {number: row for number, row in enumerate(self.rows) if row.data_file == index}
        length = sum(row.length for row in inside.values())
        if len(table) != length:
            raise EmbodiedError(f"the table '{path}' has {len(table)} frames, its episodes have {length}")
        check_frames(path, table, inside, info, self.instructions)
        try:
            vectors = {name: matrix(table[name], len(names)) for name, names in info.vectors.items()}
        except (ValueError, pa.ArrowException) as error:
            raise EmbodiedError(f"the table '{path}' does not hold what {layout.INFO} says: {reason(error)}") from error
        check_finite(path, vectors)
        return index, (vectors, next(iter(inside.values())).first)
