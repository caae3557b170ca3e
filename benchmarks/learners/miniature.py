"""Settings cut down to what shows only that a method runs: for the smoke form of the table."""

from __future__ import annotations

import dataclasses
from typing import Any

from policies.networks.mlp import NetworkConfig

WIDTH = 16
SMALL: dict[str, Any] = {
    "batch_size": 8, "warm_up": 16, "offline_updates": 2, "critic_updates": 0.25, "unroll": 8, "updates": 0.25,
    "buffer_size": 4_000, "held_out": 0.0, "diffusion_steps": 2, "samples": 4, "bins": 4, "atoms": 7, "epochs": 1,
    "minibatches": 1, "features": 4,
}  # fmt: skip
"""Fields of whatever algorithm has them -> largest value."""


def miniature(config: Any) -> Any:
    """The same settings with small networks, small batches and few updates."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in SMALL:
            changes[field.name] = min(value, SMALL[field.name])
        if isinstance(value, NetworkConfig):
            changes[field.name] = dataclasses.replace(value, hidden=(WIDTH,) * len(value.hidden))
    return dataclasses.replace(config, **changes)
