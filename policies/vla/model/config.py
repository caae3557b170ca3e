"""The sizes and the action head of a vision-language-action policy."""

from __future__ import annotations

import dataclasses
from enum import StrEnum


class Head(StrEnum):
    """Action heads."""

    TOKENS = "tokens"
    """Action tokens: each number is one of `bins`, with a probability, which reinforcement learning needs."""
    FLOW = "flow"
    """Flow matching of a whole chunk: multimodal, but without probabilities."""


@dataclasses.dataclass(frozen=True)
class VLAConfig:
    """Sizes of the network; those of state, action and images come from the demonstrations."""

    width: int = 192
    """Channels of a token."""
    layers: int = 4
    """Transformer blocks."""
    attention_heads: int = 6
    """Of each block; divides `width` and `text_width`."""
    channels: tuple[int, int, int] = (48, 96, 192)
    """Of the image encoder at a quarter, an eighth and a sixteenth of the resolution."""
    text_width: int = 96
    """Channels of a word."""
    text_layers: int = 2
    """Transformer blocks of the text encoder."""
    text_buckets: int = 2048
    """Embeddings into which character n-grams are hashed."""
    chunk: int = 8
    """Actions predicted at once (action chunk)."""
    head: Head = Head.TOKENS
    """tokens, or flow."""
    bins: int = 256
    """Head `tokens`: bins per number of an action."""
    flow_steps: int = 8
    """Head `flow`: Euler steps from noise to actions."""
    keypoints: int = 0
    """Things that it learns to point at in each image; as many as its demonstrations say."""

    def __post_init__(self) -> None:
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        wrong = [f"{name}={value}" for name, value in counts.items() if value < (name != "keypoints")]
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
    """Named sizes."""

    MICRO = "micro"
    """1 M parameters: twice as fast as tiny."""
    TINY = "tiny"
    """3 M parameters: trains on two CPU cores."""
    SMALL = "small"
    """18 M parameters."""
    BASE = "base"
    """100 M parameters: for a GPU."""


SIZES = {
    Size.MICRO: VLAConfig(width=128, layers=3, attention_heads=4, channels=(24, 48, 96), text_width=64),
    Size.TINY: VLAConfig(),
    Size.SMALL: VLAConfig(width=384, layers=8, channels=(64, 128, 256), text_width=192, text_buckets=4096),
    Size.BASE: VLAConfig(
        width=768, layers=12, attention_heads=12, channels=(96, 192, 384), text_width=384, text_layers=4,
        text_buckets=8192,
    ),
}  # fmt: skip
