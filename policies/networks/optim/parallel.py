"""Chunks of a batch on several CPU cores at once.

Torch splits every kernel among its threads and lets them meet after it. For small networks that costs more than it
gains, above all where other programs share the cores: a thread that waits its turn holds up all the others. Here each
core takes whole chunks instead. Chunks have a fixed size and results come in their order, so that the sums of them
have the same bits for any number of workers.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

A = TypeVar("A")
B = TypeVar("B")


class Chunk(NamedTuple):
    """Rows per chunk of a batch."""

    cpu: int
    """Few enough to give each core a share of a minibatch, and to keep what autograd remembers in the cache. Far fewer,
    and the interpreter, which runs in one thread at a time, holds up the others."""
    gpu: int
    """As many as the memory for activations allows: each chunk launches all kernels again."""


PLAIN = Chunk(cpu=1536, gpu=1 << 16)
"""Of perceptrons: minibatches of walking robots have 1,536 rows, half of them for each of two cores."""
ATTENTION = Chunk(cpu=512, gpu=1 << 15)
"""Of networks that attend over parts or entities, whose activations are some twenty times as large."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use only the calling thread; also a decorator.

    Its idle threads would spin for a while after each kernel, on the cores that the workers or the physics need.
    """
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


class Workers:
    """Threads that run torch on one core each; on a GPU, which needs none, the calling thread."""

    def __init__(self, device: torch.device | str = "cpu", count: int | None = None, chunk: Chunk = PLAIN) -> None:
        """Start `count` of them, by default as many threads as torch was given."""
        cpu = torch.device(device).type == "cpu"
        self.count = (count or torch.get_num_threads()) if cpu else 1
        self.chunk = chunk.cpu if cpu else chunk.gpu
        self._pool = ThreadPoolExecutor(self.count, "policies", _start_worker) if self.count > 1 else None

    def map(self, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """Results of `function` on each item, in their order."""
        if self._pool is None or len(items) == 1:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def split(self, rows: Tensor, steps: int = 1) -> tuple[Tensor, ...]:
        """Divide a batch along its first axis into chunks, or into halves of at least half a chunk: two cores share it.

        Args:
            rows: (B, ...)
            steps: Rows of a network's input that a row stands for, as the steps of a sequence.
        """
        most = max(1, self.chunk // steps)
        return rows.split(min(most, max(1, most // 2, -(-len(rows) // 2))))


def _start_worker() -> None:
    torch.get_num_threads()  # the first query in a thread would otherwise undo the setting
    torch.set_num_threads(1)
