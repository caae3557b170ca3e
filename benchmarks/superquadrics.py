"""How well one superquadric stands for each household object seen once, how long that takes, which grasps it gives.

Every object stands on a table and is seen by a depth camera from 60 cm, 40 degrees above it, at several turns. The
share of volume that fit and object have in common (intersection over union, IoU) is of the object with its hollow
filled: `solid` says the same for open vessels as they are. Then superquadrics are recovered from clouds of their own
surface, whole, and the half that faces a viewer who is infinitely far away.

python -m benchmarks.superquadrics --json FILE
"""

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from embodied import cli
from tasks.grasping.objects.household import HOUSEHOLD
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import Camera, DepthNoise, PlacedObject, visible_cloud
from tasks.grasping.objects.shapes import matrix
from tasks.grasping.planner.force_closure import Grip, grasps
from tasks.grasping.planner.superquadric_fit import fit_superquadric
from tasks.grasping.planner.superquadrics import Superquadric, overlap, placed

DISTANCE = 0.6  # m from the camera to the object
ELEVATION = 40.0  # degrees above the table
PROBES = 20_000  # points that measure volumes: IoU to about 0.005
FILLED = {"pitcher_base": 0.052, "mug": 0.038, "bowl": 0.065}
"""Open vessels -> radius, m, of the upright cylinder that fills them."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    views: int = 4
    """Turns of every object about the vertical."""
    noise: bool = True
    """Whether depth has the error of a structured-light camera."""
    shapes: int = 200
    """Superquadrics to recover, each from its whole and from half of its surface."""
    width: float = 0.10
    """m, largest opening of the hand for which grasps are sought."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    objects = {}
    with cli.Line("objects", len(HOUSEHOLD)) as line:
        for number, (name, item) in enumerate(HOUSEHOLD.items()):
            objects[name] = measure(item, settings)
            row = objects[name]
            line.update(number + 1, f"{name}: IoU {row['iou']:.2f}, {row['seconds']:.2f} s, {row['grasps']:.0f} grasps")
    recovered = {}
    for kind, half in (("whole", False), ("half", True)):
        values = [recover(seed, half) for seed in range(settings.shapes)]
        recovered[kind] = {
            "iou_median": float(np.median(values)),
            "iou_5_percent": float(np.percentile(values, 5)),
            "iou_worst": float(np.min(values)),
            "above_0.8": float(np.mean(np.array(values) > 0.8)),
        }
    shown = {
        name: f"IoU {row['iou']:.2f} (solid {row['solid']:.2f}), {row['seconds']:.2f} s, {row['grasps']:.1f} grasps"
        for name, row in objects.items()
    }
    cli.show(cli.table("household objects, one view", shown))
    shown = {
        kind: ", ".join(f"{key} {cli.number(value)}" for key, value in row.items()) for kind, row in recovered.items()
    }
    cli.show(cli.table(f"{settings.shapes} superquadrics", shown))
    summary = {
        "iou_median": float(np.median([row["iou"] for row in objects.values()])),
        "iou_worst": float(np.min([row["iou"] for row in objects.values()])),
        "seconds": float(np.median([row["seconds"] for row in objects.values()])),
        "with_grasp": float(np.mean([row["grasps"] > 0 for row in objects.values()])),
    }
    cli.show(cli.table("all", {key: cli.number(value) for key, value in summary.items()}))
    command = cli.command_line("benchmarks.superquadrics")
    cli.write_result(settings.json, command, {**summary, "objects": objects, "recovered": recovered})


def measure(item: ObjectSpec, settings: Settings) -> dict[str, Any]:
    """Means over the views of one object."""
    rows = []
    for view in range(settings.views):
        angle = 2 * math.pi * (view + 0.3) / settings.views
        quat = (math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2))
        body = PlacedObject(item, (0.0, 0.0, float(item.extents[2]) / 2), quat)
        rise = math.radians(ELEVATION)
        eye = (DISTANCE * math.cos(rise), 0.0, DISTANCE * math.sin(rise) + body.pos[2])
        camera = Camera.looking_at(body.pos, eye, width=240, height=180)
        cloud = visible_cloud([body], camera, noise=DepthNoise() if settings.noise else None, seed=view)
        begun = time.perf_counter()
        fit = fit_superquadric(cloud.points, up=(0.0, 0.0, 1.0), table=0.0, eye=eye)
        seconds = time.perf_counter() - begun
        if fit.shape is None:
            rows.append((0.0, 0.0, seconds, 0, 0.0))
            continue
        found = grasps(fit.shape, Grip(settings.width), table=0.0).grasps
        solid, filled = shared(fit.shape, body)
        rows.append((filled, solid, seconds, len(found), found[0].score if found else 0.0))
    return dict(zip(("iou", "solid", "seconds", "grasps", "score"), np.mean(rows, axis=0).tolist(), strict=True))


def shared(shape: Superquadric, body: PlacedObject) -> tuple[float, float]:
    """IoU of a superquadric with an object as it is, and with its hollow filled."""
    reach = np.linalg.norm(body.item.extents) / 2
    surface = np.concatenate([shape.surface(500), np.array(body.pos) + reach * np.array([[-1.0] * 3, [1.0] * 3])])
    points = np.random.default_rng(0).uniform(surface.min(0), surface.max(0), (PROBES, 3))
    inside = body.distance(points) <= 0
    filled = inside
    if body.item.name in FILLED:
        local = (points - np.array(body.pos)) @ matrix(body.quat)
        # The middle of a vessel is not that of its bounding box, from which a handle sticks out.
        axis = np.array([body.item.bounds[0][0] + body.item.published[0] / 2, 0.0])
        height = np.abs(local[:, 2]) <= body.item.extents[2] / 2
        low = (local[:, 2] + body.item.extents[2] / 2) / body.item.extents[2]
        narrowed = FILLED[body.item.name] * (0.5 + 0.5 * low if body.item.name == "bowl" else 1.0)
        filled = inside | (height & (np.linalg.norm(local[:, :2] - axis, axis=-1) <= narrowed))
    return overlap(shape, inside, points), overlap(shape, filled, points)


def recover(seed: int, half: bool) -> float:
    """IoU of a random superquadric with the fit to 800 points of its surface, or to those that face a viewer."""
    random = np.random.default_rng(seed)
    true = placed(
        random.uniform(0.015, 0.08, 3),
        random.uniform(0.1, 1.3, 2),
        random.uniform(-0.3, 0.3, 3),
        matrix(random.normal(size=4)),
    )
    points = true.surface(800, seed)
    if half:
        points = points[true.normals(points) @ random.normal(size=3) > 0]
    fit = fit_superquadric(points).shape
    if fit is None:
        return 0.0
    both = np.concatenate([true.surface(500), fit.surface(500)])
    probes = np.random.default_rng(1).uniform(both.min(0), both.max(0), (PROBES, 3))
    return overlap(fit, true.gauge(probes) <= 1, probes)


if __name__ == "__main__":
    main(tyro.cli(Settings))
