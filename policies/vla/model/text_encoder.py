"""Instructions in numbers, learned from nothing: hashed pieces of words, and a small transformer over the words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from embodied.errors import EmbodiedError
from policies.vla.model.layers import Block

MAX_CHARACTERS = 500  # of an instruction; what robots are told is shorter
MAX_WORDS = 64
NGRAM = 3  # characters of a piece of a word
SHOWN = 40  # characters of a refused instruction that its error repeats


class Reader(Protocol):
    """What turns instructions into features."""

    size: int
    """Length of a feature."""

    def __call__(self, instructions: Sequence[str]) -> Tensor:
        """(k, size), of k instructions."""
        ...


def check_instruction(text: str) -> str:
    """The instruction, with single spaces.

    Raises:
        EmbodiedError: it is no text, says nothing, or says too much.
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
    """Its words in lower case, without punctuation."""
    return re.findall(r"\w+", text.lower())


def pieces(word: str) -> list[str]:
    """A word whole, and each of its runs of three characters, its ends marked (Bojanowski et al. 2017)."""
    marked = f"<{word}>"
    return [marked, *(marked[i : i + NGRAM] for i in range(len(marked) - NGRAM + 1) if len(marked) > NGRAM)]


def bucket_of(piece: str, buckets: int) -> int:
    """Which of `buckets` a piece belongs to: by CRC-32, which is the same in every process and version."""
    return zlib.crc32(piece.encode()) % buckets


class HashedReader(nn.Module):
    """Reads words by their pieces, so that a plural or a misspelling is not a stranger."""

    def __init__(self, width: int, layers: int, heads: int, buckets: int) -> None:
        """A transformer of `layers` blocks over words of `width` numbers, from `buckets` embeddings of pieces."""
        super().__init__()
        self.size, self.buckets = width, buckets
        self.pieces = nn.EmbeddingBag(buckets, width, mode="mean")
        self.place = nn.Parameter(torch.randn(MAX_WORDS, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, instructions: Sequence[str]) -> Tensor:
        """(k, size), the mean over the words of each of k instructions.

        Raises:
            EmbodiedError: one says nothing, or too much.
        """
        texts = [words_of(check_instruction(text)) for text in instructions]
        counts = torch.tensor([len(words) for words in texts], device=self.place.device)
        present = torch.arange(int(counts.max()), device=self.place.device) < counts[:, None]
        embedded = self._embedded([word for words in texts for word in words])
        tokens = embedded.new_zeros(*present.shape, self.size)
        tokens[present] = embedded
        tokens = tokens + self.place[: present.shape[1]]
        for block in self.blocks:
            tokens = block(tokens, seen=present[:, None, None])
        return (self.norm(tokens) * present[..., None]).sum(1) / counts[:, None]

    def _embedded(self, words: list[str]) -> Tensor:
        """(n, width) of n words."""
        hashed = [[bucket_of(piece, self.buckets) for piece in pieces(word)] for word in words]
        flat = torch.tensor([number for numbers in hashed for number in numbers], device=self.place.device)
        lengths = torch.tensor([0, *(len(numbers) for numbers in hashed[:-1])], device=self.place.device)
        return self.pieces(flat, lengths.cumsum(0))
