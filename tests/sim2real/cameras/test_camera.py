import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.math import transforms
from sim2real.cameras import camera as files
from sim2real.cameras.calibrate_hand_eye import read_poses
from sim2real.cameras.camera import Camera, CameraError, Mount, Parent
from tests.kit.fakes import given
from tests.kit.rehearsal import looking_at


@pytest.mark.parametrize("read", [files.load, read_poses], ids=lambda read: read.__name__)
def test_a_pipe_in_a_files_place_is_refused_and_not_waited_for(read: Callable[[Path], Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CameraError, match="pipe': it is no regular file"):
        read(tmp_path / "pipe")


def test_a_file_gives_back_every_bit(camera: Camera, tmp_path: Path) -> None:
    mount = Mount.of(Parent.HAND, transforms.pose(np.array([0.1, 0.2, 1 / 3]), np.array([1 / 7, 0.0, -2.0])))
    files.save(tmp_path / "a" / "camera.json", camera, mount, {"held_out_mm": float("nan"), "views": ["x"]})
    document = files.load(tmp_path / "a" / "camera.json")
    assert document.camera == camera
    assert document.mount == mount
    np.testing.assert_allclose(given(document.mount).camera_to_parent, mount.camera_to_parent)
    json.loads((tmp_path / "a" / "camera.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not JSON"),
        ("[1, 2]", "no camera file of format 1"),
        ('{"format": 2, "camera": {}}', "no camera file of format 1"),
        ('{"format": 1, "camera": {"width": 4}}', "no camera file"),
        ('{"format": 1, "camera": {"widht": 4}}', "unknown fields widht"),
        ('{"format": 1, "camera": {"width":4,"height":4,"fx":-1,"fy":1,"cx":0,"cy":0}}', "expected positive numbers"),
        ('{"format": 1, "camera": {"width":4,"height":4,"fx":"a","fy":1,"cx":0,"cy":0}}', "expected a number"),
        ('{"format": 1, "camera": {"width":4,"height":4,"fx":1,"fy":1,"cx":0,"cy":NaN}}', "cy is nan; expected"),
        ('{"format":1,"camera":{"width":4,"height":4,"fx":1,"fy":1,"cx":0,"cy":0,"distortion":[1]}}', "k1, k2, p1, p2"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_what_is_no_camera_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "camera.json").write_text(text)
    with pytest.raises(CameraError, match=message):
        files.load(tmp_path / "camera.json")


def test_missing_and_huge_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CameraError, match=r"cannot read the camera .*none.json"):
        files.load(tmp_path / "none.json")
    (tmp_path / "large.json").write_bytes(b" " * (files.MOST_BYTES + 1))
    with pytest.raises(CameraError, match="more than 1048576 bytes"):
        files.load(tmp_path / "large.json")


def test_projection_is_the_formula_of_brown_and_conrady(camera: Camera) -> None:
    x, y, z = 0.2, -0.1, 0.8
    k1, k2, p1, p2 = camera.distortion
    u, v = x / z, y / z
    r2 = u * u + v * v
    radial = 1 + k1 * r2 + k2 * r2 * r2
    expected = [
        camera.fx * (u * radial + 2 * p1 * u * v + p2 * (r2 + 2 * u * u)) + camera.cx,
        camera.fy * (v * radial + p1 * (r2 + 2 * v * v) + 2 * p2 * u * v) + camera.cy,
    ]
    np.testing.assert_allclose(camera.project(np.array([[x, y, z]]), np.eye(4)), [expected], rtol=1e-12)


def test_enlarged_images_keep_their_edges(camera: Camera) -> None:
    point = np.array([[0.1, 0.2, 1.0]])
    small, large = camera.project(point, np.eye(4)), camera.scaled(3).project(point, np.eye(4))
    np.testing.assert_allclose((small + 0.5) * 3, large + 0.5)  # distance from the image's corner, not from a pixel


def test_what_a_camera_looks_at_is_before_it_and_down_is_down() -> None:
    camera_to_world = looking_at(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.0]), np.array([0, 0, -1.0]))
    assert np.linalg.det(camera_to_world[:3, :3]) == pytest.approx(1.0)
    target = transforms.inverse(camera_to_world) @ [0.0, 0.0, 0.0, 1.0]
    np.testing.assert_allclose(target[:3], [0, 0, np.sqrt(14)], atol=1e-12)
    assert camera_to_world[2, 1] < 0  # its y axis points downwards
