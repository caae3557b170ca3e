"""Accuracy of camera calibration from rendered boards: random lenses and random poses of the Panda.

Intrinsics: a random camera photographs a board that is held before it; what is found is compared with what was drawn.
Hand-eye: the Panda moves a camera about a board, or a board before a camera; intrinsics are those found for the same
camera, not the true ones. Photographs have lens distortion, blur and noise.

python -m benchmarks.cameras --json FILE
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tyro

from embodied import cli
from embodied.math import transforms
from sim2real.cameras import hand_eye, intrinsics
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, Parent
from sim2real.cameras.detect import View, detect, usable
from tests.kit import rehearsal
from tests.kit.rehearsal import Robot, Sensor

BOUNDS = {
    "focal_percent": 0.5,
    "principal_px": 2.0,
    "held_out_px": 0.3,
    "hand_mm": 1.0,
    "hand_degrees": 0.1,
    "base_mm": 1.0,
    "base_degrees": 0.1,
    "mujoco_px": 0.3,
}
"""Upper bound of each error."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    cameras: int = 10
    """Random cameras."""
    views: int = 20
    """Photographs for intrinsics."""
    poses: int = 12
    """Of the arm, for each way of mounting."""
    board: str = "8x6:24mm:18mm:5X5_100"
    width: int = 640
    """pixels; the height is three quarters of it."""
    noise: float = 2.0
    """Standard deviation of the sensor's noise, of 255."""
    blur: float = 0.5
    """pixels."""
    robot_mm: float = 0.0
    """Standard deviation along each axis of what the robot says of its hand's position."""
    robot_degrees: float = 0.0
    """About each axis."""
    supersampling: int = 2
    """Rendered pixels per pixel, along each axis."""
    seed: int = 0
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    rows: list[dict[str, float]] = []
    with cli.Line("cameras", settings.cameras) as line:
        for number in range(settings.cameras):
            rows.append(measure(settings, np.random.default_rng((settings.seed, number))))
            line.update(number + 1, " ".join(f"{name} {value:.3g}" for name, value in rows[-1].items()))
    result = summary(rows)
    shown = {
        name: f"median {cli.number(values['median'])}, worst {cli.number(values['worst'])}"
        + (f"  (bound {BOUNDS[name]:g}: {values['within']:.0f} of {len(rows)} within)" if name in BOUNDS else "")
        for name, values in result.items()
    }
    cli.show(cli.table(f"{settings.cameras} random cameras, board {settings.board}", shown))
    document = {**dataclasses.asdict(settings), "json": None, "bounds": BOUNDS, "summary": result, "each": rows}
    cli.write_result(settings.json, cli.command_line("benchmarks.cameras"), document)


def measure(settings: Settings, rng: np.random.Generator) -> dict[str, float]:
    """Errors of one random camera."""
    board, truth = Board.parse(settings.board), random_camera(settings.width, rng)
    sensor = Sensor(settings.noise, settings.blur)
    views = []
    with rehearsal.Photographer(rehearsal.studio(board), truth, sensor, settings.supersampling) as photographer:
        for number, pose in enumerate(rehearsal.views(board, truth, settings.views, rng)):
            rehearsal.place(photographer, pose)
            views.append(detect(photographer.picture(rng), board, f"{number}"))
    result = intrinsics.calibrate(views, board)
    found = result.camera
    row = {
        "focal_percent": 100 * max(abs(found.fx / truth.fx - 1), abs(found.fy / truth.fy - 1)),
        "principal_px": float(np.hypot(found.cx - truth.cx, found.cy - truth.cy)),
        "held_out_px": result.held_out,
        "inside_intervals": inside(result, truth),
        "views_rejected": float(len(result.rejected)),
    }
    robot = Robot(1e-3 * settings.robot_mm, np.radians(settings.robot_degrees))
    for parent in Parent:
        taken = rehearsal.rehearse(board, truth, parent, settings.poses, rng, sensor, robot, settings.supersampling)
        row |= mounted(taken, board, found, parent)
    return row


def random_camera(width: int, rng: np.random.Generator) -> Camera:
    """A camera of a field of view of 50 to 75 degrees, with a lens between barrel and pincushion."""
    height = width * 3 // 4
    focal = width / 2 / np.tan(np.radians(rng.uniform(50, 75)) / 2)
    x, y = np.array([width - 1, height - 1]) / 2 + rng.normal(0, 0.015 * width, 2)
    lens = (rng.uniform(-0.3, 0.1), rng.uniform(-0.05, 0.1), *rng.normal(0, 1e-3, 2))
    return Camera(width, height, focal, focal * rng.uniform(0.98, 1.02), x, y, lens)


def inside(result: intrinsics.Calibration, truth: Camera) -> float:
    """Share of the parameters whose 95 % interval holds the truth."""
    found = result.camera
    errors = [
        *(getattr(found, name) - getattr(truth, name) for name in ("fx", "fy", "cx", "cy")),
        *np.subtract(found.distortion, truth.distortion),
    ]
    return float((np.abs(errors) < 1.96 * result.fit.std).mean())


def mounted(taken: rehearsal.Session, board: Board, camera: Camera, parent: Parent) -> dict[str, float]:
    """Errors of a hand-eye calibration, and of the camera in MuJoCo that comes of it."""
    views: list[View] = [detect(image, board, f"{number}") for number, image in enumerate(taken.images)]
    kept = [number for number, view in enumerate(views) if usable(view, board)]
    chosen = [views[number] for number in kept]
    result = hand_eye.calibrate(chosen, taken.hand_to_base[kept], board, camera, parent)
    error = transforms.inverse(taken.camera_to_parent) @ result.camera_to_parent
    return {
        f"{parent}_mm": 1e3 * float(np.linalg.norm(error[:3, 3])),
        f"{parent}_degrees": float(np.degrees(transforms.angle(error[:3, :3]))),
        f"{parent}_reprojection_px": hand_eye.rms(result.pixels),
        f"{parent}_held_out_mm": result.held_out[0],
        f"{parent}_held_out_degrees": result.held_out[1],
    } | ({"mujoco_px": in_mujoco(camera, result)} if parent is Parent.HAND else {})


def in_mujoco(camera: Camera, result: hand_eye.HandEye) -> float:
    """pixels between what MuJoCo shows of the scene and what the calibrated pinhole does."""
    import mujoco

    from sim2real.cameras import mujoco_camera

    spec = mujoco.MjSpec()
    mujoco_camera.add_to(spec.worldbody, "eye", camera, result.camera_to_parent)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return mujoco_camera.difference(model, data, "eye", camera, result.camera_to_parent)


def summary(rows: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Median, worst and mean of each number, and how many are within its bound."""
    result = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        result[name] = {"median": float(np.median(values)), "worst": float(values.max()), "mean": float(values.mean())}
        if name in BOUNDS:
            result[name]["within"] = float((values < BOUNDS[name]).sum())
    return result


if __name__ == "__main__":
    main(tyro.cli(Settings))
