"""Objects that are put down: what stands stays, what would fall has fallen; planned grasps are of what rests."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec
from tasks.grasping.hands.models import HANDS, hand_named
from tasks.grasping.objects.drop_and_settle import put_down, table_of
from tasks.grasping.objects.household import household
from tasks.grasping.objects.object_spec import ObjectSpec, object_spec
from tasks.grasping.objects.shapes import box, matrix, sphere
from tasks.grasping.planner.grasp_library import object_named, plans_for

# As spheres with a box on top do, it balances, but nothing keeps it there.
TOP_HEAVY = object_spec(
    "top_heavy", 0.2, (sphere(0.06, (0, 0, 0.03)), box((0.03, 0.02, 0.05), (0, 0, 0.08))), (1, 1, 1, 1)
)


def drift(item: ObjectSpec, pose: np.ndarray, seconds: float = 1.0) -> tuple[float, float]:
    """m and rad by which an object on a table leaves a pose (7,) on its own."""
    model = compile_spec(table_of([item], ["object"]))
    data = mujoco.MjData(model)
    data.qpos[:] = pose
    mujoco.mj_step(model, data, nstep=round(seconds / model.opt.timestep))
    turn = np.zeros(3)
    mujoco.mju_subQuat(turn, data.qpos[3:], np.asarray(pose[3:], float))
    return float(np.linalg.norm(data.qpos[:3] - pose[:3])), float(np.linalg.norm(turn))


def test_what_stands_stays_upright_and_turned_as_it_was_put() -> None:
    for yaw in (0.0, 1.0, -2.0):
        settled = put_down(household("mustard_bottle"), yaw, way=0.4)
        assert settled.failure == ""
        turn = matrix(settled.objects[0].quat)
        assert turn[2, 2] == pytest.approx(1.0, abs=1e-3)
        assert np.arctan2(turn[1, 0], turn[0, 0]) == pytest.approx(yaw, abs=0.05)


def test_what_cannot_stand_falls_and_then_stays() -> None:
    settled = put_down(TOP_HEAVY, 0.0, way=0.0)
    fallen = settled.objects[0]
    assert settled.failure == ""
    assert matrix(fallen.quat)[2, 2] < 0.7
    moved, turned = drift(TOP_HEAVY, np.array([*fallen.pos, *fallen.quat]))
    assert moved < 0.002
    assert turned < 0.05


@pytest.mark.parametrize("name", HANDS)
def test_planned_grasps_are_of_objects_that_stay_where_they_are(name: str) -> None:
    plans = plans_for(hand_named(name))
    chosen = np.random.default_rng(0).choice(len(plans.item), 60, replace=False)
    found = np.array([drift(object_named(plans.objects[plans.item[row]]), plans.place[row]) for row in chosen])
    assert np.mean((found[:, 0] < 0.005) & (found[:, 1] < 0.1)) >= 0.95
