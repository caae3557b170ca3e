"""One picture of the cooperation benchmark: scenes with marks and the instruction, and shortest paths of an arm.

python -m benchmarks.cooperation_gallery --out docs/cooperation.jpg
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import tyro

from benchmarks.gallery import captioned
from embodied.errors import EmbodiedError
from tasks.grasping.clutter.pictures import draw_marks
from tasks.grasping.objects.pointclouds import Camera
from tasks.questions.cooperation.paths import path_task
from tasks.questions.cooperation.pictures import path_picture, pixels_of, render_picture
from tasks.questions.cooperation.scenes import VIEW, SceneConfig, cooperation_scene, instruction

PATH = (250, 200, 40)  # RGB
NEED = 2  # robots that the scenes' goals need


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the picture."""

    out: Path = Path("cooperation.jpg")
    """File to write: .jpg or .png."""
    marked: tuple[int, ...] = (0, 9)
    """Seeds of the scenes with marks."""
    paths: tuple[int, ...] = (3, 8)
    """Seeds of the scenes with a path."""
    size: tuple[int, int] = (720, 420)
    """Width and height of a tile in pixels."""


def main(settings: Settings) -> None:
    """Draw and write."""
    width, height = settings.size
    # Nearer than the benchmark's own camera, which leaves room for tall things.
    camera = Camera.looking_at((0.0, 0.0, 0.13), eye=VIEW.pos, fovy=28.0, width=width, height=height)
    rows = [[marked(seed, camera) for seed in settings.marked], [with_path(seed, camera) for seed in settings.paths]]
    picture = np.vstack([np.hstack(row) for row in rows])
    cv2.imwrite(str(settings.out), picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(f"{settings.out}: {len(settings.marked) + len(settings.paths)} scenes")


def marked(seed: int, camera: Camera) -> np.ndarray:
    """A scene with its objects' numbers, and the instruction below."""
    scene = cooperation_scene(seed, SceneConfig(need=NEED))
    return captioned(draw_marks(render_picture(scene, camera)), instruction(scene))


def with_path(seed: int, camera: Camera) -> np.ndarray:
    """An arm at the start of a path around what stands there, and the shortest path.

    Raises:
        EmbodiedError: the scene has no path.
    """
    scene = cooperation_scene(seed, SceneConfig(need=NEED))
    path = path_task(scene, np.random.default_rng(seed))
    if path is None:
        raise EmbodiedError(f"scene {seed} has no path; expected another seed")
    line = np.round(pixels_of(path.path, camera)).astype(np.int32)
    picture = np.ascontiguousarray(path_picture(scene, path, camera).colour)
    # The ends' letters stay above the line.
    covered = cv2.polylines(picture.copy(), [line[:, None]], False, PATH, 4, cv2.LINE_AA)
    for x, y in line[[0, -1]]:
        covered[y - 11 : y + 12, x - 11 : x + 12] = picture[y - 11 : y + 12, x - 11 : x + 12]
    return captioned(covered, f"From S to E: the shortest path of the {path.arm}'s hand, {path.length:.2f} m")


if __name__ == "__main__":
    main(tyro.cli(Settings))
