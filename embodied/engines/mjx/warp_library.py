"""NVIDIA Warp as this suite imports it: silent, and with Python's garbage collector off during captures."""

from __future__ import annotations

import functools
import gc
from typing import Any


@functools.cache  # so that captures are wrapped once
def import_warp() -> Any:
    """The module `warp`, silent unless something is wrong, whose `ScopedCapture` lets nothing be collected.

    Raises:
        ImportError: it is not installed.
    """
    import warp

    warp.config.log_level = warp.LOG_WARNING  # it would greet, and name every kernel that it loads
    warp.ScopedCapture = without_collection(warp.ScopedCapture)
    return warp


def without_collection(capture: type[Any]) -> type[Any]:
    """A Warp capture during which Python's collector is off.

    What is collected while kernels are recorded may free memory and unload modules, which CUDA forbids then: the
    recording fails with error 901 (mujocolab/mjlab, pull request 821). An H200 gave that error once, where an old
    environment had just been let go. MJX's callables capture at their first call: no place of ours could switch it off.
    """

    class Capture(capture):
        collects = True
        """Whether the collector was on before."""

        def __enter__(self) -> Any:
            self.collects = gc.isenabled()
            gc.disable()
            try:
                return super().__enter__()
            except BaseException:
                self._resume()
                raise

        def __exit__(self, *raised: Any) -> Any:
            try:
                return super().__exit__(*raised)
            finally:
                self._resume()

        def _resume(self) -> None:
            if self.collects:
                gc.enable()

    return Capture
