"""Household and random objects: published masses and sizes, true inertia, rest, sensors, and who is held out."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec, load_spec
from embodied.errors import EmbodiedError, UnknownNameError
from tasks.grasping.objects.household import HELD_OUT, HOUSEHOLD, TRAIN, household
from tasks.grasping.objects.model import add_object, contact_parts
from tasks.grasping.objects.object_spec import ObjectSpec, object_spec
from tasks.grasping.objects.random_objects import random_object
from tasks.grasping.objects.shapes import Part, Shape, wall

# The YCB table, a second time and in its own units: g and mm. Largest first.
YCB = {
    "cracker_box": (411, (210, 158, 60)),
    "sugar_box": (514, (175, 89, 38)),
    "pudding_box": (187, (110, 89, 35)),
    "gelatin_box": (97, (85, 73, 28)),
    "wood_block": (729, (200, 85, 85)),
    "foam_brick": (28, (75, 50, 50)),
    "master_chef_can": (414, (139, 102, 102)),
    "tomato_soup_can": (349, (101, 66, 66)),
    "tuna_fish_can": (171, (85, 85, 33)),
    "potted_meat_can": (370, (97, 82, 50)),
    "mustard_bottle": (603, (190, 95, 58)),
    "bleach_cleanser": (1131, (250, 98, 65)),
    "pitcher_base": (178, (235, 146, 108)),  # 108 x 235 without the handle
    "bowl": (147, (159, 159, 53)),
    "mug": (118, (117, 82, 80)),  # 80 x 82 without the handle
    "banana": (66, (188, 84, 36)),  # 36 x 190 along the arc
    "apple": (68, (75, 75, 75)),
    "pear": (49, (100, 66.2, 66.2)),
    "tennis_ball": (58, (64.7, 64.7, 64.7)),
    "power_drill": (895, (186, 183, 57)),  # 35 x 46 x 184: the body; over all by eye
    "scissors": (82, (200, 87, 14)),
    "large_marker": (15.8, (121, 18, 18)),
}


def model_of(item: ObjectSpec, scene: str = "scenes/floor.xml", touch: bool = False) -> mujoco.MjModel:
    spec = load_spec(scene)
    add_object(spec, item, touch=touch).pos = [0, 0, item.extents[2] / 2 + 0.005]
    return compile_spec(spec)


def test_the_table_is_complete() -> None:
    assert set(YCB) == set(HOUSEHOLD)


@pytest.mark.parametrize("name", YCB)
def test_mass_and_size_are_the_published_ones(name: str) -> None:
    mass, size = YCB[name]
    item = household(name)
    assert 1000 * item.mass == pytest.approx(mass)
    assert 1000 * np.sort(item.extents)[::-1] == pytest.approx(size, abs=1.5)
    assert item.bounds[0] == pytest.approx(-item.bounds[1], abs=1e-12)


@pytest.mark.parametrize("name", YCB)
def test_inertia_equals_a_sampled_estimate(name: str) -> None:
    item = household(name)
    low, high = item.bounds
    points = np.random.default_rng(3).uniform(low, high, (60_000, 3))
    depth = item.distance(points)
    inside = points[(depth <= 0) & (depth > -(item.shell or np.inf))]
    centre = inside.mean(0)
    second = (inside - centre).T @ (inside - centre) * item.mass / len(inside)
    expected = np.trace(second) * np.eye(3) - second
    found = item.properties
    # Thin walls hold few of the points: their estimate is the coarser of the two.
    share = 6 / np.sqrt(len(inside))
    assert found.centre == pytest.approx(centre, abs=share * np.max(high - low) / 4)
    assert np.abs(found.inertia - expected).max() < share * expected.max()
    moments, _ = found.principal
    assert moments[0] <= moments[1] + moments[2]


def test_a_box_has_the_inertia_of_the_formula() -> None:
    item = household("sugar_box")
    x, y, z = item.extents
    expected = item.mass / 12 * np.diag([y**2 + z**2, x**2 + z**2, x**2 + y**2])
    assert item.properties.inertia == pytest.approx(expected, abs=5e-3 * expected.max())


def test_a_thin_shell_turns_like_one() -> None:
    shell = ObjectSpec("ball", 1.0, (Part(Shape.SPHERE, (0.1,)),), (1, 1, 1, 1), shell=0.01)
    inner, outer = 0.09, 0.1
    expected = 2 / 5 * (outer**5 - inner**5) / (outer**3 - inner**3)
    assert shell.properties.inertia == pytest.approx(expected * np.eye(3), rel=0.02, abs=0.02 * expected)


def test_overlapping_parts_count_once() -> None:
    one = ObjectSpec("one", 1.0, (Part(Shape.BOX, (0.1, 0.1, 0.1)),), (1, 1, 1, 1))
    twice = ObjectSpec("two", 1.0, (*one.parts, Part(Shape.BOX, (0.1, 0.1, 0.1))), (1, 1, 1, 1))
    assert twice.volume == pytest.approx(one.volume)
    assert twice.properties.inertia == pytest.approx(one.properties.inertia)


def test_the_model_has_mass_inertia_and_sensors() -> None:
    item = household("power_drill")
    model = model_of(item, touch=True)
    body = model.body("object")
    assert body.mass[0] == pytest.approx(item.mass)
    assert body.inertia == pytest.approx(item.properties.principal[0])
    assert body.ipos == pytest.approx(item.properties.centre)
    names = {model.sensor(i).name for i in range(model.nsensor)}
    assert names == {f"object_{what}" for what in ("pos", "quat", "linvel", "angvel", "touch")}
    data = mujoco.MjData(model)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert data.sensor("object_touch").data[0] == pytest.approx(9.81 * item.mass, rel=0.02)


@pytest.mark.parametrize("name", YCB)
def test_it_comes_to_rest_where_it_was_put_and_stays(name: str) -> None:
    item = household(name)
    model = model_of(item)
    model.opt.timestep = 0.004
    data = mujoco.MjData(model)
    while data.time < 2:
        mujoco.mj_step(model, data)
    rested, turned = data.qpos[:3].copy(), data.qpos[3:].copy()
    assert np.abs(data.qvel[:3]).max() < 0.01, "it still moves"
    assert item.rolls or np.abs(data.qpos[3:] @ [1, 0, 0, 0]) > 0.98, "it fell over"
    while data.time < 3:
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos[:3] - rested).max() < 0.002
    assert abs(turned @ data.qpos[3:]) > 0.9999


def test_a_cylinder_is_an_octagon_of_the_same_volume_in_contacts() -> None:
    cylinder = Part(Shape.CYLINDER, (0.04, 0.05), (0.1, 0, 0), (np.sqrt(0.5), np.sqrt(0.5), 0, 0))
    union = ObjectSpec("octagon", 1.0, contact_parts(cylinder), (1, 1, 1, 1))
    assert len(union.parts) == 4
    assert union.volume == pytest.approx(cylinder.volume, rel=0.01)
    turn, height, share = np.random.default_rng(0).uniform([[0], [-1], [0]], [[2 * np.pi], [1], [1]], (3, 500))
    around = 0.04 * np.stack([np.cos(turn), np.sin(turn), 0 * turn], -1)
    up = 0.05 * np.array([0, 0, 1.0])
    mantle, end = around + height[:, None] * up, np.sqrt(share)[:, None] * around + up
    on = np.concatenate([mantle, end, -end]) @ cylinder.rotation.T + cylinder.pos
    assert cylinder.distance(on) == pytest.approx(0, abs=1e-12)
    assert np.abs(union.distance(on)).max() < 0.06 * 0.04
    assert contact_parts(Part(Shape.SPHERE, (0.1,))) == (Part(Shape.SPHERE, (0.1,)),)


def test_every_contact_shape_meets_every_other_on_mjx() -> None:
    mjx = pytest.importorskip("mujoco.mjx")
    spec = load_spec("scenes/floor.xml")
    for name in ("sugar_box", "large_marker", "apple"):
        add_object(spec, household(name), name)
    mjx.put_model(compile_spec(spec), impl="jax")
    kinds = {shape.shape for item in HOUSEHOLD.values() for part in item.parts for shape in contact_parts(part)}
    assert kinds == {Shape.BOX, Shape.CAPSULE, Shape.SPHERE}


def test_a_wall_leans_by_its_diameters() -> None:
    cup = object_spec("cup", 0.1, wall(0.06, 0.10, 0.0, 0.08, 0.004, 12), (1, 1, 1, 1))
    assert cup.extents[:2] == pytest.approx([0.10, 0.10], abs=0.003)
    assert cup.extents[2] == pytest.approx(0.08, abs=0.004)
    assert cup.distance(np.zeros((1, 3)))[0] > 0.03, "it is hollow"


def test_held_out_and_trained_objects_are_apart() -> None:
    assert not set(HELD_OUT) & set(TRAIN)
    assert set(HELD_OUT) | set(TRAIN) == set(HOUSEHOLD)


def test_random_objects_are_their_seeds_and_fit_a_hand() -> None:
    assert random_object(7) == random_object(7)
    kinds = set()
    for seed in range(60):
        item = random_object(seed)
        kinds.add(tuple(part.shape for part in item.parts))
        assert 0.02 < np.sort(item.extents)[0] <= 0.0705
        assert item.extents.max() <= 0.21
        assert 0 < item.mass <= 0.8
    assert len(kinds) > 8
    assert {len(kind) for kind in kinds} == {1, 2, 3}


def test_random_objects_come_to_rest() -> None:
    for seed in range(6):
        model = model_of(random_object(seed))
        data = mujoco.MjData(model)
        model.opt.timestep = 0.004
        while data.time < 3:
            mujoco.mj_step(model, data)
        assert np.abs(data.qvel[:3]).max() < 0.02, seed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: household("mugg"), "unknown object 'mugg'; did you mean 'mug'"),
        (lambda: Part(Shape.BOX, (0.1, 0.1)), r"a box of size \(0.1, 0.1\); expected 3 positive lengths in m"),
        (lambda: Part(Shape.SPHERE, (-1.0,)), "expected 1 positive lengths in m"),
        (lambda: Part(Shape.SPHERE, (1.0,), quat=(0, 0, 0, 0)), "expected m and a unit quaternion wxyz"),
        (lambda: ObjectSpec("x", 1.0, (), (1, 1, 1, 1)), "'x' has no parts"),
        (
            lambda: ObjectSpec("x", 0.0, (Part(Shape.SPHERE, (1.0,)),), (1, 1, 1, 1)),
            "weighs 0.0 kg; expected a positive",
        ),
        (lambda: ObjectSpec("x", 1.0, (Part(Shape.SPHERE, (1.0,)),), (1, 1, 1, 1), shell=0.0), "a shell of 0.0 m"),
        (lambda: random_object(-1), "seed=-1; expected at least 0"),
    ],
)
def test_errors_name_what_was_given(make, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        make()


def test_an_unknown_object_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError):
        household("anvil")
