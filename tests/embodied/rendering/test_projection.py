"""Where cameras see points: what the ray caster draws there, also with moved cameras."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import embodied
from embodied.rendering.projection import BEHIND, Projector
from embodied.rendering.renderer import BatchRenderer

ENVS, SIZE = 4, (96, 64)


@pytest.mark.parametrize("shift", [None, "camera"])
def test_the_ray_caster_draws_a_thing_where_it_is_said_to_be(shift):
    """The middle of a puck is drawn at the pixel that is named, in at least as many images as there are worlds."""
    env = embodied.make("manipulation/push", ENVS, cameras=("view", "wrist"), visual_shift=shift)
    env.reset(3)
    model, state = env.task.visual_model, env.render_state()
    points = np.asarray(env.world()["object1_pos"])
    renderer = BatchRenderer(model, ENVS, ("view", "wrist"), SIZE, rgb=False, segmentation=True)
    drawn = renderer.render(state)
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


def test_what_is_behind_a_camera_is_told_apart():
    env = embodied.make("manipulation/push", 1, cameras=("view",))
    env.reset(0)
    state = jax.tree.map(np.asarray, env.render_state())
    projector = Projector(env.task.visual_model, ("view",), SIZE)
    eye = env.task.visual_model.camera("view").pos
    beyond = eye + 2.0 * (eye - np.array([0.0, 0.6, 0.0]))
    assert (projector.project(state, beyond[None, None])["view"] == BEHIND).all()
