"""Where cameras see now what the instruction of an episode is about: labels for a policy that learns to point."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from embodied.core.task import Task
from embodied.core.world import World
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from embodied.rendering.projection import Projector


class KeypointObserver:
    """Projects the keypoints of a task (`Task.keypoints`) into the cameras of its environments."""

    def __init__(self, env: Env) -> None:
        """Of environments that are made already.

        Raises:
            EmbodiedError: they have no cameras.
        """
        if env.cameras is None:
            raise EmbodiedError(f"'{env.name}' was made without cameras; expected make(..., cameras=...)")
        self._env, config = env, env.cameras.config
        self._projector = Projector(env.task.visual_model, config.cameras, config.size)
        self._places = jax.jit(jax.vmap(env.task.keypoints))

    def observe(self, rows: np.ndarray) -> np.ndarray:
        """(k, cameras, K, 2) float32, column and row as shares of the image (`Projector.project`), in order of names.

        Args:
            rows: (k,) int, which environments.
        """
        env = self._env
        places = self._places(env.world(), env.task_state)
        if not places:
            return np.zeros((len(rows), len(self._projector.cameras), 0, 2), np.float32)
        points = np.stack([np.asarray(place) for place in places.values()], 1)
        state = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], env.render_state())
        return np.stack(list(self._projector.project(state, points[rows]).values()), 1)


def keypoint_names(task: Task[Any]) -> tuple[str, ...]:
    """Names of the task's keypoints, in alphabetical order as JAX returns them."""
    state = jax.eval_shape(task.reset, jax.ShapeDtypeStruct((2,), np.uint32)).task_state
    return tuple(jax.eval_shape(task.keypoints, jax.eval_shape(lambda: World.zeros(task.model)), state))
