import mujoco
import numpy as np
import pytest

from embodied.errors import UnknownNameError
from embodied.math import transforms
from sim2real.cameras import mujoco_camera
from sim2real.cameras.camera import Camera, CameraError


def random_camera(rng: np.random.Generator) -> tuple[Camera, np.ndarray]:
    width, height = (int(n) for n in rng.integers(100, 1500, 2))
    camera = Camera(width, height, *rng.uniform(0.4, 2.0, 2) * width, *rng.uniform(0.3, 0.7, 2) * [width, height])
    return camera, transforms.pose(rng.normal(size=3), rng.normal(size=3))


def scene(camera: Camera, camera_to_body: np.ndarray) -> tuple[mujoco.MjModel, mujoco.MjData, np.ndarray]:
    """A camera on a turned body; also camera_to_world."""
    spec = mujoco.MjSpec()
    body_to_world = transforms.pose(np.array([0.3, -0.2, 1.0]), np.array([1.0, 2.0, 3.0]))
    body = spec.worldbody.add_body(pos=body_to_world[:3, 3], quat=transforms.wxyz_from_matrix(body_to_world[:3, :3]))
    mujoco_camera.add_to(body, "eye", camera, camera_to_body)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data, body_to_world @ camera_to_body


@pytest.mark.parametrize("seed", range(5))
def test_the_camera_in_mujoco_is_the_calibrated_pinhole(seed: int) -> None:
    camera, to_body = random_camera(np.random.default_rng(seed))
    model, data, to_world = scene(camera, to_body)
    assert mujoco_camera.difference(model, data, "eye", camera, to_world) < 0.05  # MuJoCo keeps intrinsics in float32
    np.testing.assert_allclose(mujoco_camera.camera_to_world(data, "eye"), to_world, atol=1e-9)
    back = mujoco_camera.read(model, "eye")
    assert (back.width, back.height) == (camera.width, camera.height)
    np.testing.assert_allclose(
        (back.fx, back.fy, back.cx, back.cy), (camera.fx, camera.fy, camera.cx, camera.cy), rtol=1e-4
    )


def test_a_wrong_axis_or_sign_is_seen() -> None:
    camera, to_body = random_camera(np.random.default_rng(9))
    model, data, to_world = scene(camera, to_body)
    flipped = to_world @ mujoco_camera.MUJOCO_TO_OPENCV
    assert not mujoco_camera.difference(model, data, "eye", camera, flipped) < 10
    model.cam_intrinsic[0, 3] *= -1
    assert mujoco_camera.difference(model, data, "eye", camera, to_world) > 1


def test_the_element_says_the_same_as_the_camera_added() -> None:
    camera, to_body = random_camera(np.random.default_rng(3))
    text = mujoco_camera.Attributes.of(camera, to_body).mjcf("eye")
    pasted = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody><body>{text}</body></worldbody></mujoco>")
    spec = mujoco.MjSpec()
    mujoco_camera.add_to(spec.worldbody.add_body(), "eye", camera, to_body)
    added = spec.compile()
    for field in ("cam_pos", "cam_quat", "cam_resolution", "cam_sensorsize", "cam_intrinsic", "cam_fovy"):
        np.testing.assert_allclose(getattr(pasted, field), getattr(added, field), rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("drawing")
def test_points_are_drawn_where_the_calibrated_camera_shows_them() -> None:
    """The renderer is the judge of signs: bright balls lie where OpenCV projects their centres."""
    rng = np.random.default_rng(1)
    camera = Camera(400, 300, 350.0, 330.0, 150.0, 180.0)
    spec = mujoco.MjSpec()
    spec.visual.headlight.ambient = [1.0] * 3
    spec.visual.map.znear, spec.stat.extent = 0.01, 1.0
    to_world = transforms.pose(rng.normal(size=3), rng.normal(size=3))
    mujoco_camera.add_to(spec.worldbody, "eye", camera, to_world)
    spots = np.array([[-0.25, -0.3, 1.0], [0.5, 0.2, 1.2], [0.1, -0.4, 1.5], [-0.3, 0.3, 0.9]])
    for number, spot in enumerate(spots):
        place = to_world[:3, :3] @ spot + to_world[:3, 3]
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.01, 0, 0], pos=place,
                                rgba=[*np.eye(3)[number % 3] * (number < 3) + (number == 3), 1.0])  # fmt: skip
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with mujoco.Renderer(model, camera.height, camera.width) as renderer:
        renderer.update_scene(data, "eye")
        image = renderer.render().astype(float)
    expected = camera.project(spots, np.eye(4))
    np.testing.assert_allclose(mujoco_camera.project(model, data, "eye", spots @ to_world[:3, :3].T + to_world[:3, 3]),
                               expected, atol=0.02)  # fmt: skip
    rows, columns = np.mgrid[: camera.height, : camera.width]
    for x, y in expected:
        near = (np.abs(columns - x) < 8) & (np.abs(rows - y) < 8)
        weight = image.sum(-1) * near
        assert weight.sum() > 0
        centre = (weight * columns).sum() / weight.sum(), (weight * rows).sum() / weight.sum()
        np.testing.assert_allclose(centre, (x, y), atol=0.3)


def test_unknown_cameras_and_those_without_a_sensor_are_named() -> None:
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><camera name='a'/></worldbody></mujoco>")
    with pytest.raises(UnknownNameError, match="unknown camera 'b'; known: a"):
        mujoco_camera.read(model, "b")
    with pytest.raises(CameraError, match="camera 'a' has no sensorsize"):
        mujoco_camera.read(model, "a")
