"""Speed of drawing the cameras of many environments, and agreement of the pictures with OpenGL's.

Rate: frames per second of one camera, colours only. `frames_per_cpu_second` counts the processor time of this process,
all threads together, which other work on the same cores changes little; on a GPU it means nothing. `load` is how many
processes wanted a core meanwhile.

Agreement: the share of pixels in which the ray caster and `mujoco.Renderer` see the same geom, over random states of
each task and over its cameras. OpenGL draws without anti-aliasing, which would mix the numbers of geoms, and without
sites and tendons, which only it draws. Tasks with the same robot share its silhouette, where most of what differs lies:
their rows are not independent.

    python -m benchmarks.rendering --json FILE
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import torch
import tyro

import embodied
from embodied import cli
from embodied.env.env import Env
from embodied.rendering.opengl import choose_backend
from embodied.rendering.renderer import BatchRenderer
from embodied.rendering.scene_state import SceneReader, set_scene

TASKS = (
    "manipulation/pick-place", "manipulation/hammer", "manipulation/drawer-open", "manipulation/window-close",
    "manipulation/shelf-place", "grasping/allegro-lift", "grasping/leap-reorient", "grasping/shadow-catch",
    "swarm/hover", "swarm/swap", "swarm/navigation", "locomotion/go1-joystick-flat", "locomotion/go2-joystick-rough",
    "locomotion/g1-joystick-flat", "locomotion/ant", "locomotion/humanoid", "locomotion/reach-walker-7-full",
)  # fmt: skip
LEAST = 0.98  # share of pixels, required of every task
CAMERAS = 3  # of each task, at most


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = TASKS
    """Tasks whose pictures are compared."""
    states: int = 4
    """Random states of each."""
    steps: int = 10
    """Random actions that lead to them."""
    side: int = 64
    """pixels, of the compared pictures."""
    rate_task: str = "manipulation/pick-place"
    """Task whose frames are counted."""
    rate_camera: str = "view"
    sides: tuple[int, ...] = (64, 128)
    """pixels."""
    num_envs: tuple[int, ...] = (64, 256, 1024)
    repeats: int = 3
    """Timed batches; the fastest counts."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    choose_backend()
    rates, rows = [], []
    cases = [(side, count) for side in settings.sides for count in settings.num_envs]
    with cli.Line("rendering", len(cases) + len(settings.tasks)) as line:
        for number, (side, count) in enumerate(cases):
            rates.append(rate(settings, side, count))
            line.update(number + 1, f"{count} x {side} px: {rates[-1]['frames_per_second']:.0f} frames/s")
        for number, task in enumerate(settings.tasks):
            rows.append(agreement(task, settings))
            line.update(len(cases) + number + 1, f"{task}: {rows[-1]['same']:.2%}")
    shown = {f"{row['num_envs']} x {row['side']} px, frames/s": cli.number(row["frames_per_second"]) for row in rates}
    shown |= {row["task"]: f"{row['same']:.2%}" for row in rows}
    cli.show(cli.table("cameras", shown))
    worst = min((row["same"] for row in rows), default=1.0)
    result = {"same_worst": worst, "least": LEAST, "threads": torch.get_num_threads(), "load": os.getloadavg()[0]}
    cli.write_result(
        settings.json, cli.command_line("benchmarks.rendering"), {**result, "rates": rates, "agreement": rows}
    )


def rate(settings: Settings, side: int, count: int) -> dict[str, float]:
    """Frames per second of `count` environments with images of `side` pixels."""
    env = embodied.make(settings.rate_task, count)
    env.reset()
    state = jax.block_until_ready(env.render_state())
    renderer = BatchRenderer(env.task.visual_model, count, (settings.rate_camera,), (side, side))
    renderer.render(state, torch.tensor([0]))
    seconds, cpu_seconds = [], []
    for _ in range(settings.repeats):
        begin, cpu = time.perf_counter(), time.process_time()
        renderer.render(state)
        if renderer.device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        cpu_seconds.append(time.process_time() - cpu)
    return {
        "num_envs": count,
        "side": side,
        "frames_per_second": count / min(seconds),
        "frames_per_cpu_second": count / min(cpu_seconds),
    }


def agreement(task: str, settings: Settings) -> dict[str, Any]:
    """Share of pixels in which both renderers see the same geom: over all cameras, and of each."""
    env = embodied.make(task, settings.states)
    env.reset()
    generator = torch.Generator().manual_seed(0)
    for _ in range(settings.steps):
        env.step(2 * torch.rand(env.action_shape, generator=generator) - 1)
    model = copy.copy(env.task.visual_model)
    cameras = [model.camera(i).name for i in range(model.ncam)][:CAMERAS]
    size = (settings.side, settings.side)
    renderer = BatchRenderer(model, settings.states, cameras, size, rgb=False, segmentation=True)
    seen = renderer.render(env.render_state())
    drawn = drawn_by_opengl(env, model, cameras, settings.side)
    same = {}
    for name in cameras:
        ids = seen[name].segmentation
        assert ids is not None
        same[name] = float((ids.cpu().numpy() == drawn[name]).mean())
    return {"task": task, "same": float(np.mean(list(same.values()))), "cameras": same}


def drawn_by_opengl(env: Env, model: mujoco.MjModel, cameras: list[str], side: int) -> dict[str, np.ndarray]:
    """Camera -> (N, side, side) ids of geoms, -1 where there is none."""
    model.vis.quality.offsamples = 0
    data, state = mujoco.MjData(model), SceneReader(env, debug_visualization=False).read()
    option = mujoco.MjvOption()
    option.sitegroup[:] = 0
    option.tendongroup[:] = 0
    found: dict[str, list[np.ndarray]] = {name: [] for name in cameras}
    renderer = mujoco.Renderer(model, side, side, max_geom=20_000)
    renderer.enable_segmentation_rendering()
    for index in range(env.num_envs):
        set_scene(model, data, state, index)
        for name in cameras:
            renderer.update_scene(data, name, option)
            ids, kinds = np.moveaxis(renderer.render(), -1, 0)
            found[name].append(np.where(kinds == mujoco.mjtObj.mjOBJ_GEOM, ids, -1))
    renderer.close()
    return {name: np.stack(images) for name, images in found.items()}


if __name__ == "__main__":
    main(tyro.cli(Settings))
