"""Templates of instructions for objects on a table, and the dialogue where one fits several.

Ambiguity is exact: `tasks.questions.ambiguity.referents` lists the objects that an instruction fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from embodied.core.instruction import Dialogue
from embodied.errors import EmbodiedError, listing
from tasks.questions.ambiguity import ObjectDescription, answer, question, referents

TEMPLATES = ("Pick up the {}.", "Lift the {} off the table.", "Take the {} and hold it up.")
"""Templates of an instruction for an object."""


def instructions(phrase: str, first: int = 0) -> tuple[str, ...]:
    """An object's phrase ("block", "red block") in every template, beginning with the one of a number."""
    return tuple(TEMPLATES[(first + turn) % len(TEMPLATES)].format(phrase) for turn in range(len(TEMPLATES)))


def dialogue(seen: Sequence[ObjectDescription], wanted: int, instruction: str) -> Dialogue:
    """The dialogue of a user who wants the object with the mark `wanted`, beginning with `instruction`.

    Asked about a clear instruction, the user names the object in full.

    Raises:
        EmbodiedError: the instruction fits no object, or others only; or it is empty, too long, or names no kind.
    """
    found = referents(seen, instruction)
    if wanted not in found:
        fits = listing(sight.full for sight in seen if sight.mark in found) or "nothing"
        meant = next((sight.full for sight in seen if sight.mark == wanted), f"number {wanted}")
        raise EmbodiedError(
            f"{instruction!r} fits {fits}, but {meant} is meant; there are {listing(sight.full for sight in seen)}"
        )
    if len(found) > 1:
        return Dialogue(instruction, question(seen, instruction), answer(seen, instruction, wanted))
    (full,) = (sight.full for sight in seen if sight.mark == wanted)
    return Dialogue(instruction, None, f"The {full}.")


def clarified(said: Sequence[Dialogue]) -> tuple[str, ...]:
    """The full instructions of robots that ask where needed, then of some that ask where not needed."""
    needed = [dialogue.full_instruction(dialogue.ambiguous) for dialogue in said]
    return tuple(needed + [dialogue.full_instruction(asked=True) for dialogue in said if not dialogue.ambiguous])
