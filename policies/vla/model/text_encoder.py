"""Text encoder trained from scratch: hashed character n-grams of each word, and a small transformer over the words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from embodied.core.instruction import MAX_WORDS, word_ids
from policies.vla.model.attention import Block

NOTHING = -1  # in place of a word or an n-gram that is not there


class HashedTextEncoder(nn.Module):
    """A transformer over words that are means of n-gram embeddings, so that plurals are not unknown."""

    def __init__(self, width: int, layers: int, heads: int, buckets: int) -> None:
        """An encoder of `layers` blocks of `width` channels, with `buckets` n-gram embeddings."""
        super().__init__()
        self.size, self.buckets = width, buckets
        self.ngram_embedding = nn.Embedding(buckets, width)
        self.position_embedding = nn.Parameter(torch.randn(MAX_WORDS, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, instructions: Sequence[str]) -> Tensor:
        """(k, size), the mean over the words of each of k instructions; raises as `tokenize`."""
        return self.encode(self.tokenize(instructions))

    def tokenize(self, instructions: Sequence[str]) -> Tensor:
        """(k, words, n) int64: the n-grams of each word of k instructions, `NOTHING` where there are fewer.

        Raises:
            EmbodiedError: one is empty or too long.
        """
        texts = [word_ids(text, self.buckets) for text in instructions]
        words, most = max(map(len, texts)), max(len(ids) for text in texts for ids in text)
        tokens = torch.full((len(texts), words, most), NOTHING)
        for row, text in enumerate(texts):
            for place, ids in enumerate(text):
                tokens[row, place, : len(ids)] = torch.tensor(ids)
        return tokens.to(self.position_embedding.device)

    def encode(self, tokens: Tensor) -> Tensor:
        """(k, size) of the tokens (k, words, n) of k instructions."""
        known = tokens != NOTHING
        counts = known.sum(-1, keepdim=True)
        present = counts[..., 0] > 0
        embedded = self.ngram_embedding(tokens.clamp(min=0)) * known[..., None]
        words = embedded.sum(-2) / counts.clamp(min=1) + self.position_embedding[: tokens.shape[1]]
        for block in self.blocks:
            words = block(words, mask=present[:, None, None])
        return (self.norm(words) * present[..., None]).sum(1) / present.sum(1, keepdim=True)
