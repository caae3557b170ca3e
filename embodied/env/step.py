"""`Step`: the result of a control step, as torch views over JAX arrays; and the exchange between the two."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
import torch
from jax import Array
from torch import Tensor

from embodied.env.vec_env import cached_property
from embodied.env.vectorized import StepResult
from embodied.rendering.cameras import CameraObserver
from embodied.rendering.render_state import RenderState


@dataclasses.dataclass(frozen=True, repr=False)
class Step:
    """One control step of N environments. Tensors share memory with JAX: read them, or copy before writing."""

    _result: StepResult
    _device: torch.device
    _cameras: CameraObserver | None = None

    @cached_property
    def obs(self) -> Mapping[str, Tensor]:
        """Group -> (N, size), and (N, 3, height, width) uint8 of cameras, which are drawn when one is read.

        Where an episode ended, the first observation of the next one.
        """
        if self._cameras is None:
            return self.vector_obs
        return LazyObservation(self.vector_obs, self._cameras, self._result.render_state)

    @cached_property
    def vector_obs(self) -> dict[str, Tensor]:
        """Group -> (N, size): `obs` without cameras, for which nothing is drawn."""
        return self._tensors(self._result.observation)

    @cached_property
    def final_obs(self) -> dict[str, Tensor]:
        """Group -> as in `obs`. The observation the step led to: `obs` before any restart."""
        final = self._tensors(self._result.final_observation)
        if self._cameras is None or not isinstance(self.obs, LazyObservation):
            return final
        result, images = self._result, self.obs.images
        # Only where an episode ended is there more to draw than what followed the step.
        ended = torch.from_numpy(np.flatnonzero(np.asarray(result.terminated) | np.asarray(result.truncated)))
        if not len(ended):
            return final | images
        drawn, ids = self._cameras.render(result.final_render_state, ended), ended.to(self._device)
        return final | {group: pixels.index_copy(0, ids, drawn[group]) for group, pixels in images.items()}

    @cached_property
    def reward(self) -> Tensor:
        """(N,) weighted sum of the task's reward terms; (N, agents) where the task has agents."""
        return self._tensor(self._result.reward)

    @cached_property
    def terminated(self) -> Tensor:
        """(N,) bool, the episode failed, or was won as a game is: its value ends here."""
        return self._tensor(self._result.terminated)

    @cached_property
    def truncated(self) -> Tensor:
        """(N,) bool, the time limit ended the episode: bootstrap from `final_obs`."""
        return self._tensor(self._result.truncated)

    @property
    def done(self) -> Tensor:
        """(N,) bool, the episode ended either way."""
        return self.terminated | self.truncated

    @cached_property
    def success(self) -> Tensor:
        """(N,) bool, the task is solved at this instant."""
        return self._tensor(self._result.success)

    @cached_property
    def info(self) -> dict[str, Tensor]:
        """(N,) each: `return`, `length`, `success_any`, `diverged`, and the episode's mean of each metric.

        Of tasks with sides also `return/<team>`.

        They cover the episode so far; where `done`, the whole episode.
        """
        ended = self._result.ended
        length = self._tensor(ended.steps)
        means = {name: self._tensor(total) / length.clamp(min=1) for name, total in ended.metrics.items()}
        return {
            "return": self._tensor(ended.total),
            "length": length,
            "success_any": self._tensor(ended.success_any),
            "diverged": self._tensor(self._result.diverged),
            **{f"return/{name}": self._tensor(total) for name, total in ended.team_totals.items()},
            **means,
        }

    def __repr__(self) -> str:
        shapes = {group: tuple(values.shape) for group, values in self.vector_obs.items()}
        if self._cameras is not None:
            shapes |= {group: (len(self.success), *shape) for group, shape in self._cameras.shapes.items()}
        observed = ", ".join(f"{group} {shape}" for group, shape in shapes.items())
        return (
            f"Step({len(self.success)} environments: {int(self.terminated.sum())} terminated, "
            f"{int(self.truncated.sum())} truncated, {int(self.success.sum())} solved; "
            f"mean reward {float(self.reward.mean()):.4g}; obs {observed})"
        )

    def _tensors(self, arrays: Mapping[str, Array]) -> dict[str, Tensor]:
        return {name: self._tensor(array) for name, array in arrays.items()}

    def _tensor(self, array: Array) -> Tensor:
        return tensor_from_array(array, self._device)


class LazyObservation(Mapping[str, Tensor]):
    """Observation groups, of which images are drawn when one is first read.

    A policy that carries out several actions between two observations pays only for the images that it reads.
    """

    def __init__(self, vectors: Mapping[str, Tensor], cameras: CameraObserver, state: RenderState) -> None:
        self._vectors, self._cameras, self._state = vectors, cameras, state

    @cached_property
    def images(self) -> dict[str, Tensor]:
        """Group -> its camera's images of all environments."""
        return self._cameras.render(self._state)

    def select(self, rows: Tensor, groups: Sequence[str]) -> dict[str, Tensor]:
        """Some groups of the environments `rows` (k,) int64 alone; the others are not drawn."""
        if "images" in self.__dict__ or not set(groups) & set(self._cameras.shapes):
            return {group: self[group][rows] for group in groups}
        images = self._cameras.render(self._state, rows)
        return {group: images[group] if group in images else self._vectors[group][rows] for group in groups}

    def __getitem__(self, group: str) -> Tensor:
        return self.images[group] if group in self._cameras.shapes else self._vectors[group]

    def __iter__(self) -> Iterator[str]:
        yield from (*self._vectors, *self._cameras.shapes)

    def __len__(self) -> int:
        return len(self._vectors) + len(self._cameras.shapes)


def tensor_from_array(array: Array, device: torch.device) -> Tensor:
    """A torch tensor over a JAX array's memory, moved only where the devices differ."""
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array).to(device)
    if array.dtype == bool:
        # DLPack carries booleans since version 1; older exchanges need the bytes.
        return torch.from_dlpack(array.view(np.uint8)).bool().to(device)
    return torch.from_dlpack(array).to(device)


def array_from_tensor(tensor: Tensor) -> Array:
    """A JAX array of a torch tensor's values, as float32, on the tensor's device where JAX has it, else on the default.

    It is a copy: JAX runs behind, and would read what the caller has since written to the tensor.
    """
    tensor = tensor.detach().to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    if tensor.device.type == "cuda" and jax.default_backend() != "gpu":
        return jax.numpy.asarray(tensor.cpu().numpy())
    return jax.dlpack.from_dlpack(tensor)
