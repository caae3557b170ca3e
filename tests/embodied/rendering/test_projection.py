"""Where cameras see points: what the ray caster draws there, also with moved cameras."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import embodied
from embodied.env.env import Env
from embodied.rendering.projection import BEHIND, Projector
from embodied.rendering.renderer import BatchRenderer, Images

ENVS, SIZE = 2, (96, 64)


def segments(env: Env) -> dict[str, Images]:
    renderer = BatchRenderer(env.task.visual_model, ENVS, ("view", "wrist"), SIZE, rgb=False, segmentation=True)
    return renderer.render(env.render_state())


@pytest.fixture(scope="module")
def moved() -> Env:
    """An environment whose cameras are moved."""
    env = embodied.make("manipulation/push", ENVS, cameras=("view", "wrist"), visual_shift="camera")
    env.reset(3)
    segments(env)  # compiles the kernel
    return env


def test_the_ray_caster_draws_a_thing_where_it_is_said_to_be(moved: Env) -> None:
    """The middle of a puck is drawn at the pixel that is named, in at least as many images as there are worlds."""
    model, state = moved.task.visual_model, moved.render_state()
    points = np.asarray(moved.world()["object1_pos"])
    drawn = segments(moved)
    projector = Projector(model, ("view", "wrist"), SIZE)
    shares = projector.project(jax.tree.map(np.asarray, state), points[:, None])
    hits = 0
    for camera, seen in shares.items():
        ids = drawn[camera].segmentation
        assert ids is not None
        for index, (column, row) in enumerate(seen[:, 0]):
            if 0 <= column < 1 and 0 <= row < 1:
                geom = int(ids[index, int(row * SIZE[1]), int(column * SIZE[0])])
                body = model.body(model.geom_bodyid[geom]).name if geom >= 0 else ""
                hits += body == "object"
    assert hits >= ENVS  # of two cameras each; the arm may be before it, or the gripper's camera see none


def test_what_is_behind_a_camera_is_told_apart(moved: Env) -> None:
    state = jax.tree.map(np.asarray, moved.render_state())
    projector = Projector(moved.task.visual_model, ("view",), SIZE)
    eye = moved.task.visual_model.camera("view").pos
    beyond = np.tile(eye + 2.0 * (eye - np.array([0.0, 0.6, 0.0])), (ENVS, 1, 1))
    assert (projector.project(state, beyond)["view"] == BEHIND).all()
