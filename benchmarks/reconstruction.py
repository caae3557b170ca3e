"""Accuracy of the layout of coloured blocks from one picture: random cameras, lenses, blocks and places.

Pictures are rendered with lens distortion, blur, noise and one lamp at a random place; the camera is known as it is, or
as exactly as a calibration finds it (`python -m benchmarks.cameras`). Blocks of known size, cubes of unknown size.

python -m benchmarks.reconstruction --json FILE
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import tyro

from benchmarks.cameras import random_camera
from embodied import cli
from embodied.errors import EmbodiedError
from embodied.math import transforms
from sim2real.cameras import mujoco_camera
from sim2real.cameras.camera import Camera
from sim2real.cameras.reconstruction.blocks import Block, Found, find
from sim2real.cameras.reconstruction.layout import PAINT
from tests.kit import rehearsal
from tests.kit.rehearsal import Sensor

MIDDLE = np.array([0.0, 0.65, 0.0])  # m, about which blocks lie: the middle of the table tasks
APART = 0.075  # m between the middles of two blocks


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    pictures: int = 40
    """Random pictures."""
    blocks: int = 4
    """In each, of different colours."""
    width: int = 640
    """pixels; the height is three quarters of it."""
    noise: float = 4.0
    """Standard deviation of the sensor's noise, of 255."""
    blur: float = 0.6
    """pixels."""
    focal_percent: float = 0.06
    """By which the camera's focal length is wrong, as a calibration leaves it."""
    mount_mm: float = 0.44
    """By which its place is wrong."""
    mount_degrees: float = 0.03
    """By which it is turned wrongly."""
    seed: int = 0
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    rows: list[dict[str, Any]] = []
    with cli.Line("pictures", settings.pictures) as line:
        for number in range(settings.pictures):
            rows += measure(settings, np.random.default_rng((settings.seed, number)))
            line.update(number + 1, f"{len(rows)} blocks")
    result = {
        kind: summary([row for row in rows if row["kind"] == kind]) for kind in dict.fromkeys(r["kind"] for r in rows)
    }
    for kind, found in result.items():
        cli.show(cli.table(kind, {name: f"{value:.3g}" for name, value in found.items()}))
    document = {**dataclasses.asdict(settings), "json": None, "summary": result}
    cli.write_result(settings.json, cli.command_line("benchmarks.reconstruction"), document)


def measure(settings: Settings, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Errors of the blocks of one picture, in each way of knowing."""
    camera, to_world, truth = random_camera(settings.width, rng), looking(rng), layout(settings.blocks, rng)
    image = picture(camera, to_world, truth, Sensor(settings.noise, settings.blur), rng)
    wrong = dataclasses.replace(camera, fx=camera.fx * (1 + settings.focal_percent / 100),
                                fy=camera.fy * (1 + settings.focal_percent / 100))  # fmt: skip
    shift = unit(rng) * settings.mount_mm / 1000
    turn = transforms.exponential(unit(rng) * np.radians(settings.mount_degrees))
    moved = to_world @ transforms.pose(turn, shift)
    rows = judged("known size, true camera", image, camera, to_world, truth, True)
    rows += judged("known size, calibrated camera", image, wrong, moved, truth, True)
    return rows + judged("cubes of unknown size, calibrated camera", image, wrong, moved, truth, False)


def judged(
    kind: str, image: np.ndarray, camera: Camera, to_world: np.ndarray, truth: list[Found], known: bool
) -> list[dict[str, Any]]:
    """Error of each block, or that it was missed; with unknown sizes, of the cubes only."""
    rows = []
    for one in truth:
        if not known and len({*one.half}) > 1:
            continue
        block = dataclasses.replace(one.block, half=one.half if known else None)
        try:
            found = find(image, camera, to_world, [block])[0]
        except EmbodiedError:
            rows.append({"kind": kind, "missed": True})
            continue
        period = np.pi / 2 if one.half[0] == one.half[1] else np.pi
        turned = (found.yaw - one.yaw + period / 2) % period - period / 2
        rows.append({"kind": kind, "missed": False, "mm": 1e3 * float(np.linalg.norm(found.position - one.position)),
                     "degrees": float(np.degrees(abs(turned))),
                     "edge_mm": 2e3 * float(np.abs(np.subtract(found.half, one.half)).max())})  # fmt: skip
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Median, 95 % quantile and worst of the errors; how many blocks, and how many of them were missed."""
    seen = [row for row in rows if not row["missed"]]
    result: dict[str, float] = {"blocks": len(rows), "missed": len(rows) - len(seen)}
    for name in ("mm", "degrees", "edge_mm"):
        values = [row[name] for row in seen]
        result |= {f"{name}_median": float(np.median(values)), f"{name}_95": float(np.quantile(values, 0.95))}
        result[f"{name}_worst"] = max(values)
    return result


def unit(rng: np.random.Generator) -> np.ndarray:
    """A random direction."""
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def looking(rng: np.random.Generator) -> np.ndarray:
    """(4, 4) camera_to_world of a camera 0.6 to 0.9 m from the table's middle, 35 to 70 degrees above it."""
    distance, up, around = rng.uniform(0.6, 0.9), np.radians(rng.uniform(35, 70)), rng.uniform(-np.pi, np.pi)
    offset = distance * np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])
    aim = MIDDLE + np.array([*rng.uniform(-0.03, 0.03, 2), 0.0])
    forward = -offset / distance
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    return transforms.pose(np.column_stack([right, np.cross(forward, right), forward]), aim + offset)


def layout(count: int, rng: np.random.Generator) -> list[Found]:
    """Blocks of 3 to 6 cm, half of them cubes, that do not touch."""
    places: list[np.ndarray] = []
    while len(places) < count:
        place = rng.uniform(-0.13, 0.13, 2)
        if all(np.linalg.norm(place - other) > APART for other in places):
            places.append(place)
    found = []
    for number, (place, colour) in enumerate(zip(places, rng.permutation(list(PAINT)), strict=False)):
        side = rng.uniform(0.015, 0.025)
        half = (side, side, side) if number % 2 else (side, rng.uniform(0.02, 0.03), rng.uniform(0.012, 0.02))
        position = MIDDLE + np.array([*place, half[2]])
        found.append(Found(Block(colour, str(colour)), position, rng.uniform(-np.pi, np.pi), half, 0.0))
    return found


def picture(
    camera: Camera, to_world: np.ndarray, blocks: list[Found], sensor: Sensor, rng: np.random.Generator
) -> np.ndarray:
    """(height, width, 3) uint8, what the camera takes of the blocks on a grey table under a lamp."""
    spec = rehearsal.lit()
    tone = rng.uniform(0.35, 0.75)
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.8, 0.8, 0.01], pos=[*MIDDLE[:2], -0.01],
                            rgba=[tone, tone, tone, 1])  # fmt: skip
    lamp = spec.worldbody.add_light(
        pos=MIDDLE + np.array([*rng.uniform(-0.8, 0.8, 2), 1.5]), dir=[0, 0, -1], castshadow=True
    )
    lamp.diffuse, lamp.specular = [0.5] * 3, [0.1] * 3
    for one in blocks:
        body = spec.worldbody.add_body(pos=one.position, quat=one.quat)
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=list(one.half), rgba=PAINT[one.block.colour])
    mujoco_camera.add_to(spec.worldbody, rehearsal.EYE, camera, to_world)
    with rehearsal.Photographer(spec, camera, sensor, 2) as photographer:
        mujoco.mj_forward(photographer.model, photographer.data)
        return photographer.picture(rng)


if __name__ == "__main__":
    main(tyro.cli(Settings))
