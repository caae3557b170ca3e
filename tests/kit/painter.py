"""Pictures without a renderer, whose kernels take seconds to compile for each scene: patterns of the state."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from embodied.rendering.render_state import RenderState
from embodied.rendering.renderer import BatchRenderer, Images


class Painter:
    """Stands for `BatchRenderer` where no more matters than which pictures are the same and which differ."""

    def __init__(
        self, model: mujoco.MjModel, num_envs: int, cameras: Sequence[str], size: tuple[int, int], **options: Any
    ) -> None:
        inspect.signature(BatchRenderer).bind(model, num_envs, cameras, size, **options)
        self.num_envs, self.cameras, self.size, self.options = num_envs, tuple(cameras), size, options

    def render(self, state: RenderState, rows: Tensor | None = None) -> dict[str, Images]:
        count = len(np.asarray(state.qpos))
        assert count <= self.num_envs
        numbers = np.concatenate([np.asarray(leaf, float).reshape(count, -1) for leaf in jax.tree.leaves(state)], 1)
        if rows is not None:
            numbers = numbers[rows.numpy()]
        return {camera: Images(self._pattern(camera, numbers), None, None) for camera in self.cameras}

    def _pattern(self, camera: str, numbers: np.ndarray) -> Tensor:
        """(k, height, width, 3) uint8."""
        width, height = self.size
        weights = np.random.default_rng(zlib.crc32(camera.encode())).normal(size=(numbers.shape[1], height * width * 3))
        waves = 128 + 100 * np.sin(numbers @ weights)
        return torch.from_numpy(waves.astype(np.uint8)).reshape(-1, height, width, 3)

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def painted() -> Iterator[None]:
    """Cameras of environments see patterns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("embodied.rendering.cameras.BatchRenderer", Painter)
        yield
