"""Images of a simulated robot's cameras, drawn when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from embodied.core.facets import Pictures
from embodied.core.task import Task
from embodied.core.world import World
from embodied.rendering.render_state import GEOM_APPEARANCE, RenderState
from embodied.rendering.renderer import BatchRenderer
from sim2real.contract.planner import IMAGE, Planner


class Photographer:
    """Draws what a policy's cameras see; the first image takes up to a minute, in which kernels compile."""

    def __init__(self, task: Task[Any], planner: Planner) -> None:
        """Put the task's model on the renderer's device, with a renderer for each size of images."""
        self._task = task
        sizes = {(camera.width, camera.height) for camera in planner.cameras}
        self._renderers = {
            size: BatchRenderer(
                task.visual_model, 1, [one.name for one in planner.cameras if (one.width, one.height) == size], size
            )
            for size in sizes
        }
        self._names = [camera.name for camera in planner.cameras]
        self._render(RenderState(np.array(task.visual_model.qpos0, np.float32)[None]))

    @classmethod
    def of(cls, task: Task[Any], planner: Planner | None) -> Photographer | None:
        """None for a policy that does not see."""
        return None if planner is None else cls(task, planner)

    def beside(self, readings: Mapping[str, np.ndarray], world: World, state: Any) -> Mapping[str, np.ndarray]:
        """Readings, and the images of a world, which are drawn when they are read."""
        return _Lazy(readings, {f"{IMAGE}{name}": name for name in self._names}, lambda: self._draw(world, state))

    def _draw(self, world: World, state: Any) -> Mapping[str, np.ndarray]:
        """Camera -> (height, width, 3) uint8."""
        model, pictures = self._task.visual_model, self._task.pictures or Pictures()
        fields: dict[str, np.ndarray] = {}
        for name, row in pictures.geom_appearance(state).items():
            for field, part in GEOM_APPEARANCE.items():
                values = fields.setdefault(field, np.array(getattr(model, field), np.float32))
                values[model.geom(name).id] = np.asarray(row)[part]
        mocap = pictures.mocap_positions(state)
        return self._render(
            RenderState(
                np.array(world.qpos, np.float32)[None],
                None if mocap is None else np.array(mocap, np.float32)[None],
                {field: values[None] for field, values in fields.items()},
            )
        )

    def _render(self, state: RenderState) -> Mapping[str, np.ndarray]:
        drawn = {}
        for renderer in self._renderers.values():
            for name, images in renderer.render(state).items():
                assert images.rgb is not None
                drawn[name] = images.rgb[0].cpu().numpy()
        return drawn


class _Lazy(Mapping[str, np.ndarray]):
    """Readings of which some are made together when one of them is read."""

    def __init__(
        self, readings: Mapping[str, np.ndarray], later: Mapping[str, str], make: Callable[[], Mapping[str, np.ndarray]]
    ) -> None:
        self._readings, self._later, self._make = readings, later, make
        self._made: Mapping[str, np.ndarray] | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._later:
            return self._readings[name]
        if self._made is None:
            self._made = self._make()
        return self._made[self._later[name]]

    def __iter__(self) -> Iterator[str]:
        yield from self._readings
        yield from self._later

    def __len__(self) -> int:
        return len(self._readings) + len(self._later)
