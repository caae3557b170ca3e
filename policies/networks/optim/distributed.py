"""Training on several processes, started by `torchrun`; with a single process everything here does nothing."""

import contextlib
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from embodied.errors import EmbodiedError

DIGITS = 7  # of any of the numbers: fewer
SET = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables by which `torchrun` tells a process which of how many it is."""
SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Join the other processes, if `torchrun` started this one, for the length of a `with` block.

    By NCCL for tensors on a GPU, by gloo for others.

    Raises:
        EmbodiedError: as of `processes`.
    """
    if "WORLD_SIZE" in os.environ and not active():
        processes()
        # Each rank sees one GPU only, its own (`embodied` sees to that when it is imported).
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        if active():
            dist.destroy_process_group()


def processes() -> int:
    """Number of processes that `torchrun` started, this one among them; 1 without it.

    Raises:
        EmbodiedError: some of its environment variables are missing, or are no numbers.
    """
    if "WORLD_SIZE" not in os.environ:
        return 1
    found = {name: os.environ.get(name) for name in SET}
    wrong = [name for name, text in found.items() if not text or (name != "MASTER_ADDR" and not _is_count(text))]
    if wrong:
        told = ", ".join(f"no {name}" if found[name] is None else f"{name}={found[name]:.60}" for name in wrong)
        raise EmbodiedError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']:.60} is set, but {told}; expected {', '.join(SET)}, as torchrun "
            "sets them, or no WORLD_SIZE for a single process"
        )
    return int(os.environ["WORLD_SIZE"])


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < DIGITS


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
