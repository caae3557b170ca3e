"""Read a dataset with LeRobot's own reader, and compare every number, and some frames, with ours.

LeRobot pins other versions than we do, so each side runs in its own environment: ours writes down what it reads, as
numpy's files; LeRobot's compares. This file imports nothing of ours on LeRobot's side.

    python -m benchmarks.lerobot_reader ours DATASET FOLDER
    LEROBOT_PYTHON benchmarks/lerobot_reader.py theirs DATASET FOLDER --json benchmarks/results/vla/lerobot-reader.json
"""

import argparse
import importlib.metadata
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

LOOKED_AT = 4  # frames of each episode: the first, the last, and between
CLOSE = 2.0  # of 255: how much two decoders of the same film may differ on average, by rounding and chroma


def ours(dataset: Path, folder: Path, every: int) -> None:
    """Store what our reader reads: numbers of all episodes, and a few frames of each `every`-th with their steps."""
    from embodied.cli.results import describe
    from embodied.storage.datasets.reader import open_dataset

    opened = open_dataset(dataset)
    folder.mkdir(parents=True)
    told = []
    for index in range(len(opened)):
        states, actions = opened.numbers(index)
        steps = np.unique(np.linspace(0, len(states) - 1, LOOKED_AT).astype(int))[: 0 if index % every else None]
        parts = [opened.part(index, step, step + 1).images for step in steps.tolist()]
        frames = {f"camera {name}": np.array([part[name][0] for part in parts]) for name in opened.info.cameras}
        np.savez(folder / f"{index}.npz", states=states, actions=actions, steps=steps, **frames)  # pyright: ignore[reportArgumentType]
        told.append({"instruction": opened.rows[index].instruction, "first": opened.rows[index].first})
    document = {"fps": opened.info.fps, "episodes": told, "hardware": describe()}
    (folder / "episodes.json").write_text(json.dumps(document))


def theirs(dataset: Path, folder: Path) -> dict[str, Any]:
    """The same of LeRobot's reader; returns how much differs."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset  # pyright: ignore[reportMissingImports] - no dependency

    start = time.perf_counter()
    opened = LeRobotDataset("local/dataset", root=dataset)
    told = json.loads((folder / "episodes.json").read_text())
    assert (opened.fps, opened.num_episodes) == (told["fps"], len(told["episodes"]))
    table = opened.hf_dataset.with_format("numpy")
    numbers = words = 0.0
    images: list[float] = []
    for index, episode in enumerate(told["episodes"]):
        with np.load(folder / f"{index}.npz", allow_pickle=False) as own:
            rows = slice(episode["first"], episode["first"] + len(own["states"]))
            for key, values in (("observation.state", own["states"]), ("action", own["actions"])):
                numbers = max(numbers, float(np.abs(np.stack(table[rows][key]) - values).max()))
            for place, step in enumerate(own["steps"].tolist()):
                item = opened[episode["first"] + step]
                words += item["task"] != episode["instruction"]
                for camera in (name for name in own.files if name.startswith("camera ")):
                    seen = item["observation.images." + camera.removeprefix("camera ")].numpy().transpose(1, 2, 0)
                    images.append(float(np.abs(255 * seen - own[camera][place]).mean()))
    return {
        "episodes": opened.num_episodes, "frames": opened.num_frames, "frames_compared": len(images),
        "largest_difference_of_numbers": numbers, "wrong_instructions": int(words),
        "mean_difference_of_pixels": float(np.mean(images)), "largest_mean_difference_of_a_frame": max(images),
        "statistics": sorted(opened.meta.stats), "seconds": time.perf_counter() - start,
        "command": "LEROBOT_PYTHON benchmarks/lerobot_reader.py theirs DATASET FOLDER --json FILE",
        "hardware": told["hardware"], "lerobot": importlib.metadata.version("lerobot"),
        "video_backend": opened.video_backend,
    }  # fmt: skip


def main() -> None:
    """Run one side, as the command line selects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=("ours", "theirs"))
    parser.add_argument("dataset", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="ours: compare frames of each so manyth episode")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    if words.side == "ours":
        ours(words.dataset, words.folder, words.every)
        return
    result = theirs(words.dataset, words.folder)
    print(json.dumps(result, indent=2))
    if words.json:
        words.json.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")
    assert result["largest_difference_of_numbers"] == 0
    assert not result["wrong_instructions"]
    assert result["largest_mean_difference_of_a_frame"] < CLOSE


if __name__ == "__main__":
    main()
