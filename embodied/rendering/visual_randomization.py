"""Terms that vary what cameras see between episodes: the camera's place and lens, lights, colours, textures.

    terms = (move_camera(model, "view", pos=0.03, angle=0.05), scale_fovy(model, "view", 0.9, 1.1), recolour(model))
    env = embodied.make("manipulation/pick-place", 64, cameras=("view",), visual_terms=terms)

They are `embodied.core.randomization`'s terms over fields of `Task.visual_model`, drawn anew in every episode of every
environment; physics and engines are unaffected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.randomization import Fields, Range, Term
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.math.rotations import quat_from_axis_angle, quat_multiply

STANDING = (mujoco.mjtCamLight.mjCAMLIGHT_FIXED, mujoco.mjtCamLight.mjCAMLIGHT_TARGETBODY)
"""Modes of cameras whose place in a body is `cam_pos`; others follow by constants that the model derives."""


def move_camera(model: mujoco.MjModel, camera: str, pos: float = 0.0, angle: float = 0.0) -> Term:
    """Shift a camera by U(-pos, pos) m along each axis of its body, and turn it by up to `angle` rad about any axis.

    A camera that looks at a body keeps looking at it.

    Raises:
        UnknownNameError: the model has no such camera.
        ValueError: the camera follows a body by itself, or a range is negative.
    """
    row = _camera(model, camera)
    if mujoco.mjtCamLight(int(model.cam_mode[row])) not in STANDING:
        raise ValueError(f"camera {camera!r} follows its body and cannot be moved; expected mode fixed or targetbody")
    if pos < 0 or angle < 0:
        raise ValueError(f"pos={pos} m and angle={angle} rad of camera {camera!r} must not be negative")

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        shift, turn = jax.random.split(key)
        moved = fields["cam_pos"].at[row].add(jax.random.uniform(shift, (3,), minval=-pos, maxval=pos))
        towards, size = jax.random.split(turn)
        axis = jax.random.normal(towards, (3,))
        drawn = jax.random.uniform(size, maxval=angle)
        turned = quat_multiply(fields["cam_quat"][row], quat_from_axis_angle(axis / jnp.linalg.norm(axis), drawn))
        return {"cam_pos": moved, "cam_quat": fields["cam_quat"].at[row].set(turned)}

    ranges = (Range.spread("shift along each axis", pos, "m"), Range("turn about any axis", 0.0, angle, "rad"))
    return Term(f"{camera}_pose", f"pose of camera {camera}", apply, ranges=ranges)


def scale_fovy(model: mujoco.MjModel, camera: str, low: float, high: float) -> Term:
    """Multiply a camera's vertical field of view by U(low, high).

    Raises:
        UnknownNameError: the model has no such camera.
        ValueError: its lens is given by focal lengths, or the range is empty or not positive.
    """
    row = _camera(model, camera)
    if model.cam_sensorsize[row, 1] > 0:
        raise ValueError(f"camera {camera!r} has focal lengths and no field of view that could be scaled")
    _check(f"{camera}_fovy", low, high)

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        return {"cam_fovy": fields["cam_fovy"].at[row].multiply(jax.random.uniform(key, minval=low, maxval=high))}

    return Term(f"{camera}_fovy", "cam_fovy", apply, ranges=(Range("factor", low, high, "1"),))


def vary_lights(
    model: mujoco.MjModel, low: float = 0.5, high: float = 1.5, pos: float = 0.5, tint: float = 0.1
) -> Term:
    """Every light as bright as U(low, high) times its own, tinted by U(1 - tint, 1 + tint), shifted by U(-pos, pos) m.

    Raises:
        ValueError: the range is empty or not positive.
    """
    _check("lights", low, high)

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        bright, colour, shift = jax.random.split(key, 3)
        factor = jax.random.uniform(bright, (model.nlight, 1), minval=low, maxval=high)
        factor = factor * jax.random.uniform(colour, (model.nlight, 3), minval=1 - tint, maxval=1 + tint)
        offset = jax.random.uniform(shift, (model.nlight, 3), minval=-pos, maxval=pos)
        return {"light_diffuse": fields["light_diffuse"] * factor, "light_pos": fields["light_pos"] + offset}

    ranges = (
        Range("factor on light_diffuse", low, high, "1"),
        Range.spread("factor on each of its colours", tint, "1", about=1.0),
        Range.spread("shift of light_pos", pos, "m"),
    )
    return Term("lights", "every light", apply, ranges=ranges)


def recolour(model: mujoco.MjModel, spread: float = 0.15, geoms: Sequence[str] | None = None) -> Term:
    """Add U(-spread, spread) to red, green and blue of geoms and of the materials they have; by default of all.

    A geom that another shows through stays as it is: alpha is not changed.

    Raises:
        UnknownNameError: the model has no such geom.
    """
    known = {model.geom(i).name: i for i in range(model.ngeom) if model.geom(i).name}
    for name in geoms or ():
        if name not in known:
            raise UnknownNameError("geom", name, known)
    rows = np.array([known[name] for name in geoms]) if geoms is not None else np.arange(model.ngeom)
    materials = np.unique(model.geom_matid[rows][model.geom_matid[rows] >= 0])
    # MuJoCo takes the material's colour where a geom has the default one, so that one must stay exactly as it is.
    rows = rows[~((model.geom_matid[rows] >= 0) & np.isclose(model.geom_rgba[rows], (0.5, 0.5, 0.5, 1.0)).all(1))]

    def shifted(key: Array, value: Array, chosen: np.ndarray) -> Array:
        drawn = jax.random.uniform(key, (len(chosen), 3), minval=-spread, maxval=spread)
        return value.at[chosen, :3].set(jnp.clip(value[chosen, :3] + drawn, 0.0, 1.0))

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        of_geoms, of_materials = jax.random.split(key)
        colours = {"geom_rgba": shifted(of_geoms, fields["geom_rgba"], rows)}
        return colours | ({"mat_rgba": shifted(of_materials, fields["mat_rgba"], materials)} if len(materials) else {})

    ranges = (Range.spread("addend, within 0 to 1", spread, "1"),)
    return Term("colours", "red, green, blue of geoms and materials", apply, ranges=ranges)


def scale_textures(model: mujoco.MjModel, low: float, high: float) -> Term:
    """Repeat every material's texture U(low, high) times as often: coarser and finer patterns.

    Raises:
        ValueError: the range is empty or not positive.
    """
    _check("textures", low, high)

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        return {
            "mat_texrepeat": fields["mat_texrepeat"] * jax.random.uniform(key, (model.nmat, 1), minval=low, maxval=high)
        }

    return Term("textures", "mat_texrepeat", apply, ranges=(Range("factor", low, high, "1"),))


def _camera(model: mujoco.MjModel, name: str) -> int:
    names = [model.camera(i).name for i in range(model.ncam)]
    if name not in names:
        raise UnknownNameError("camera", name, filter(None, names))
    return names.index(name)


def _check(name: str, low: float, high: float) -> None:
    """Refuse a range of factors that is empty or not positive."""
    if not 0 < low <= high:
        raise ValueError(f"{name}: factors from {low} to {high}; expected two positive numbers, the smaller one first")


COLOUR_SPREAD = 0.3  # of red, green and blue, each from 0 to 1: twice what `recolour` does for training
CAMERA_SHIFT = 0.05  # m along each axis at most; 4.8 cm on average
BRIGHTNESS = (0.5, 1.5)  # factor on each light
LIGHT_SHIFT = 0.5  # m along each axis at most
TINT = 0.2  # of each light's red, green and blue


class VisualShift(StrEnum):
    """Visual difference, drawn anew in every episode."""

    COLOURS = "colours"
    """Of everything: robot, table, objects."""
    CAMERA = "camera"
    """Places of cameras; those that a robot carries stay."""
    LIGHTS = "lights"
    """Brightness, tint and place."""
    ALL = "all"
    """All of these."""


def colours(model: mujoco.MjModel, cameras: Sequence[str]) -> tuple[Term, ...]:
    """Other colours."""
    del cameras
    return (recolour(model, COLOUR_SPREAD),)


def camera(model: mujoco.MjModel, cameras: Sequence[str]) -> tuple[Term, ...]:
    """Cameras on the world's body moved; one that looks at something keeps looking at it."""
    standing = [name for name in cameras if name in _standing(model)]
    return tuple(move_camera(model, name, CAMERA_SHIFT) for name in standing)


def lights(model: mujoco.MjModel, cameras: Sequence[str]) -> tuple[Term, ...]:
    """Other light."""
    del cameras
    return (vary_lights(model, *BRIGHTNESS, LIGHT_SHIFT, TINT),)


def everything(model: mujoco.MjModel, cameras: Sequence[str]) -> tuple[Term, ...]:
    """All together."""
    return (*colours(model, cameras), *camera(model, cameras), *lights(model, cameras))


SHIFTS: Mapping[VisualShift, Callable[[mujoco.MjModel, Sequence[str]], tuple[Term, ...]]] = {
    VisualShift.COLOURS: colours,
    VisualShift.CAMERA: camera,
    VisualShift.LIGHTS: lights,
    VisualShift.ALL: everything,
}


def shift_terms(shift: str, model: mujoco.MjModel, cameras: str | Sequence[str]) -> tuple[Term, ...]:
    """The terms of a shift, for the cameras that are observed, one or several.

    Raises:
        EmbodiedError: none of them stands, so that none can be moved.
        UnknownNameError: there is no such shift; lists those that exist.
    """
    names = (cameras,) if isinstance(cameras, str) else tuple(cameras)
    known = {name.value: terms for name, terms in SHIFTS.items()}
    if shift not in known:
        raise UnknownNameError("visual shift", shift, known)
    if not (terms := known[shift](model, names)):
        raise EmbodiedError(f"visual shift {shift!r}: none of the cameras {', '.join(names) or '(none)'} stands still")
    return terms


def _standing(model: mujoco.MjModel) -> set[str]:
    """Names of cameras that hang on the world's body."""
    fixed = [mujoco.mjtCamLight(int(mode)) in STANDING for mode in model.cam_mode]
    return {model.camera(i).name for i in range(model.ncam) if fixed[i] and model.cam_bodyid[i] == 0}
