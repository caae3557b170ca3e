"""Rays in closed form agree with sphere tracing and with MuJoCo's own, and with what a formula says by hand."""

import dataclasses

import mujoco
import numpy as np
import pytest

from tasks.grasping.clutter.ray_casting import cast_rays, depth_images
from tasks.grasping.objects.drop_and_settle import table_of
from tasks.grasping.objects.household import household
from tasks.grasping.objects.object_spec import object_spec
from tasks.grasping.objects.pointclouds import Camera, PlacedObject, trace
from tasks.grasping.objects.shapes import box, capsule, cylinder, sphere

CAMERA = Camera.looking_at((0, 0, 0.05), (0.1, -0.5, 0.45), 35, 64, 48)
EYE = np.array(CAMERA.pos)
GREY = (0.5, 0.5, 0.5, 1.0)
SHAPES = {
    "box": box((0.1, 0.06, 0.08), (0, 0, 0)),
    "cylinder": cylinder(0.08, (0, 0, -0.04), (0, 0, 0.05)),
    "capsule": capsule(0.05, (0, 0, -0.04), (0, 0, 0.03)),
    "sphere": sphere(0.09, (0, 0, 0)),
}


def placed(name: str, pos: tuple[float, float, float] = (0.01, -0.02, 0.06)) -> PlacedObject:
    """A shape, or a household object, turned about all axes."""
    quat = np.array([0.8, 0.3, -0.4, 0.2])
    w, x, y, z = (float(value) for value in quat / np.linalg.norm(quat))
    item = object_spec(name, 0.1, (SHAPES[name],), GREY) if name in SHAPES else household(name)
    return PlacedObject(item, pos, (w, x, y, z))


@pytest.mark.parametrize("name", [*SHAPES, "mug", "bleach_cleanser", "banana"])
def test_sphere_tracing_agrees(name: str) -> None:
    entry = placed(name)
    ours, _ = cast_rays(entry, EYE, CAMERA.rays)
    theirs, _ = trace([entry], EYE, CAMERA.rays)
    both = np.isfinite(ours) & np.isfinite(theirs)
    assert both.sum() > 50
    # Rays that graze a surface may be lost by tracing, a few of thousands.
    assert (np.isfinite(ours) != np.isfinite(theirs)).sum() <= 2
    off = np.abs(ours[both] - theirs[both])
    assert np.median(off) < 2e-5
    assert np.quantile(off, 0.98) < 1e-3


@pytest.mark.parametrize("name", [*SHAPES, "power_drill", "pitcher_base"])
def test_mujoco_agrees_to_rounding(name: str) -> None:
    entry = placed(name)
    model = table_of([entry.item], ["object"]).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = [*entry.pos, *entry.quat]
    mujoco.mj_forward(model, data)
    # The true shapes of cylinders, not the prisms that stand for them in contacts; and no table.
    shown = np.array([1, 0, 1, 0, 0, 0], np.uint8)
    model.geom_group[model.geom("table").id] = 5
    ours, _ = cast_rays(entry, EYE, CAMERA.rays)
    geom = np.zeros(1, np.int32)
    found = [mujoco.mj_ray(model, data, EYE, ray, shown, True, -1, geom, None) for ray in CAMERA.rays]
    theirs = np.where(np.array(found) < 0, np.inf, found)
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
    np.testing.assert_allclose(ours[np.isfinite(ours)], theirs[np.isfinite(theirs)], atol=1e-11)


def test_a_ball_by_hand() -> None:
    ball = PlacedObject(object_spec("ball", 1.0, (sphere(0.2, (0, 0, 0)),), GREY), (0.0, 1.0, 0.0))
    rays = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    depth, part = cast_rays(ball, np.zeros(3), rays)
    np.testing.assert_allclose(depth, [0.9, np.inf, np.inf])
    assert part.tolist() == [0, -1, -1]


def test_the_part_that_is_met_first_is_named_and_rays_may_begin_anywhere() -> None:
    pair = object_spec("pair", 1.0, (box((0.1, 0.1, 0.1), (0, 0, 0)), box((0.1, 0.1, 0.1), (0.3, 0, 0))), GREY)
    entry = PlacedObject(pair)
    starts = np.array([[-1.0, 0, 0], [1.0, 0, 0], [0.0, 0, 1.0]])
    depth, part = cast_rays(entry, starts, np.array([[1.0, 0, 0], [-1.0, 0, 0], [0.0, 0, 1.0]]))
    assert part.tolist() == [0, 1, -1]
    np.testing.assert_allclose(depth, [0.8, 0.8, np.inf])


def test_images_have_the_cameras_shape_and_do_not_know_of_one_another() -> None:
    first, second = placed("mug"), placed("box", (0.0, -0.1, 0.1))
    images = depth_images([first, second], CAMERA)
    assert images.shape == (2, 48, 64)
    np.testing.assert_array_equal(images[0], depth_images([first], CAMERA)[0])
    finer = depth_images([first], dataclasses.replace(CAMERA, width=192, height=144))[0]
    # The middle of three by three finer pixels is the pixel's own.
    np.testing.assert_allclose(finer[1::3, 1::3], images[0], rtol=1e-12)
