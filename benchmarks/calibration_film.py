"""A film of a calibration: a Crazyflie's flight, and its twin before and after, each from the same measured states.

python -m benchmarks.calibration_film --json benchmarks/results/sim2real/calibration-film.json

The robot is simulated in PyBullet, 8 % heavier and 10 % weaker than its model and 10 ms late; its mass is known, as
from a scale. One flight calibrates the twin. Another one, which the calibration has not seen, is filmed at half speed:
every second both twins are put into the robot's measured state, and then follow its commands alone.
"""

from __future__ import annotations

import dataclasses
import io
import tempfile
from pathlib import Path

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import cv2
import mujoco
import numpy as np
import tyro
from matplotlib.figure import Figure

import embodied
from embodied.rendering.opengl import choose_backend
from embodied.rendering.scene_state import carried_by, floating_bodies
from embodied.viewer.film import VideoWriter
from examples.full_circle import HEAVIER, MASS, ROBOT
from sim2real import calibrate, deploy, export
from sim2real.identification import simulate
from sim2real.logs.read_log import read_log
from sim2real.twins.named import make_twin

HORIZON = 1.0  # s that the twins follow commands alone
SLOWER, FPS = 2, 10  # times, frames per second of the film
SCENE, PANEL = (360, 300), (300, 300)  # width and height in pixels
TALL, ABOVE = 0.95, 0.28  # m, of what the scene shows at the robot's distance, and from the robot to its middle
NAMES = ("robot", "twin before calibration", "twin after")
COLOURS = ((0.16, 0.18, 0.21, 1.0), (0.87, 0.22, 0.12, 0.75), (0.13, 0.45, 0.92, 0.6))  # RGBA
INK = "#1f2933"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Fly twice, calibrate by the first flight, film the second."""

    out: Path = Path("docs/films/calibration.webp")
    """The film."""
    seeds: tuple[int, int] = (0, 1)
    """Of the two flights."""
    seconds: tuple[float, float] = (8.0, 4.5)
    """s of the two flights."""
    json: Path | None = None
    """File for how far apart robot and twins were."""


@dataclasses.dataclass(frozen=True)
class Tracks:
    """Windows of a flight that are filmed, by the robot and by its twin before and after."""

    poses: np.ndarray
    """(W, F, 3, 7) m and wxyz: of each window's frames the robot, the twin before and after."""
    times: np.ndarray
    """(F,) s since the window's begin."""

    @property
    def apart(self) -> np.ndarray:
        """(W, F, 2) cm: how far each twin is from the robot."""
        return 100 * np.linalg.norm(self.poses[:, :, 1:, :3] - self.poses[:, :, :1, :3], axis=-1)


def main(settings: Settings) -> None:
    """Fly, calibrate, film, and print how far apart they were."""
    with tempfile.TemporaryDirectory() as folder:
        tracks = tracks_of(Path(folder), settings)
    with VideoWriter(settings.out, FPS) as film, Stage() as stage:
        for window in range(len(tracks.poses)):
            for number in range(len(tracks.times)):
                film.add(np.hstack([stage.picture(tracks.poses[window, number]), panel(tracks, window, number)]))
    before, after = map(float, np.sqrt(np.mean(tracks.apart[:, -1] ** 2, 0)))
    size = settings.out.stat().st_size / 1e3
    cli.show(f"{settings.out}: {size:.0f} kB; after {HORIZON:g} s {before:.1f} cm apart before, {after:.1f} cm after")
    figures = {"horizon": HORIZON, "windows": len(tracks.poses), "cm_before": before, "cm_after": after}
    cli.write_result(settings.json, cli.command_line("benchmarks.calibration_film"), figures)


def tracks_of(folder: Path, settings: Settings) -> Tracks:
    """Two flights, a calibration by the first, and both twins' ways through the second."""
    export.main(["swarm/hover", "--out", str(folder / "bundle")])
    logs = [folder / f"{seed}.mcap" for seed in settings.seeds]
    for log, seed, seconds in zip(logs, settings.seeds, settings.seconds, strict=True):
        flight = ("--seed", str(seed), "--seconds", str(seconds), "--log", str(log))
        deploy.main([str(folder / "bundle"), *ROBOT, *flight])
    log = read_log(logs[0])
    known = calibrate.Settings(known={"drone_mass": MASS * HEAVIER})
    found, _ = calibrate.calibrate(log, make_twin("crazyflie", log), known, cli.say)

    flown = read_log(logs[1])
    command = flown["command"]
    flown = flown.between(command.time[0], command.time[-1])
    twin = make_twin("crazyflie", flown)
    windows = simulate.cut(flown, twin, HORIZON, HORIZON)
    starts = twin.starts(flown, windows.begin)
    values = np.stack([[estimate.parameter.nominal for estimate in found.estimates], found.values])
    channels = (output.channel for output in twin.outputs)
    ways = dict(zip(channels, twin.simulate(values, np.stack([starts] * 2), windows), strict=True))
    twins = np.concatenate([ways["position"], ways["orientation"]], -1)
    rows = np.round(np.linspace(0, HORIZON, round(HORIZON * FPS * SLOWER) + 1) / twin.timestep).astype(int)
    times = rows * twin.timestep
    robot = [twin.starts(flown, begin + times)[:, :7] for begin in windows.begin]
    return Tracks(np.stack([np.stack(robot), *twins[:, :, rows]], 2), times)


class Stage:
    """Three drones in their colours over a floor, of which the camera follows the first."""

    def __init__(self) -> None:
        self.model = embodied.make("swarm/formation", agents=len(NAMES)).task.visual_model
        self.data = mujoco.MjData(self.model)
        for body, colour in zip(floating_bodies(self.model), COLOURS, strict=True):
            geoms = np.isin(self.model.geom_bodyid, carried_by(self.model, [body]))
            self.model.geom_matid[geoms], self.model.geom_rgba[geoms] = -1, colour
        self.camera = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(self.model, self.camera)
        self.camera.distance = TALL / 2 / np.tan(np.radians(self.model.vis.global_.fovy) / 2)
        choose_backend()
        self.renderer = mujoco.Renderer(self.model, 2 * SCENE[1], 2 * SCENE[0])

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.renderer.close()

    def picture(self, poses: np.ndarray) -> np.ndarray:
        """(height, width, 3) RGB of the drones at `poses` (3, 7)."""
        self.data.qpos[:] = poses.ravel()
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        self.camera.lookat[:] = poses[0, :3] + [0, 0, ABOVE]
        self.renderer.update_scene(self.data, self.camera)
        return cv2.resize(self.renderer.render(), SCENE, interpolation=cv2.INTER_AREA)


def panel(tracks: Tracks, window: int, number: int) -> np.ndarray:
    """(height, width, 3) RGB: how far the twins are from the robot, until now; windows before it faintly."""
    figure = Figure(figsize=(PANEL[0] / 100, PANEL[1] / 100), dpi=100, layout="constrained")
    axes = figure.subplots()
    for twin, colour in enumerate(COLOURS[1:]):
        for earlier in range(window):
            axes.plot(tracks.times, tracks.apart[earlier, :, twin], color=colour[:3], alpha=0.25, linewidth=1)
        now = slice(number + 1)
        axes.plot(tracks.times[now], tracks.apart[window, now, twin], color=colour[:3], linewidth=2)
        axes.plot(tracks.times[number], tracks.apart[window, number, twin], "o", color=colour[:3], markersize=5)
    axes.set(xlim=(0, HORIZON), ylim=(-0.5, 1.05 * tracks.apart.max()))
    axes.set_xlabel("s on the commands alone", fontsize=10, color=INK)
    axes.set_ylabel("cm from the robot", fontsize=10, color=INK)
    axes.tick_params(labelsize=9, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
    for place, (name, colour) in enumerate(zip(NAMES, COLOURS, strict=True)):
        axes.text(0.04, 0.97 - 0.085 * place, name, color=colour[:3], fontsize=10, fontweight="bold",
                  transform=axes.transAxes, va="top")  # fmt: skip
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    image = cv2.imdecode(np.frombuffer(drawn.getvalue(), np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image[..., ::-1]


if __name__ == "__main__":
    main(tyro.cli(Settings))
