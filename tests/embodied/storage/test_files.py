"""Files from outside: only regular ones are read, and no JSON is deep enough to end the program."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from embodied.errors import EmbodiedError
from embodied.storage import checkpoints
from embodied.storage.datasets.reader import open_dataset
from embodied.storage.files import read_file, read_json
from embodied.storage.runs import Run

DEEP = b"[" * 100_000 + b"]" * 100_000


def in_time(call: Callable[[], object], seconds: float = 20.0) -> BaseException | None:
    """What a call raises; a call that does not return fails the test."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except Exception as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert raised, "it hangs"
    return raised[0]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def deep(path: Path) -> None:
    path.write_bytes(DEEP)


def empty(path: Path) -> None:
    path.write_bytes(b"")


READERS = {
    "run": ("config.json", Run.open),
    "checkpoint": (checkpoints.STATE, checkpoints.load),
    "dataset": ("meta/info.json", open_dataset),
}


@pytest.mark.parametrize("make", [pipe, folder, deep, empty], ids=lambda make: make.__name__)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_in_one_line(reader, make, tmp_path):
    name, read = READERS[reader]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    make(path)
    error = in_time(lambda: read(tmp_path))
    assert isinstance(error, EmbodiedError)
    assert "\n" not in str(error)
    assert str(tmp_path) in str(error)


def test_devices_are_no_files():
    with pytest.raises(OSError, match="no regular file"):
        read_file(Path("/dev/zero"))


def test_json_may_not_be_deep(tmp_path):
    deep(tmp_path / "deep.json")
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "deep.json")


@pytest.mark.parametrize(
    ("feature", "shape"), [("action", [10**12]), ("action", ["4"]), ("action", [-1]), ("image", [10**9, 4, 3])]
)
def test_a_dataset_of_impossible_size_is_refused_before_it_is_built(feature, shape, tmp_path):
    vector = {"dtype": "float32", "shape": [4], "names": None}
    image = {"dtype": "video", "shape": [8, 8, 3], "names": None}
    features = {"observation.images.front": image, "observation.state": vector, "action": vector}
    key = "observation.images.front" if feature == "image" else feature
    features[key] = features[key] | {"shape": shape}
    document = {
        "codebase_version": "v3.0",
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "chunks_size": 1000,
        "fps": 10,
        "features": features,
        "total_episodes": 1,
        "total_frames": 1,
        "total_tasks": 1,
    }
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text(json.dumps(document))
    error = in_time(lambda: open_dataset(tmp_path))
    assert isinstance(error, EmbodiedError)
    assert "does not fit" in str(error)
