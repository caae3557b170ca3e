"""Writing and reading datasets: the way there and back, and what is refused."""

from __future__ import annotations

import dataclasses
import json
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
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import ACTION, STATE, DatasetInfo
from embodied.storage.datasets.reader import open_dataset
from embodied.storage.datasets.statistics import of_images, of_numbers, pooled
from embodied.storage.datasets.writer import DatasetWriter
from embodied.storage.files import TEMPORARY

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


def replaced(path: Path, column: str, values: list[int | None]) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index(column), column, pa.array(values)), path)


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
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told_in_one_line_when_a_dataset_is_opened(damage: str, copied: Path) -> None:
    change, message = DAMAGES[damage]
    change(copied)
    with pytest.raises(EmbodiedError, match=message) as error:
        open_dataset(copied)
    assert "\n" not in str(error.value)


def test_a_film_with_fewer_frames_than_its_episodes_is_told_when_it_is_read(copied: Path) -> None:
    (copied / FILM_PATH).write_bytes((copied / FILM_PATH.replace("001", "002")).read_bytes())
    dataset = open_dataset(copied)
    with pytest.raises(
        EmbodiedError, match=r"file-001\.mp4' is truncated, damaged or not of 64 x 48 pixels: \d+ frames"
    ):
        list(dataset)


def test_a_playlist_in_place_of_a_film_is_not_followed(copied: Path) -> None:
    (copied / FILM_PATH).write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n")
    with pytest.raises(EmbodiedError, match="is truncated or damaged"):
        open_dataset(copied)
