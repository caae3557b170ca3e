"""Superquadrics: formulas against sampling and differences; the fit recovers them, moves with the cloud, gives up."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from tasks.grasping.objects.household import household
from tasks.grasping.objects.pointclouds import Camera, PlacedObject, visible_cloud
from tasks.grasping.objects.shapes import matrix
from tasks.grasping.planner.half_spaces import known
from tasks.grasping.planner.superquadric_fit import FitSettings, fit_superquadric
from tasks.grasping.planner.superquadrics import Superquadric, placed

EXPONENTS = ((1.0, 1.0), (0.1, 0.1), (0.1, 1.0), (0.4, 1.5), (2.0, 2.0))
PROBES = 20_000


def random_one(seed: int) -> Superquadric:
    random = np.random.default_rng(seed)
    axes, exponents = random.uniform(0.015, 0.08, 3), random.uniform(0.1, 1.3, 2)
    return placed(axes, exponents, random.uniform(-0.3, 0.3, 3), matrix(random.normal(size=4)))


def shared(first: Superquadric, second: Superquadric) -> float:
    """Intersection over union of two volumes."""
    both = np.concatenate([first.surface(500), second.surface(500)])
    probes = np.random.default_rng(1).uniform(both.min(0), both.max(0), (PROBES, 3))
    one, other = first.gauge(probes) <= 1, second.gauge(probes) <= 1
    return float(np.sum(one & other) / np.sum(one | other))


def half_cloud(true: Superquadric, seed: int) -> np.ndarray:
    points = true.surface(800, seed)
    return points[true.normals(points) @ np.random.default_rng(seed + 1000).normal(size=3) > 0]


@pytest.mark.parametrize("exponents", EXPONENTS)
def test_surface_volume_and_functions_agree(exponents: tuple[float, float]) -> None:
    shape = Superquadric((0.03, 0.05, 0.08), exponents, (0.1, 0.2, 0.3), (0.5, 0.5, 0.5, 0.5))
    points = shape.surface(1500)
    assert shape.gauge(points) == pytest.approx(1)
    x, y, z = (np.abs(shape.local(points)) * 0.9 / np.array(shape.axes)).T
    e1, e2 = exponents
    textbook = (x ** (2 / e2) + y ** (2 / e2)) ** (e2 / e1) + z ** (2 / e1)
    shrunk = np.array(shape.pos) + 0.9 * (points - np.array(shape.pos))
    assert shape.gauge(shrunk) ** (2 / e1) == pytest.approx(textbook)
    probes = np.random.default_rng(0).uniform(-0.1, 0.1, (100_000, 3)) + np.array(shape.pos)
    assert shape.volume == pytest.approx(np.mean(shape.gauge(probes) <= 1) * 0.2**3, rel=0.05)


def test_a_ball_is_a_ball() -> None:
    ball = Superquadric((0.05, 0.05, 0.05), (1.0, 1.0))
    assert ball.volume == pytest.approx(4 / 3 * np.pi * 0.05**3)
    points = np.random.default_rng(0).normal(size=(50, 3))
    assert ball.gauge(points) == pytest.approx(np.linalg.norm(points, axis=-1) / 0.05)
    assert ball.normals(points) == pytest.approx(points / np.linalg.norm(points, axis=-1, keepdims=True))
    # Even by area: any octant holds an eighth, any slice its share of the height.
    surface = ball.surface(8000)
    assert np.mean(surface[:, 2] > 0.025) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(("half", "median", "worst"), [(False, 0.98, 0.9), (True, 0.9, 0.6)])
def test_the_fit_recovers_superquadrics(half: bool, median: float, worst: float) -> None:
    found = []
    for seed in range(10):
        true = random_one(seed)
        fit = fit_superquadric(half_cloud(true, seed) if half else true.surface(800, seed))
        assert fit.shape is not None
        found.append(shared(fit.shape, true))
    assert np.median(found) > median
    assert min(found) > worst


def test_outliers_are_left_out() -> None:
    true = random_one(1)
    random = np.random.default_rng(5)
    stray = random.uniform(-0.1, 0.1, (16, 3)) + np.array(true.pos)
    fit = fit_superquadric(np.concatenate([true.surface(800), stray]))
    assert fit.shape is not None
    assert shared(fit.shape, true) > 0.85
    assert fit.inliers < 0.98


def test_the_fit_moves_with_the_cloud() -> None:
    item = household("sugar_box")
    body = PlacedObject(item, (0.0, 0.0, item.extents[2] / 2))
    camera = Camera.looking_at(body.pos, (0.4, 0.25, 0.45), width=80, height=60)
    points = visible_cloud([body], camera).points
    here = fit_superquadric(points, up=(0, 0, 1), table=0.0, eye=camera.pos).shape
    turn, shift = matrix((0.8, 0.2, -0.4, 0.4)), np.array([0.3, -0.2, 0.5])
    up = turn[:, 2]
    eye = turn @ np.array(camera.pos) + shift
    there = fit_superquadric(points @ turn.T + shift, up=up, table=float(up @ shift), eye=eye).shape
    assert here is not None
    assert there is not None
    assert there.axes == pytest.approx(here.axes, abs=5e-4) or shared(there, here.moved(shift, turn)) > 0.97
    assert there.pos == pytest.approx(turn @ np.array(here.pos) + shift, abs=2e-3)


def test_a_table_keeps_the_fit_above_it() -> None:
    x, y, z = household("gelatin_box").extents / 2
    thing = Superquadric((x, y, z), (0.1, 0.1))
    cloud, low = thing.surface(900), -z
    top = cloud[thing.normals(cloud)[:, 2] > -0.5]
    fit = fit_superquadric(top, up=(0, 0, 1), table=low).shape
    assert fit is not None
    assert fit.surface(2000)[:, 2].min() > low - 0.003


BAD = {
    "empty": (np.zeros((0, 3)), "too few points: 0, at least 30 are needed"),
    "few": (np.random.default_rng(0).normal(size=(10, 3)), "too few points: 10"),
    "one point": (np.ones((100, 3)), "on a line: 0 mm across"),
    "collinear": (np.outer(np.linspace(0, 1, 100), [1.0, 2.0, 3.0]), "on a line"),
    "planar": (np.random.default_rng(0).uniform(size=(200, 3)) * [1, 1, 0], "on a plane: 0 mm across"),
}


@pytest.mark.parametrize("kind", BAD)
def test_clouds_without_a_shape_give_a_reason(kind: str) -> None:
    points, reason = BAD[kind]
    fit = fit_superquadric(points, up=(0, 0, 1))
    assert fit.shape is None
    assert reason in fit.reason


def test_any_cloud_ends() -> None:
    random = np.random.default_rng(0)
    for points in (
        random.normal(size=(200, 3)),
        random.normal(size=(200, 3)) * [1, 1e-3, 1e-3],
        random.random((40, 3)),
    ):
        fit = fit_superquadric(points, settings=FitSettings(steps=20))
        assert fit.shape is not None
        assert np.isfinite(fit.shape.axes).all()


GOOD = random_one(0).surface(100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit_superquadric(np.zeros((4, 2))), r"a cloud of shape \(4, 2\); expected \(n, 3\), in m"),
        (lambda: fit_superquadric(np.full((50, 3), np.nan)), "50 of 50 points of the cloud are not finite"),
        (lambda: fit_superquadric(GOOD, up=(0, 0, 0)), "expected a direction of three finite numbers"),
        (lambda: fit_superquadric(GOOD, table=0.0), "table=0.0 with up=None; expected a height in m and the vertical"),
        (lambda: fit_superquadric(GOOD, eye=GOOD.mean(0)), "expected a point in m that has the whole cloud before it"),
        (lambda: FitSettings(points=3), "expected at least 30 points"),
        (lambda: Superquadric((0.1, 0.0, 0.1), (1, 1)), "expected three positive lengths"),
        (lambda: Superquadric((0.1, np.nan, 0.1), (1, 1)), "expected three positive lengths"),
        (lambda: Superquadric((0.1, 0.1, 0.1), (0.0, 1)), "expected two from 0.1 to 2.0"),
        (lambda: Superquadric((0.1, 0.1, 0.1), (1, 1), quat=(0, 0, 0, 0)), "expected m and a unit quaternion"),
        (lambda: Superquadric((0.1, 0.1, 0.1), (1, 1)).surface(0), "count=0; expected at least 1"),
    ],
)
def test_errors_name_what_was_given(make, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        make()


def test_a_cloud_lies_within_what_a_camera_knows() -> None:
    points = random_one(2).surface(500) + np.array([1.0, 0, 0])
    confines = known(points, np.array([0.0, 0.0, 1.0]), float(points[:, 2].min()), (0, 0, 0))
    assert (points @ confines.normals.T <= confines.offsets + 1e-9).all()
