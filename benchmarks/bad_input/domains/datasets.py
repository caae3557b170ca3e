"""Datasets in LeRobot's format: tables, films and JSON that are damaged, or contradict each other."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bad_input import examples, mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must
from embodied.storage.datasets.reader import open_dataset

FRAMES, EPISODES, TASKS = "data/*/*.parquet", "meta/episodes/*/*.parquet", "meta/tasks.parquet"
Result = list[tuple[str, list[list[float]], list[list[float]], list[float]]]
"""Of each episode: instruction, states, actions, brightness of its pictures."""


def read(path: Path) -> Result:
    """Everything that training reads of a dataset."""
    data = open_dataset(path)
    _ = data.statistics
    found: Result = []
    for episode in data:
        light = [float(frame.mean()) for frame in episode.images["view"]]
        found.append((episode.instruction, episode.state.tolist(), episode.action.tolist(), light))
    return found


def differs(good: Path, order: bool = True) -> Callable[[Result], str]:
    """Whether an accepted dataset is another than the valid one."""

    def wrong(result: Result) -> str:
        expected = read(good / "dataset")
        pairs = zip(*((result, expected) if order else (sorted(result), sorted(expected))), strict=False)
        if len(result) != len(expected):
            return f"{len(result)} episodes of {len(expected)}"
        for number, (found, known) in enumerate(pairs):
            for part, one, other in zip(("instruction", "states", "actions"), found, known, strict=False):
                if one != other and part != "instruction":
                    return f"episode {number} has other {part}: {str(one)[:60]}, not {str(other)[:60]}"
            if len(found[3]) != len(known[3]) or max(map(abs, np.subtract(found[3], known[3])), default=0.0) > 12:
                return f"episode {number} shows other pictures: {found[3]}, not {known[3]}"
        return ""

    return wrong


def attempt(box: Box, path: Path, what: str, must: Must = Must.EITHER, order: bool = True) -> Attempt:
    return Attempt(what, lambda: read(path), must, differs(box.good, order))


def damaged_file(rng: random.Random, box: Box) -> Attempt:
    """Bytes of one of its files are others."""
    path = box.copied("dataset")
    # Tables and films carry no sums: only what cuts them off is certain to show.
    file = rng.choice(mutate.files_of(path))
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data))])
    return attempt(box, path, f"{file.name} cut off")


def scrambled_file(rng: random.Random, box: Box) -> Attempt:
    """Other bytes somewhere: nothing but a refusal or an answer, which may be another, as files carry no sums."""
    path = box.copied("dataset")
    file = rng.choice(mutate.files_of(path))
    data, how = mutate.damaged(file.read_bytes(), rng)
    file.write_bytes(data)
    return Attempt(f"{file.name}: {how}", lambda: read(path))


def replaced(rng: random.Random, box: Box) -> Attempt:
    """Something else in the place of a file or folder."""
    path = box.copied("dataset")
    how = mutate.replaced(rng.choice([path, *sorted(path.rglob("*"))]), rng, box.precious)
    return attempt(box, path, how)


def other_info(rng: random.Random, box: Box) -> Attempt:
    """Another value in meta/info.json."""
    path = box.copied("dataset")
    how: list[str] = []

    def change(document: Any) -> Any:
        new, said = mutate.edited(document, rng)
        how.append(said)
        return new

    mutate.rewritten(path / "meta/info.json", change)
    return attempt(box, path, how[0])


def other_rate(rng: random.Random, box: Box) -> Attempt:
    """A rate that the frames' times, or the film, contradict."""
    path = box.copied("dataset")
    rate = rng.choice((1, 5, 9, 11, 15, 20, 30, 100, 9.99, 0.1, 1e9))
    mutate.rewritten(path / "meta/info.json", lambda document: document | {"fps": rate})
    return attempt(box, path, f"fps {rate}", Must.REFUSE)


def other_table(rng: random.Random, box: Box) -> Attempt:
    """A column of a table dropped, renamed, of another type, empty, shifted; rows out of order, doubled or missing."""
    path = box.copied("dataset")
    file = next(path.glob(rng.choice((FRAMES, EPISODES, TASKS))))
    table = pq.read_table(file)
    name = rng.choice(table.column_names)
    column = table.column(name)
    place = table.column_names.index(name)
    rows = list(range(len(table)))
    ways: dict[str, Callable[[], pa.Table]] = {
        "dropped": lambda: table.drop_columns([name]),
        "renamed": lambda: table.rename_columns([f"{n}2" if n == name else n for n in table.column_names]),
        "null": lambda: table.set_column(place, name, pa.nulls(len(table), column.type)),
        "one null": lambda: with_values(table, name, lambda v: [None, *v[1:]]),
        "texts": lambda: table.set_column(place, name, pa.array([str(v) for v in column.to_pylist()])),
        "reversed": lambda: with_values(table, name, lambda v: v[::-1]),
        "the first's": lambda: with_values(table, name, lambda v: [v[0]] * len(v)),
        "doubled": lambda: table.append_column(name, column),
        "rows missing": lambda: table.take(rows[: rng.randrange(len(rows))]),
        "a row twice": lambda: table.take([*rows, rng.choice(rows)]),
        "rows reversed": lambda: table.take(rows[::-1]),
        "rows shuffled": lambda: table.take(rng.sample(rows, len(rows))),
        "strange": lambda: with_values(table, name, lambda v: [spoilt(v[0], rng), *v[1:]]),
        "all strange": lambda: with_values(table, name, lambda v: [spoilt(one, rng) for one in v]),
    }
    way = rng.choice(sorted(ways))
    try:
        pq.write_table(ways[way](), file)
    except (pa.ArrowException, ValueError, OverflowError):
        pq.write_table(table.slice(0, 0), file)
        way = "no rows"
    used = ("observation.state", "action", "timestamp", "index", "frame_index", "episode_index", "task_index")
    # Other writers' columns are nobody's business, and other numbers of the robot are as good as these.
    if (
        file.match(FRAMES.replace("*/", "", 1))
        and way in ("strange", "all strange", "reversed", "the first's")
        and name in used[:2]
    ):
        return Attempt(f"{file.name}: {name} {way}", lambda: read(path), wrong=not_finite)
    statistic = name.startswith("stats/") or ("timestamp" not in name and name.startswith("embodied/"))
    if statistic or name in ("tasks", "task", "__index_level_0__") or file.name == "tasks.parquet":
        return Attempt(f"{file.name}: {name} {way}", lambda: read(path), wrong=not_finite)
    return attempt(box, path, f"{file.parent.parent.name} {file.name}: {name} {way}")


TYPES: tuple[Callable[[list[Any]], pa.Array], ...] = (
    lambda values: pa.array([[("a", 1.0)] for _ in values], pa.map_(pa.string(), pa.float32())),
    lambda values: pa.array([{"a": 1.0} for _ in values]),
    lambda values: pa.array([2**64 - 1 for _ in values], pa.uint64()),
    lambda values: pa.array([2**62 for _ in values], pa.timestamp("ns")),
    lambda values: pa.array([b"\xff" for _ in values]),
    lambda values: pa.array([str(value) for value in values]).dictionary_encode(),
    lambda values: pa.array(["False" for _ in values]),
    lambda values: pa.array([[1.0] * (2 - 4 * (index % 2) + 2) for index, _ in enumerate(values)]),
    lambda values: pa.array([[[1.0, 2.0]] for _ in values]),
    lambda values: pa.array([["a"] for _ in values]),
    lambda values: pa.array([0.5 for _ in values]),
    lambda values: pa.array([True for _ in values]),
    lambda values: pa.nulls(len(values)),
)
"""Columns of other types, of as many rows."""


def other_types(rng: random.Random, box: Box) -> Attempt:
    """A column of a type that its numbers, texts or places do not have."""
    path = box.copied("dataset")
    file = next(path.glob(rng.choice((FRAMES, EPISODES, TASKS))))
    table = pq.read_table(file)
    name = rng.choice(table.column_names)
    made = rng.choice(TYPES)(table.column(name).to_pylist())
    pq.write_table(table.set_column(table.column_names.index(name), name, made), file)
    return Attempt(f"{file.name}: {name} of {made.type}", lambda: read(path), wrong=not_finite)


def with_values(table: pa.Table, name: str, change: Callable[[list[Any]], list[Any]]) -> pa.Table:
    """With other values in a column, of its type where they fit."""
    column = table.column(name)
    values = change(column.to_pylist())
    try:
        made = pa.array(values, column.type)
    except (pa.ArrowException, TypeError, OverflowError):
        made = pa.array(values)
    return table.set_column(table.column_names.index(name), name, made)


def spoilt(value: Any, rng: random.Random) -> Any:
    """Another value for a cell."""
    if isinstance(value, list) and value and rng.random() < 0.8:
        index = rng.randrange(len(value))
        return rng.choice(
            ([*value[:index], rng.choice((float("nan"), float("inf"), 1e30, None)), *value[index + 1 :]], value[1:], [])
        )
    return mutate.other_value(rng, value)


def not_finite(result: Result) -> str:
    """Whether a robot's numbers were taken that are none."""
    for _, states, actions, _ in result:
        if not (np.isfinite(states).all() and np.isfinite(actions).all()):
            return "accepted numbers that are not finite"
    return ""


def other_film(rng: random.Random, box: Box) -> Attempt:
    """A film of another size, rate or length, or of another dataset."""
    path = box.copied("dataset")
    film = next(path.rglob("*.mp4"))
    frames = np.stack([frame for frame in imageio.get_reader(film, "ffmpeg")])  # type: ignore[call-overload]
    way = rng.choice(("size", "rate", "longer", "shorter", "other", "picture", "dark"))
    rate = examples.FPS
    if way == "size":
        frames = frames[:, :, :8] if rng.random() < 0.5 else frames.repeat(2, 1).repeat(2, 2)
    elif way == "rate":
        rate = rng.choice((5, 20, 30))
    elif way == "longer":
        frames = np.concatenate([frames, *[frames[:1]] * rng.randrange(1, 5)])
    elif way == "shorter":
        frames = frames[: rng.randrange(1, len(frames))]
    elif way == "picture":
        shutil.copy(box.good / "photo.png", film)
        return attempt(box, path, "a picture for a film", Must.REFUSE)
    elif way == "other":
        frames = frames[::-1].copy()
        written(film, frames, rate)
        return Attempt("a film that is played backwards", lambda: read(path))
    elif way == "dark":
        film.write_bytes(b"\0" * len(film.read_bytes()))
        return attempt(box, path, "zeros for a film", Must.REFUSE)
    written(film, frames, rate)
    return attempt(box, path, f"a film of another {way}", Must.EITHER if way == "longer" else Must.REFUSE)


def written(film: Path, frames: np.ndarray, rate: int) -> None:
    """Write a film."""
    imageio.mimwrite(film, list(frames), fps=rate, codec="libx264", macro_block_size=1)  # type: ignore[arg-type]


def other_starts(rng: random.Random, box: Box) -> Attempt:
    """Places of episodes, in tables and films, that are not theirs."""
    path = box.copied("dataset")
    file = next(path.glob(EPISODES))
    table = pq.read_table(file)
    names = [
        n
        for n in table.column_names
        if n.endswith(
            ("from_timestamp", "dataset_from_index", "dataset_to_index", "length", "chunk_index", "file_index")
        )
    ]
    name = rng.choice(names)
    row = rng.randrange(len(table))
    shift = rng.choice((-1, 1, 2, 0.1, -0.1, 0.5, 1000, -(2**40), 1e30, float("nan"), float("inf")))

    def change(values: list[Any]) -> list[Any]:
        new = values[row] + shift
        kept = isinstance(values[row], int) and new == new and abs(new) < 2**62
        return [*values[:row], (int(new) if kept else new), *values[row + 1 :]]

    changed = with_values(table, name, change)
    if changed.column(name).to_pylist() == table.column(name).to_pylist():
        return attempt(box, path, f"{name} of episode {row} as it was", Must.WORK)
    pq.write_table(changed, file)
    must = Must.EITHER if name.startswith("meta/") else Must.REFUSE
    if name.endswith(("from_timestamp", "to_index", "chunk_index", "file_index")):
        must = Must.EITHER  # what is read is compared
    return attempt(box, path, f"{name} of episode {row} + {shift}", must)


def unusual_place(rng: random.Random, box: Box) -> Attempt:
    """A valid dataset in a folder of an unusual name, or with files of others beside its own."""
    path = box.copied("dataset", rng.choice(("with space", "ключ", "a" * 200, "[1]", "*", "{x}", "%d", "'q'")))
    if rng.random() < 0.5:
        (path / rng.choice(("notes.txt", ".DS_Store", "meta/info.json.bak", "data/readme.md"))).write_text("notes")
    return attempt(box, path, path.name[-60:], Must.WORK)


def other_statistics(rng: random.Random, box: Box) -> Attempt:
    """Statistics that are not those of the frames."""
    path = box.copied("dataset")
    how: list[str] = []

    def change(document: Any) -> Any:
        new, said = mutate.edited(document, rng)
        how.append(said)
        return new

    mutate.rewritten(path / "meta/stats.json", change)
    return attempt(box, path, how[0])


def what_is_wanted(rng: random.Random, box: Box) -> Attempt:
    """A valid dataset opened with expectations that it does not meet."""
    path = box.copied("dataset")
    options: dict[str, Any] = rng.choice(
        (
            {"cameras": ("front",)},
            {"cameras": ("view", "view2")},
            {"size": (32, 32)},
            {"fps": rng.choice((0, -1, 5, 11, 30))},
            {"state_size": rng.choice((0, 1, 3, -1))},
            {"action_size": rng.choice((0, 2, 7, 10**9))},
        )
    )
    return Attempt(json.dumps(options), lambda: open_dataset(path, **options), Must.REFUSE)


KINDS: Kinds = {
    "cut off": damaged_file,
    "scrambled file": scrambled_file,
    "something in its place": replaced,
    "other info": other_info,
    "other rate": other_rate,
    "other table": other_table,
    "other types": other_types,
    "other starts": other_starts,
    "other film": other_film,
    "other statistics": other_statistics,
    "unusual place": unusual_place,
    "not what is wanted": what_is_wanted,
}
