"""The loop takes away what stands before the target, then the target; where it cannot, it says why, and always ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from tasks.grasping.clutter.cell import CENTRE, Cell, varied
from tasks.grasping.clutter.graph import Difficulty
from tasks.grasping.clutter.retrieval import End, Result, Strategy, observe, retrieve
from tasks.grasping.clutter.scenes import VIEW, ClutterScene, look
from tasks.grasping.hands.models import hand_named
from tasks.grasping.objects.household import household
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.grasping.planner.force_closure import Grip, grasps
from tasks.grasping.planner.grasp_trajectory import fingertips, wrap
from tasks.grasping.planner.planner import Plan, PlanningResult
from tasks.grasping.planner.superquadrics import Superquadric

HAND = hand_named("leap")


def scene(target: str, *objects: tuple[str, float, float]) -> ClutterScene:
    """Objects that stand at x and y, m."""
    placed = tuple(
        PlacedObject(household(name), (x, y, -float(household(name).bounds[0][2]) + 0.0005)) for name, x, y in objects
    )
    return ClutterScene(0, placed, tuple(entry.item.name for entry in placed), target, VIEW, look(placed, VIEW))


CAN, BOX = ("tomato_soup_can", 0.0, 0.10), ("sugar_box", 0.02, -0.05)


class Table:
    """A cell without an arm: whatever is grasped comes, but for what it is told."""

    def __init__(self, scene: ClutterScene, refused: tuple[str, ...] = (), failing: bool = False) -> None:
        self.scene, self.refused, self.failing = scene, refused, failing
        self.target, self.camera, self.time = scene.target, scene.camera, 0.0
        self.there = dict(zip(scene.names, scene.objects, strict=True))
        self.tried: list[str] = []

    def objects(self) -> dict[str, PlacedObject]:
        return self.there

    def park(self) -> None:
        self.time += 1.0

    def plan(self, points: np.ndarray, name: str) -> PlanningResult:
        del points
        plan = Plan(SHAPE, RANKED[0], np.zeros(7), wrap(HAND))
        return PlanningResult((), "too wide") if name in self.refused else PlanningResult((plan,))

    def crowd(self, plan: Plan, name: str) -> int:
        del plan, name
        return 0

    def grasp(self, name: str, plan: Plan) -> bool:
        del plan
        self.tried.append(name)
        return not self.failing

    def put_aside(self, name: str) -> bool:
        del self.there[name]
        return True


SHAPE = Superquadric((0.03, 0.03, 0.06), (0.2, 1.0), (0.0, 0.0, 0.06), (1.0, 0.0, 0.0, 0.0))
RANKED = grasps(SHAPE, Grip(width=0.1), table=0.0).grasps


def run(table: Table, *options: Any, **more: Any) -> Result:
    return retrieve(table, *options, **more)  # pyright: ignore[reportArgumentType]


def test_what_stands_before_the_target_goes_first() -> None:
    found = scene("tomato_soup_can", CAN, BOX)
    assert found.difficulty is Difficulty.EASY
    table = Table(found)
    result = run(table)
    assert result.end is End.RETRIEVED
    assert table.tried == ["sugar_box", "tomato_soup_can"]
    assert result.removed == ("sugar_box",)
    assert str(result) == "retrieved after removing sugar_box"
    assert set(table.objects()) == {"tomato_soup_can"}


def test_a_target_that_nothing_obstructs_is_lifted_at_once() -> None:
    result = run(Table(scene("tomato_soup_can", ("tomato_soup_can", 0.0, 0.0))))
    assert result.retrieved
    assert str(result) == "retrieved at once"


def test_a_target_that_no_hand_takes_is_no_grasp() -> None:
    result = run(Table(scene("tomato_soup_can", CAN, BOX), refused=("tomato_soup_can", "sugar_box")))
    assert result.end is End.NO_GRASP
    assert "tomato_soup_can: too wide" in str(result)
    assert result.attempts == 0


def test_it_ends_after_the_attempts_that_it_is_given() -> None:
    table = Table(scene("tomato_soup_can", CAN, BOX), failing=True)
    result = run(table, attempts=2)
    assert result.end is End.GAVE_UP
    assert str(result) == "gave up: after 2 grasps"
    with pytest.raises(EmbodiedError, match="attempts=0; expected at least 1"):
        run(table, attempts=0)


def test_the_baseline_goes_for_the_target() -> None:
    table = Table(scene("tomato_soup_can", CAN, BOX), failing=True)
    run(table, Strategy.TARGET_FIRST, attempts=2)
    assert table.tried == ["tomato_soup_can"] * 2


def test_a_target_out_of_view_is_lost() -> None:
    cell = Cell(HAND, scene("apple", ("apple", 0.0, 0.0), ("sugar_box", 0.0, 0.15)))
    cell._pose("apple")[:2] = 1.5, 0.0
    result = retrieve(cell)
    assert result.end is End.LOST
    assert str(result) == "lost: apple is out of view"


@pytest.fixture(scope="module")
def planned() -> tuple[Cell, Plan]:
    """A can that stands alone, and how the arm may take it."""
    cell = Cell(HAND, scene("tomato_soup_can", ("tomato_soup_can", 0.0, 0.0)))
    cell.park()
    cloud = observe(cell, np.random.default_rng(0)).clouds["tomato_soup_can"]
    return cell, cell.plan(cloud, "tomato_soup_can").plans[0]


def test_the_arm_lifts_what_a_plan_says_how_to_grasp(planned: tuple[Cell, Plan]) -> None:
    cell, plan = planned
    assert cell.grasp("tomato_soup_can", plan)
    assert cell.objects()["tomato_soup_can"].pos[2] > 0.15


@pytest.mark.slow
def test_the_arm_takes_away_what_stands_before_the_target_and_then_the_target() -> None:
    cell = Cell(HAND, scene("tomato_soup_can", CAN, BOX))
    result = retrieve(cell)
    assert str(result) == "retrieved after removing sugar_box"
    assert set(cell.objects()) == {"tomato_soup_can"}
    assert cell.objects()["tomato_soup_can"].pos[2] > 0.15


@pytest.mark.slow
def test_what_lies_flat_and_is_nearly_as_wide_as_the_hand_is_retrieved() -> None:
    # On its broad side: 95 by 190 mm, 58 mm high.
    item = household("mustard_bottle")
    lying = PlacedObject(item, (0.0, 0.0, 0.0295), (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0))
    found = ClutterScene(0, (lying,), (item.name,), item.name, VIEW, look((lying,), VIEW))
    assert retrieve(Cell(HAND, found)).retrieved


def test_clouds_lie_on_what_is_seen() -> None:
    cell = Cell(HAND, scene("sugar_box", ("sugar_box", 0.0, 0.0), ("mug", 0.15, 0.0)))
    seen = observe(cell, np.random.default_rng(0))
    for name, entry in cell.objects().items():
        off = entry.distance(seen.clouds[name])
        assert len(off) > 500
        # Noise of the depth camera, and no more.
        assert np.abs(off).max() < 0.012
        assert abs(float(np.mean(seen.clouds[name][:, 1])) - CENTRE[1]) < 0.08


def test_grasps_of_different_kinds_take_turns() -> None:
    shape, ranked = SHAPE, RANKED
    around, tips = wrap(HAND), fingertips(HAND, 0.06)
    down = [Plan(shape, grasp, np.zeros(7), around) for grasp in ranked if grasp.approach[2] < -0.9][:3]
    side = [Plan(shape, grasp, np.zeros(7), around) for grasp in ranked if abs(grasp.approach[2]) < 0.1][:1]
    precise = [dataclasses.replace(down[0], trajectory=tips)]
    assert varied([*down, *side, *precise]) == (down[0], side[0], precise[0], down[1], down[2])
