"""Physics engines by name. Each is imported only when it is requested."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from embodied.core.task import Task
from embodied.engines.base import FusedEngine, HostEngine
from embodied.errors import EngineError, UnknownNameError
from embodied.storage.configs import fitting

ENGINES: Mapping[str, str] = {
    "mujoco": "embodied.engines.mujoco:MujocoEngine",
    "mjx": "embodied.engines.mjx.engine:MjxEngine",
    "rigid": "embodied.engines.rigid:RigidEngine",
    "brax": "embodied.engines.brax.engine:BraxEngine",
    "pybullet": "embodied.engines.pybullet.engine:PybulletEngine",
}
"""Engine name -> `module:class`."""
FUSED = ("rigid", "mjx", "brax")
"""Engines that are pure JAX (`embodied.engines.base.FusedEngine`), the fastest first."""
SUMMARIES: Mapping[str, str] = {
    "mujoco": "C MuJoCo on a thread pool: the default without a GPU, the reference in tests.",
    "mjx": "MuJoCo on accelerators (Warp or JAX): the default with an NVIDIA GPU.",
    "rigid": "Rigid bodies without contact, in closed form: drone swarms, gradients.",
    "brax": "Brax's kinematics and collisions, our response: a second opinion.",
    "pybullet": "PyBullet, one world at a time: an independent engine, a robot's stand-in.",
}
"""Engine name -> its kind and purpose, in a line."""


def make_engine(name: str, task: Task[Any], num_envs: int, **options: Any) -> FusedEngine[Any] | HostEngine:
    """Build the engine `name` for `num_envs` environments of `task`.

    Raises:
        UnknownNameError: no engine of that name; lists those that exist.
        EngineError: the engine is not installed, cannot run the task's model, or has no such option.
        EmbodiedError: an option's value is of another type.
    """
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES)
    module, attribute = ENGINES[name].split(":")
    try:
        engine = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise EngineError(f"engine {name} is not installed: {error}") from None
    accepted = [option for option in inspect.signature(engine).parameters if option not in ("task", "num_envs")]
    if unknown := sorted(set(options) - set(accepted)):
        raise EngineError(f"engine {name} has no option {', '.join(unknown)}; it has {', '.join(accepted) or 'none'}")
    kinds = typing.get_type_hints(engine.__init__)
    return engine(
        task, num_envs, **{option: fitting(kinds[option], value, option) for option, value in options.items()}
    )
