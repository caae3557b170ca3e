"""Composing scenes from assets with MjSpec."""

from __future__ import annotations

import warnings
from pathlib import Path

import mujoco

from embodied.errors import ModelError
from embodied.paths import asset


def load_spec(path: str | Path) -> mujoco.MjSpec:
    """Parse an MJCF file; a relative path names an asset.

    Raises:
        ModelError: the file does not exist or does not parse; says where and why.
    """
    file = asset(str(path)) if not Path(path).is_absolute() else Path(path)
    try:
        return mujoco.MjSpec.from_file(str(file))
    except (ValueError, OSError) as error:
        raise ModelError(f"{file.name} is not a model that MuJoCo can read: {one_line(error)}") from None


def compose(scene: str | Path, *robots: str | Path) -> mujoco.MjSpec:
    """A scene with robots attached to its world, names unchanged; compile it with `compile_spec`.

    Raises:
        ModelError: a file does not exist or does not parse.
    """
    spec = load_spec(scene)
    for robot in robots:
        spec.attach(load_spec(robot), frame=spec.worldbody.add_frame(), prefix="")
    return spec


def compile_spec(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """Compile a composed scene.

    Raises:
        ModelError: MuJoCo rejects it; says why.
    """
    try:
        with warnings.catch_warnings():
            # Robots keep their names (an empty prefix); the warning concerns saving such a scene as XML.
            warnings.filterwarnings("ignore", message="Attaching a spec with an empty prefix")
            return spec.compile()
    except ValueError as error:
        raise ModelError(f"the model {spec.modelname!r} does not compile: {one_line(error)}") from None


def one_line(error: Exception) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split())
