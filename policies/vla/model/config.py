"""How large a vision-language-action policy is, and what it gives out."""

from __future__ import annotations

import dataclasses
import math
from enum import StrEnum


class Head(StrEnum):
    """How actions leave the transformer."""

    TOKENS = "tokens"
    """One of `bins` values for each number: a probability, which reinforcement learning needs."""
    FLOW = "flow"
    """A whole chunk at once, by flow matching: several ways to act stay apart, but have no probability."""


@dataclasses.dataclass(frozen=True)
class VLAConfig:
    """The shape of the network. Sizes of state and action, cameras and resolution come from the demonstrations."""

    width: int = 192
    """Numbers of one token."""
    layers: int = 4
    """Blocks of the transformer."""
    attention_heads: int = 6
    """Of each block; they divide `width`."""
    channels: tuple[int, int, int] = (48, 96, 192)
    """Of the image encoder at a quarter, an eighth and a sixteenth of the resolution."""
    text_width: int = 128
    """Numbers of one word."""
    text_layers: int = 2
    """Blocks over the words of an instruction."""
    text_buckets: int = 2048
    """Into how many embeddings the pieces of words are hashed."""
    chunk: int = 8
    """Actions decided at once."""
    head: Head = Head.TOKENS
    """tokens, or flow."""
    bins: int = 256
    """Of the head `tokens`: values for each number of an action."""
    flow_steps: int = 8
    """Of the head `flow`: Euler steps from noise to actions."""

    def __post_init__(self) -> None:
        """Check sizes."""
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        wrong = [f"{name}={value}" for name, value in counts.items() if value < 1]
        wrong += [f"channels={self.channels}"] if len(self.channels) != 3 or min(self.channels) < 1 else []
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: expected at least 1, and 3 channels")
        if self.bins < 2:
            raise ValueError(f"bins={self.bins}: expected at least 2")
        if self.width % self.attention_heads or self.text_width % self.attention_heads:
            raise ValueError(
                f"attention_heads={self.attention_heads} must divide width={self.width} and "
                f"text_width={self.text_width}"
            )


class Size(StrEnum):
    """Configs by name."""

    TINY = "tiny"
    """3 M parameters: trains on two CPU cores."""
    SMALL = "small"
    """18 M parameters."""
    BASE = "base"
    """100 M parameters: for a GPU."""


SIZES = {
    Size.TINY: VLAConfig(text_width=96),
    Size.SMALL: VLAConfig(width=384, layers=8, channels=(64, 128, 256), text_width=192, text_buckets=4096),
    Size.BASE: VLAConfig(
        width=768, layers=12, attention_heads=12, channels=(96, 192, 384), text_width=384, text_layers=4,
        text_buckets=8192,
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """Supervised fine-tuning on demonstrations."""

    batch_size: int = 64
    """Moments per gradient step."""
    learning_rate: float = 5e-4
    """Largest step size of Adam; it rises over `warmup` steps, then falls along half a cosine."""
    warmup: int = 300
    """Gradient steps, but at most a tenth of all."""
    weight_decay: float = 1e-3
    """Share of each parameter that shrinks per step, times the learning rate."""
    max_grad_norm: float = 1.0
    """Norm to which longer gradients are shortened."""
    held_out: float = 0.1
    """Share of each task's episodes that are only for validation; of a single episode none is."""
    validation_interval: int = 500
    """Gradient steps between two looks at held-out episodes."""
    patience: int = 20
    """Looks without a smaller error after which training ends."""
    shift: int = 4
    """Pixels by which pictures are moved at most, each way."""
    photometric: float = 0.0
    """Share of pictures whose colours are changed, too: by jitter, and half of them by a random convolution."""
    bfloat16: bool | None = None
    """Compute in bfloat16 while the weights stay float32; by default where the processor has instructions for it."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("batch_size", "validation_interval", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("learning_rate", "max_grad_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be finite and more than 0")
        for name in ("warmup", "weight_decay", "shift"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be finite and 0 or more")
        if not 0 <= self.photometric <= 1:
            raise ValueError(f"photometric={self.photometric} must be between 0 and 1")
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out={self.held_out} must be 0 or more and less than 1")
