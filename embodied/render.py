"""Images of all environments at once: a batched ray caster on the GPU or the CPU, without OpenGL.

    renderer = BatchRenderer(task.visual_model, num_envs=64, cameras=("view", "wrist"), size=(128, 128))
    images = renderer.render(appearance)["view"]      # images.rgb: (64, 128, 128, 3) uint8

Kinematics and rays are MuJoCo Warp's, so the same code draws for every engine: what is drawn comes from an
`Appearance`. Not drawn: sites, tendons and flexes, the sides of height fields, and transparency (a geom is opaque
unless its alpha is 0). Pictures and films for people, with markers and shadows, are drawn by `embodied.pictures`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import jax
import mujoco
import numpy as np
import torch
from torch import Tensor

from embodied.appearance import Appearance
from embodied.errors import EmbodiedError, UnknownNameError, listing
from embodied.raykernel import specialise

GROUPS = (0, 1, 2)  # of geoms that are drawn: MuJoCo's default, which leaves out shapes that only collide
SIDES = (4, 4096)  # pixels, smallest and largest side of an image
NOTHING = -1  # segmentation of a pixel whose ray meets no geom
CHANNELS = (2, 1, 0)  # red, green, blue among the bytes of a packed colour, alpha last
REFUSED = frozenset({"cam_intrinsic", "cam_sensorsize", "cam_resolution"})  # fields whose rays are computed beforehand


@dataclasses.dataclass(frozen=True)
class Images:
    """What one camera sees in N environments, rows from top to bottom. None: not asked for."""

    rgb: Tensor | None
    """(N, height, width, 3) uint8."""
    depth: Tensor | None
    """(N, height, width) float32 m along the optical axis; 0 where the ray meets nothing."""
    segmentation: Tensor | None
    """(N, height, width) int32 ids of the visual model's geoms; -1 where the ray meets nothing."""


class BatchRenderer:
    """Draws up to `num_envs` environments of one model through some of its cameras.

    The first image of a model takes up to a minute, in which Warp compiles its kernels; they are kept on disk.
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
            cameras: Names of cameras of the model.
            size: Width and height in pixels.
            rgb: Whether to draw colours.
            depth: Whether to measure depth.
            segmentation: Whether to tell geoms apart.
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
        self._asked = (rgb, depth, segmentation)
        self._warp, self._mjw = _import_warp()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._shadows = shadows
        with self._on_device():
            self._put()
        self._fields: dict[str, Tensor] = {}

    def _put(self) -> None:
        """The model, the state and the buffers on the device."""
        known = _drawable(self.model)
        try:
            self._m = self._mjw.put_model(known)
        except NotImplementedError as error:
            raise EmbodiedError(f"cannot render this model: MuJoCo Warp does not support it: {error}") from None
        # Nothing here collides; the least room for contacts and constraints keeps the state small.
        self._d = self._mjw.make_data(known, nworld=self.num_envs, nconmax=1, njmax=1)
        to_torch = self._warp.to_torch
        self._qpos, self._mocap_pos = to_torch(self._d.qpos), to_torch(self._d.mocap_pos)
        self._put_context(known)

    def _put_context(self, known: mujoco.MjModel, same_fovy: bool = True) -> None:
        """The trees of bounds, the images and the kernel; rays are the same in all environments if their `fovy` is."""
        rgb, depth, segmentation = self._asked
        self._context = self._mjw.create_render_context(
            known,
            nworld=self.num_envs,
            cam_active=list(self.cameras),
            cam_res=self.size,
            render_rgb=rgb,
            render_depth=depth,
            render_seg=segmentation,
            use_shadows=self._shadows,
            use_textures=bool(self.model.ntex),
            enabled_geom_groups=list(GROUPS),
            render_skybox=True,
            use_precomputed_rays=same_fovy,
        )
        specialise(self._m, self._context)
        to_torch = self._warp.to_torch
        self._packed = to_torch(self._context.rgb_data)
        self._depth, self._seen = to_torch(self._context.depth_data), to_torch(self._context.seg_data)

    def render(self, appearance: Appearance, rows: Tensor | None = None) -> dict[str, Images]:
        """Draw a batch of environments. Returns camera -> images (k, ...), in memory of their own.

        Args:
            appearance: What cameras see of k <= `num_envs` environments.
            rows: (k,) int64; draw only these environments of `appearance`.

        Raises:
            EmbodiedError: more environments than there is room for, or a model field that cannot differ.
        """
        count = int(appearance.qpos.shape[0]) if rows is None else len(rows)
        if not 1 <= count <= self.num_envs:
            raise EmbodiedError(f"cannot render {count} environments; this renderer was made for 1 to {self.num_envs}")
        with self._on_device():
            # A diverged environment is drawn somewhere; a NaN would spoil the tree of bounds for all.
            self._qpos[:count].copy_(torch.nan_to_num(self._tensor(appearance.qpos, rows)))
            if appearance.mocap_pos is not None and self.model.nmocap:
                self._mocap_pos[:count].copy_(self._tensor(appearance.mocap_pos, rows))
            for name, values in appearance.fields.items():
                field = self._field(name)
                field[:count].copy_(self._tensor(values, rows).reshape(count, *field.shape[1:]))
            self._d.nworld = count
            mjw, m, d = self._mjw, self._m, self._d
            mjw.kinematics(m, d)
            mjw.com_pos(m, d)
            mjw.camlight(m, d)
            mjw.refit_bvh(m, d, self._context)
            mjw.render(m, d, self._context)
            return {name: self._images(number, count) for number, name in enumerate(self.cameras)}

    def _images(self, number: int, count: int) -> Images:
        """Copies of what the camera `number` of ours sees."""
        width, height = self.size
        pixels = slice(number * width * height, (number + 1) * width * height)
        shape = (count, height, width)
        rgb, depth, segmentation = self._asked
        colours = self._packed[:count, pixels].contiguous().view(torch.uint8).reshape(*shape, 4) if rgb else None
        return Images(
            rgb=None if colours is None else colours[..., CHANNELS],
            depth=self._depth[:count, pixels].reshape(shape).clone() if depth else None,
            segmentation=self._seen[:count, pixels, 0].reshape(shape).clone() if segmentation else None,
        )

    def _field(self, name: str) -> Tensor:
        """A model field with a row for each environment, as torch sees it."""
        if name not in self._fields:
            shared = getattr(self._m, name, None)
            if name in REFUSED or not isinstance(shared, self._warp.array) or shared.ndim < 1 or shared.shape[0] != 1:
                raise EmbodiedError(f"the model field {name!r} cannot differ between environments in a batch of images")
            own = self._warp.array(np.repeat(shared.numpy(), self.num_envs, axis=0), dtype=shared.dtype)
            setattr(self._m, name, own)
            self._fields[name] = self._warp.to_torch(own)
            if name == "cam_fovy":
                self._put_context(_drawable(self.model), same_fovy=False)
        return self._fields[name]

    def _tensor(self, array: Any, rows: Tensor | None) -> Tensor:
        """An array of JAX or numpy, or some rows of it, on the renderer's device."""
        tensor = torch.from_dlpack(array) if isinstance(array, jax.Array) else torch.as_tensor(np.asarray(array))
        return (tensor if rows is None else tensor[rows.to(tensor.device)]).to(self.device)

    def _on_device(self) -> contextlib.AbstractContextManager[Any]:
        """Have Warp work where torch does, and on a GPU in torch's stream, so that neither overtakes the other."""
        if self.device.type == "cpu":
            return self._warp.ScopedDevice("cpu")
        return self._warp.ScopedStream(self._warp.stream_from_torch(torch.cuda.current_stream(self.device)))


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


def _drawable(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy of `model` without what MuJoCo Warp refuses though it has to do with physics alone."""
    from embodied.engines.mjx import known_to_mjx

    copy = known_to_mjx(model)
    copy.opt.enableflags = 0
    # Making a context runs C MuJoCo's forward dynamics once, which would stumble over what stands in for user sensors.
    copy.opt.disableflags = int(mujoco.mjtDisableBit.mjDSBL_SENSOR) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return copy


def _import_warp() -> tuple[Any, Any]:
    """Warp and MuJoCo Warp, which comes with MJX.

    Raises:
        EmbodiedError: they are not installed.
    """
    # MJX warns at import about what is optional to it.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        import warp

        warp.config.log_level = warp.LOG_WARNING  # it would greet, and name every kernel that it loads
        import mujoco.mjx.third_party.mujoco_warp as mujoco_warp
    except ImportError as error:
        raise EmbodiedError(f"cannot render in batch ({error}); pip install 'mujoco-mjx[warp]==3.17.*'") from None
    return warp, mujoco_warp
