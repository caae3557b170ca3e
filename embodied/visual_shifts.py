"""Named ways in which pictures differ from those a policy learned from: how far what it sees may change.

    env = embodied.make("manipulation/drawer-open", 64, cameras=("view", "wrist"), visual_shift="camera")

`python -m embodied.evaluate mt10 --policy RUN --visual-shift camera` asks a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import mujoco

from embodied.errors import EmbodiedError, UnknownNameError
from embodied.randomize import Term
from embodied.visual_terms import STANDING, move_camera, recolour, vary_lights

COLOUR_SPREAD = 0.3  # of red, green and blue, each from 0 to 1: twice what `recolour` does for training
CAMERA_SHIFT = 0.05  # m along each axis at most; 4.8 cm on average
BRIGHTNESS = (0.5, 1.5)  # factor on each light
LIGHT_SHIFT = 0.5  # m along each axis at most
TINT = 0.2  # of each light's red, green and blue


class VisualShift(StrEnum):
    """What differs, drawn anew in every episode."""

    COLOURS = "colours"
    """Of everything: robot, table, objects."""
    CAMERA = "camera"
    """Where cameras stand; those that a robot carries stay."""
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
