"""A picture of many tasks at work, each by its shipped policy, or at rest where there is none.

python -m benchmarks.gallery --out docs/locomotion.jpg
python -m benchmarks.gallery mt50 --camera view --seconds 0.8 --columns 5 --size 300 225 --out docs/manipulation.jpg
"""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import tyro

import embodied
from embodied.cli import Line
from embodied.registry import join_content
from embodied.rendering.pictures import frame
from policies.training.loading import default_policy, load_policy

TASKS = (
    "locomotion/go1-joystick-flat",
    "locomotion/go1-joystick-rough",
    "locomotion/go1-getup",
    "locomotion/go2-joystick-flat",
    "locomotion/g1-joystick-flat",
    "locomotion/ant",
    "locomotion/half-cheetah",
    "locomotion/walker2d",
    "locomotion/hopper",
    "locomotion/humanoid",
    "locomotion/reach-walker-7-full",
    "locomotion/reach-cheetah-14-full",
)
INK = (40, 40, 40)  # RGB of the captions
STRIP = 24  # pixels below each picture for its caption


@dataclass(frozen=True)
class Settings:
    """What is drawn."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = TASKS
    """Tasks, a tile each, or suites."""
    out: Path = Path("gallery.jpg")
    """File to write: .jpg or .png."""
    columns: int = 4
    """Tiles side by side."""
    size: tuple[int, int] = (400, 260)
    """Width and height of a tile in pixels."""
    camera: str | None = None
    """Camera of the scenes'; by default one that follows the robot, or the scene's own view."""
    seconds: float = 1.5
    """Time at which each task is caught."""
    seed: int = 0
    """Seed of the starts."""


def main(settings: Settings) -> None:
    """Draw and write."""
    tiles, suites = [], join_content().suites
    tasks = [task for name in settings.tasks for task in (suites[name].tasks if name in suites else (name,))]
    with Line("drawing", len(tasks)) as line:
        for task in tasks:
            tiles.append(tile(task, settings))
            line.update(len(tiles), task)
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % settings.columns)
    rows = [np.hstack(tiles[i : i + settings.columns]) for i in range(0, len(tiles), settings.columns)]
    cv2.imwrite(str(settings.out), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(f"{settings.out}: {len(tasks)} tasks")


def tile(task: str, settings: Settings) -> np.ndarray:
    """(height + strip, width, 3) RGB, the task after a while, and its name below."""
    env = embodied.make(task, 1, seed=settings.seed)
    name = default_policy(env.name)
    obs = env.reset()
    if name in ("shipped", "expert"):
        act = load_policy(name, env)
        for _ in range(round(settings.seconds / env.task.timing.control_dt)):
            obs = env.step(act(obs)).obs
    width, height = settings.size
    # Drawn twice as large, so that edges and shadows are smooth.
    large = frame(env, size=(2 * width, 2 * height), camera=settings.camera)
    tile = np.full((height + STRIP, width, 3), 255, np.uint8)
    tile[:height] = cv2.resize(large, (width, height), interpolation=cv2.INTER_AREA)
    place = (6, height + STRIP - 8)
    cv2.putText(tile, task.split("/")[1], place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, INK, 1, cv2.LINE_AA)
    return tile


if __name__ == "__main__":
    main(tyro.cli(Settings))
