"""PlanningResult grasps: what comes out, and what is said where nothing does."""

import dataclasses
import re

import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.math.rotations import quat_angle
from tasks.grasping.hands.arm import arm_scene, palm_frame
from tasks.grasping.hands.hand import MOUNTED, pinch_of, poses, spec_of
from tasks.grasping.hands.models import HANDS, hand_named
from tasks.grasping.objects.household import household
from tasks.grasping.objects.model import add_object
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import PlacedObject, visible_cloud
from tasks.grasping.objects.shapes import matrix
from tasks.grasping.planner.force_closure import Grip, grasps
from tasks.grasping.planner.grasp_library import (
    candidates,
    held_out,
    joined,
    load,
    make_plans,
    names_of,
    plans_for,
    save,
)
from tasks.grasping.planner.planner import BACK, VIEW, Planner, pinched
from tasks.grasping.planner.superquadrics import Superquadric
from tests.kit.worlds import jitted

LEAP = hand_named("leap")
SUGAR = household("sugar_box")
RANDOM, ABOVE = np.random.default_rng(0), np.array([0.0, 0.55, 0.16])


def planner_for(item: ObjectSpec, pos: tuple[float, float, float]) -> tuple[Planner, np.ndarray, np.ndarray]:
    """A planner in a scene with an object, what the camera sees of it, and where everything is."""
    spec = arm_scene(LEAP)
    add_object(spec, item).pos = pos
    model = compile_spec(spec)
    return Planner(LEAP, model), visible_cloud([PlacedObject(item, pos)], VIEW).points, model.qpos0.copy()


@pytest.fixture(scope="module")
def sugar():
    return planner_for(SUGAR, (0.0, 0.55, float(-SUGAR.bounds[0][2])))


@pytest.fixture(scope="module")
def plan(sugar):
    planner, points, qpos = sugar
    return planner.plan(points, VIEW.pos, qpos).plans[0]


def test_the_arm_stands_at_the_pre_grasp_and_touches_nothing(sugar, plan):
    planner, _, qpos = sugar
    pos, quat = jitted(palm_frame(LEAP).palm)(np.asarray(plan.joints, np.float32))
    back, turned = plan.grasp.back(BACK)
    assert np.asarray(pos) == pytest.approx(back, abs=4e-3)
    assert float(jitted(quat_angle)(quat, np.asarray(turned, np.float32))) < 0.04
    assert not planner.clashes(plan.joints, qpos, plan.trajectory.preshape.joints)


def test_something_in_the_way_is_seen(sugar, plan):
    planner, _, qpos = sugar
    model = planner.model
    data = mujoco.MjData(model)
    for name, value in zip((f"joint{i}" for i in range(1, 8)), plan.joints, strict=True):
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    moved = qpos.copy()
    first = model.joint("object").qposadr[0]
    moved[first : first + 3] = data.site(MOUNTED + "palm").xpos
    assert planner.clashes(plan.joints, moved, plan.trajectory.preshape.joints)


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        (np.zeros((0, 3)), "no shape"),
        (RANDOM.uniform(-0.05, 0.05, (200, 3)) * np.array([1, 1, 0]) + ABOVE, "no shape: .*plan"),
        (RANDOM.uniform(-0.15, 0.15, (400, 3)) + ABOVE, "too wide"),
    ],
)
def test_what_cannot_be_planned_is_said_in_words(sugar, points, reason):
    planner, _, qpos = sugar
    planned = planner.plan(points, VIEW.pos, qpos)
    assert planned.plans == ()
    assert re.search(reason, planned.reason), planned.reason


def test_what_is_too_far_away_is_out_of_reach():
    pos = (0.0, 1.0, float(-SUGAR.bounds[0][2]))
    planner, points, qpos = planner_for(SUGAR, pos)
    shifted = points + np.array([0.0, 0.5, 0.0])
    planned = planner.plan(shifted, (VIEW.pos[0], VIEW.pos[1] + 0.5, VIEW.pos[2]), qpos)
    assert planned.plans == ()
    assert planned.reason.startswith("out of reach: the arm is too short")


def test_clouds_of_the_wrong_shape_are_refused(sugar):
    planner, _, qpos = sugar
    with pytest.raises(EmbodiedError, match=r"\(n, 3\)"):
        planner.plan(np.zeros((5, 2)), VIEW.pos, qpos)


@pytest.mark.parametrize("name", HANDS)
def test_a_pinch_has_the_object_between_the_pads(name):
    hand = hand_named(name)
    shape = Superquadric((0.01, 0.06, 0.012), (0.3, 0.3), (0.1, 0.5, 0.02))
    above = next(grasp for grasp in grasps(shape, Grip(hand.width), table=0.0).grasps if grasp.approach[2] < -0.99)
    found = pinched(hand, shape, above)
    assert found is not None
    model = compile_spec(spec_of(hand, found.pos, found.quat))
    data = mujoco.MjData(model)
    data.qpos[hand.layout(model).qpos] = poses(hand).pinch.joints
    mujoco.mj_forward(model, data)
    tips = np.array([data.sensor(f"{finger}_tip_pos").data for finger in hand.fingers])
    fingers, thumb = tips[:2].mean(0), tips[-1]
    assert (fingers + thumb)[:2] / 2 == pytest.approx(shape.pos[:2], abs=2e-3)
    line = (fingers - thumb)[:2]
    along = np.abs(line @ (found.contacts[1] - found.contacts[0])[:2])
    assert along == pytest.approx(np.linalg.norm(line) * found.width, rel=0.02)


def test_only_what_is_thin_is_pinched():
    wide = Superquadric((0.03, 0.03, 0.03), (0.3, 0.3), (0.0, 0.5, 0.03))
    assert pinch_of(LEAP).opening < 0.1
    assert all(pinched(LEAP, wide, grasp) is None for grasp in grasps(wide, Grip(LEAP.width), table=0.0).grasps)


@pytest.fixture(scope="module")
def known():
    """Names of the objects that grasps are planned for."""
    return {item.name for item in candidates()}


@pytest.mark.parametrize("name", HANDS)
def test_planned_grasps_in_the_package_stand_on_this_hand_and_arm(known, name):
    hand, random = hand_named(name), np.random.default_rng(0)
    plans = plans_for(hand)
    assert set(plans.objects) == known
    assert {plans.place.dtype, plans.shape.dtype, plans.palm.dtype, plans.joints.dtype} == {np.dtype(np.float32)}
    for row in random.choice(len(plans.item), 5, replace=False):
        pos, quat = jitted(palm_frame(hand).palm)(plans.joints[row])
        palm = plans.palm[row]
        assert np.asarray(pos) == pytest.approx(palm[:3] - BACK * matrix(palm[3:])[:, 2], abs=4e-3)
        assert float(jitted(quat_angle)(quat, palm[3:])) < 0.04


def test_planning_again_gives_the_same_and_files_keep_it(tmp_path):
    first, second = (joined(list(make_plans(LEAP, [SUGAR], places=1))) for _ in range(2))
    save(tmp_path / "plans.safetensors", first)
    again = load(tmp_path / "plans.safetensors")
    for field in dataclasses.fields(first):
        assert np.array_equal(getattr(first, field.name), getattr(second, field.name)), field.name
        assert np.array_equal(getattr(first, field.name), getattr(again, field.name)), field.name


def test_no_object_is_both_trained_with_and_held_out():
    known = plans_for(LEAP).objects
    train, rest = names_of("train", known), names_of("held-out", known)
    assert set(train) | set(rest) == set(known)
    assert not set(train) & set(rest)
    assert all(held_out(name) for name in rest)
    assert "mustard_bottle" in train
    assert "random_4" not in train
    assert names_of("apple", known) == ("apple",)
    with pytest.raises(UnknownNameError, match="unknown object 'aple'; did you mean 'apple'"):
        names_of("aple", known)
