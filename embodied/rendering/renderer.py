"""Images of all environments at once: a batched ray caster on the GPU or the CPU, without OpenGL.

    renderer = BatchRenderer(task.visual_model, num_envs=64, cameras=("view", "wrist"), size=(128, 128))
    images = renderer.render(state)["view"]      # images.rgb: (64, 128, 128, 3) uint8

Kinematics and rays are MuJoCo Warp's, so the same code draws for every engine: what is drawn comes from an
`RenderState`. Cameras, lights, materials and textures are those of OpenGL's pictures, so policies and people see nearly
the same. OpenGL by Mesa, one picture at a time, is slower on a CPU.

On a CPU as many threads as torch has share the environments, which changes no pixel: Warp runs a kernel in one thread
and lets Python go on meanwhile. Each thread has a caster with state, trees and images of its own; kernel and textures
are shared. Processor time is the same with 1, 2 and 4 threads.

Not drawn: sites, tendons and flexes, the sides of height fields, and transparency (a geom is opaque unless its alpha
is 0). Pictures and films for people, with markers and shadows, are drawn by `embodied.rendering.pictures`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import mujoco
import numpy as np
import torch
from torch import Tensor

from embodied.errors import EmbodiedError, UnknownNameError, listing
from embodied.rendering.ray_caster import Images, Poses, RayCaster, Request, import_renderer, joined
from embodied.rendering.render_state import RenderState

SIDES = (4, 4096)  # pixels, smallest and largest side of an image
NOTHING = -1  # segmentation of a pixel whose ray meets no geom
SHARE = 16  # environments, the fewest that are worth a thread: its kinematics cost as much as two pictures


class BatchRenderer:
    """Draws up to `num_envs` environments of one model through some of its cameras.

    The first image of a model takes up to a minute, in which Warp compiles its kernels; they are kept on disk. Each
    thread has a copy of the scene: tens of megabytes.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        num_envs: int,
        cameras: Sequence[str],
        size: tuple[int, int] = (64, 64),
        *,
        rgb: bool = True,
        depth: bool = False,
        segmentation: bool = False,
        shadows: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        """Put the model on the device.

        Args:
            model: What to draw, `Task.visual_model`.
            num_envs: Most environments in one call.
            size: Width and height in pixels.
            shadows: Whether lights cast shadows; one more ray per pixel and light.
            device: "cuda", or "cpu"; by default a GPU where there is one.

        Raises:
            UnknownNameError: no such camera; lists those that exist.
            EmbodiedError: an impossible size, or a model that MuJoCo Warp does not know.
        """
        require_cameras(model, cameras)
        if not SIDES[0] <= min(size) <= max(size) <= SIDES[1]:
            raise EmbodiedError(f"cannot render {size[0]} x {size[1]} pixels; expected {SIDES[0]} to {SIDES[1]} a side")
        self.model, self.num_envs, self.cameras, self.size = model, num_envs, tuple(cameras), size
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._warp, _ = import_renderer()
        request = Request(self.cameras, size, rgb, depth, segmentation, shadows)
        # Warp runs a kernel in one thread on a CPU and lets others run meanwhile.
        threads = max(1, min(torch.get_num_threads(), num_envs // SHARE)) if self.device.type == "cpu" else 1
        with self._on_device():
            first = RayCaster(model, math.ceil(num_envs / threads), request)
            self._casters = [first, *(RayCaster(model, first.num_envs, request, first) for _ in range(threads - 1))]
        self._fields: frozenset[str] = frozenset()
        self._compiled = False

    def render(self, state: RenderState, rows: Tensor | None = None) -> dict[str, Images]:
        """Draw a batch of environments. Returns camera -> images (k, ...), in memory of their own.

        Args:
            state: What cameras see of k <= `num_envs` environments.
            rows: (k,) int64; draw only these environments of `state`.

        Raises:
            EmbodiedError: more environments than there is room for, or a model field that cannot differ.
        """
        count = int(state.qpos.shape[0]) if rows is None else len(rows)
        if not 1 <= count <= self.num_envs:
            raise EmbodiedError(f"cannot render {count} environments; this renderer was made for 1 to {self.num_envs}")
        # A diverged environment is drawn somewhere; a NaN would spoil the tree of bounds for all.
        qpos = torch.nan_to_num(self._tensor(state.qpos, rows))
        moved = state.mocap_pos is not None and self.model.nmocap
        mocap_pos = self._tensor(state.mocap_pos, rows) if moved else None
        fields = {name: self._tensor(values, rows) for name, values in state.fields.items()}
        with self._on_device():
            return self._draw(Poses(qpos, mocap_pos, fields))

    def close(self) -> None:
        """Free the threads and the buffers; nothing can be drawn afterwards."""
        if "_threads" in self.__dict__:
            self._threads.shutdown()
        self._casters.clear()

    def _draw(self, poses: Poses) -> dict[str, Images]:
        """Have each caster draw its share."""
        if not self._fields.issuperset(poses.fields):
            for name in poses.fields:
                for caster in self._casters:
                    caster.let_differ(name)
            self._fields |= poses.fields.keys()
            self._compiled = False
        count = len(poses.qpos)
        busy = min(len(self._casters), count)
        edges = [worker * count // busy for worker in range(busy + 1)]
        parts = [poses.part(slice(begin, end)) for begin, end in itertools.pairwise(edges)]
        # Kernels compile at the first image, which threads must not do at once.
        run = self._threads.map if self._compiled and busy > 1 else map
        drawn = list(run(RayCaster.draw, self._casters, parts))
        self._compiled = True
        return {name: joined([images[name] for images in drawn]) for name in self.cameras}

    @functools.cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(len(self._casters), "rays", initializer=_start_thread)

    def _tensor(self, array: Any, rows: Tensor | None) -> Tensor:
        """An array of JAX or numpy, or some rows of it, on the renderer's device."""
        tensor = torch.from_dlpack(array) if isinstance(array, jax.Array) else torch.as_tensor(np.asarray(array))
        return (tensor if rows is None else tensor[rows.to(tensor.device)]).to(self.device)

    def _on_device(self) -> contextlib.AbstractContextManager[Any]:
        """Have Warp work where torch does, and on a GPU in torch's stream, so that neither overtakes the other."""
        if self.device.type == "cpu":
            return self._warp.ScopedDevice("cpu")
        return self._warp.ScopedStream(self._warp.stream_from_torch(torch.cuda.current_stream(self.device)))


def _start_thread() -> None:
    """Have torch stay in this thread."""
    torch.get_num_threads()  # the first query in a thread would otherwise undo the setting
    torch.set_num_threads(1)


def require_cameras(model: mujoco.MjModel, names: Sequence[str], others: Sequence[str] = ()) -> None:
    """Check that a model has cameras of these names, or that they are among `others`.

    Raises:
        UnknownNameError: one is missing; lists those that exist.
        EmbodiedError: no name at all.
    """
    known = [name for name in (*others, *(model.camera(i).name for i in range(model.ncam))) if name]
    if isinstance(names, str) or not names:
        raise EmbodiedError(f"cameras={names!r}; expected a tuple of names among {listing(known)}")
    for name in names:
        if name not in known:
            raise UnknownNameError("camera", name, known)
