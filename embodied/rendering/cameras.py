"""Observation groups `pixels/<camera>`: what cameras see, beside what tasks observe.

env = embodied.make("manipulation/pick-place", 64, cameras=("view", "wrist"), resolution=128)
obs = env.reset()["pixels/wrist"]      # (64, 3, 128, 128) uint8
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embodied.core.randomization import Term
from embodied.core.task import Task
from embodied.env.vectorized.base import Result, Watch
from embodied.rendering.appearance import Appearance, look
from embodied.rendering.renderer import BatchRenderer, require_cameras

PREFIX = "pixels/"  # of the names of observation groups


@dataclasses.dataclass(frozen=True)
class Eyes:
    """What is observed in pixels."""

    cameras: tuple[str, ...]
    """Names of cameras of the task's model, and of those that each agent carries (`Task.agent_cameras`)."""
    resolution: int | tuple[int, int] = 64
    """Pixels: of both sides, or width and height."""
    terms: tuple[Term, ...] = ()
    """How looks differ between episodes, see `embodied.rendering.visual_randomization`."""
    shadows: bool = False
    """Whether lights cast shadows."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return (self.resolution, self.resolution) if isinstance(self.resolution, int) else self.resolution


class PixelObserver:
    """Renders the groups of `Eyes` for the environments of one task."""

    def __init__(self, task: Task[Any], num_envs: int, eyes: Eyes, device: torch.device) -> None:
        """Look the cameras up; kernels compile at the first image.

        Raises:
            UnknownNameError: the task's model has no such camera; lists those that exist.
        """
        self.task, self.num_envs, self.eyes, self.device = task, num_envs, eyes, device
        self._carried = {name: task.agent_cameras[name] for name in eyes.cameras if name in task.agent_cameras}
        require_cameras(task.visual_model, eyes.cameras, tuple(task.agent_cameras))

    @property
    def watch(self) -> Watch:
        """What a simulator has to tell of each environment."""
        return look(self.task, self.eyes.terms)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Group -> (3, height, width), or (agents, 3, height, width) where each agent carries that camera."""
        width, height = self.eyes.size
        carried = {name: (len(cameras),) for name, cameras in self._carried.items()}
        return {PREFIX + name: (*carried.get(name, ()), 3, height, width) for name in self.eyes.cameras}

    @functools.cached_property
    def renderer(self) -> BatchRenderer:
        """What draws."""
        eyes = self.eyes
        cameras = [camera for name in eyes.cameras for camera in self._carried.get(name, (name,))]
        return BatchRenderer(self.task.visual_model, self.num_envs, cameras, eyes.size, shadows=eyes.shadows)

    def see(self, appearance: Appearance, rows: Tensor | None = None) -> dict[str, Tensor]:
        """Group -> (k, 3, height, width) uint8 of all environments, or of some `rows` (k,).

        Where each agent carries the camera: (k, agents, 3, height, width).
        """
        images = self.renderer.render(appearance, rows)
        seen: dict[str, Tensor] = {}
        for name in self.eyes.cameras:
            carried = self._carried.get(name)
            views = [_channels_first(images[camera].rgb) for camera in carried or (name,)]
            seen[PREFIX + name] = (torch.stack(views, dim=1) if carried else views[0]).to(self.device)
        return seen

    def see_final(self, result: Result, seen: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the step led to, where `seen` is what followed it: only where episodes ended is there more to draw."""
        ended = torch.from_numpy(np.flatnonzero(np.asarray(result.terminated) | np.asarray(result.truncated)))
        if not len(ended):
            return seen
        final = self.see(result.final_watched, ended)
        return {group: pixels.index_copy(0, ended.to(self.device), final[group]) for group, pixels in seen.items()}


def _channels_first(rgb: Tensor | None) -> Tensor:
    """(N, 3, height, width) from (N, height, width, 3), the same state."""
    assert rgb is not None
    return rgb.permute(0, 3, 1, 2)


def eyes_of(
    cameras: Sequence[str], resolution: int | tuple[int, int], terms: Sequence[Term] = (), shadows: bool = False
) -> Eyes | None:
    """`Eyes`, or None where no camera is asked for."""
    names = (cameras,) if isinstance(cameras, str) else tuple(cameras)
    return Eyes(names, resolution, tuple(terms), shadows) if names else None
