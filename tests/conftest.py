"""What every test shares: how programs are compiled, and the plugins of `tests/kit`.

Importing `embodied` first matters: it sets the environment variables that JAX reads when it is imported.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Compiling dominates the tests' time: optimise less (40 % less of it), by XLA's older emitters (another 40 %), each
# program in one piece instead of 32 (another 15 % of the processor's time; two workers have no cores to spare). XLA
# ends the process at a flag that it does not know, as it may not in future.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    + (" --xla_cpu_use_fusion_emitters=false" if importlib.metadata.version("jaxlib").startswith("0.9.") else ""),
)
# Keep what was compiled, also the smallest programs: later files and the other worker compile many of the same. Of one
# environment, cold, writing takes as long again as compiling; the whole run is faster by it.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Two workers share the cores: OpenBLAS's idle threads spin on them, which made small matrices six times as slow.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import embodied  # noqa: F401

# What trainings of tests ran is not what the user's ran.
STATE = tempfile.TemporaryDirectory(prefix="embodied-state-")
os.environ["XDG_STATE_HOME"] = STATE.name

pytest_plugins = ["tests.kit.schedule", "tests.kit.budget", "tests.kit.changed"]


def pytest_configure(config: pytest.Config) -> None:
    """Keep MuJoCo's log file out of the working folder."""
    import mujoco

    del config
    mujoco.set_mju_user_warning(lambda message: None)
    # Traces are millions of objects that live; collections of cyclic garbage went through them again and again.
    gc.set_threshold(100_000, 50, 100)


def pytest_collection_finish() -> None:
    """What was imported stays: no collection needs to look at it."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Pytest collects garbage five times when it ends; let it leave out everything that is still held."""
    gc.freeze()


def has_pybullet() -> bool:
    """Whether PyBullet is installed: it has no wheels beyond Python 3.11."""
    return importlib.util.find_spec("pybullet") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what has PyBullet for a parameter where it is not installed."""
    if has_pybullet():
        return
    for item in items:
        if "pybullet" in getattr(getattr(item, "callspec", None), "id", ""):
            item.add_marker(pytest.mark.skip(reason="PyBullet is not installed: it has no wheels beyond Python 3.11"))


def programs_are_many() -> bool:
    """Whether so many programs are held that the process nears one of its limits.

    Each takes some of the state maps of which a process has 65,530; XLA ends the process with a segmentation fault when
    there is none left. Two workers take half of the memory together.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        maps = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # not on Linux
        return True
    return maps > 30_000 or pages > os.sysconf("SC_PHYS_PAGES") / 4


@pytest.fixture(scope="module", autouse=True)
def _few_programs() -> Iterator[None]:
    """Forget compiled programs after a module where they are many."""
    yield
    if programs_are_many():
        import jax

        from tests.kit.budget import sharing

        with sharing("forgetting programs"):  # not at the cost of the module's last test
            jax.clear_caches()
