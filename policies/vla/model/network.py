"""The network of a vision-language-action policy: images, instruction and proprioception in, an action chunk out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from policies.vla.model.attention import Block
from policies.vla.model.config import Head, VLAConfig
from policies.vla.model.flow_matching_head import FlowHead
from policies.vla.model.image_encoder import ImageEncoder
from policies.vla.model.pointing import Pointer, places
from policies.vla.model.text_encoder import HashedTextEncoder
from policies.vla.model.token_head import TokenHead

if TYPE_CHECKING:
    from policies.vla.model.pretrained import PretrainedImageEncoder, PretrainedTextEncoder

INIT_STD = 0.02  # of learned embeddings before training

HEADS: dict[Head, Callable[[VLAConfig, int], TokenHead | FlowHead]] = {
    Head.TOKENS: lambda config, size: TokenHead(config.width, size, config.bins),
    Head.FLOW: lambda config, size: FlowHead(config.width, size, config.chunk, config.flow_steps),
}


class VLANetwork(nn.Module):
    """A transformer whose learned queries, one per action of a chunk, attend to image, text and state tokens."""

    def __init__(
        self,
        config: VLAConfig,
        *,
        cameras: int,
        resolution: tuple[int, int],
        state_size: int,
        action_size: int,
        image_encoder: ImageEncoder | PretrainedImageEncoder | None = None,
        text_encoder: HashedTextEncoder | PretrainedTextEncoder | None = None,
    ) -> None:
        """Build it with random weights, for images of a `resolution`, width and height in pixels, from each camera.

        Encoders that are given (see `pretrained`) are in place of those trained from scratch.
        """
        super().__init__()
        width = config.width
        self.config = config
        self.text_encoder = text_encoder or HashedTextEncoder(
            config.text_width, config.text_layers, config.attention_heads, config.text_buckets
        )
        self.text_projection = nn.Linear(self.text_encoder.size, width)
        self.image_encoder = image_encoder or ImageEncoder(config.channels, width, width)
        self.camera_embedding = nn.Parameter(torch.randn(cameras, width) * INIT_STD)
        tokens = self.image_encoder.token_count(resolution)
        self.position_embedding = nn.Parameter(torch.randn(tokens, width) * INIT_STD)
        self.resolution = resolution
        self.pointer = Pointer(config.keypoints, width) if config.keypoints else None
        self.place_projection = nn.Linear(3 * cameras * config.keypoints, width) if config.keypoints else None
        self.state_projection = nn.Linear(state_size, width)
        self.queries = nn.Parameter(torch.randn(config.chunk, width) * INIT_STD)
        self.context_norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, config.attention_heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.head = HEADS[config.head](config, action_size)

    def encode_instructions(self, instructions: Sequence[str]) -> Tensor:
        """(k, width) of k instructions."""
        return self.text_projection(self.text_encoder(instructions))

    def point(self, pixels: Tensor, text: Tensor) -> Tensor | None:
        """(B, cameras, points, cells + 1) logits of where things are in images, see `Pointer`; None: it has none."""
        if self.pointer is None:
            return None
        condition = text[:, None] + self.camera_embedding
        return self.pointer(pixels.flatten(0, 1), condition.flatten(0, 1)).unflatten(0, pixels.shape[:2])

    def forward(self, pixels: Tensor, state: Tensor, text: Tensor, heat_maps: Tensor | None = None) -> Tensor:
        """Features (B, chunk, width) for `head`, of all actions of a chunk in parallel.

        Images are (B, cameras, height, width, 3) uint8, states (B, state_size) normalised, texts (B, width) of
        `encode_instructions`; heat maps are those of `point`, if they are known.
        """
        context = self.context_norm(self.encode_images(pixels, text))
        known = torch.stack([self.state_projection(state), text, *self._pointed(pixels, text, heat_maps)], 1)
        latents = torch.cat([self.queries.expand(len(pixels), -1, -1), known], 1)
        for block in self.blocks:
            latents = block(latents, context)
        return self.norm(latents[:, : self.config.chunk])

    def _pointed(self, pixels: Tensor, text: Tensor, heat_maps: Tensor | None) -> list[Tensor]:
        """A token (B, width) of where things are in all images; none without a pointer."""
        if self.place_projection is None:
            return []
        heat_maps = self.point(pixels, text) if heat_maps is None else heat_maps
        assert heat_maps is not None
        return [self.place_projection(places(heat_maps, self.resolution).flatten(1).to(text.dtype))]

    def encode_images(self, pixels: Tensor, text: Tensor) -> Tensor:
        """(B, cameras * tokens, width) of images (B, cameras, height, width, 3), conditioned on the text (B, width)."""
        condition = text[:, None] + self.camera_embedding
        tokens = self.image_encoder(pixels.flatten(0, 1), condition.flatten(0, 1)) + self.position_embedding
        return (tokens.unflatten(0, pixels.shape[:2]) + self.camera_embedding[:, None]).flatten(1, 2)


def supports_bfloat16(device: torch.device) -> bool:
    """Whether a processor has instructions for bfloat16; others would emulate them, slowly."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
