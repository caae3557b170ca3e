"""The language instruction of an episode, the dialogue a robot may have about it before it acts, and its words.

Words are hashed character n-grams; this needs neither torch nor jax, so that a robot can do it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import zlib
from collections.abc import Mapping

import numpy as np

from embodied.errors import EmbodiedError

MAX_CHARACTERS = 500  # of an instruction
MAX_WORDS = 64
NGRAM = 3  # characters
SENTENCE = 128  # numbers of a sentence's vector
SHOWN = 40  # characters of a refused instruction that its error repeats


@dataclasses.dataclass(frozen=True)
class Dialogue:
    """An instruction, and the user's answer to the one question that a robot may ask.

    Source of the setting: Ask-to-Clarify (arXiv:2509.15061).
    """

    instruction: str
    """The user's first instruction. It may fit several objects."""
    question: str | None
    """The question; None where the instruction fits one object."""
    answer: str
    """The user's answer, needed or not."""

    @property
    def ambiguous(self) -> bool:
        return self.question is not None

    def full_instruction(self, asked: bool) -> str:
        """The text with which a robot begins to act: the instruction, and the answer if it asked."""
        return f"{self.instruction} {self.answer}" if asked else self.instruction


@dataclasses.dataclass(frozen=True)
class Instruction:
    """The instruction of one episode in language."""

    paraphrases: tuple[str, ...]
    """Texts with the same meaning; the first one is the default."""
    wrong: tuple[str, ...] = ()
    """Instructions for something else that could be done in this very episode: to obey one of them is a failure."""
    dialogue: Dialogue | None = None
    """Set where the robot may ask first."""
    matches: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Phrase -> number of objects in this episode that it fits; the same phrases in every episode of a task."""


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


def word_ids(instruction: str, buckets: int) -> list[list[int]]:
    """The numbers of each word's n-grams among `buckets`.

    Raises:
        EmbodiedError: the instruction is no text, empty, or too long.
    """
    words = words_of(check_instruction(instruction))
    return [[bucket_of(ngram, buckets) for ngram in ngrams(word)] for word in words]


def sentence_vector(instruction: str) -> np.ndarray:
    """(SENTENCE,) float32 of an instruction: the mean of its words, scaled to numbers of size 1; order does not count.

    A word is the mean of its n-grams, an n-gram a fixed random vector of signs: sentences that share words, or parts of
    words, lie close together, and nothing of this is learned (fastText's words, Bojanowski et al. 2017, over a random
    projection, Johnson and Lindenstrauss 1984).

    Raises:
        EmbodiedError: it is no text, empty, or too long.
    """
    words = [np.mean([_signs(ngram) for ngram in ngrams(word)], 0) for word in words_of(check_instruction(instruction))]
    mean = np.mean(words, 0)
    return (mean / np.sqrt(np.mean(mean**2))).astype(np.float32)


@functools.cache
def _signs(ngram: str) -> np.ndarray:
    """(SENTENCE,) of 1 and -1, the same in every process and version."""
    digest = hashlib.blake2b(ngram.encode(), digest_size=SENTENCE // 8).digest()
    return 2.0 * np.unpackbits(np.frombuffer(digest, np.uint8)) - 1.0
