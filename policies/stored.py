"""Stored policies of every kind, rebuilt."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from policies.policy import Policy

OTHERS = {"vla": ("policies.vla.policy", "VLAPolicy")}
"""Kinds that `policies.policy.Policy` does not know -> module and class, which are imported when one is met."""


def rebuild(meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    """The policy that `to_tensors` described.

    Raises:
        ValueError: An unknown kind, or tensors that do not belong to it.
    """
    if meta.get("kind") not in OTHERS:
        return Policy.from_tensors(meta, tensors)
    module, name = OTHERS[meta["kind"]]
    return getattr(importlib.import_module(module), name).from_tensors(meta, tensors)
