"""embodied: batched robotics simulation on GPU and CPU, torch policies, and the way to a real robot.

    import embodied
    env = embodied.make("swarm/hover", num_envs=1024)
    observation = env.reset()

This package is mechanism: it knows no particular robot, task or algorithm. Content joins through the registry.
"""

import _thread
import ctypes
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from embodied.storage.files import VERSION as __version__

DIGITS = 7  # of a number of processes: fewer


def own_gpu(environment: Mapping[str, str], gpus: int) -> str | None:
    """The value of CUDA_VISIBLE_DEVICES with which a rank that `torchrun` started sees its own GPU alone.

    Torch, JAX and Warp then agree: whatever they take for device 0 is this rank's.

    Args:
        environment: The process's variables.
        gpus: How many GPUs the machine has; those that CUDA_VISIBLE_DEVICES lists count, where it is set.

    Returns:
        The name of a GPU; None to leave the variable alone: one process, or no GPU.
    """
    told = [environment.get(name, "") for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK")]
    numbers = [int(text) if text.isdecimal() and len(text) < DIGITS else 0 for text in told]
    processes, rank = numbers  # what is no number is not torchrun's
    if processes < 2:
        return None
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    names = [str(index) for index in range(gpus)] if listed is None else [name for name in listed.split(",") if name]
    return names[rank % len(names)] if names else None


def library(*names: str) -> ctypes.CDLL | None:
    """The first of these shared libraries that the system has."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


if gpu := own_gpu(os.environ, len(list(Path("/dev").glob("nvidia[0-9]*")))):
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu

# MuJoCo refuses to be imported with a value that it does not know, also where nothing is drawn.
BACKENDS = {"linux": ("glx", "egl", "osmesa"), "win32": ("wgl",), "darwin": ("cgl",)}.get(sys.platform, ())
SWITCHES = ("enable", "enabled", "on", "true", "1", "glfw", "", "disable", "disabled", "off", "false", "0")
LIBRARIES = {
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
"""Backend -> names of its library, without which MuJoCo refuses, too."""
if (asked := os.environ.get("MUJOCO_GL", "").lower().strip()) not in (*BACKENDS, *SWITCHES):
    print(f"warning: MUJOCO_GL={asked} is ignored; MuJoCo knows {', '.join(BACKENDS)} and glfw here", file=sys.stderr)
    del os.environ["MUJOCO_GL"]
elif asked in LIBRARIES and library(*LIBRARIES[asked]) is None:
    print(f"warning: MUJOCO_GL={asked} is ignored; there is no {LIBRARIES[asked][-1]} here", file=sys.stderr)
    del os.environ["MUJOCO_GL"]
elif asked in LIBRARIES:
    os.environ["PYOPENGL_PLATFORM"] = asked  # another value refuses the import

# These must be set before JAX is imported anywhere in the process.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch shares the GPU's memory with JAX
os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = os.environ.get("JAX_DEFAULT_MATMUL_PRECISION") or "highest"
"""TF32 silently breaks contact physics; JAX takes an empty value for none of its own."""
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path.home() / ".cache" / "embodied" / "jax"))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = (
    os.environ.get("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS") or "0.5"
)
# XLA prints two pages of harmless CPU features for every program it takes from that cache; failures still raise.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Torch's idle threads would spin on the cores that physics needs; on two cores that halves the speed.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


AGAIN = 0.05  # s until an interrupt that was lost is sent again
LIBRARIES_OWN = ("JAX_", "XLA_", "TORCH_")
"""How names of variables begin that libraries read."""


def _on_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Report a Ctrl-C before a command has begun, or after it has ended, without a traceback."""
    named = [name for name in os.environ if name.startswith(LIBRARIES_OWN) and name.lower() in str(error).lower()]
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    elif named:  # a library refuses a value of its own variable, when it is imported
        said = " ".join(str(error).split())[:300]
        print(f"error: {named[0]}={os.environ[named[0]][:60]} is refused: {said}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


def _on_unraisable(unraisable: Any) -> None:
    """Let a Ctrl-C that came in a callback, such as JAX's of the garbage collector, come once more outside of it."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        again = threading.Timer(AGAIN, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


# `python -m embodied.COMMAND`, being looked up, or the command `embodied`; other programs keep their hook.
if sys.argv[:1] == ["-m"] or Path("".join(sys.argv[:1])).name == "embodied":
    sys.excepthook = _on_uncaught
    sys.unraisablehook = _on_unraisable


if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.factory import functional, make
    from embodied.env.registry import REGISTRY
    from embodied.env.step import Step
    from embodied.errors import EmbodiedError
    from embodied.train import train_policy

__all__ = ["REGISTRY", "EmbodiedError", "Env", "Step", "__version__", "functional", "make", "train_policy"]

_LAZY = {
    "EmbodiedError": "embodied.errors",
    "Env": "embodied.env.env",
    "Step": "embodied.env.step",
    "functional": "embodied.env.factory",
    "make": "embodied.env.factory",
    "REGISTRY": "embodied.env.registry",
    "train_policy": "policies.training.launch",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that `import embodied` and `--help` stay quick."""
    if name not in _LAZY:
        raise AttributeError(f"module 'embodied' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
