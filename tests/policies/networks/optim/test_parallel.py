"""Chunks of batches."""

import torch

from policies.networks.optim.parallel import ATTENTION, PLAIN, Workers


def test_a_gpu_takes_large_chunks():
    """Each chunk launches every kernel again: pieces that fit a CPU's cache make a GPU wait for the interpreter."""
    for chunk in (PLAIN, ATTENTION):
        assert Workers("cpu", 1, chunk).chunk <= 2048
        assert Workers("cuda", chunk=chunk).chunk >= 32_768


def test_two_cores_share_a_small_batch_and_a_tiny_one_stays_whole():
    def sizes(workers: Workers, rows: int, steps: int = 1) -> list[int]:
        return [len(part) for part in workers.split(torch.zeros(rows, 2), steps)]

    workers = Workers("cpu", 1, PLAIN)
    assert sizes(workers, 2 * PLAIN.cpu) == [PLAIN.cpu] * 2
    assert sizes(workers, PLAIN.cpu) == [PLAIN.cpu // 2] * 2
    assert sizes(workers, 1001) == [768, 233]
    assert sizes(workers, PLAIN.cpu // 2) == [PLAIN.cpu // 2]
    assert sizes(workers, 64, steps=100) == [15, 15, 15, 15, 4], "sequences of 100 steps, no more than a chunk's rows"
    assert sizes(workers, 3, steps=10_000) == [1, 1, 1]
    assert sizes(Workers("cuda"), 6144) == [6144]
