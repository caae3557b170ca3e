"""Valid examples, one of each kind of file that the suite reads; cases spoil copies of them."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip # noqa: F401  (before jax, whose environment variables the package sets)

import cv2
import numpy as np

import embodied
from benchmarks.bad_input.case import call
from embodied.env.registry import join_content
from embodied.storage import checkpoints
from embodied.storage.configs import run_document
from embodied.storage.datasets.episode import Episode
from embodied.storage.datasets.layout import DatasetInfo
from embodied.storage.datasets.writer import DatasetWriter
from embodied.storage.runs import Run
from policies.training.loading import shipped_path
from policies.training.settings import default_settings
from sim2real.cameras import camera as cameras
from sim2real.cameras.camera import Mount, Parent
from sim2real.identification.calibration import Calibration, Direction, Estimate, OpenLoop
from sim2real.logs.log import Channel, Log
from sim2real.logs.read_log import write_log
from sim2real.twins.named import make_twin

TASK = "swarm/hover"
STEPS = (1000, 2000)
EPISODES = (6, 4, 5)  # frames of each
FPS = 10
TEMPLATES = Path(embodied.__file__).parent / "new" / "templates"


@functools.cache
def env() -> Any:
    """An environment that policies are loaded for."""
    made = embodied.make(TASK, 2)
    made.reset()
    return made


def make(folder: Path) -> None:
    """Write them all."""
    run(folder / "run")
    shutil.copytree(shipped_path(TASK), folder / "policy")
    dataset(folder / "dataset")
    log(folder)
    calibration().save(folder)
    pictures(folder)
    robots(folder)
    assert call("sim2real.export", TASK, "--out", str(folder / "bundle")).code == 0


def run(folder: Path) -> None:
    """A training of two checkpoints, as if it had just ended."""
    shipped = checkpoints.load(shipped_path(TASK))
    entry = join_content()[TASK]
    document = run_document(default_settings(entry)) | {"engine": "rigid", "variations": {}}
    with Run.create(folder.parent, TASK, document, folder) as made:
        for step in STEPS:
            made.log(step, {"return": step / 10, "success": 0.5})
            made.save(step, {name: tensor * (step / 1000) for name, tensor in shipped.tensors.items()}, shipped.meta)
        made.write_result({"success": 0.5, "episodes": 10})


def dataset(folder: Path) -> None:
    """Episodes whose numbers and pictures tell which frame they are of."""
    info = DatasetInfo(FPS, ("view",), (16, 16), ("x", "y"), ("push",))
    with DatasetWriter(folder, info) as writer:
        for number, length in enumerate(EPISODES):
            time = np.arange(length, dtype=np.float32)
            frames = np.broadcast_to(
                (40 * number + 20 * time).astype(np.uint8)[:, None, None, None], (length, 16, 16, 3)
            )
            state = np.stack([time / 10, np.full(length, number, np.float32)], 1)
            action = (time[:, None] - number) / 10
            writer.add(Episode(TASK, f"go {number % 2}", {"view": frames}, state, action, True, number, {}), noise=0.0)


def log(folder: Path) -> None:
    """Three joints of a Go1 that follow their commands, as CSV and MCAP."""
    time = np.arange(0.0, 4.0, 0.01)
    names = ("FR_hip", "FR_thigh", "FR_calf")
    middle = np.array([0.0, 0.9, -1.8])
    command = middle + 0.3 * np.sin(2 * np.pi * time[:, None] * np.array([0.7, 1.1, 1.3]))
    before = middle + 0.3 * np.sin(2 * np.pi * (time[:, None] - 0.03) * np.array([0.7, 1.1, 1.3]))
    rng = np.random.default_rng(0)
    measured = before + 1e-3 * rng.standard_normal(before.shape)
    speed = np.gradient(before, time, axis=0) + 1e-2 * rng.standard_normal(before.shape)
    channels = {"command": (command, "rad"), "joint_pos": (measured, "rad"), "joint_vel": (speed, "rad/s")}
    made = Log({name: Channel(time, values, names, unit) for name, (values, unit) in channels.items()})
    for suffix in ("csv", "mcap"):
        write_log(folder / f"log.{suffix}", made)


def robots(folder: Path) -> None:
    """Models of three kinds of robots, of two as MJCF and URDF, the latter with a mesh."""
    for kind in ("arm", "legged", "multirotor"):
        (folder / kind / "meshes").mkdir(parents=True)
        shutil.copy(TEMPLATES / f"{kind}.xml", folder / kind / "robot.xml")
    (folder / "legged" / "robot.urdf").write_text(quadruped())
    (folder / "arm" / "robot.urdf").write_text(serial_arm())
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * (0.1, 0.05, 0.04)
    faces = ((0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0,
        6, 4), (1, 5, 7), (1, 7, 3))  # fmt: skip
    triangles = b"".join(
        np.zeros(3, "<f4").tobytes() + corners[list(face)].astype("<f4").tobytes() + b"\0\0" for face in faces
    )
    for kind in ("legged", "arm"):
        (folder / kind / "meshes" / "box.stl").write_bytes(bytes(80) + len(faces).to_bytes(4, "little") + triangles)


def link(name: str, mass: float, shape: str, at: str = "0 0 0") -> str:
    """A URDF's link."""
    geometry = f'<origin xyz="{at}"/><geometry>{shape}</geometry>'
    inertia = f'<inertia ixx="{mass / 100}" iyy="{mass / 100}" izz="{mass / 100}" ixy="0" ixz="0" iyz="0"/>'
    weight = f'<inertial><origin xyz="{at}"/><mass value="{mass}"/>{inertia}</inertial>'
    return f'<link name="{name}">{weight}<visual>{geometry}</visual><collision>{geometry}</collision></link>'


def joint(name: str, parent: str, child: str, at: str, axis: str, low: float, high: float) -> str:
    """A URDF's joint."""
    limit = f'<limit lower="{low}" upper="{high}" effort="20" velocity="10"/>'
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="revolute">{ends}<origin xyz="{at}"/><axis xyz="{axis}"/>{limit}</joint>'


MESH = '<mesh filename="meshes/box.stl"/>'


def quadruped() -> str:
    """A URDF of a box on four legs of three joints."""
    parts = [link("trunk", 6.0, MESH)]
    for leg, (x, y) in {"FL": (1, 1), "FR": (1, -1), "RL": (-1, 1), "RR": (-1, -1)}.items():
        rod = '<cylinder radius="0.02" length="0.2"/>'
        parts += [
            link(f"{leg}_hip", 0.4, '<sphere radius="0.03"/>'),
            link(f"{leg}_thigh", 0.5, rod, "0 0 -0.1"),
            link(f"{leg}_calf", 0.2, rod, "0 0 -0.1"),
            joint(f"{leg}_hip_joint", "trunk", f"{leg}_hip", f"{0.18 * x} {0.06 * y} 0", "1 0 0", -0.8, 0.8),
            joint(f"{leg}_thigh_joint", f"{leg}_hip", f"{leg}_thigh", f"0 {0.06 * y} 0", "0 1 0", -1.0, 2.5),
            joint(f"{leg}_calf_joint", f"{leg}_thigh", f"{leg}_calf", "0 0 -0.2", "0 1 0", -2.6, -0.4),
        ]
    return f'<?xml version="1.0"?>\n<robot name="quadruped">{"".join(parts)}</robot>\n'


def serial_arm() -> str:
    """A URDF of an arm of four joints."""
    parts = [link("base", 3.0, MESH)]
    axes = ("0 0 1", "0 1 0", "0 1 0", "0 1 0")
    names = ("base", "turret", "upper_arm", "forearm", "hand")
    for number, (parent, child, axis) in enumerate(zip(names, names[1:], axes, strict=False)):
        parts.append(link(child, 1.0, '<cylinder radius="0.03" length="0.25"/>', "0 0 0.125"))
        parts.append(joint(f"j{number}", parent, child, "0 0 0.25", axis, -2.0, 2.2))
    return f'<?xml version="1.0"?>\n<robot name="arm">{"".join(parts)}</robot>\n'


def calibration() -> Calibration:
    """A calibration of a Go1's leg."""
    names = ("FR_hip", "FR_thigh", "FR_calf")
    still = {name: Channel(np.arange(2.0), np.zeros((2, 3)), names) for name in ("command", "joint_pos")}
    chosen = tuple(Estimate(one, one.nominal, 0.1) for one in make_twin("go1", Log(still)).parameters[:4])
    free = sum(estimate.parameter.free for estimate in chosen)
    covariance = tuple(tuple(0.01 * (row == column) for column in range(free)) for row in range(free))
    unseen = Direction((chosen[0].name,), (1.0,), 2.0)
    error = OpenLoop("joint_pos", 0.5, 10, 0.2, 0.1, 0.1, 0.01)
    return Calibration("go1", chosen, covariance, (unseen,), (error,), 0.002, 1.0, 1.0, True, "log.csv")


def pictures(folder: Path) -> None:
    """A picture of a green block, and the camera that took it from half a metre above the table."""
    down = Mount(Parent.BASE, (0.5, 0.0, 0.5), (0.0, 1.0, 0.0, 0.0))
    cameras.save(folder / "camera.json", cameras.Camera(64, 48, 80.0, 80.0, 31.5, 23.5), down)
    picture = np.full((48, 64, 3), 200, np.uint8)
    picture[20:30, 28:38] = (60, 180, 60)
    cv2.imwrite(str(folder / "photo.png"), picture)
