"""Checkpoints on disk: whole, verified, or absent.

`<folder>/<step, 12 digits>/` holds `state.safetensors` (the tensors) and `state.json` (everything else, with the size
and sha256 of the former and of itself). A checkpoint is written under a temporary name, synced to the disk and then
renamed, so that a process killed at any moment leaves each checkpoint either complete or nameless. Nothing is ever
pickled: tensors are bytes with a dtype, everything else is JSON.
"""

import hashlib
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from embodied.errors import CheckpointError, listing, reason
from embodied.storage.files import (
    TEMPORARY,
    embodied_version,
    read_file,
    require_regular,
    seal,
    sync_folder,
    unseal,
    write_synced,
)
from embodied.storage.paths import STATE as STATE
from embodied.storage.trees import flatten as flatten
from embodied.storage.trees import unflatten as unflatten

FORMAT = 1
TENSORS = "state.safetensors"
DTYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    *("bool", "float16", "float32", "float64", "bfloat16", "complex64", "float8_e4m3fn", "float8_e5m2")
}


@dataclass(frozen=True)
class Checkpoint:
    """Content that `load` read and verified."""

    step: int
    """Environment steps taken when it was saved."""
    tensors: dict[str, torch.Tensor]
    """Name to tensor, on the CPU, bit for bit as saved."""
    meta: dict[str, Any]
    """The JSON values saved with them."""
    path: Path
    """The folder it was read from."""


def name_of(step: int) -> str:
    """Folder name of a step, padded so that names sort as numbers do."""
    if step < 0:
        raise CheckpointError(f"step {step} is negative; steps count from 0")
    return f"{step:012d}"


def step_of(path: Path) -> int | None:
    """The step a path's last part names, None where it names none."""
    return int(path.name) if re.fullmatch(r"\d{12}|[1-9]\d{12,}", path.name, re.ASCII) else None


def save(folder: Path, step: int, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]) -> Path:
    """Write a checkpoint atomically; when this returns, the disk holds it.

    One process at a time saves into a folder: whatever unfinished checkpoint is found there is taken for the remains
    of a killed process and removed.

    Args:
        folder: Folder of the run's checkpoints; created if need be.
        step: Environment steps taken so far.
        tensors: Dense tensors on any device; `flatten` makes them from nested dictionaries.
        meta: JSON values: mappings with string keys, lists, strings, numbers (NaN and infinities too), None.

    Returns:
        The checkpoint's folder.

    Raises:
        CheckpointError: The step exists already, a value cannot be stored, or the disk refuses. Nothing that was
            there before is touched, and nothing unfinished remains.
    """
    folder = Path(folder)
    final = folder / name_of(step)
    stored = _storable(tensors)
    _check_json(meta, "meta")
    temporary = folder / f"{TEMPORARY}{final.name}-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        if os.path.lexists(final):
            raise CheckpointError(f"checkpoint '{final}' exists already; nothing was overwritten")
        temporary.mkdir()
        _write_tensors(temporary / TENSORS, stored)
        size, digest = _fingerprint(temporary / TENSORS, sync=True)
        entry = {"bytes": size, "sha256": digest}
        document = {"format": FORMAT, "embodied": embodied_version(), "step": step, "tensors": entry, "meta": meta}
        write_synced(temporary / STATE, seal(document))
        sync_folder(temporary)
        os.rename(temporary, final)
        sync_folder(folder)
        sync_folder(folder.parent)
    except (OSError, safetensors.SafetensorError) as error:
        kept = f"earlier checkpoints are intact: {listing(found)}" if (found := steps(folder)) else "none existed yet"
        raise CheckpointError(f"cannot save checkpoint '{final}': {reason(error)}; {kept}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def load(path: Path) -> Checkpoint:
    """Read a checkpoint and verify every byte of it.

    Raises:
        CheckpointError: It is missing, truncated, edited or of another version; the message says which.
    """
    path = Path(path)
    document = _verified(path)
    try:
        loaded = safetensors.torch.load_file(path / TENSORS)
        # Cloned, because the loaded tensors are views of the file, which may be pruned or replaced under them.
        tensors = {name: tensor.clone() for name, tensor in loaded.items()}
    except (OSError, safetensors.SafetensorError) as error:
        raise _damaged(path, f"{TENSORS} cannot be read: {reason(error)}") from error
    return Checkpoint(document["step"], tensors, document["meta"], path)


def steps(folder: Path) -> list[int]:
    """Steps of the finished checkpoints in `folder`, ascending; damaged ones are listed too."""
    try:
        return sorted(step for path in Path(folder).iterdir() if (step := step_of(path)) is not None)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"cannot list the checkpoints in '{folder}': {reason(error)}") from error


def latest(folder: Path) -> Path | None:
    """The newest checkpoint that loads, None where there is none. Warns about each newer one that does not."""
    for step in reversed(steps(folder)):
        path = Path(folder) / name_of(step)
        try:
            _verified(path)
        except CheckpointError as error:
            warnings.warn(f"skipped: {error}", stacklevel=2)
        else:
            return path
    return None


def prune(folder: Path, keep: int) -> list[int]:
    """Remove all but the newest `keep` checkpoints, and never the newest one that loads.

    Returns:
        The steps that were removed.
    """
    if keep < 1:
        raise CheckpointError(f"cannot keep {keep} checkpoints; keep at least 1")
    folder = Path(folder)
    doomed = steps(folder)[:-keep]
    if doomed and (newest := latest(folder)):
        doomed = [step for step in doomed if step != step_of(newest)]
    for step in doomed:
        # Renamed first: a kill halfway must not leave half a checkpoint under a valid name.
        unwanted = folder / f"{TEMPORARY}pruned-{name_of(step)}-{uuid.uuid4().hex[:8]}"
        try:
            os.rename(folder / name_of(step), unwanted)
        except OSError as error:
            raise CheckpointError(f"cannot remove checkpoint '{folder / name_of(step)}': {reason(error)}") from error
        shutil.rmtree(unwanted, ignore_errors=True)
    return doomed


def set_aside(folder: Path, after: int) -> list[Path]:
    """Rename the checkpoints later than step `after`, so that a run resumed there can save those steps again."""
    moved = []
    for step in reversed([step for step in steps(folder) if step > after]):
        path = Path(folder) / name_of(step)
        aside = path.with_name(f"{path.name}.aside-{uuid.uuid4().hex[:8]}")
        try:
            os.rename(path, aside)
        except OSError as error:
            raise CheckpointError(f"cannot set aside checkpoint '{path}': {reason(error)}") from error
        moved.append(aside)
    return moved


def _storable(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous CPU tensors of which no two share memory, as safetensors demands."""
    stored: dict[str, torch.Tensor] = {}
    memory: set[int] = set()
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name in ("", "__metadata__"):
            raise CheckpointError(f"cannot store a tensor named {name!r}; names are strings, not empty or __metadata__")
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"'{name}' is a {type(tensor).__name__}, expected a tensor; use flatten()")
        if str(tensor.dtype).removeprefix("torch.") not in DTYPES or tensor.layout != torch.strided or tensor.is_meta:
            kind = f"{tensor.dtype} {tensor.layout} on {tensor.device}".replace("torch.", "")
            raise CheckpointError(f"'{name}' is {kind}; checkpoints hold dense tensors of standard dtypes")
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        address = plain.untyped_storage().data_ptr()
        stored[name] = plain.clone() if address in memory else plain
        memory.add(address)
    return stored


def _check_json(value: Any, name: str) -> None:
    """Refuse, by name, what JSON would not give back equal. (Tuples come back as lists.)"""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise CheckpointError(f"{name} has the key {key!r} of type {type(key).__name__}; keys are strings")
            _check_json(item, f"{name}/{key}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check_json(item, f"{name}/{i}")
    elif value is not None and not isinstance(value, str | bool | int | float):
        raise CheckpointError(f"{name} is a {type(value).__name__}; expected JSON (arrays belong among the tensors)")


def _write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    safetensors.torch.save_file(tensors, path)


def _fingerprint(path: Path, sync: bool = False) -> tuple[int, str]:
    """Size in bytes and sha256 of a file, after forcing it to the disk if `sync`."""
    require_regular(path)
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _sweep(folder: Path) -> None:
    for path in folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(path, ignore_errors=True)


def _verified(path: Path) -> dict[str, Any]:
    """The content of `state.json`, after checking it and the tensor file against it."""
    if not os.path.isdir(path):
        what = "is a file" if os.path.exists(path) else "does not exist"
        raise CheckpointError(f"checkpoint '{path}' {what}, expected a folder; {_existing(path)}")
    try:
        document = unseal(read_file(path / STATE), FORMAT, "checkpoint")
        expected_step, expected_size = document["step"], document["tensors"]["bytes"]
        expected_digest = document["tensors"]["sha256"]
        size, digest = _fingerprint(path / TENSORS)
    except FileNotFoundError as error:
        held = listing(sorted(p.name for p in path.iterdir())) or "nothing"
        raise _damaged(path, f"expected {STATE} and {TENSORS}, found {held}") from error
    except OSError as error:
        raise _damaged(path, f"cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise _damaged(path, f"{STATE} is {error}") from error
    except KeyError as error:
        raise _damaged(path, f"{STATE} lacks the key {error}") from error
    except TypeError as error:
        raise _damaged(path, f"{STATE} has other values than a checkpoint's") from error
    if not isinstance(expected_step, int) or not isinstance(document.get("meta"), dict):
        raise _damaged(path, f"{STATE} has other values than a checkpoint's")
    if size != expected_size:
        raise _damaged(path, f"{TENSORS} is truncated or edited: it has {size} bytes, expected {expected_size}")
    if digest != expected_digest:
        raise _damaged(path, f"{TENSORS} is edited: its sha256 is {digest[:12]}, expected {str(expected_digest)[:12]}")
    if step_of(path) not in (None, expected_step):
        raise _damaged(path, f"its folder was renamed: {STATE} says step {expected_step}")
    return document


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"checkpoint '{path}': {what}; {_existing(path)}")


def _existing(path: Path) -> str:
    others = [step for step in steps(path.parent) if step != step_of(path)]
    inside = steps(path)
    if inside:
        return f"it holds the steps {listing(inside)}: name one of them"
    return f"steps beside it: {listing(others)}" if others else "no other checkpoint is beside it"
