"""Tools for learning from a file: a count that can be followed, and CPU settings for many updates."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import time
from collections.abc import Iterator

import torch

INTERVAL = 10.0  # s between lines
MALLOPT = {-3: 1 << 30, -1: (1 << 31) - 1}  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h, bytes


def announced(count: int, what: str) -> Iterator[int]:
    """Count to `count`, and report on standard error, every ten seconds, how far it is.

    For what happens before the first step of an environment, when no progress bar moves yet.
    """
    said = time.monotonic()
    for done in range(count):
        yield done
        if time.monotonic() - said >= INTERVAL:
            said = time.monotonic()
            print(f"{what}: {done + 1:,} of {count:,}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def products(*, rounded: bool) -> Iterator[None]:
    """Compute products of float32 matrices as they are, or with factors `rounded` to bfloat16; sums stay float32."""
    before = torch.get_float32_matmul_precision()
    if rounded:
        torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def rounds_products() -> bool:
    """Whether `products(rounded=True)` is in force, for what torch's own setting does not reach: convolutions."""
    return torch.get_float32_matmul_precision() == "medium"


@functools.cache
def keep_freed_memory() -> bool:
    """Let the process keep memory that it frees, for its next use; returns whether the C library accepted it.

    An update frees and takes again the same few megabytes. By default glibc gives them back to the kernel, which then
    has to clear their pages anew.
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        return all([mallopt(option, value) for option, value in MALLOPT.items()])
    return False
