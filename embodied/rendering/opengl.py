"""MuJoCo's drawing backend on this machine: EGL, a display or OSMesa."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import sys
import warnings

import mujoco

from embodied import LIBRARIES, library
from embodied.errors import EmbodiedError, reason

ADVICE = "on Debian and Ubuntu 'apt-get install libegl1 libgl1-mesa-dri' or 'apt-get install libosmesa6' provides one"

ASKED = ("MUJOCO_GL", "MUJOCO_EGL_DEVICE_ID")
"""Variables by which a user chooses what draws."""
MOST_GEOMS = 10_000
"""Of a scene, as MuJoCo's own renderer has it."""


@functools.cache
def choose_backend() -> str:
    """Make MuJoCo draw with what this machine has; returns the value of `MUJOCO_GL`.

    A value that the user set is kept. On Linux, else: EGL where it works (a GPU, or Mesa in software), a display if
    there is one, else OSMesa. It may be called before or after `import mujoco`, which by itself would settle on the
    display.

    Raises:
        EmbodiedError: nothing here can draw; names the packages that can.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in ("disable", "disabled", "off", "false", "0"):
        raise EmbodiedError(
            f"cannot render: MUJOCO_GL={asked} switches rendering off; unset it, or set it to egl or osmesa"
        )
    if asked or sys.platform != "linux":
        return asked
    if egl_works():
        return _use("egl")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return "glfw"
    if library(*LIBRARIES["osmesa"]):
        return _use("osmesa")
    raise EmbodiedError(f"cannot render: there is no display and neither EGL nor OSMesa works; {ADVICE}")


def renderer(model: mujoco.MjModel, size: tuple[int, int], max_geom: int = MOST_GEOMS) -> mujoco.Renderer:
    """MuJoCo's renderer for pictures of a width and height in pixels.

    Raises:
        EmbodiedError: this machine cannot render, or not as `MUJOCO_GL` or `MUJOCO_EGL_DEVICE_ID` ask.
    """
    backend = choose_backend()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of GLFW, which are the error's reason in other words
            return mujoco.Renderer(model, size[1], size[0], max_geom=max_geom)
    # Failures depend on the driver: MuJoCo, PyOpenGL and the platform each raise their own.
    except Exception as error:
        asked = {name: f"{name}={os.environ[name]}" for name in ASKED if name in os.environ}
        way_out = f"unset {' and '.join(asked)}, or " if asked else ""
        raise EmbodiedError(
            f"cannot render with {', '.join(asked.values()) or backend or 'the default backend'}: "
            f"{' '.join(reason(error).split())}; {way_out}{ADVICE}"
        ) from None


def _use(backend: str) -> str:
    """Settle on a windowless backend, also where MuJoCo was imported already."""
    import importlib

    from mujoco.rendering.classic import gl_context

    os.environ["MUJOCO_GL"] = backend
    os.environ["PYOPENGL_PLATFORM"] = backend
    try:
        gl_context.GLContext = importlib.import_module(f"mujoco.{backend}").GLContext  # pyright: ignore
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        raise EmbodiedError(f"cannot render with {backend}: {reason(error)}; {ADVICE}") from error
    return backend


def egl_works() -> bool:
    """Whether EGL finds a device to draw on without a display, as MuJoCo uses it."""
    egl = library(*LIBRARIES["egl"])
    if egl is None:
        return False
    pointer = ctypes.c_void_p
    egl.eglGetProcAddress.restype = pointer
    query = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    display_of = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query or not display_of:
        return False
    devices, count = (pointer * 16)(), ctypes.c_int(0)
    ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, pointer, pointer)(query)(16, devices, ctypes.addressof(count))
    get_display = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(display_of)
    platform_device, opengl = 0x313F, 0x30A2  # EGL_PLATFORM_DEVICE_EXT, EGL_OPENGL_API
    # Initialised displays stay so: terminating one ends it for the whole process.
    return any(
        (display := get_display(platform_device, devices[i], None))
        and egl.eglInitialize(pointer(display), None, None)
        and egl.eglBindAPI(opengl)
        for i in range(count.value)
    )


def draws_on_gpu() -> bool:
    """Whether there is a graphics device at all; elsewhere Mesa draws on the CPU."""
    return sys.platform != "linux" or bool(glob.glob("/dev/nvidia[0-9]*") or glob.glob("/dev/dri/render*"))
