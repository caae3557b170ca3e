"""The transformer block of the policy's network and of its text encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MLP_RATIO = 4  # hidden units of a block's MLP per channel; Vaswani et al. 2017


class Block(nn.Module):
    """A pre-norm transformer block (Xiong et al. 2020): self-attention, also to a context if there is one, then an MLP.

    The context is keys and values alone: each of its tokens costs two matrix products instead of twelve, as in the
    resampler of Flamingo (Alayrac et al. 2022, section 3.1).
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key_value, self.out = (nn.Linear(width, width * n) for n in (1, 2, 1))
        self.mlp = nn.Sequential(
            nn.Linear(width, MLP_RATIO * width), nn.GELU(approximate="tanh"), nn.Linear(MLP_RATIO * width, width)
        )

    def forward(self, tokens: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Tokens (B, n, width), which attend to themselves and to a normalised `context` (B, m, width).

        `mask` (B, 1, 1, n + m) bool marks those of both that exist; None: all.
        """
        own = self.norm1(tokens)
        everything = own if context is None else torch.cat([own, context], 1)
        key, value = self.key_value(everything).chunk(2, -1)
        query, key, value = (self._split(x) for x in (self.query(own), key, value))
        mixed = attention(query, key, value, mask)
        tokens = tokens + self.out(mixed.transpose(1, 2).flatten(2))
        return tokens + self.mlp(self.norm2(tokens))

    def _split(self, x: Tensor) -> Tensor:
        """(B, heads, n, width / heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention, (B, heads, n, width / heads); on a CPU in float32 even under bfloat16 autocast.

    Its gradient in bfloat16 was measured to take twenty times as long there (torch 2.13, AVX-512).
    """
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=mask)
