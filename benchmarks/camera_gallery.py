"""One picture of what cameras see: colours, depth, geoms, and the same place in other light, a row for each task.

python -m benchmarks.camera_gallery --out docs/cameras.jpg
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import jax
import numpy as np
import tyro

import embodied
from benchmarks.gallery import captioned
from embodied.rendering.render_state import render_state_fn
from embodied.rendering.renderer import BatchRenderer
from embodied.rendering.visual_randomization import move_camera, recolour, vary_lights
from policies.training.loading import load_policy


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the picture."""

    tasks: tuple[str, ...] = ("manipulation/pick-place", "manipulation/drawer-open")
    """Tasks with the cameras `view` and `wrist` and a scripted expert."""
    out: Path = Path("cameras.jpg")
    """File to write: .jpg or .png."""
    side: int = 240
    """pixels of a tile."""
    seconds: float = 1.0
    """Time at which each task is caught."""


def main(settings: Settings) -> None:
    """Draw and write."""
    rows = [row(task, settings) for task in settings.tasks]
    cv2.imwrite(str(settings.out), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(f"{settings.out}: {len(rows)} tasks")


def row(task: str, settings: Settings) -> np.ndarray:
    """(side + caption, 6 side, 3) uint8: view, wrist, depth, segmentation, and two episodes that look different."""
    env = embodied.make(task, 2)
    obs, act = env.reset(), load_policy("expert", env)
    for _ in range(round(settings.seconds / env.control_dt)):
        obs = env.step(act(obs)).obs
    model, size = env.task.visual_model, (settings.side, settings.side)
    renderer = BatchRenderer(model, 2, ("view", "wrist"), size, depth=True, segmentation=True, shadows=True)
    terms = (move_camera(model, "view", 0.08, 0.1), vary_lights(model), recolour(model))
    plain, varied = (
        renderer.render(jax.jit(jax.vmap(render_state_fn(env.task, drawn)))(env.world(), env.episode))
        for drawn in ((), terms)
    )
    view, wrist, other = plain["view"], plain["wrist"], varied["view"]
    assert view.rgb is not None
    assert view.depth is not None
    assert view.segmentation is not None
    assert wrist.rgb is not None
    assert other.rgb is not None
    tiles = {
        task.split("/")[1] + ": view": view.rgb[0].numpy(),
        "wrist": wrist.rgb[0].numpy(),
        "depth": shade(view.depth[0].numpy()),
        "segmentation": paint(view.segmentation[0].numpy()),
        "visual terms": other.rgb[0].numpy(),
        "visual terms, another episode": other.rgb[1].numpy(),
    }
    return np.hstack([captioned(tile, text) for text, tile in tiles.items()])


def shade(depth: np.ndarray, far: float = 3.0) -> np.ndarray:
    """(height, width, 3) uint8: near is bright; nothing, or beyond `far` m, is black."""
    bright = np.where(depth > 0, np.clip(1 - depth / far, 0, 1), 0)
    return np.repeat((255 * bright).astype(np.uint8)[..., None], 3, -1)


def paint(ids: np.ndarray) -> np.ndarray:
    """(height, width, 3) uint8: a colour for each id, white for nothing."""
    colours = np.random.default_rng(1).integers(40, 230, (int(ids.max()) + 2, 3), dtype=np.uint8)
    colours[-1] = 255
    return colours[ids]


if __name__ == "__main__":
    main(tyro.cli(Settings))
