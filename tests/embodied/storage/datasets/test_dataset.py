"""Writing and reading datasets: the way there and back, and what is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embodied.errors import EmbodiedError
from embodied.storage.datasets import layout
from embodied.storage.datasets import writer as writing
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import ACTION, STATE, DatasetInfo
from embodied.storage.datasets.reader import open_dataset
from embodied.storage.datasets.statistics import of_images, of_numbers, pooled
from embodied.storage.datasets.writer import DatasetWriter
from embodied.storage.files import TEMPORARY
from embodied.viewer.film import VideoWriter
from tests.kit.commands import contents

FPS = 20
INFO = DatasetInfo(FPS, ("front", "wrist"), (64, 48), ("x", "y", "z"), ("push", "turn"), ("thing", "goal"))
LENGTHS = (12, 30, 7, 25)
FILM = 2.0  # s, so that the four episodes need three files


def episode(length: int, number: int) -> Episode:
    """Smooth pictures that say which step they are of, by a bar that grows."""
    rng = np.random.default_rng(number)
    rows, columns = np.mgrid[:48, :64]
    picture = np.stack([2 * columns + 20 * number, 3 * rows, 90 + columns + rows], axis=-1)
    front = np.repeat(picture[None], length, axis=0)
    for step in range(length):
        front[step, :8, : 2 * step + 2] = 255
    front = np.clip(front, 0, 255).astype(np.uint8)
    return Episode(
        task="manipulation/push" if number % 2 else "manipulation/reach",
        instruction=("push it", "reach it", "bring it there")[number % 3],
        images={"front": front, "wrist": 255 - front},
        state=rng.normal(size=(length, 3)).astype(np.float32),
        action=rng.uniform(-1, 1, (length, 2)).astype(np.float32),
        success=number != 2,
        seed=None if number == 3 else 40 + number,
        keypoints={camera: rng.uniform(-1, 2, (length, 4)).astype(np.float32) for camera in ("front", "wrist")},
    )


EPISODES = [episode(length, number) for number, length in enumerate(LENGTHS)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets") / "pushes"
    with DatasetWriter(folder, INFO, longest_video=FILM) as writer:
        for number, each in enumerate(EPISODES):
            writer.add(each, noise=0.1 * number)
    return folder


@pytest.fixture
def copied(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "copy"))


def test_numbers_and_words_come_back_exactly_and_pictures_nearly(written: Path) -> None:
    dataset = open_dataset(written)
    assert len(dataset) == len(EPISODES)
    assert len({row.data_file for row in dataset.rows}) == 3
    for before, after, row in zip(EPISODES, dataset, dataset.rows, strict=True):
        np.testing.assert_array_equal(after.state, before.state)
        np.testing.assert_array_equal(after.action, before.action)
        told = [(each.task, each.instruction, each.success, each.seed) for each in (before, after)]
        assert told[0] == told[1]
        assert row.noise == pytest.approx(0.1 * dataset.rows.index(row))
        assert set(after.images) == {"front", "wrist"}
        for camera, frames in before.images.items():
            np.testing.assert_array_equal(after.keypoints[camera], before.keypoints[camera])
            assert after.images[camera].dtype == np.uint8
            assert np.abs(frames.astype(int) - after.images[camera]).mean() < 4


def test_any_step_is_found_alone(written: Path) -> None:
    """Each step is nearest to its own picture, also behind other episodes in a film and away from whole frames."""
    dataset = open_dataset(written, cameras=("wrist",))
    for index, step in ((0, 0), (0, 11), (1, 29), (2, 3), (3, 24)):
        alone = dataset.part(index, step, step + 1)
        assert len(alone) == 1
        assert set(alone.images) == {"wrist"}
        np.testing.assert_array_equal(alone.state, EPISODES[index].state[step : step + 1])
        np.testing.assert_array_equal(alone.keypoints["wrist"], EPISODES[index].keypoints["wrist"][step : step + 1])
        frames = EPISODES[index].images["wrist"].astype(int)
        distances = np.abs(frames - alone.images["wrist"].astype(int)).mean(axis=(1, 2, 3))
        assert int(distances.argmin()) == step


def test_an_episode_is_the_same_alone_and_in_the_row(written: Path) -> None:
    dataset = open_dataset(written)
    for index, each in enumerate(dataset):
        np.testing.assert_array_equal(dataset[index].images["front"], each.images["front"])
        states, actions = dataset.numbers(index)
        np.testing.assert_array_equal(states, each.state)
        np.testing.assert_array_equal(actions, each.action)


def test_what_lerobot_needs_is_there(written: Path) -> None:
    """Its paths, and columns of the frames' and episodes' tables that agree with each other."""
    info = json.loads((written / layout.INFO).read_text())
    assert (info["codebase_version"], info["fps"], info["total_episodes"]) == ("v3.0", FPS, len(LENGTHS))
    assert info["features"]["observation.images.front"]["shape"] == [48, 64, 3]
    frames = [pq.read_table(path) for path in sorted((written / "data").glob("*/*.parquet"))]
    assert set(frames[0].column_names) == {name for name, kind in info["features"].items() if kind["dtype"] != "video"}
    index = np.concatenate([table["index"].to_numpy() for table in frames])
    np.testing.assert_array_equal(index, np.arange(sum(LENGTHS)))
    episodes = pq.read_table(written / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [row["dataset_to_index"] - row["dataset_from_index"] for row in episodes] == list(LENGTHS)
    for row, each in zip(episodes, EPISODES, strict=True):
        assert row["tasks"] == [each.instruction]
        film = "videos/observation.images.front"
        assert (written / layout.VIDEO_PATH.format(
            video_key="observation.images.front",
            chunk_index=row[f"{film}/chunk_index"], file_index=row[f"{film}/file_index"],
        )).exists()  # fmt: skip
        assert row[f"{film}/to_timestamp"] - row[f"{film}/from_timestamp"] == pytest.approx(len(each) / FPS)
        assert np.shape(row["stats/observation.images.front/mean"]) == (3, 1, 1)


def test_statistics_of_episodes_pool_to_those_of_all_frames(written: Path) -> None:
    statistics = open_dataset(written).statistics
    states = np.concatenate([each.state for each in EPISODES])
    for name, expected in (("mean", states.mean(0)), ("std", states.std(0)), ("min", states.min(0))):
        np.testing.assert_allclose(statistics[STATE][name], expected, rtol=1e-5, atol=1e-6)
    images = np.concatenate([each.images["front"] for each in EPISODES]) / 255
    for name in ("mean", "std", "min", "max"):
        expected = getattr(images, name)(axis=(0, 1, 2)).reshape(3, 1, 1)
        np.testing.assert_allclose(statistics["observation.images.front"][name], expected, atol=1e-6)
    assert statistics[ACTION]["count"] == sum(LENGTHS)


def test_quantiles_of_images_are_those_of_their_values() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), np.uint8)
    plain = of_numbers(frames.reshape(-1, 3) / 255)
    for name, value in of_images(frames).items():
        if name != "count":
            np.testing.assert_allclose(value.ravel(), plain[name], atol=1 / 255)
    assert pooled([of_images(frames)])["count"] == 5


def test_nothing_is_overwritten(written: Path) -> None:
    with pytest.raises(EmbodiedError, match="exists, and nothing is overwritten"):
        DatasetWriter(written, INFO)


def test_an_unfinished_dataset_is_not_there_and_says_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "pushes"
    writer = DatasetWriter(folder, INFO)
    writer.add(EPISODES[0])
    (unfinished,) = tmp_path.iterdir()
    assert unfinished.name.startswith(TEMPORARY)
    with pytest.raises(EmbodiedError, match=r"is unfinished or no dataset: it has no meta/info\.json"):
        open_dataset(unfinished)
    writer.discard()
    assert not list(tmp_path.iterdir())
    wrong = dataclasses.replace(EPISODES[1], state=EPISODES[1].state[:, :1])
    with pytest.raises(EmbodiedError, match="an episode has sizes"), DatasetWriter(folder, INFO) as writer:
        [writer.add(each) for each in (EPISODES[0], wrong)]
    assert not list(tmp_path.iterdir())


def test_what_a_killed_writer_left_goes_with_the_next_one_and_what_another_writes_stays(tmp_path: Path) -> None:
    folder = tmp_path / "pushes"
    remains = tmp_path / f"{TEMPORARY}pushes-01234567"
    (remains / "data").mkdir(parents=True)
    with DatasetWriter(folder, INFO) as writer:
        assert not remains.exists()
        (at_work,) = tmp_path.iterdir()
        with pytest.raises(EmbodiedError, match="no episodes were recorded"), DatasetWriter(folder, INFO):
            assert at_work.exists()
        writer.add(EPISODES[0])
    assert [path.name for path in tmp_path.iterdir()] == ["pushes"]


@pytest.fixture
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files end after so few frames that the four episodes need two."""
    monkeypatch.setattr(writing, "MOST_FRAMES", 40)


ENDS: dict[str, BaseException | None] = {"stopped": None, "ended": KeyboardInterrupt(), "refused": EmbodiedError("no")}


@pytest.mark.usefixtures("short_files")
@pytest.mark.parametrize("end", ENDS)
def test_a_dataset_that_goes_on_is_that_of_one_process_byte_by_byte(end: str, tmp_path: Path) -> None:
    folder, origin = tmp_path / "pushes", {"seed": 3}
    with DatasetWriter(tmp_path / "whole", INFO, origin=origin) as writer:
        [writer.add(each, tried=number + 1) for number, each in enumerate(EPISODES)]
    lost = []
    for count in (1, 2, 3, 4):
        with (
            contextlib.suppress(KeyboardInterrupt, EmbodiedError),
            DatasetWriter(folder, INFO, origin=origin, resume=True) as writer,
        ):
            lost.append(count - 1 - len(writer.rows))
            for number in range(len(writer.rows), count):
                writer.add(EPISODES[number], tried=number + 1)
            if count < 4 and (error := ENDS[end]) is not None:
                raise error
    assert lost == [0, 1, 0, 1]  # what was in a file that had room for more is written anew
    assert contents(folder) == contents(tmp_path / "whole")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["pushes", "whole"]


@pytest.mark.usefixtures("short_files")
def test_what_is_gone_on_with_and_stopped_again_has_no_fewer_episodes(tmp_path: Path) -> None:
    folder = tmp_path / "pushes"
    with DatasetWriter(folder, INFO) as writer:
        [writer.add(each) for each in EPISODES[:3]]
    before = contents(folder)
    with DatasetWriter(folder, INFO, resume=True) as writer:
        assert len(writer.rows) == 2
    assert contents(folder) == before
    with pytest.raises(KeyboardInterrupt), DatasetWriter(folder, INFO, resume=True) as writer:
        raise KeyboardInterrupt
    with DatasetWriter(folder, INFO, resume=True) as writer:
        assert len(writer.rows) == 2
        writer.add(EPISODES[2])
    assert contents(folder) == before


@pytest.mark.usefixtures("short_files")
def test_what_was_left_is_not_lost_by_a_command_that_does_not_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "pushes"
    with contextlib.suppress(KeyboardInterrupt), DatasetWriter(folder, INFO, origin={"seed": 3}) as writer:
        [writer.add(each) for each in EPISODES[:2]]
        raise KeyboardInterrupt
    with pytest.raises(EmbodiedError, match=r"a process that was ended left '.*\.tmp-pushes-.*'; go on with --resume"):
        DatasetWriter(folder, INFO)
    with pytest.raises(EmbodiedError, match="was begun with seed 3, not 4; go on with the same"):
        DatasetWriter(folder, INFO, origin={"seed": 4}, resume=True)
    with DatasetWriter(folder, INFO, origin={"seed": 3}, resume=True) as writer:
        assert len(writer.rows) == 2
        with pytest.raises(EmbodiedError, match="is being written by another process"):
            DatasetWriter(folder, INFO, origin={"seed": 3}, resume=True)


def test_a_dataset_without_episodes_is_none(tmp_path: Path) -> None:
    with pytest.raises(EmbodiedError, match="no episodes were recorded"), DatasetWriter(tmp_path / "empty", INFO):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: {"images": {"front": each.images["front"]}}, "an episode has images"),
        (lambda each: {"action": each.action[:, :1]}, r"an episode has sizes .*'action': \(1,\).*'action': 2"),
        (lambda each: {"state": np.full_like(each.state, np.nan)}, "not finite"),
    ],
    ids=["cameras", "action", "nan"],
)
def test_an_episode_that_does_not_fit_is_refused(
    change: Callable[[Episode], dict[str, Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(EmbodiedError, match=message), DatasetWriter(tmp_path / "pushes", INFO) as writer:
        writer.add(dataclasses.replace(EPISODES[0], **change(EPISODES[0])))


def test_odd_sizes_and_unsafe_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbodiedError, match="63 x 48 pixels as video; expected even"):
        DatasetWriter(tmp_path / "odd", dataclasses.replace(INFO, size=(63, 48)))
    with pytest.raises(EmbodiedError, match=r"cameras '\.\./up' cannot be stored"):
        dataclasses.replace(INFO, cameras=("../up",))


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"cameras": ("side",)}, "has no camera side; it has front, wrist"),
        ({"fps": 80}, "its rate in Hz is 20, expected 80"),
        ({"action_size": 4}, "its length of an action is 2, expected 4"),
        ({"state_size": 11}, "its length of a state is 3, expected 11"),
        ({"size": (64, 64)}, r"width and height is \(64, 48\), expected \(64, 64\)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_expectations_are_refused(expected: dict[str, Any], message: str, written: Path) -> None:
    with pytest.raises(EmbodiedError, match=message):
        open_dataset(written, **expected)


def edited(folder: Path, **values: object) -> None:
    path = folder / layout.INFO
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def shortened(path: Path, share: float = 0.7) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])


def replaced(path: Path, column: str, values: Any) -> None:
    """Write other values, or what a function makes of those that there are."""
    table = pq.read_table(path)
    told = values(table[column].to_pylist()) if callable(values) else values
    array = told if isinstance(told, pa.Array) else pa.array(told)
    pq.write_table(table.set_column(table.column_names.index(column), column, array), path)


def of_frames(column: str, values: Any, file: int = 1) -> Callable[[Path], object]:
    """Other values in a column of the frames of a file."""
    return lambda at: replaced(layout.data_path(at, file), column, values)


def of_episodes(column: str, values: Any) -> Callable[[Path], object]:
    return lambda at: replaced(at / layout.EPISODES_PATH.format(**layout.chunk_and_file(0)), column, values)


def doubled(at: Path) -> None:
    """A column twice."""
    path = at / layout.TASKS
    table = pq.read_table(path)
    pq.write_table(table.append_column("task_index", table["task_index"]), path)


def with_nan(rows: list[list[float]]) -> list[list[float]]:
    return [*rows[:3], [rows[3][0], math.nan], *rows[4:]]


def filmed(at: Path, size: tuple[int, int], fps: float) -> None:
    """Another film in place of one: of other pictures, as many."""
    (at / FILM_PATH).unlink()
    with VideoWriter(at / FILM_PATH, fps) as film:
        for _ in range(37):
            film.add(np.zeros((size[1], size[0], 3), np.uint8))


def lying(at: Path, feature: str, **values: object) -> None:
    """Other statistics."""
    path = at / layout.STATS
    document = json.loads(path.read_text())
    document[feature] |= values
    path.write_text(json.dumps(document))


def featured(at: Path, feature: str, **values: object) -> None:
    """Other properties of a feature."""
    features = json.loads((at / layout.INFO).read_text())["features"]
    edited(at, features={**features, feature: features[feature] | values})


def bare_rate(at: Path) -> None:
    """Another rate, of which the features say nothing, as other writers do."""
    features = json.loads((at / layout.INFO).read_text())["features"]
    edited(at, fps=40, features={name: {**one, "info": None} for name, one in features.items()})


def shared_frames(at: Path) -> None:
    of_episodes(f"{FRONT}/from_timestamp", [0.0, 0.0, 1.0, 0.0])(at)
    of_episodes(f"{FRONT}/to_timestamp", [0.6, 1.5, 1.35, 1.25])(at)


def mapped(rows: list[list[float]]) -> pa.Array:
    return pa.array([[("a", 1.0)] for _ in rows], pa.map_(pa.string(), pa.float32()))


def ragged(rows: list[list[float]]) -> list[list[float]]:
    """As many numbers in all, another count in two rows."""
    return [[*rows[0], 0.0], rows[1][1:], *rows[2:]]


FRONT = "videos/observation.images.front"
FILM_PATH = "videos/observation.images.wrist/chunk-000/file-001.mp4"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "version": (lambda at: edited(at, codebase_version="v2.1"), "is of version 'v2.1'; this reads LeRobot's v3.0"),
    "paths": (lambda at: edited(at, video_path="/etc/{video_key}"), "video_path is '/etc/{video_key}', expected"),
    "counts": (lambda at: edited(at, total_frames=5), "lists 4 episodes of 74 frames; .* says 4 of 5"),
    "json": (lambda at: shortened(at / layout.INFO), "cannot read .*info.json"),
    "info": (lambda at: (at / layout.INFO).write_text('{"codebase_version": "v3.0"}'), "it lacks 'data_path'"),
    "film": (lambda at: shortened(at / FILM_PATH), "the video .*file-001.mp4' is truncated"),
    "no film": (lambda at: (at / FILM_PATH).unlink(), "the video .*file-001.mp4' is missing"),
    "frames": (lambda at: shortened(layout.data_path(at, 2)), "the table .*file-002.parquet' is truncated"),
    "no frames": (lambda at: layout.data_path(at, 0).unlink(), "the table .*file-000.parquet' is missing"),
    "no tasks": (lambda at: (at / layout.TASKS).unlink(), "the table .*tasks.parquet' is missing"),
    "texts": (lambda at: replaced(at / layout.TASKS, "task_index", [0, 0, 2]), "does not number texts from 0: 0, 0, 2"),
    "holes": (
        lambda at: replaced(at / layout.EPISODES_PATH.format(**layout.chunk_and_file(0)), "length", [12, None, 7, 25]),
        "leaves cells of length empty",
    ),
    "no episodes": (lambda at: shutil.rmtree(at / layout.EPISODES), "has no tables in meta/episodes"),
    "nothing": (shutil.rmtree, "does not exist"),
    "rate": (lambda at: edited(at, fps=40), "observation.images.front has video.fps 20, expected 40"),
    "rate, no film's": (bare_rate, r"says .*from_timestamp 0.6|to_timestamp"),
    "broken rate": (lambda at: edited(at, fps=19.98), "fps is 19.98, expected a whole number"),
    "size of a film": (lambda at: filmed(at, (48, 64), FPS), r"file-001.mp4' is 48 x 64 pixels; expected 64 x 48"),
    "rate of a film": (lambda at: filmed(at, (64, 48), 25), r"shows frame 2 at 0.08 s; expected 0.1 s, at 20 Hz"),
    "time in a film": (
        of_episodes(f"{FRONT}/from_timestamp", [0.0, 0.0, 1.25, 0.0]),
        "says .*to_timestamp 1.85 of episode 2; expected 1.6: 7 frames at 20 Hz",
    ),
    "between frames": (
        of_episodes(f"{FRONT}/from_timestamp", [0.02, 0.0, 1.5, 0.0]),
        "from_timestamp 0.02 of episode 0; expected a multiple of 0.05 s",
    ),
    "no time": (of_episodes(f"{FRONT}/from_timestamp", [math.nan, 0.0, 1.5, 0.0]), "from_timestamp nan of episode 0"),
    "shared frames": (shared_frames, r"episodes 1 and 2 share frames of '.*file-001.mp4': frame 20 is in both"),
    "timestamps": (of_frames("timestamp", lambda t: [2 * x for x in t]), "says timestamp 0.1 in row 1; expected 0.05"),
    "reversed": (of_frames("index", lambda t: t[::-1]), "says index 48 in row 0; expected 12"),
    "null": (of_frames("frame_index", lambda t: [None, *t[1:]]), "says frame_index nan in row 0; expected 0"),
    "words": (of_frames("index", lambda t: [str(x) for x in t]), "has index of type string; expected numbers"),
    "another's": (
        of_frames("episode_index", lambda t: [x + 1 for x in t]),
        "says episode_index 2 in row 0; expected 1",
    ),
    "no such task": (of_frames("task_index", lambda t: [7, *t[1:]]), "says task_index 7 in row 0; expected 0 to 2"),
    "another task": (
        of_frames("task_index", lambda t: [0 for _ in t]),
        "has task_index of 'push it' in episode 1; expected that of 'reach it'",
    ),
    "nan": (of_frames(ACTION, with_nan), "holds action nan in row 3, number 1; expected finite"),
    "infinite": (of_frames(STATE, lambda t: [[math.inf] * 3, *t[1:]]), "holds observation.state inf in row 0"),
    "twice": (of_episodes("episode_index", [0, 1, 1, 2]), "says episode_index 1 of episode 2; expected 2"),
    "lengths": (of_episodes("length", [12, 31, 6, 25]), "says dataset_to_index 42 of episode 1; expected 43"),
    "empty": (of_episodes("length", [12, 30, 0, 32]), "says length 0 of episode 2; expected 1"),
    "a column twice": (doubled, "has two columns of one name"),
    "words for lengths": (of_episodes("length", list("abcd")), "has length of type string, unlike LeRobot"),
    "statistics": (lambda at: lying(at, ACTION, mean=[0.0, 3.0]), r"stats.json' says mean of action is 0, 3; that of"),
    "shape of them": (lambda at: lying(at, STATE, std=[1.0]), "says std of observation.state is 1; that of its frames"),
    "endless rate": (lambda at: edited(at, fps=math.inf), "fps is inf, expected a whole number of at most"),
    "endless count": (lambda at: edited(at, total_frames=1e300), "total_frames is 1e.300, expected a whole number"),
    "no features": (lambda at: edited(at, features=[1]), "features are no table of tables"),
    "features of words": (lambda at: edited(at, features={ACTION: "a"}), "features are no table of tables"),
    "parts of pixels": (
        lambda at: featured(at, "observation.images.front", shape=[48.5, 64, 3]),
        "a side of observation.images.front is 48.5, expected a whole number",
    ),
    "endless pixels": (
        lambda at: featured(at, "observation.images.front", shape=[math.inf, 64, 3]),
        "a side of observation.images.front is inf, expected a whole number",
    ),
    "parts of numbers": (lambda at: featured(at, ACTION, shape=[True]), "the shape of action is True, expected"),
    "endless statistics": (lambda at: lying(at, ACTION, mean=[10**400, 0]), r"cannot read '.*stats.json'"),
    "a map": (of_frames(ACTION, mapped), "a column is of type map<.*>, expected 2 numbers in each row"),
    "ragged": (of_frames(ACTION, ragged), "a column has lists of 3, 1, 2 numbers, expected 2 in each row"),
    "words for numbers": (of_frames(ACTION, lambda t: [["a", "b"] for _ in t]), "a column is of type list<.*string>"),
    "large numbers": (
        of_frames("index", lambda t: pa.array([2**64 - 1, *t[1:]], pa.uint64())),
        r"says index 1.84467e\+19 in row 0; expected 12",
    ),
    "words for an end": (of_episodes(f"{FRONT}/to_timestamp", list("abcd")), "to_timestamp of type string, unlike"),
    "words for success": (of_episodes("embodied/success", ["False"] * 4), "success of type string, unlike ours"),
    "no success": (of_episodes("embodied/success", [True, None, True, True]), "cells of embodied/success empty"),
    "words for noise": (of_episodes("embodied/noise", list("abcd")), "embodied/noise of type string, unlike ours"),
    "parts of seeds": (of_episodes("embodied/seed", [0.5] * 4), "embodied/seed of type double, unlike ours"),
    "numbers for a task": (of_episodes("embodied/task", [1] * 4), "embodied/task of type int64, unlike ours"),
    "numbers for texts": (
        lambda at: replaced(at / layout.TASKS, "task", [1, 2, 3]),
        "has task of type int64, unlike LeRobot",
    ),
    "words for them": (lambda at: lying(at, STATE, std={"a": 1}), r"cannot read '.*stats.json'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told_in_one_line_when_a_dataset_is_opened(damage: str, copied: Path) -> None:
    change, message = DAMAGES[damage]
    change(copied)
    with pytest.raises(EmbodiedError, match=message) as error:
        open_dataset(copied)
    assert "\n" not in str(error.value)


def test_a_film_with_fewer_frames_than_its_episodes_is_told_when_it_is_opened_or_else_read(copied: Path) -> None:
    whole, short = copied / FILM_PATH, copied / FILM_PATH.replace("001", "002")
    dataset = open_dataset(copied)
    whole.write_bytes(short.read_bytes())
    with pytest.raises(
        EmbodiedError, match=r"file-001\.mp4' is truncated, damaged or not of 64 x 48 pixels: \d+ frames"
    ):
        list(dataset)
    with pytest.raises(EmbodiedError, match=r"file-001\.mp4' has 25 frames; its episodes need 37"):
        open_dataset(copied)


def test_a_playlist_in_place_of_a_film_is_not_followed(copied: Path) -> None:
    (copied / FILM_PATH).write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n")
    with pytest.raises(EmbodiedError, match="is truncated or damaged"):
        open_dataset(copied)
