"""Text encoder trained from scratch: hashed character n-grams of each word, and a small transformer over the words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from embodied.errors import EmbodiedError
from policies.vla.model.attention import Block

MAX_CHARACTERS = 500  # of an instruction
MAX_WORDS = 64
NGRAM = 3  # characters
SHOWN = 40  # characters of a refused instruction that its error repeats


def check_instruction(text: str) -> str:
    """The instruction with single spaces.

    Raises:
        EmbodiedError: it is no text, empty, or too long.
    """
    if not isinstance(text, str):
        raise EmbodiedError(f"instruction {text!r} is a {type(text).__name__}; expected text")
    plain = " ".join(text.split())
    if not plain or not words_of(plain):
        raise EmbodiedError(f"instruction {text[:SHOWN]!r} says nothing; expected words, such as 'open the drawer'")
    if len(plain) > MAX_CHARACTERS or len(words_of(plain)) > MAX_WORDS:
        raise EmbodiedError(
            f"instruction {plain[:SHOWN] + '...'!r} has {len(plain):,} characters and {len(words_of(plain)):,} words; "
            f"expected at most {MAX_CHARACTERS} and {MAX_WORDS}"
        )
    return plain


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return re.findall(r"\w+", text.lower())


def ngrams(word: str) -> list[str]:
    """A word and its character trigrams, its ends marked (fastText, Bojanowski et al. 2017)."""
    marked = f"<{word}>"
    return [marked, *(marked[i : i + NGRAM] for i in range(len(marked) - NGRAM + 1) if len(marked) > NGRAM)]


def bucket_of(ngram: str, buckets: int) -> int:
    """The embedding of an n-gram among `buckets`: by CRC-32, which is the same in every process and version."""
    return zlib.crc32(ngram.encode()) % buckets


class HashedTextEncoder(nn.Module):
    """A transformer over words that are means of n-gram embeddings, so that plurals are not unknown."""

    def __init__(self, width: int, layers: int, heads: int, buckets: int) -> None:
        """An encoder of `layers` blocks of `width` channels, with `buckets` n-gram embeddings."""
        super().__init__()
        self.size, self.buckets = width, buckets
        self.ngram_embedding = nn.EmbeddingBag(buckets, width, mode="mean")
        self.position_embedding = nn.Parameter(torch.randn(MAX_WORDS, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, instructions: Sequence[str]) -> Tensor:
        """(k, size), the mean over the words of each of k instructions.

        Raises:
            EmbodiedError: one is empty or too long.
        """
        texts = [words_of(check_instruction(text)) for text in instructions]
        counts = torch.tensor([len(words) for words in texts], device=self.position_embedding.device)
        present = torch.arange(int(counts.max()), device=self.position_embedding.device) < counts[:, None]
        embedded = self._embed([word for words in texts for word in words])
        tokens = embedded.new_zeros(*present.shape, self.size)
        tokens[present] = embedded
        tokens = tokens + self.position_embedding[: present.shape[1]]
        for block in self.blocks:
            tokens = block(tokens, mask=present[:, None, None])
        return (self.norm(tokens) * present[..., None]).sum(1) / counts[:, None]

    def _embed(self, words: list[str]) -> Tensor:
        """(n, width) of n words."""
        hashed = [[bucket_of(ngram, self.buckets) for ngram in ngrams(word)] for word in words]
        flat = torch.tensor([number for numbers in hashed for number in numbers], device=self.position_embedding.device)
        lengths = torch.tensor([0, *(len(numbers) for numbers in hashed[:-1])], device=self.position_embedding.device)
        return self.ngram_embedding(flat, lengths.cumsum(0))
