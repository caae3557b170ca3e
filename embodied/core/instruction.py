"""The language instruction of an episode, and the dialogue a robot may have about it before it acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Dialogue:
    """An instruction, and what its user answers to the one question that a robot may ask.

    Source of the setting: Ask-to-Clarify (arXiv:2509.15061).
    """

    instruction: str
    """As the user says it first. It may fit several objects."""
    question: str | None
    """What there is to ask; None where the instruction fits one object."""
    answer: str
    """What the user says when asked, needed or not."""

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
    """Texts that all say what is to be done; the first one is the default."""
    wrong: tuple[str, ...] = ()
    """Instructions for something else that could be done in this very episode: to obey one of them is a failure."""
    dialogue: Dialogue | None = None
    """Where the robot may ask first."""
    matches: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Phrase -> number of objects in this episode that it fits; the same phrases in every episode of a task."""
