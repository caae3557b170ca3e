"""Results as JSON files: numbers, their command, and the hardware, versions and commit they were made with.

Enough to compare two files, nothing that identifies a machine.
"""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, reason
from embodied.storage.files import dumps, embodied_version, jsonable, write_atomic

LIBRARIES = ("torch", "jax", "mujoco")
SEED = re.compile(r"[-_]seed\d+")  # in the name of a result's file


def describe() -> dict[str, Any]:
    """Hardware, versions and commit, ready for JSON, without paths or host names.

    Returns:
        `cpu` (model name), `cores` and `memory_gib` (those this process may use), `gpu` (names joined by commas, or
        None), `os`, `python`, `embodied`, `torch`, `jax`, `mujoco` (versions, None if absent), `commit` and `dirty`
        (of the checkout this package lies in; outside one EMBODIED_COMMIT's and None), `date` (UTC).
    """
    commit, dirty = _commit(Path(__file__).resolve())
    return {
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_gib": _memory_gib(),
        "gpu": _gpu(),
        "os": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "embodied": embodied_version(),
        **{name: _version(name) for name in LIBRARIES},
        "commit": commit,
        "dirty": dirty,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write_result(path: Path | None, command: str, values: Mapping[str, Any]) -> None:
    """Write numbers with hardware, commit, command and study as JSON; nothing without a path.

    The study is the file's name without the seed: results of several seeds have one.
    """
    if path is None:
        return
    write_json(path, {**values, "study": study_of(path), "command": command, "hardware": describe()})


def study_of(path: Path) -> str:
    """Study to which a result belongs: its file's name without the seed."""
    return SEED.sub("", Path(path).stem)


def command_line(module: str) -> str:
    """The command as a reader would type it, without this machine's paths; `module` as in `python -m module`."""
    words = [word if "/" not in word or not Path(word).is_absolute() else Path(word).name for word in sys.argv[1:]]
    return " ".join(["python -m", module, *words])


def write_json(path: Path, mapping: Mapping[str, Any]) -> None:
    """Write JSON atomically, with sorted keys and NaN as null, making the folders it needs.

    Raises:
        EmbodiedError: The file cannot be written, or a value does not fit JSON; an existing file is untouched.
    """
    path = Path(path)
    try:
        data = dumps(jsonable(mapping))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    except (OSError, ValueError) as error:
        raise EmbodiedError(f"cannot write '{path}': {reason(error)}") from error


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    brand = _output("sysctl", "-n", "machdep.cpu.brand_string") if sys.platform == "darwin" else None
    return brand or platform.processor() or platform.machine()


def _cores() -> int:
    """Cores this process may run on: a container's share counts, not the machine around it."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _first_line("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        return max(1, min(affinity, round(int(quota) / int(period))))
    return affinity


def _memory_gib() -> float | None:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limit = _first_line("/sys/fs/cgroup/memory.max")
    return round(min(memory, int(limit) if limit.isdigit() else memory) / 2**30, 1)


def _gpu() -> str | None:
    """Names as the driver gives them: torch and JAX would take memory on the GPU."""
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return ", ".join(names.splitlines()) if names else None


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit(file: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that tracks `file`, and whether a tracked file differs from it.

    Tracking matters: an installed package may lie below another repository. For a copy without its repository,
    EMBODIED_COMMIT names the commit that was copied.
    """
    folder = str(file.parent)
    if _output("git", "-C", folder, "ls-files", "--error-unmatch", file.name) is None:
        return os.environ.get("EMBODIED_COMMIT"), None
    commit = _output("git", "-C", folder, "rev-parse", "HEAD")
    changes = _output("git", "-C", folder, "status", "--porcelain", "--untracked-files=no")
    return (commit, bool(changes)) if commit and changes is not None else (None, None)


def _output(*command: str) -> str | None:
    """Output of a command, None if it is absent or fails."""
    if shutil.which(command[0]) is None:
        return None
    # A git hook points these at the repository it runs for, which need not be ours.
    environment = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().partition("\n")[0]
    except OSError:
        return ""
