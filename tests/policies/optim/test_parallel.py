"""Chunks of batches."""

from policies.optim.parallel import ATTENTION, PLAIN, Workers


def test_a_gpu_takes_large_chunks():
    """Each chunk launches every kernel again: pieces that fit a CPU's cache make a GPU wait for the interpreter."""
    for chunk in (PLAIN, ATTENTION):
        assert Workers("cpu", 1, chunk).chunk <= 2048
        assert Workers("cuda", chunk=chunk).chunk >= 32_768
