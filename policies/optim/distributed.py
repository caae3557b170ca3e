"""Training on several processes, started by `torchrun`; with a single process everything here does nothing."""

import contextlib
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX


def init(device: torch.device | str = "cpu") -> None:
    """Join the other processes if `torchrun` started this one, by NCCL on a GPU and by gloo otherwise."""
    if "WORLD_SIZE" not in os.environ or active():
        return
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(local_rank())
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")


@contextlib.contextmanager
def joined(device: torch.device | str = "cpu") -> Iterator[None]:
    """Join the other processes for the length of a `with` block."""
    init(device)
    try:
        yield
    finally:
        close()


def close() -> None:
    """Leave the other processes."""
    if active():
        dist.destroy_process_group()


def active() -> bool:
    """Whether this process has joined others."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """Number of this process among all; 0 is the one that writes."""
    return dist.get_rank() if active() else 0


def local_rank() -> int:
    """Number of this process on its machine, which is also the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


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
