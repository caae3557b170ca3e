"""What a policy makes of pictures and words where speed matters: in bfloat16 where the processor is fast at it.

The weights stay float32, and so does what follows from the features: probabilities and velocities.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from policies.vla.policy import VLAPolicy


def fast_bfloat16(device: torch.device) -> bool:
    """Whether a processor has instructions for bfloat16; others would imitate them, slowly."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())


def read(policy: VLAPolicy, instructions: Sequence[str], *, bfloat16: bool) -> Tensor:
    """(k, width) of k instructions."""
    with torch.autocast(policy.device.type, torch.bfloat16, enabled=bfloat16):
        return policy.network.read(instructions)


def features(policy: VLAPolicy, pixels: Tensor, state: Tensor, words: Tensor, *, bfloat16: bool) -> Tensor:
    """(B, chunk, width) float32, for the head.

    Args:
        policy: Whose.
        pixels: (B, cameras, height, width, 3) uint8, on any device.
        state: (B, S) in the task's units, on any device.
        words: (B, width) of `read`.
        bfloat16: Whether to compute in bfloat16.
    """
    device = policy.device
    unit = policy.statistics.unit_state(state.to(device))
    with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
        found = policy.network(pixels.to(device, non_blocking=True), unit, words)
    return found.float()
