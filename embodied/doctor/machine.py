"""A machine's equipment for physics and learning, its faults, and the commands that fix them."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from embodied.errors import EmbodiedError

PYTHONS = ((3, 11), (3, 12), (3, 13))  # as in pyproject.toml
DRIVER = (
    580  # first driver series for CUDA 13, which torch 2.11 and later, jax[cuda13] and warp-lang 1.18 are built for
)
CACHE_ROOM = 2**30  # bytes; compiled programs of all tasks take some 0.5 GiB
OVERWRITTEN = ("cudnn", "nccl", "nvshmem", "cusparselt")  # libraries whose cu12 and cu13 wheels install the same files


class Verdict(StrEnum):
    """Grade of a finding."""

    GOOD = "good"
    NOTE = "note"
    """Works, but slower or with less than could be."""
    WRONG = "wrong"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One fact about the machine."""

    name: str
    value: str
    verdict: Verdict = Verdict.GOOD
    fix: str = ""
    """The command or the change that fixes it."""


def findings() -> Iterator[Finding]:
    """All facts, in the order in which they depend on each other; one whose check raises is wrong."""
    for name, look in LOOKS.items():
        try:
            yield from look()
        except Exception as error:  # a broken library must not end the examination that is to find it
            yield Finding(name, f"{type(error).__name__}: {error}".splitlines()[0], Verdict.WRONG)


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    known = sys.version_info[:2] in PYTHONS
    yield Finding("Python", version, Verdict.GOOD if known else Verdict.NOTE, "" if known else "tried: 3.11 to 3.13")


def driver() -> Iterator[Finding]:
    """The NVIDIA driver, or that there is none."""
    if not shutil.which("nvidia-smi"):
        yield Finding("NVIDIA driver", "none: everything runs on the CPU")
        return
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        yield Finding("NVIDIA driver", said[0] if said else "nvidia-smi fails", Verdict.WRONG, "reinstall the driver")
        return
    for line in done.stdout.strip().splitlines():
        yield gpu_finding(*(part.strip() for part in line.split(",")))


def gpu_finding(name: str, version: str, memory: str) -> Finding:
    """One GPU, as nvidia-smi describes it."""
    series = int(version.split(".")[0]) if version.split(".")[0].isdigit() else 0
    if series >= DRIVER:
        return Finding("GPU", f"{name}, {memory}, driver {version}")
    fix = f"install an NVIDIA driver of series {DRIVER} or newer: the packages are built for CUDA 13"
    return Finding("GPU", f"{name}, {memory}, driver {version}", Verdict.WRONG, fix)


def libraries() -> Iterator[Finding]:
    """Versions, and installations that overwrite each other."""
    names = installed()
    for name in ("mujoco", "mujoco-mjx", "warp-lang", "brax", "numpy"):
        known = name in names
        yield Finding(name, names.get(name, "not installed"), Verdict.GOOD if known else Verdict.NOTE)
    yield from duplicates(names)


def installed() -> dict[str, str]:
    """Distribution, in lower case with dashes -> version."""
    found = ((d.metadata["Name"], d.version) for d in importlib.metadata.distributions())
    return {name.lower().replace("_", "-"): version for name, version in found if name}


def duplicates(names: dict[str, str]) -> Iterator[Finding]:
    """Distributions that install the same files: whichever came last has overwritten the other's."""
    for library in OVERWRITTEN:
        both = [f"nvidia-{library}-cu{major}" for major in (12, 13) if f"nvidia-{library}-cu{major}" in names]
        if len(both) > 1:
            fix = f"pip uninstall -y {' '.join(both)} && pip install --force-reinstall --no-deps {both[-1]}"
            yield Finding(library, f"{' and '.join(both)} install the same files", Verdict.WRONG, fix)
    plugins = sorted(name for name in names if name.startswith("jax-cuda12"))
    if plugins:
        fix = f'pip uninstall -y {" ".join(plugins)} && pip install "jax[cuda13]"'
        yield Finding("jax", f"{plugins[0]} is built for CUDA 12, torch for 13", Verdict.WRONG, fix)
    opencv = sorted(
        name for name in names if name.startswith("opencv-") and name.split("-")[1] in ("python", "contrib")
    )
    if len(opencv) > 1:
        fix = f"pip uninstall -y {' '.join(opencv)} && pip install opencv-python-headless"
        yield Finding("OpenCV", f"{' and '.join(opencv)} install the same files", Verdict.NOTE, fix)


def devices() -> Iterator[Finding]:
    """Devices on which torch, JAX and Warp compute."""
    import jax
    import torch

    has_gpu = shutil.which("nvidia-smi") is not None
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    where = ", ".join(torch.cuda.get_device_name(index) for index in range(seen)) or "cpu"
    wrong = has_gpu and not seen
    fix = "pip install -U torch (its default wheels are built for CUDA 13), with a driver that is new enough"
    yield Finding("torch", f"{torch.__version__} ({build}): {where}", _verdict(wrong), fix if wrong else "")
    try:
        found = jax.devices()
    except RuntimeError as error:
        platforms = os.environ.get("JAX_PLATFORMS", "")
        fix = f"unset JAX_PLATFORMS ({platforms!r})" if platforms else 'pip install -U "jax[cuda13]"'
        yield Finding("JAX", f"{jax.__version__}: {str(error).splitlines()[0]}", Verdict.WRONG, fix)
        return
    wrong = has_gpu and found[0].platform == "cpu"
    fix = 'pip install -U "jax[cuda13]"' if "JAX_PLATFORMS" not in os.environ else "unset JAX_PLATFORMS"
    kinds = ", ".join(device.device_kind for device in found)
    yield Finding("JAX", f"{jax.__version__}: {kinds}", _verdict(wrong), fix if wrong else "")
    yield from warp(has_gpu)


def warp(has_gpu: bool) -> Iterator[Finding]:
    """Warp, whose kernels MJX runs on a GPU."""
    import warp

    warp.config.log_level = warp.LOG_ERROR  # it would print what is reported here
    warp.init()
    seen = [device.name for device in warp.get_cuda_devices()]
    wrong = has_gpu and not seen
    fix = f"a driver of series {DRIVER} or newer" if wrong else ""
    yield Finding("Warp", f"{warp.config.version}: {', '.join(seen) or 'cpu'}", _verdict(wrong), fix)


def environment() -> Iterator[Finding]:
    """Variables that change what the libraries see."""
    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS", "XLA_FLAGS", "MUJOCO_GL"):
        if value := os.environ.get(name):
            yield Finding(name, value, Verdict.NOTE, f"unset {name}, if it was not meant")
    paths = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if "cuda" in part.lower()]
    if paths:
        fix = "unset LD_LIBRARY_PATH: the wheels bring their own CUDA libraries, and these come first"
        yield Finding("LD_LIBRARY_PATH", ":".join(paths), Verdict.NOTE, fix)


def storage() -> Iterator[Finding]:
    """Folder of compiled programs, and its free space."""
    folder = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    # Without the user's name, since results are passed on.
    shown = Path("~") / folder.relative_to(Path.home()) if folder.is_relative_to(Path.home()) else folder
    value = f"{shown}, {free / 2**30:.0f} GiB free"
    if not os.access(there, os.W_OK):
        yield Finding(
            "compiled programs", value, Verdict.WRONG, "set JAX_COMPILATION_CACHE_DIR to a folder to write to"
        )
    elif free < CACHE_ROOM:
        yield Finding("compiled programs", value, Verdict.NOTE, "free some space, or set JAX_COMPILATION_CACHE_DIR")
    else:
        yield Finding("compiled programs", value)


def pictures() -> Iterator[Finding]:
    """OpenGL backend for pictures, and ffmpeg for films."""
    from embodied.rendering.opengl import choose_backend, draws_on_gpu

    try:
        backend = choose_backend()
        yield Finding("OpenGL", f"{backend}, {'on a graphics device' if draws_on_gpu() else 'Mesa on the CPU'}")
    except EmbodiedError as error:
        text, _, advice = str(error).partition("; ")
        yield Finding("OpenGL", text, Verdict.NOTE, advice)
    import imageio_ffmpeg

    try:
        yield Finding("films", f"ffmpeg {imageio_ffmpeg.get_ffmpeg_version()}")
    except (RuntimeError, OSError) as error:
        yield Finding("films", str(error), Verdict.NOTE, "pip install --force-reinstall imageio-ffmpeg")


def _verdict(wrong: bool) -> Verdict:
    return Verdict.WRONG if wrong else Verdict.GOOD


LOOKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "Python": python,
    "NVIDIA driver": driver,
    "libraries": libraries,
    "devices": devices,
    "variables": environment,
    "storage": storage,
    "pictures": pictures,
}
