"""Checks of what a dataset says twice: episodes, frames, times, films and statistics against each other.

Each fault would otherwise pair pictures with the actions of other moments, or scale them by what no demonstration did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from embodied.errors import EmbodiedError, listing
from embodied.rendering.video_files import FilmHeader
from embodied.storage.datasets.layout import NEAR, DatasetInfo
from embodied.storage.datasets.statistics import Statistics, of_numbers
from embodied.storage.datasets.tables import EpisodeRow

EXACT = ("min", "max", "mean", "std")  # statistics that every writer computes alike; quantiles are estimates
STATISTICS_NEAR = 0.01  # of a number's range, how far its statistics may be off


def check_frames(
    path: Path, table: pa.Table, rows: Mapping[int, EpisodeRow], info: DatasetInfo, instructions: Sequence[str]
) -> None:
    """Compare the counters of a table of frames with its episodes, by number.

    Raises:
        EmbodiedError: one differs; names the row, what it says and what was expected.
    """
    steps = np.concatenate([np.arange(row.length) for row in rows.values()])
    expected = {
        "episode_index": np.repeat(list(rows), [row.length for row in rows.values()]),
        "frame_index": steps,
        "index": np.concatenate([row.first + np.arange(row.length) for row in rows.values()]),
        "timestamp": steps / info.fps,
    }
    for name, wanted in expected.items():
        found, margin = _numbers(path, table, name), NEAR / info.fps if name == "timestamp" else 0.0
        if (wrong := np.flatnonzero(~(np.abs(found - wanted) <= margin))).size:
            row = int(wrong[0])
            at = f" at {info.fps} Hz" if name == "timestamp" else ""
            raise EmbodiedError(f"'{path}' says {name} {found[row]:g} in row {row}; expected {wanted[row]:g}{at}")
    told = _numbers(path, table, "task_index")
    if (wrong := np.flatnonzero(~np.isin(told, np.arange(len(instructions))))).size:
        raise EmbodiedError(
            f"'{path}' says task_index {told[wrong[0]]:g} in row {wrong[0]}; expected 0 to {len(instructions) - 1}"
        )
    end = 0
    for number, row in rows.items():
        begin, end = end, end + row.length
        texts = [instructions[int(index)] for index in np.unique(told[begin:end])]
        if row.instruction not in texts:
            raise EmbodiedError(
                f"'{path}' has task_index of {listing(map(repr, texts))} in episode {number}; expected that of "
                f"{row.instruction!r}, as meta/episodes says"
            )


def check_finite(path: Path, vectors: Mapping[str, np.ndarray]) -> None:
    """Refuse vectors (T, D) of a table of frames with numbers that are not finite.

    Raises:
        EmbodiedError: there is one; names its feature and row.
    """
    for name, values in vectors.items():
        if (wrong := np.argwhere(~np.isfinite(values))).size:
            row, column = wrong[0].tolist()
            raise EmbodiedError(
                f"'{path}' holds {name} {values[row, column]} in row {row}, number {column}; expected finite numbers"
            )


def check_film(path: Path, camera: str, rows: Mapping[int, EpisodeRow], info: DatasetInfo) -> None:
    """Compare the header of a film with the episodes in it, by number.

    Raises:
        EmbodiedError: it is missing or damaged, has another size or rate, or too few frames; or two of the episodes
            share frames.
    """
    film = FilmHeader.read(path)
    if film.size != info.size:
        raise EmbodiedError(f"the video '{path}' is {_size(film.size)} pixels; expected {_size(info.size)}")
    if (late := np.flatnonzero(np.abs(film.times * info.fps - np.arange(len(film.times))) > NEAR)).size:
        frame = int(late[0])
        raise EmbodiedError(
            f"the video '{path}' shows frame {frame} at {film.times[frame]:g} s; expected {frame / info.fps:g} s, "
            f"at {info.fps} Hz"
        )
    end, before = 0, -1
    for number, row in sorted(rows.items(), key=lambda item: item[1].video_starts[camera]):
        begin = first_frame(row, camera, info)
        if begin < end:
            raise EmbodiedError(f"episodes {before} and {number} share frames of '{path}': frame {begin} is in both")
        end, before = begin + row.length, number
    if end > len(film.times):
        raise EmbodiedError(f"the video '{path}' has {len(film.times)} frames; its episodes need {end}")


def check_statistics(path: Path, statistics: Mapping[str, Statistics], vectors: Mapping[str, np.ndarray]) -> None:
    """Compare stored statistics with those of the vectors (T, D) of all frames.

    Raises:
        EmbodiedError: one differs; names its feature.
    """
    for name, values in vectors.items():
        found, wanted = statistics.get(name, {}), of_numbers(values)
        near = STATISTICS_NEAR * (wanted["max"] - wanted["min"]) + 1e-4 * np.abs(values).max(0) + 1e-6
        for kind in (kind for kind in EXACT if kind in found):
            told, margin = np.atleast_1d(found[kind]), near
            if told.shape != wanted[kind].shape or not (np.abs(told - wanted[kind]) <= margin).all():
                raise EmbodiedError(
                    f"'{path}' says {kind} of {name} is {_short(told)}; that of its frames is {_short(wanted[kind])}"
                )


def first_frame(row: EpisodeRow, camera: str, info: DatasetInfo) -> int:
    """Number of an episode's first frame in its film."""
    return round(row.video_starts[camera] * info.fps)


def _numbers(path: Path, table: pa.Table, name: str) -> np.ndarray:
    """A column of numbers (T,), NaN where a cell is empty."""
    column = table[name]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise EmbodiedError(f"'{path}' has {name} of type {column.type}; expected numbers")
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _short(values: np.ndarray) -> str:
    return listing(f"{value:.4g}" for value in values.ravel())
