"""The network of a vision-language-action policy: pictures, words and joints in, a chunk of actions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from policies.vla.model.config import Head, VLAConfig
from policies.vla.model.flow import FlowHead
from policies.vla.model.layers import Block
from policies.vla.model.text_encoder import HashedReader
from policies.vla.model.tokens import TokenHead
from policies.vla.model.vision import ImageEncoder

if TYPE_CHECKING:
    from policies.vla.model.pretrained import PretrainedImages, PretrainedReader

SPREAD = 0.02  # standard deviation of learned tokens before training

HEADS: dict[Head, Callable[[VLAConfig, int], TokenHead | FlowHead]] = {
    Head.TOKENS: lambda config, size: TokenHead(config.width, size, config.bins),
    Head.FLOW: lambda config, size: FlowHead(config.width, size, config.chunk, config.flow_steps),
}


class VLANetwork(nn.Module):
    """Learned queries, one for each action of a chunk, look at pictures, words and joints, and become the actions."""

    def __init__(
        self,
        config: VLAConfig,
        *,
        cameras: int,
        resolution: tuple[int, int],
        state_size: int,
        action_size: int,
        vision: ImageEncoder | PretrainedImages | None = None,
        reader: HashedReader | PretrainedReader | None = None,
    ) -> None:
        """Build it untrained.

        Args:
            config: Its shape.
            cameras: Number of pictures.
            resolution: Their width and height in pixels.
            state_size: Length of the proprioception.
            action_size: Length of an action.
            vision: Image encoder in place of the one from nothing; see `pretrained`.
            reader: Text encoder in place of the one from nothing.
        """
        super().__init__()
        width = config.width
        self.config = config
        self.reader = reader or HashedReader(
            config.text_width, config.text_layers, config.attention_heads, config.text_buckets
        )
        self.text = nn.Linear(self.reader.size, width)
        self.vision = vision or ImageEncoder(config.channels, width, width)
        self.camera = nn.Parameter(torch.randn(cameras, width) * SPREAD)
        self.place = nn.Parameter(torch.randn(self.vision.tokens_of(resolution), width) * SPREAD)
        self.state = nn.Linear(state_size, width)
        self.queries = nn.Parameter(torch.randn(config.chunk, width) * SPREAD)
        self.context_norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, config.attention_heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.head = HEADS[config.head](config, action_size)

    def read(self, instructions: Sequence[str]) -> Tensor:
        """(k, width) of k instructions."""
        return self.text(self.reader(instructions))

    def forward(self, pixels: Tensor, state: Tensor, words: Tensor) -> Tensor:
        """The features of a chunk, all at once.

        Args:
            pixels: (B, cameras, height, width, 3) uint8.
            state: (B, state_size), normalised.
            words: (B, width) of `read`.

        Returns:
            (B, chunk, width), for `head`.
        """
        context = self.context_norm(self.look(pixels, words))
        known = torch.stack([self.state(state), words], 1)
        latents = torch.cat([self.queries.expand(len(pixels), -1, -1), known], 1)
        for block in self.blocks:
            latents = block(latents, context)
        return self.norm(latents[:, : self.config.chunk])

    def look(self, pixels: Tensor, words: Tensor) -> Tensor:
        """(B, cameras * tokens, width) of what the cameras show, encoded in the light of the words."""
        condition = words[:, None] + self.camera
        seen = self.vision(pixels.flatten(0, 1), condition.flatten(0, 1)) + self.place
        return (seen.unflatten(0, pixels.shape[:2]) + self.camera[:, None]).flatten(1, 2)
