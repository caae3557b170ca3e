"""Pictures of many tasks at work, each by its shipped policy or script, or at rest where there is neither.

python -m benchmarks.gallery                                    # all of GALLERIES, to docs
python -m benchmarks.gallery locomotion grasping
python -m benchmarks.gallery swarm/formation --out formation.jpg      # any task or suite
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import cv2
import numpy as np
import tyro

import embodied
from embodied.cli import Line
from embodied.env.registry import join_content
from embodied.rendering.pictures import SCENES_VIEW, Renderer, View
from policies.training.loading import default_policy, load_policy

INK = (40, 40, 40)  # RGB of the captions
STRIP = 24  # pixels below each picture for its caption
LIGHT_SAMPLES = 9
"""Points of each lamp: soft shadows."""


@dataclasses.dataclass(frozen=True)
class Shot:
    """Pictures of one episode of a task."""

    task: str
    moments: tuple[float, ...] = (1.5,)
    """s after the start, a tile each."""
    view: View = SCENES_VIEW
    camera: str | None = None
    """By default one that follows the robot, or the bodies of the view."""
    seed: int = 0
    caption: str = ""
    """Of the first tile, the moments of the others; by default the task's name alone."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of the task's config."""


@dataclasses.dataclass(frozen=True)
class Gallery:
    """A picture of tiles."""

    shots: tuple[Shot, ...]
    columns: int = 4
    size: tuple[int, int] = (400, 260)
    """Width and height of a tile in pixels."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the pictures."""

    galleries: tyro.conf.Positional[tuple[str, ...]] = ()
    """Galleries by name, all by default; or tasks and suites, for one picture of them."""
    out: Path | None = None
    """File to write, .jpg or .png, of one picture; by default docs/NAME.jpg."""
    seconds: float = 1.5
    """Of tasks: time at which each is caught."""


def close(*bodies: str, azimuth: float | None = None, elevation: float | None = None) -> View:
    """A view that bodies fill."""
    return View(bodies, azimuth, elevation, 0.82)


def lifted(hand: str, item: str, azimuth: float, *moments: float, caption: str = "") -> Shot:
    """A hand takes an object; the arm must not stand in the way."""
    view = close("hand_palm", "object", azimuth=azimuth)
    return Shot(f"grasping/{hand}-lift", moments, view, caption=caption, options={"objects": item})


ROBOTS = View(filled=0.8)
CUBE = close("palm", "cube")
HANDS = close("left_palm", "right_palm", "object")
POURING = close("right_palm", "object")
LOCOMOTION = (
    "go1-joystick-flat", "go1-joystick-rough", "go1-getup", "go2-joystick-flat", "g1-joystick-flat", "ant",
    "half-cheetah", "walker2d", "hopper", "humanoid", "go1-handstand", "reach-cheetah-14-full",
)  # fmt: skip
GALLERIES: Mapping[str, Gallery] = {
    "locomotion": Gallery(tuple(Shot(f"locomotion/{name}", view=ROBOTS) for name in LOCOMOTION)),
    "grasping": Gallery(
        (
            lifted("allegro", "mustard_bottle", 150, 3.0),
            lifted("leap", "wood_block", -20, 1.4),
            lifted("shadow", "mustard_bottle", -20, 3.0),
            Shot("grasping/leap-rotate-z", (2.0,), CUBE),
            Shot("grasping/allegro-hand-over", (3.5,), HANDS),
            Shot("grasping/shadow-hand-over", (3.5,), HANDS),
            Shot("grasping/leap-catch", (0.35,), HANDS),
            Shot("grasping/allegro-catch", (0.35,), HANDS),
            Shot("grasping/leap-pour", (0.5,), POURING),
            Shot("grasping/shadow-pour", (2.5,), POURING),
            Shot("grasping/allegro-pour", (2.0,), POURING),
            Shot("grasping/shadow-rotate-z", (0.0,), CUBE),
        )
    ),
    "lifting": Gallery(
        tuple(
            lifted("leap", item, azimuth, 0.0, 0.5, 1.0, 1.6, caption=item.replace("_", " "))
            for item, azimuth in (
                ("mustard_bottle", 30), ("power_drill", -125), ("tomato_soup_can", -125), ("pear", 30),
                ("wood_block", -20),
            )
        ),
        size=(320, 220),
    ),
    "turning": Gallery(
        (Shot("grasping/leap-rotate-z", tuple(np.arange(8) / 2), CUBE, caption="grasping/leap-rotate-z"),),
        size=(320, 240),
    ),
    "manipulation": Gallery((Shot("mt50", (0.8,), camera="view"),), columns=5, size=(300, 225)),
}  # fmt: skip


def main(settings: Settings) -> None:
    """Draw and write."""
    names = settings.galleries or tuple(GALLERIES)
    if all(name in GALLERIES for name in names):
        for name in names:
            write(GALLERIES[name], settings.out or Path(f"docs/{name}.jpg"))
    else:
        write(
            Gallery(tuple(Shot(name, (settings.seconds,), ROBOTS) for name in names)),
            settings.out or Path("gallery.jpg"),
        )


def write(gallery: Gallery, path: Path) -> None:
    """Draw a gallery's tiles and write them as one picture."""
    suites = join_content().suites
    shots = [
        dataclasses.replace(shot, task=task)
        for shot in gallery.shots
        for task in (suites[shot.task].tasks if shot.task in suites else (shot.task,))
    ]
    tiles: list[np.ndarray] = []
    with Line("drawing", len(shots)) as line:
        for number, shot in enumerate(shots, 1):
            tiles += drawn(shot, gallery.size)
            line.update(number, shot.task)
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % gallery.columns)
    rows = [np.hstack(tiles[i : i + gallery.columns]) for i in range(0, len(tiles), gallery.columns)]
    cv2.imwrite(str(path), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
    cli.show(f"{path}: {len(tiles)} pictures of {len(shots)} episodes, {path.stat().st_size / 1e3:.0f} kB")


def drawn(shot: Shot, size: tuple[int, int]) -> list[np.ndarray]:
    """For each moment, a picture (height + strip, width, 3) RGB with its caption below."""
    env = embodied.make(shot.task, 1, seed=shot.seed, **shot.options)
    policy = default_policy(env.name)
    act = load_policy(policy, env) if policy in ("shipped", "expert") else None
    view = dataclasses.replace(shot.view, light_samples=LIGHT_SAMPLES)
    obs, tiles, step = env.reset(), [], 0
    for moment in shot.moments:
        while act is not None and step < round(moment / env.control_dt):
            obs, step = env.step(act(obs)).obs, step + 1
        # Drawn twice as large, so that edges are smooth; anew for each moment, so that the camera has arrived.
        with Renderer(env, (2 * size[0], 2 * size[1]), shot.camera, view=view) as renderer:
            picture = cv2.resize(renderer.frame(), size, interpolation=cv2.INTER_AREA)
        first = shot.caption or shot.task.split("/")[1]
        tiles.append(captioned(picture, f"{moment:.1f} s" if tiles else first))
    return tiles


def captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """The picture with a line of text below it, black on white."""
    height, width, _ = picture.shape
    tile = np.full((height + STRIP, width, 3), 255, np.uint8)
    tile[:height] = picture
    cv2.putText(tile, text, (6, height + STRIP - 8), cv2.FONT_HERSHEY_SIMPLEX, 0.5, INK, 1, cv2.LINE_AA)
    return tile


if __name__ == "__main__":
    main(tyro.cli(Settings))
