"""LeRobot's dataset format v3.0: paths of its files, and `meta/info.json`.

    meta/info.json                                  features, rate, counts
    meta/stats.json                                 statistics of all frames
    meta/tasks.parquet                              instructions and their numbers
    meta/episodes/chunk-000/file-000.parquet        an episode a row: where it is, statistics, and columns of our own
    data/chunk-000/file-000.parquet                 a frame a row
    videos/observation.images.front/chunk-000/file-000.mp4

Many episodes share a file. Our own columns bear the prefix `embodied/`, which LeRobot's reader ignores.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied.core.hooks import shown
from embodied.errors import EmbodiedError, listing, reason
from embodied.storage.files import dumps, read_json

VERSION = "v3.0"
INFO, STATS, TASKS, EPISODES = "meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/episodes"
FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA_PATH = f"data/{FILE}.parquet"
VIDEO_PATH = f"videos/{{video_key}}/{FILE}.mp4"
EPISODES_PATH = f"{EPISODES}/{FILE}.parquet"
CHUNK = 1000  # files in a folder, LeRobot's
DATA_MB, VIDEO_MB = 100, 200  # LeRobot's largest files

STATE, ACTION, IMAGES = "observation.state", "action", "observation.images."
KEYPOINTS = "keypoints."
"""Prefix of a camera's name: image positions of things. Ours; no observation, or LeRobot's policies would read it."""
COUNTERS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Columns of every frame: s since the episode's start, index in the episode, of its episode, in the dataset, of its
instruction."""
CAMERA = re.compile(r"[A-Za-z0-9_-]+")  # names that are safe as part of a path
LARGEST_SIDE, LARGEST_VECTOR = 16384, 65536  # beyond, a file with false sizes would fill the memory
LARGEST = 2**53  # of any count: of larger ones neighbours are the same number to other programs
CODEC, PIXELS = "h264", "yuv420p"
NEAR = 0.25  # of a frame: times as near as this are the same


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """Features and rate of a dataset's frames, and counts."""

    fps: int
    """Hz, of frames and control steps."""
    cameras: tuple[str, ...]
    """In the order of the features."""
    size: tuple[int, int]
    """Width and height of all images, pixels."""
    state_names: tuple[str, ...]
    """Of the numbers of the group `proprio`."""
    action_names: tuple[str, ...]
    """Of the numbers of an action."""
    keypoint_names: tuple[str, ...] = ()
    """Of the things whose places in every camera's image are recorded."""
    episodes: int = 0
    frames: int = 0
    instructions: int = 0
    """Number of different ones."""

    def __post_init__(self) -> None:
        if wrong := [camera for camera in self.cameras if not CAMERA.fullmatch(camera)]:
            raise EmbodiedError(
                f"cameras {listing(map(repr, wrong))} cannot be stored: expected letters, digits, _ and -"
            )
        if not self.cameras or self.fps < 1:
            raise EmbodiedError(f"{len(self.cameras)} cameras at {self.fps} Hz; expected at least 1 of each")

    @property
    def vectors(self) -> dict[str, tuple[str, ...]]:
        """Feature -> names of its numbers."""
        places = tuple(f"{name}_{axis}" for name in self.keypoint_names for axis in "xy")
        seen = {KEYPOINTS + camera: places for camera in self.cameras} if places else {}
        return {STATE: self.state_names, ACTION: self.action_names, **seen}

    @property
    def state_size(self) -> int:
        return len(self.state_names)

    @property
    def action_size(self) -> int:
        return len(self.action_names)


def chunk_and_file(index: int) -> dict[str, int]:
    """Chunk index and file index of a file, from its number in the dataset."""
    return {"chunk_index": index // CHUNK, "file_index": index % CHUNK}


def data_path(folder: Path, index: int) -> Path:
    """The table of frames."""
    return folder / DATA_PATH.format(**chunk_and_file(index))


def video_path(folder: Path, camera: str, index: int) -> Path:
    return folder / VIDEO_PATH.format(video_key=IMAGES + camera, **chunk_and_file(index))


def to_bytes(info: DatasetInfo) -> bytes:
    """`meta/info.json`."""
    counters = {name: {"dtype": "int64", "shape": [1], "names": None} for name in COUNTERS}
    counters["timestamp"]["dtype"] = "float32"
    width, height = info.size
    video = {
        "video.height": height, "video.width": width, "video.channels": 3, "video.codec": CODEC,
        "video.pix_fmt": PIXELS, "video.is_depth_map": False, "video.fps": info.fps, "has_audio": False,
    }  # fmt: skip
    image = {"dtype": "video", "shape": [height, width, 3], "names": ["height", "width", "channels"], "info": video}
    vectors = {
        name: {"dtype": "float32", "shape": [len(names)], "names": list(names)} for name, names in info.vectors.items()
    }
    document = {
        "codebase_version": VERSION,
        "robot_type": None,
        "total_episodes": info.episodes,
        "total_frames": info.frames,
        "total_tasks": info.instructions,
        "chunks_size": CHUNK,
        "data_files_size_in_mb": DATA_MB,
        "video_files_size_in_mb": VIDEO_MB,
        "fps": info.fps,
        "splits": {"train": f"0:{info.episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH,
        "features": {**{IMAGES + camera: image for camera in info.cameras}, **vectors, **counters},
    }
    return dumps(document)


def read_info(folder: Path) -> DatasetInfo:
    """Read `meta/info.json` of a dataset.

    Raises:
        EmbodiedError: there is none, it is unfinished, of another version, or not laid out as this reader expects.
    """
    path = folder / INFO
    try:
        document = read_json(path)
    except FileNotFoundError:
        what = "is unfinished or no dataset: it has no" if folder.is_dir() else "does not exist: there is no"
        raise EmbodiedError(f"dataset '{folder}' {what} {INFO}") from None
    except (OSError, ValueError) as error:
        raise EmbodiedError(f"cannot read '{path}': {reason(error)}") from error
    version = document.get("codebase_version") if isinstance(document, dict) else None
    if version != VERSION:
        raise EmbodiedError(f"dataset '{folder}' is of version {version!r}; this reads LeRobot's {VERSION}")
    try:
        return _parsed(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        detail = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise EmbodiedError(f"dataset '{folder}' does not fit: {detail} ({INFO})") from error


def _parsed(document: Mapping[str, Any]) -> DatasetInfo:
    """The parts of the document that this reader uses, checked."""
    # A path from a file is not followed: it could name any place.
    for key, expected in (("data_path", DATA_PATH), ("video_path", VIDEO_PATH), ("chunks_size", CHUNK)):
        if document[key] != expected:
            raise ValueError(f"{key} is {document[key]!r}, expected {expected!r}")
    features = document["features"]
    if not isinstance(features, dict) or not all(isinstance(value, dict) for value in features.values()):
        raise ValueError("features are no table of tables")
    images = {key.removeprefix(IMAGES): value for key, value in features.items() if key.startswith(IMAGES)}
    sizes = {
        tuple(_whole(side, f"a side of {IMAGES}{key}") for side in value["shape"]) for key, value in images.items()
    }
    if not images or len(sizes) != 1 or any(value["dtype"] != "video" for value in images.values()):
        raise ValueError(f"expected videos {IMAGES}* of one size; its features are {listing(features)}")
    (shape,) = sizes
    if len(shape) != 3 or shape[2] != 3 or min(shape) < 1 or max(shape) > LARGEST_SIDE:
        raise ValueError(f"images are {shape}, expected (height, width, 3), at most {LARGEST_SIDE} pixels a side")
    fps = _whole(document["fps"], "fps")
    for camera, value in images.items():
        said = {
            key: value["info"][key]
            for key in ("video.fps", "video.height", "video.width")
            if key in (value.get("info") or {})
        }
        wanted = {"video.fps": fps, "video.height": shape[0], "video.width": shape[1]}
        if wrong := [f"{key} {told}, expected {wanted[key]}" for key, told in said.items() if told != wanted[key]]:
            raise ValueError(f"{IMAGES}{camera} has {listing(wrong)}")
    return DatasetInfo(
        fps=fps,
        cameras=tuple(images),
        size=(shape[1], shape[0]),
        state_names=_names(features[STATE], STATE),
        action_names=_names(features[ACTION], ACTION),
        keypoint_names=_keypoint_names(features, tuple(images)),
        episodes=_whole(document["total_episodes"], "total_episodes"),
        frames=_whole(document["total_frames"], "total_frames"),
        instructions=_whole(document["total_tasks"], "total_tasks"),
    )


def _whole(value: Any, what: str) -> int:
    """A whole number of the document, which others may write as 30.0."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    if not number or value != round(value):
        raise ValueError(f"{what} is {shown(value)}, expected a whole number of at most {LARGEST:,}")
    return int(value)


def _keypoint_names(features: Mapping[str, Any], cameras: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the things with a place in every camera's image; none unless all cameras have them."""
    if not all(KEYPOINTS + camera in features for camera in cameras):
        return ()
    names = {_names(features[KEYPOINTS + camera], KEYPOINTS + camera) for camera in cameras}
    if len(names) != 1 or len(numbers := names.pop()) % 2:
        raise ValueError(f"{KEYPOINTS}* differ between cameras, or lack a column or a row")
    return tuple(number.removesuffix("_x") for number in numbers[::2])


def _names(feature: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Names of a vector's numbers, which other writers may leave out or nest."""
    (size,) = feature["shape"]
    if not 1 <= _whole(size, f"the shape of {key}") <= LARGEST_VECTOR:
        raise ValueError(f"the shape of {key} is [{size}], expected one number from 1 to {LARGEST_VECTOR}")
    names = feature.get("names")
    if isinstance(names, list) and len(names) == size:
        return tuple(map(str, names))
    return tuple(f"{key}_{i}" for i in range(size))
