"""Training on several processes, started by `torchrun`; with a single process everything here does nothing."""

import contextlib
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Join the other processes, if `torchrun` started this one, for the length of a `with` block.

    By NCCL for tensors on a GPU, by gloo for others.
    """
    if "WORLD_SIZE" in os.environ and not active():
        # Each rank sees one GPU only, its own (`embodied` sees to that when it is imported).
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        if active():
            dist.destroy_process_group()


def active() -> bool:
    """Whether this process has joined others."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """Number of this process among all; 0 is the one that writes."""
    return dist.get_rank() if active() else 0


def size() -> int:
    """Number of processes."""
    return dist.get_world_size() if active() else 1


def sum_(tensor: Tensor) -> Tensor:
    """Sum over all ranks, in place; every rank gets the same bits."""
    if active():
        dist.all_reduce(tensor, SUM)
    return tensor


def mean_(tensor: Tensor) -> Tensor:
    """Mean over all ranks, in place; every rank gets the same bits."""
    return sum_(tensor).div_(size()) if active() else tensor


def broadcast_(tensor: Tensor) -> Tensor:
    """Overwrite with rank 0's values."""
    if active():
        dist.broadcast(tensor, 0)
    return tensor


def anyone(flag: bool, device: torch.device | str = "cpu") -> bool:
    """Whether `flag` holds on any rank, so that all of them take the same branch."""
    if not active():
        return flag
    agreed = torch.tensor(int(flag), device=device)
    dist.all_reduce(agreed, MAX)
    return bool(agreed)
