"""Clutter is the same for a seed, rests, is whole in the picture and as hard as asked for; else an error says why."""

import dataclasses
from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from embodied.errors import EmbodiedError, UnknownNameError
from tasks.grasping.clutter.arrange import Arrangement, arrange_objects
from tasks.grasping.clutter.graph import LEAST, Difficulty, ratios_of, removal_order
from tasks.grasping.clutter.ray_casting import depth_images
from tasks.grasping.clutter.scenes import (
    VIEW,
    ClutterConfig,
    ClutterScene,
    clutter_scene,
    in_view,
    look,
    visible_shares,
)
from tasks.grasping.objects.drop_and_settle import DEEPEST, settle
from tasks.grasping.objects.household import household
from tasks.grasping.objects.pointclouds import PlacedObject

SMALL = dataclasses.replace(VIEW, width=160, height=120)


def config(**changes: object) -> ClutterConfig:
    return dataclasses.replace(ClutterConfig(camera=SMALL), **changes)


@pytest.mark.parametrize("level", list(Difficulty))
def test_the_difficulty_asked_for_comes_and_the_same_again(level: Difficulty) -> None:
    scene = clutter_scene(3, config(difficulty=level))
    assert scene.difficulty is level
    assert 3 <= len(scene.names) <= 12
    again = clutter_scene(3, config(difficulty=level))
    assert again.objects == scene.objects
    assert again.target == scene.target
    assert clutter_scene(4, config(difficulty=level)).objects != scene.objects


def test_scenes_rest_on_the_table_apart_and_in_view() -> None:
    for seed in range(3):
        scene = clutter_scene(seed, config(count=(5, 7)))
        model = scene.model()
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        between = (model.geom_bodyid[data.contact.geom] > 0).all(axis=1)
        assert data.contact.dist[between].min(initial=0.0) >= -DEEPEST
        assert all(in_view(entry, SMALL) for entry in scene.objects)
        before = data.qpos.reshape(-1, 7)[:, :3].copy()
        mujoco.mj_step(model, data, nstep=100)
        assert np.linalg.norm(data.qpos.reshape(-1, 7)[:, :3] - before, axis=1).max() < 0.01
        assert before[:, 2].min() > 0


def test_the_graph_is_that_of_the_objects_as_the_camera_sees_them() -> None:
    scene = clutter_scene(1, config(count=(6, 6)))
    np.testing.assert_array_equal(look(scene.objects, scene.camera).ratios, scene.graph.ratios)


def near_least(scene: ClutterScene) -> bool:
    """Whether a hidden share is within 0.4 % of the threshold."""
    return bool(np.abs(ratios_of(scene.names, depth_images(scene.objects, SMALL)) - LEAST).min() < 0.004)


def hides_much(scene: ClutterScene) -> bool:
    """Whether less than a third of an object is seen."""
    return bool(visible_shares(depth_images(scene.objects, SMALL)).min() < 1 / 3)


@pytest.mark.parametrize(("fault", "option"), [(near_least, {"margin": 0.004}), (hides_much, {"visible": 1 / 3})])
def test_scenes_that_options_rule_out_do_not_come(
    fault: Callable[[ClutterScene], bool], option: dict[str, float]
) -> None:
    few = config(count=(6, 6), tries=200)
    seed = next(seed for seed in range(30) if fault(clutter_scene(seed, few)))
    assert not fault(clutter_scene(seed, dataclasses.replace(few, **option)))  # pyright: ignore


def test_only_the_objects_named_come_and_only_the_targets_named_are_wanted() -> None:
    pool = ("mug", "apple", "cracker_box", "sugar_box", "tomato_soup_can")
    wanted = config(pool=pool, targets=("mug",), random_share=0.0, count=(4, 5), freeable=True)
    for seed in range(4):
        scene = clutter_scene(seed, wanted)
        assert scene.target == "mug"
        assert set(scene.names) <= set(pool)
        assert removal_order(scene.graph, "mug") or not scene.graph.obstructors("mug")


def test_visible_shares_by_hand() -> None:
    depths = np.full((2, 1, 4), np.inf)
    depths[0, 0, :4], depths[1, 0, :3] = 2.0, 1.0
    np.testing.assert_allclose(visible_shares(depths), [0.25, 1.0])


def test_nothing_is_put_where_something_stands() -> None:
    items = [household(name) for name in ("cracker_box", "mug", "sugar_box", "mustard_bottle", "foam_brick")]
    for seed in range(5):
        placed = arrange_objects(items, Arrangement(dropped=0.0), np.random.default_rng(seed))
        assert [entry.item for entry in placed] == items
        settled = settle(placed)
        assert settled.failure == ""
        moved = [np.linalg.norm(np.subtract(a.pos, b.pos)) for a, b in zip(placed, settled.objects, strict=True)]
        # What overlapped would be pushed apart. What lies on its side may tip over.
        assert np.median(moved) < 0.004


def test_what_does_not_settle_says_why() -> None:
    far = [PlacedObject(household("apple"), (0.4, 0.0, 0.04))]
    assert settle(far).failure == "rolled away"
    # It sinks for longer than it is given.
    high = [
        PlacedObject(household("wood_block"), (0.0, 0.0, 0.1)),
        PlacedObject(household("wood_block"), (0.0, 0.0, 5.0)),
    ]
    assert settle(high).failure == "moving"


def test_a_scene_that_cannot_come_is_given_up() -> None:
    with pytest.raises(
        EmbodiedError, match=r"no scene of 1 to 1 objects with a target of difficulty 'hard' in 3 tries"
    ):
        clutter_scene(0, config(count=(1, 1), difficulty=Difficulty.HARD, tries=3))


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(EmbodiedError, match="seed=-1; expected at least 0"):
        clutter_scene(-1)
    with pytest.raises(EmbodiedError, match=r"count=\(0, 3\)"):
        config(count=(0, 3))
    with pytest.raises(EmbodiedError, match=r"margin=0\.5"):
        config(margin=0.5)
    with pytest.raises(EmbodiedError, match="up to 12 objects from a pool of 1"):
        config(pool=("mug",), random_share=0.0)
    with pytest.raises(UnknownNameError, match="object 'mugg'; did you mean 'mug'"):
        config(pool=("mugg",))
    with pytest.raises(EmbodiedError, match=r"gap=\(0.2, 0.1\)"):
        Arrangement(gap=(0.2, 0.1))


def test_what_cannot_be_seen_has_no_graph() -> None:
    behind = PlacedObject(household("mug"), (0.0, -3.0, 0.04))
    with pytest.raises(EmbodiedError, match="not wholly in the camera's view: mug"):
        look((behind,), SMALL)
    with pytest.raises(EmbodiedError, match="a scene without objects"):
        look((), SMALL)
    scene = clutter_scene(1, config())
    with pytest.raises(UnknownNameError, match="object 'cup'"):
        dataclasses.replace(scene, target="cup")
