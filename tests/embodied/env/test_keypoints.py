"""Where cameras see the keypoints of running episodes: what a recording of them says, too."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

import embodied
from embodied.datasets.collecting import seen_keypoints
from embodied.env.keypoints import KeypointObserver, keypoint_names
from embodied.errors import EmbodiedError


def test_what_cameras_see_now_is_what_a_recording_says() -> None:
    env = embodied.make("manipulation/push", 3, cameras=("view", "wrist"), resolution=32)
    env.reset()
    env.step(torch.ones(env.action_shape))
    rows = np.array([2, 0])
    seen = KeypointObserver(env).observe(rows)
    assert seen.shape == (2, 2, len(keypoint_names(env.task)), 2)
    points = jax.vmap(env.task.keypoints)(env.world(), env.task_state)
    stacked = np.stack([np.asarray(place) for place in points.values()], 1)[rows]
    state = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], env.render_state())
    expected = seen_keypoints(env, state, stacked)
    for number, camera in enumerate(("view", "wrist")):
        np.testing.assert_array_equal(seen[:, number].reshape(2, -1), expected[camera])
    assert not np.array_equal(seen[0], seen[1])


def test_without_cameras_nothing_is_seen() -> None:
    with pytest.raises(EmbodiedError, match="'manipulation/push' was made without cameras"):
        KeypointObserver(embodied.make("manipulation/push", 1))
