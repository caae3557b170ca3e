"""The Parquet tables of a dataset: frames, episodes and instructions. pyarrow alone, without pandas."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from embodied.core.hooks import shown
from embodied.errors import EmbodiedError, listing, reason
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import IMAGES, NEAR, DatasetInfo, chunk_and_file
from embodied.storage.datasets.statistics import Statistics
from embodied.storage.files import require_regular

OWN = "embodied/"  # before the names of our own columns
STATISTICS = "stats"  # before those of an episode's statistics
COUNTS = ("seed", "tried")
"""Own columns that may have empty cells."""
INSTRUCTION = "task"  # LeRobot's word for an instruction


@dataclasses.dataclass(frozen=True)
class EpisodeRow:
    """Place and properties of an episode."""

    task: str
    """Registered name of the task; empty where another program wrote the dataset."""
    instruction: str
    length: int
    """Frames."""
    first: int
    """Number of its first frame in the dataset."""
    data_file: int
    """Number of the file of frames, counted over all chunks."""
    video_files: Mapping[str, int]
    """Camera -> number of the video."""
    video_starts: Mapping[str, float]
    """Camera -> s into the video at which the episode begins."""
    success: bool
    seed: int | None
    noise: float
    """Standard deviation of the noise on its actions."""
    tried: int | None = None
    """Episodes of its task that were tried up to this one; None if another program recorded it."""


def frame_table(episode: Episode, info: DatasetInfo, number: int, first: int, instruction: int) -> pa.Table:
    """The frames of an episode but for its images: episode `number`, its first frame number `first`."""
    length = len(episode)
    steps = np.arange(length)
    columns = {
        **{name: _vectors(episode.vectors[name]) for name in info.vectors},
        "timestamp": pa.array((steps / info.fps).astype(np.float32)),
        "frame_index": pa.array(steps),
        "episode_index": pa.array(np.full(length, number)),
        "index": pa.array(first + steps),
        "task_index": pa.array(np.full(length, instruction)),
    }
    return pa.table(columns)


def _vectors(values: np.ndarray) -> pa.Array:
    """(T, D) float32 as lists of D; of one number each LeRobot keeps the number itself."""
    flat = pa.array(np.ascontiguousarray(values, np.float32).ravel())
    return flat if values.shape[1] == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def episode_table(
    rows: Sequence[EpisodeRow], statistics: Sequence[Mapping[str, Statistics]], info: DatasetInfo, number: int = 0
) -> pa.Table:
    """`meta/episodes`: a row for each episode from a `number` on, with the statistics of each of its features."""
    columns: dict[str, list[Any]] = {
        "episode_index": list(range(number, number + len(rows))),
        "tasks": [[row.instruction] for row in rows],
        "length": [row.length for row in rows],
        "dataset_from_index": [row.first for row in rows],
        "dataset_to_index": [row.first + row.length for row in rows],
        **_places("data", [row.data_file for row in rows]),
        **_places("meta/episodes", [0] * len(rows)),
    }
    for camera in info.cameras:
        key, starts = f"videos/{IMAGES}{camera}", [row.video_starts[camera] for row in rows]
        columns |= _places(key, [row.video_files[camera] for row in rows])
        columns[f"{key}/from_timestamp"] = starts
        columns[f"{key}/to_timestamp"] = [
            start + row.length / info.fps for start, row in zip(starts, rows, strict=True)
        ]
    for feature, kinds in statistics[0].items():
        columns |= {
            f"{STATISTICS}/{feature}/{kind}": [part[feature][kind].tolist() for part in statistics] for kind in kinds
        }
    own = {f"{OWN}{name}": [getattr(row, name) for row in rows] for name in ("task", "success", "noise")}
    counts = {f"{OWN}{name}": pa.array([getattr(row, name) for row in rows], pa.int64()) for name in COUNTS}
    return pa.table({**columns, **own, **counts})


def _places(key: str, files: Sequence[int]) -> dict[str, list[int]]:
    """The columns with the files of the episodes."""
    return {f"{key}/{part}": [chunk_and_file(index)[part] for index in files] for part in chunk_and_file(0)}


def instruction_table(instructions: Sequence[str]) -> pa.Table:
    """`meta/tasks.parquet`: numbers, indexed by instruction as pandas does, which LeRobot reads it with."""
    table = pa.table({"task_index": list(range(len(instructions))), INSTRUCTION: list(instructions)})
    described = [("task_index", "int64", "int64"), (INSTRUCTION, "unicode", "object")]
    pandas = {
        "index_columns": [INSTRUCTION],
        "column_indexes": [],
        "columns": [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy, "metadata": None}
            for name, kind, numpy in described
        ],
        "pandas_version": "2.2.0",
    }
    return table.replace_schema_metadata({b"pandas": json.dumps(pandas).encode()})


def read_instructions(path: Path) -> list[str]:
    """Instructions by number.

    Raises:
        EmbodiedError: the table is missing or not what it should be.
    """
    table = read_table(path, ("task_index",))
    names = [name for name in table.column_names if name != "task_index"]
    if not names:
        raise EmbodiedError(f"'{path}' names no instructions; its columns are {listing(table.column_names)}")
    for name, fits in (("task_index", _is_count), (names[0], _is_text)):
        if not fits(kind := table[name].type):
            raise EmbodiedError(f"'{path}' has {name} of type {kind}, unlike LeRobot")
    numbers, texts = table["task_index"].to_pylist(), table[names[0]].to_pylist()
    if sorted(map(str, numbers)) != sorted(map(str, range(len(texts)))) or None in texts:
        raise EmbodiedError(f"'{path}' does not number texts from 0: {listing(numbers)}, {listing(texts)}")
    return [text for _, text in sorted(zip(numbers, texts, strict=True))]


def read_episodes(paths: Sequence[Path], info: DatasetInfo, chunk: int) -> list[EpisodeRow]:
    """The rows of `meta/episodes`, in the order of the episodes; `chunk` files are in a folder.

    Raises:
        EmbodiedError: a table is missing or not what it should be.
    """
    place = tuple(chunk_and_file(0))
    videos = [f"videos/{IMAGES}{camera}/{part}" for camera in info.cameras for part in (*place, "from_timestamp")]
    needed = ["episode_index", "tasks", "length", "dataset_from_index", *(f"data/{part}" for part in place), *videos]
    ends = ["dataset_to_index", *(f"videos/{IMAGES}{camera}/to_timestamp" for camera in info.cameras)]
    more = [*(f"{OWN}{name}" for name in ("task", "success", "noise", *COUNTS)), *ends]
    rows: list[tuple[Path, dict[str, Any]]] = []
    for path in paths:
        table = read_table(path, needed)
        chosen = table.select([*needed, *(name for name in more if name in table.column_names)])
        filled = [name for name in chosen.column_names if name.removeprefix(OWN) not in COUNTS]
        if empty := [name for name in filled if chosen[name].null_count]:
            raise EmbodiedError(f"'{path}' leaves cells of {listing(empty)} empty")
        for name in chosen.column_names:
            if not _KINDS.get(name.rpartition("/")[2], _is_count)(kind := chosen[name].type):
                raise EmbodiedError(
                    f"'{path}' has {name} of type {kind}, unlike {'ours' if OWN in name else 'LeRobot'}"
                )
        rows += [(path, row) for row in chosen.to_pylist()]
    rows.sort(key=lambda item: item[1]["episode_index"])
    first = 0
    for number, (path, row) in enumerate(rows):
        _check_row(path, row, number, first, info)
        first += row["length"]

    def file(row: Mapping[str, Any], key: str) -> int:
        return row[f"{key}/chunk_index"] * chunk + row[f"{key}/file_index"]

    return [
        EpisodeRow(
            task=row.get(f"{OWN}task") or "",
            instruction=row["tasks"][0] if row["tasks"] else "",
            length=row["length"],
            first=row["dataset_from_index"],
            data_file=file(row, "data"),
            video_files={camera: file(row, f"videos/{IMAGES}{camera}") for camera in info.cameras},
            video_starts={camera: row[f"videos/{IMAGES}{camera}/from_timestamp"] for camera in info.cameras},
            # Others' demonstrations are meant to be followed, or they would not have been kept.
            success=bool(row.get(f"{OWN}success", True)),
            seed=row.get(f"{OWN}seed"),
            noise=row.get(f"{OWN}noise") or 0.0,
            tried=row.get(f"{OWN}tried"),
        )
        for _, row in rows
    ]


def _is_count(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_null(kind)  # null: of a column of empty cells


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


_KINDS = {
    "tasks": _is_list,
    "from_timestamp": pa.types.is_floating,
    "to_timestamp": pa.types.is_floating,
    "task": _is_text,
    "success": pa.types.is_boolean,
    "noise": pa.types.is_floating,
}
"""Type of columns that are not whole numbers."""


def _check_row(path: Path, row: Mapping[str, Any], number: int, first: int, info: DatasetInfo) -> None:
    """Check the row that should be that of episode `number`, whose first frame is `first`.

    Raises:
        EmbodiedError: it is another's, or its length, frames and times do not belong together.
    """
    length = row["length"]
    wanted = {"episode_index": number, "length": max(length, 1), "dataset_from_index": first}
    for name, value in {**wanted, "dataset_to_index": first + length}.items():
        if row.get(name, value) != value:
            raise EmbodiedError(f"'{path}' says {name} {row[name]} of episode {number}; expected {value}")
    for camera in info.cameras:
        key = f"videos/{IMAGES}{camera}"
        begin, end = row[f"{key}/from_timestamp"], row.get(f"{key}/to_timestamp")
        frames = begin * info.fps
        if not (math.isfinite(frames) and frames > -NEAR and abs(frames - round(frames)) <= NEAR):
            raise EmbodiedError(
                f"'{path}' says {key}/from_timestamp {begin} of episode {number}; expected a multiple of "
                f"{1 / info.fps:g} s, 0 or more"
            )
        if end is not None and not abs((end - begin) * info.fps - length) <= NEAR:
            raise EmbodiedError(
                f"'{path}' says {key}/to_timestamp {end} of episode {number}; expected {begin + length / info.fps:g}: "
                f"{length} frames at {info.fps} Hz"
            )


def read_statistics(paths: Sequence[Path]) -> list[dict[str, Statistics]]:
    """Of each episode in the tables of `episode_table`.

    Raises:
        EmbodiedError: a table is missing or damaged, or one is no array of numbers.
    """
    found: list[dict[str, Statistics]] = []
    for path in paths:
        table = read_table(path, ())
        names = [name for name in table.column_names if name.startswith(f"{STATISTICS}/")]
        for row in table.select(names).to_pylist():
            found.append({})
            for name, value in row.items():
                feature, _, kind = name.removeprefix(f"{STATISTICS}/").rpartition("/")
                found[-1][feature] = {**found[-1].get(feature, {}), kind: _statistic(path, name, value)}
    return found


def _statistic(path: Path, name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "iuf":
        raise EmbodiedError(f"'{path}' has {name} {shown(value)}; expected an array of numbers")
    return array


def read_table(path: Path, needed: Sequence[str]) -> pa.Table:
    """A Parquet file with at least some columns.

    Raises:
        EmbodiedError: it is missing, damaged, or lacks some; lists those that it has.
    """
    try:
        require_regular(path)
        table = pq.ParquetFile(path).read()
    except FileNotFoundError:
        raise EmbodiedError(f"the table '{path}' is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise EmbodiedError(f"the table '{path}' is truncated or damaged: {reason(error).splitlines()[0]}") from error
    if len(set(table.column_names)) < len(table.column_names):
        raise EmbodiedError(f"'{path}' has two columns of one name; its columns are {listing(table.column_names)}")
    if missing := [name for name in needed if name not in table.column_names]:
        raise EmbodiedError(f"'{path}' lacks {listing(missing)}; its columns are {listing(table.column_names)}")
    return table


def matrix(column: pa.ChunkedArray, size: int) -> np.ndarray:
    """(T, size) float32 of a column of lists, which may hold lists, or of numbers.

    Raises:
        ValueError: the lists are of another length, or of something else than numbers.
    """
    values = column.combine_chunks()
    while _is_list(values.type):
        lengths = pc.list_value_length(values).unique().to_pylist()  # pyright: ignore[reportAttributeAccessIssue]
        if len(lengths) != 1 or None in lengths:
            raise ValueError(f"a column has lists of {listing(lengths)} numbers, expected {size} in each row")
        values = values.flatten()
    if not pa.types.is_floating(values.type) and not pa.types.is_integer(values.type):
        raise ValueError(f"a column is of type {column.type}, expected {size} numbers in each row")
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float32).reshape(len(column), size)
