"""Observation groups `pixels/<camera>`: images of cameras, beside the tasks' own observations.

env = embodied.make("manipulation/pick-place", 64, cameras=("view", "wrist"), resolution=128)
obs = env.reset()["pixels/wrist"]      # (64, 3, 128, 128) uint8
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from embodied.core.episode import Episode
from embodied.core.hooks import PIXELS
from embodied.core.task import Task
from embodied.core.world import World
from embodied.rendering.camera_config import CameraConfig
from embodied.rendering.render_state import RenderState, render_state_fn
from embodied.rendering.renderer import BatchRenderer, require_cameras


class CameraObserver:
    """Renders the observation groups of a `CameraConfig` for the environments of one task."""

    def __init__(self, task: Task[Any], num_envs: int, config: CameraConfig, device: torch.device) -> None:
        """Look the cameras up; kernels compile at the first image.

        Raises:
            UnknownNameError: the task's model has no such camera; lists those that exist.
        """
        self.task, self.num_envs, self.config, self.device = task, num_envs, config, device
        carried = task.pictures.agent_cameras if task.pictures else {}
        self._carried = {name: carried[name] for name in config.cameras if name in carried}
        require_cameras(task.visual_model, config.cameras, tuple(carried))

    @property
    def render_state_fn(self) -> Callable[[World, Episode[Any]], RenderState]:
        """The pure function of one environment whose result `render` draws."""
        return render_state_fn(self.task, self.config.visual_terms)

    @functools.cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Group -> (3, height, width), or (agents, 3, height, width) where each agent carries that camera."""
        width, height = self.config.size
        carried = {name: (len(cameras),) for name, cameras in self._carried.items()}
        return {PIXELS + name: (*carried.get(name, ()), 3, height, width) for name in self.config.cameras}

    @functools.cached_property
    def renderer(self) -> BatchRenderer:
        """The batched ray caster that draws; built at the first image."""
        config = self.config
        cameras = [camera for name in config.cameras for camera in self._carried.get(name, (name,))]
        return BatchRenderer(self.task.visual_model, self.num_envs, cameras, config.size, shadows=config.shadows)

    def render(self, state: RenderState, rows: Tensor | None = None) -> dict[str, Tensor]:
        """Group -> (k, 3, height, width) uint8 of all environments, or of some `rows` (k,) int64.

        Where each agent carries the camera: (k, agents, 3, height, width).
        """
        images = self.renderer.render(state, rows)
        groups: dict[str, Tensor] = {}
        for name in self.config.cameras:
            carried = self._carried.get(name)
            views = [_channels_first(images[camera].rgb) for camera in carried or (name,)]
            groups[PIXELS + name] = (torch.stack(views, dim=1) if carried else views[0]).to(self.device)
        return groups

    def close(self) -> None:
        """Free the renderer's buffers and threads."""
        if "renderer" in self.__dict__:
            self.renderer.close()
            del self.renderer


def _channels_first(rgb: Tensor | None) -> Tensor:
    """(N, 3, height, width) from (N, height, width, 3), in the same memory."""
    assert rgb is not None
    return rgb.permute(0, 3, 1, 2)
