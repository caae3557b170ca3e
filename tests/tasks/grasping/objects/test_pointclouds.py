"""Clouds lie on surfaces, what is visible is visible, and noise is along the optical axis."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from tasks.grasping.objects.household import household
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import Camera, DepthNoise, PlacedObject, trace, visible_cloud
from tasks.grasping.objects.shapes import Part, Shape, matrix

NAMES = ("mug", "power_drill", "tomato_soup_can", "banana", "sugar_box", "bowl")
TURN = (0.5, 0.5, -0.5, 0.5)


def test_a_capsule_s_volume_is_the_formula() -> None:
    assert Part(Shape.CAPSULE, (0.02, 0.05)).volume == pytest.approx(np.pi * 0.02**2 * (4 / 3 * 0.02 + 0.1))


@pytest.mark.parametrize("name", NAMES)
def test_visible_points_are_seen_from_the_camera(name: str) -> None:
    body = PlacedObject(household(name), (0.1, -0.2, 0.3), TURN)
    camera = Camera.looking_at(body.pos, (0.5, 0.1, 0.6), width=80, height=60)
    cloud = visible_cloud([body], camera)
    assert len(cloud.points) > 30
    assert np.abs(body.distance(cloud.points)).max() < 2e-5
    toward = np.array(camera.pos) - cloud.points
    assert np.einsum("ni,ni->n", toward, cloud.normals).min() > -1e-2 * np.linalg.norm(toward, axis=-1).max()
    # Nothing of the object is on the way to the eye.
    for share in (0.01, 0.05, 0.1, 0.3):
        assert body.distance(cloud.points + share * toward).min() > 0


def test_rays_meet_a_ball_where_the_formula_says() -> None:
    ball = PlacedObject(ObjectSpec("ball", 1.0, (Part(Shape.SPHERE, (0.1,)),), (1, 1, 1, 1)), (0.5, 0, 0))
    rays = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]])
    depth, labels = trace([ball], np.zeros(3), rays)
    assert depth[0] == pytest.approx(0.4, abs=2e-5)
    assert labels.tolist() == [0, -1, -1]
    assert np.isinf(depth[1:]).all()


def test_what_stands_in_front_hides_what_is_behind() -> None:
    near, far = PlacedObject(household("cracker_box"), (0.3, 0, 0)), PlacedObject(household("apple"), (0.0, 0, 0))
    camera = Camera.looking_at((0, 0, 0), (0.8, 0, 0.0), width=60, height=60)
    assert set(visible_cloud([near, far], camera).labels) == {0}
    assert set(visible_cloud([far], camera).labels) == {0}
    both = visible_cloud([near, PlacedObject(household("apple"), (0, 0.3, 0))], camera)
    assert set(both.labels) == {0, 1}


def test_noise_is_along_the_optical_axis_and_as_large_as_said() -> None:
    body = PlacedObject(household("cracker_box"))
    camera = Camera.looking_at((0, 0, 0), (0.9, 0, 0), width=120, height=120)
    clean, noisy = (visible_cloud([body], camera, noise=noise, seed=3) for noise in (None, DepthNoise()))
    offset = noisy.points - clean.points
    rays = (clean.points - np.array(camera.pos)) / np.linalg.norm(clean.points - np.array(camera.pos), axis=-1)[:, None]
    assert np.abs(np.cross(offset, rays)).max() < 1e-9
    depth = (clean.points - np.array(camera.pos)) @ -matrix(camera.quat)[:, 2]
    error = offset @ -matrix(camera.quat)[:, 2] / DepthNoise().deviation(depth)
    assert error.std() == pytest.approx(1, abs=0.1)


def test_clouds_are_their_seeds() -> None:
    camera = Camera.looking_at((0, 0, 0), (0.4, 0, 0.3))
    chosen, again, other = (
        visible_cloud([PlacedObject(household("mug"))], camera, count=40, seed=seed).points for seed in (1, 1, 2)
    )
    assert len(chosen) == 40
    assert (chosen == again).all()
    assert not (chosen == other).all()


def test_looking_away_sees_nothing() -> None:
    camera = Camera.looking_at((1, 0, 0), (0.5, 0, 0), width=20, height=20)
    assert visible_cloud([PlacedObject(household("mug"))], camera).points.shape == (0, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: visible_cloud([], Camera.looking_at((0, 0, 0), (1, 0, 0)), count=-1), "count=-1; expected at least 1"),
        (lambda: Camera((0, 0, 0), (1, 0, 0, 0), fovy=200), "fovy=200 degrees; expected at least one pixel"),
        (lambda: Camera.looking_at((1, 0, 0), (1, 0, 0)), "cannot look at the point where it stands"),
    ],
)
def test_errors_name_what_was_given(make, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        make()
