"""The kernel of MuJoCo Warp's ray caster, compiled for one scene: the same images, in two thirds of the time on a CPU.

MuJoCo Warp builds one kernel for each kind of scene. Two things make it slow on a CPU:

- A ray towards each light is compiled in whether or not lights cast shadows, so the function that lights a pixel is too
  large to be inlined, and its arguments, two dozen descriptors of arrays, are copied for each light of each pixel.
- The least and the greatest of two numbers are taken with NaN in mind, in every step down the tree of bounds.

Rays take nearly all of the time. Rays computed beforehand, unless `cam_fovy` differs between environments, help too.
Without effect were `-O3`, other leaves of the tree, a tree built at the drawn pose, no highlights and no culling.
Arithmetic that may be reordered (`-ffast-math`) gains little and changes pixels.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from embodied.engines.mjx.warp_library import import_warp
from embodied.errors import EmbodiedError

# Warp's own default, which compiles for the processor at hand, and: nothing is NaN. The renderer lets none in; where 0
# times infinity makes one, a ray runs within a side of a box of bounds and may miss it, as before. -w: no warnings of
# Warp's headers.
CPU_FLAGS = "-march=native -menable-no-nans -w"


def specialised(model: Any, context: Any) -> Any:
    """A kernel for MuJoCo Warp's render `context` without what its scene, the Warp `model`, does not need.

    MuJoCo Warp would build its own at the first image. It has no option for this, so names of its module are used that
    are private; `tests/embodied/test_render.py` holds that both kernels draw the same.
    """
    warp = import_warp()
    from mujoco.mjx.third_party.mujoco_warp._src import render

    make_cast_ray: Any = render._make_cast_ray

    def make_needed(kinds: tuple[int, ...], first_hit: bool = False) -> Any:
        """A function that casts a ray at these kinds of geoms; where nothing casts shadows, their rays meet none."""
        return make_cast_ray(() if first_hit and not context.use_shadows else kinds, first_hit)

    render._make_cast_ray = make_needed
    try:
        kernel: Any = render._build_megakernel(model, context)
    finally:
        render._make_cast_ray = make_cast_ray
    if kernel.module.options["cpu_compiler_flags"] != CPU_FLAGS:
        warp.set_module_options({"cpu_compiler_flags": CPU_FLAGS}, kernel.module)
    return kernel


GROUPS = (0, 1, 2)  # of geoms that are drawn: MuJoCo's default, which leaves out shapes that only collide
CHANNELS = (2, 1, 0)  # red, green, blue among the bytes of a packed colour, alpha last
PLACES = frozenset({"geom_pos", "geom_quat", "body_pos", "body_quat"})  # fields of poses
REFUSED = frozenset({"cam_intrinsic", "cam_sensorsize", "cam_resolution"})  # fields that rays take from the model alone


@dataclasses.dataclass(frozen=True)
class Images:
    """Images of one camera in N environments, rows from top to bottom. None: not requested."""

    rgb: Tensor | None
    """(N, height, width, 3) uint8."""
    depth: Tensor | None
    """(N, height, width) float32 m along the optical axis; 0 where the ray meets nothing."""
    segmentation: Tensor | None
    """(N, height, width) int32 ids of the visual model's geoms; -1 where the ray meets nothing."""


@dataclasses.dataclass(frozen=True)
class Request:
    """Cameras, size and kinds of the images that a renderer draws."""

    cameras: tuple[str, ...]
    size: tuple[int, int]
    """Width and height in pixels."""
    rgb: bool
    depth: bool
    segmentation: bool
    shadows: bool


@dataclasses.dataclass(frozen=True)
class Poses:
    """Tensors of k environments, as in `RenderState`."""

    qpos: Tensor
    mocap_pos: Tensor | None
    fields: Mapping[str, Tensor]

    def part(self, rows: slice) -> Poses:
        """Some of the environments."""
        mocap_pos = None if self.mocap_pos is None else self.mocap_pos[rows]
        return Poses(self.qpos[rows], mocap_pos, {name: field[rows] for name, field in self.fields.items()})


class RayCaster:
    """Draws up to `num_envs` environments on Warp's current device."""

    def __init__(self, model: mujoco.MjModel, num_envs: int, request: Request, first: RayCaster | None = None) -> None:
        """Put the model, the state and the buffers on the device.

        Args:
            model: What to draw.
            num_envs: Most environments in one call.
            request: Cameras, size and kinds of image.
            first: One that draws the same, whose kernel and textures this one uses too.

        Raises:
            EmbodiedError: a model that MuJoCo Warp does not know.
        """
        self.num_envs, self.request, self._first = num_envs, request, first
        self._warp, self._mjw = import_renderer()
        self._known = _drawable(model)
        try:
            self._m = self._mjw.put_model(self._known)
        except NotImplementedError as error:
            raise EmbodiedError(f"cannot render this model: MuJoCo Warp does not support it: {error}") from None
        # Nothing here collides; the least room for contacts and constraints keeps the state small.
        self._d = self._mjw.make_data(self._known, nworld=num_envs, nconmax=1, njmax=1)
        to_torch = self._warp.to_torch
        self._qpos, self._mocap_pos = to_torch(self._d.qpos), to_torch(self._d.mocap_pos)
        self._fields: dict[str, Tensor] = {}
        self._put_context()

    def _put_context(self, same_fovy: bool = True) -> None:
        """The trees of bounds, the images and the kernel; rays are the same in all environments if their `fovy` is."""
        asked = self.request
        self._context = self._mjw.create_render_context(
            self._known,
            nworld=self.num_envs,
            cam_active=list(asked.cameras),
            cam_res=asked.size,
            render_rgb=asked.rgb,
            render_depth=asked.depth,
            render_seg=asked.segmentation,
            use_shadows=asked.shadows,
            use_textures=bool(self._known.ntex),
            enabled_geom_groups=list(GROUPS),
            render_skybox=True,
            use_precomputed_rays=same_fovy,
        )
        if self._first is None:
            self._context._megakernel = specialised(self._m, self._context)
        else:
            theirs = self._first._context
            self._context._megakernel = theirs._megakernel
            self._context.textures, self._context.textures_registry = theirs.textures, theirs.textures_registry
        to_torch = self._warp.to_torch
        self._packed = to_torch(self._context.rgb_data)
        self._depth, self._seen = to_torch(self._context.depth_data), to_torch(self._context.seg_data)

    def let_differ(self, name: str) -> None:
        """Give a model field a row for each environment, if it has none yet.

        Raises:
            EmbodiedError: a field that cannot differ.
        """
        if name in self._fields:
            return
        shared: Any = getattr(self._m, name, None)
        if name in REFUSED or not isinstance(shared, self._warp.array) or shared.ndim < 1 or shared.shape[0] != 1:
            raise EmbodiedError(f"the model field {name!r} cannot differ between environments in a batch of images")
        own = self._warp.array(np.repeat(shared.numpy(), self.num_envs, axis=0), dtype=shared.dtype)
        setattr(self._m, name, own)
        self._fields[name] = self._warp.to_torch(own)
        if name in PLACES:
            # MuJoCo Warp places what is welded to the world (id 0 here) once, in make_data. Of all that is called while
            # drawing, only kinematics reads this field; with no id 0 it places every geom.
            self._m.body_weldid = self._warp.array(np.ones(self._known.nbody, np.int32), dtype=int)
        if name == "cam_fovy":
            self._put_context(same_fovy=False)

    def draw(self, poses: Poses) -> dict[str, Images]:
        """Camera -> images of k <= `num_envs` environments, in memory of their own."""
        count = len(poses.qpos)
        self._qpos[:count].copy_(poses.qpos)
        if poses.mocap_pos is not None:
            self._mocap_pos[:count].copy_(poses.mocap_pos)
        for name, values in poses.fields.items():
            field = self._fields[name]
            field[:count].copy_(values.reshape(count, *field.shape[1:]))
        self._d.nworld = count
        mjw, m, d = self._mjw, self._m, self._d
        mjw.kinematics(m, d)
        mjw.com_pos(m, d)
        mjw.camlight(m, d)
        mjw.refit_bvh(m, d, self._context)
        mjw.render(m, d, self._context)
        return {name: self._images(number, count) for number, name in enumerate(self.request.cameras)}

    def _images(self, number: int, count: int) -> Images:
        """Copies of the images of our camera `number`."""
        asked = self.request
        width, height = asked.size
        pixels = slice(number * width * height, (number + 1) * width * height)
        shape = (count, height, width)
        colours = self._packed[:count, pixels].contiguous().view(torch.uint8).reshape(*shape, 4) if asked.rgb else None
        return Images(
            rgb=None if colours is None else colours[..., CHANNELS],
            depth=self._depth[:count, pixels].reshape(shape).clone() if asked.depth else None,
            segmentation=self._seen[:count, pixels, 0].reshape(shape).clone() if asked.segmentation else None,
        )


def joined(parts: list[Images]) -> Images:
    """Images of all environments from those of some and those of others."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*[(part.rgb, part.depth, part.segmentation) for part in parts], strict=True)
    return Images(*(None if column[0] is None else torch.cat(column) for column in columns))


def _drawable(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy of `model` without parts of its physics that MuJoCo Warp refuses."""
    from embodied.engines.mjx.engine import known_to_mjx

    copy = known_to_mjx(model)
    copy.opt.enableflags = 0
    # Making a context runs C MuJoCo's forward dynamics once, which would fail on the stand-ins for user sensors.
    copy.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_SENSOR) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return copy


def import_renderer() -> tuple[Any, Any]:
    """Warp and MuJoCo Warp, which comes with MJX.

    Raises:
        EmbodiedError: they are not installed.
    """
    # MJX warns at import about its optional parts.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        warp = import_warp()
        import mujoco.mjx.third_party.mujoco_warp as mujoco_warp
    except ImportError as error:
        raise EmbodiedError(f"cannot render in batch ({error}); pip install 'mujoco-mjx[warp]==3.17.*'") from None
    return warp, mujoco_warp
