"""Nested dictionaries of arrays and numbers to flat dictionaries of tensors, and back, bit for bit."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import torch

from embodied.errors import CheckpointError, listing


def flatten(tree: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Join the keys of nested dictionaries with '/'.

    Leaves are torch tensors (kept as they are, detached), numpy and JAX arrays (copied; raw uint32 JAX keys
    included), and numbers: bool, int (int64) and float (float64) become tensors without dimensions. An empty
    dictionary is kept as an empty tensor whose name ends with '/'.

    Raises:
        CheckpointError: Names the leaf or key that cannot be stored.
    """
    flat: dict[str, torch.Tensor] = {}
    _flatten_into(flat, tree, "")
    return flat


def same_shapes(tree: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two trees have the same entries, of the same shapes."""
    shapes, others = ({name: value.shape for name, value in flatten(one).items()} for one in (tree, other))
    return shapes == others


def unflatten(flat: Mapping[str, torch.Tensor], like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Undo `flatten`.

    Args:
        flat: Names and tensors as `flatten` returns them.
        like: A tree of the same structure. Each leaf then comes back as the kind found here (torch tensor on the
            same device, numpy array, JAX array, number), and keys, shapes and dtypes must agree. Without it every
            leaf is a torch tensor.

    Raises:
        CheckpointError: Names the entries in which `flat` contradicts itself or differs from `like`.
    """
    tree: dict[str, Any] = {}
    for name, tensor in flat.items():
        *parents, leaf = name.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise CheckpointError(f"'{name}' lies below another entry's name; an entry is a tensor or a folder")
        if not leaf:  # The mark of an empty dictionary.
            continue
        if leaf in node:
            raise CheckpointError(f"'{name}' has entries below its own name; an entry is a tensor or a folder")
        node[leaf] = tensor
    return tree if like is None else _restored(tree, like, "")


def key_of(name: str) -> str:
    """A name, such as that of an observation group, as one key of a tree."""
    return name.replace("/", ".")


def path_name(path: Any) -> str:
    """The name of a JAX pytree path, `physics.qpos`."""
    return jax.tree_util.keystr(path, simple=True, separator=".").replace("/", "_") or "value"


def with_leaves(tree: Any, changes: Mapping[str, Callable[[Any], Any]]) -> Any:
    """A JAX pytree in which some leaves are replaced: path with dots, as `command` or `goal.point` -> function of each.

    Paths that lead to no leaf change nothing.
    """

    def replaced(path: Any, leaf: Any) -> Any:
        change = changes.get(jax.tree_util.keystr(path, simple=True, separator="."))
        return leaf if change is None else change(leaf)

    return jax.tree_util.tree_map_with_path(replaced, tree)


def as_tensor(name: str, value: Any) -> torch.Tensor:
    """Turn one leaf into a detached tensor of the same bits, shape and dtype.

    Args:
        name: The leaf's name, for messages.
        value: A torch tensor, numpy array or scalar, JAX array, bool, int or float.

    Raises:
        CheckpointError: `value` is none of these, or has a dtype torch lacks.
    """
    if isinstance(value, torch.Tensor):
        return value.detach()
    if _is_number(value):
        dtype = torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float64
        if dtype == torch.int64 and not -(2**63) <= value < 2**63:
            raise CheckpointError(f"'{name}' is {value}, which exceeds 64 bits; store it in the metadata")
        return torch.tensor(value, dtype=dtype)
    if not hasattr(value, "__array__"):
        raise CheckpointError(
            f"'{name}' is a {type(value).__name__}; expected a tensor, an array or a number (other values belong in "
            "the metadata)"
        )
    try:
        array = np.array(value, order="C")  # A copy: JAX's own memory is read-only.
        if array.dtype.name == "bfloat16":  # Numpy's extension type, which torch knows only by its bits.
            return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"'{name}' has dtype {getattr(value, 'dtype', 'unknown')}, which torch lacks; store plain numbers (of a "
            "typed JAX key, jax.random.key_data)"
        ) from error


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)  # np.float64 is a float.


def _flatten_into(flat: dict[str, torch.Tensor], tree: Mapping[str, Any], prefix: str) -> None:
    for key, value in tree.items():
        if not isinstance(key, str) or not key or "/" in key:
            where = f" in '{prefix[:-1]}'" if prefix else ""
            raise CheckpointError(f"cannot store the key {key!r}{where}: keys are non-empty strings without '/'")
        name = prefix + key
        if not isinstance(value, Mapping):
            flat[name] = as_tensor(name, value)
        elif value:
            _flatten_into(flat, value, f"{name}/")
        else:
            flat[f"{name}/"] = torch.zeros(0, dtype=torch.uint8)


def _restored(tree: Any, like: Any, name: str) -> Any:
    """`tree` with every leaf converted to the kind of its counterpart in `like`."""
    if isinstance(tree, dict) != isinstance(like, Mapping):
        found, expected = ("a folder", "an array") if isinstance(tree, dict) else ("an array", "a folder")
        raise CheckpointError(f"'{name}' is {found} in the checkpoint, expected {expected}")
    if not isinstance(like, Mapping):
        return _restored_leaf(tree, like, name)
    missing, extra = sorted(set(like) - set(tree)), sorted(set(tree) - set(like))
    if missing or extra:
        parts = (f"lacks {listing(missing)}" if missing else "", f"holds unexpected {listing(extra)}" if extra else "")
        raise CheckpointError(f"the checkpoint{f' at {name!r}' if name else ''} {' and '.join(filter(None, parts))}")
    return {key: _restored(tree[key], like[key], f"{name}/{key}".lstrip("/")) for key in like}


def _restored_leaf(tensor: torch.Tensor, like: Any, name: str) -> Any:
    expected = as_tensor(name, like)
    if (tensor.dtype, tensor.shape) != (expected.dtype, expected.shape):
        found, wanted = (f"{t.dtype} {tuple(t.shape)}".removeprefix("torch.") for t in (tensor, expected))
        raise CheckpointError(f"'{name}' is {found} in the checkpoint, expected {wanted}")
    if isinstance(like, torch.Tensor):
        return tensor.to(like.device)
    if _is_number(like):
        return tensor.item()
    # Copied, since JAX may adopt numpy's memory and torch writes to its own in place.
    if tensor.dtype == torch.bfloat16:
        array = tensor.view(torch.uint16).numpy().copy().view(np.asarray(like).dtype)
    else:
        array = tensor.numpy().copy()
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(like, jax.Array):
        return jax.device_put(array, like.sharding)
    return array[()] if isinstance(like, np.generic) else array
