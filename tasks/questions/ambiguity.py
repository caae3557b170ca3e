"""Instructions that fit several objects, one or none; the question that settles it, and the user's answer.

    seen = describe_objects(scene.objects)                          # what there is, as words
    found = referents(seen, "pick up the block")          # marks: (2, 5)
    asked = question(seen, "pick up the block")           # "Which block do you mean: the red one or the blue one?"
    said = answer(seen, "pick up the block", wanted=5)    # "The blue one."
    resolved(seen, "pick up the block", said)             # 5

The setting of Ask-to-Clarify (arXiv:2509.15061) with templates in place of a language model. All functions are pure;
objects are numbers of marks, from 1.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from embodied.errors import EmbodiedError, UnknownNameError, listing
from tasks.grasping.objects.household import HOUSEHOLD
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.questions.object_names import COLOURS, SHAPES, colour_word, object_phrases

LONGEST = 1000  # characters of an instruction or an answer that are read
WORD = r"[a-z0-9]+"
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


@dataclasses.dataclass(frozen=True)
class ObjectDescription:
    """One object, in words."""

    mark: int
    full: str
    """Its own words: "tomato soup can", "red block"."""
    noun: str
    """Kind of object: "can", "block"."""
    colour: str
    x: float
    """m, to the right."""


def describe_objects(objects: Sequence[PlacedObject]) -> tuple[ObjectDescription, ...]:
    """The objects in words, in the order of the marks."""
    # Twins have their mark in brackets there; a user speaks of left and right instead.
    words = [word.split(" (")[0] for word in object_phrases([placed.item for placed in objects])]
    return tuple(
        ObjectDescription(mark, full, _noun(full), colour_word(placed.item.rgba), placed.pos[0])
        for mark, (full, placed) in enumerate(zip(words, objects, strict=True), 1)
    )


def referents(seen: Sequence[ObjectDescription], instruction: str) -> tuple[int, ...]:
    """Marks of all objects that an instruction fits; empty where none does.

    It fits an object whose name or noun it has, and every colour word outside that name.

    Raises:
        EmbodiedError: the instruction is empty, too long, or names no kind of object at all; lists those known.
    """
    text = _checked(instruction)
    # "the tomato soup can" is not any can: whole names go before nouns.
    full = [sight for sight in seen if _has(text, sight.full) and _colours(text, sight.full) <= {sight.colour}]
    if longest := max((len(sight.full) for sight in full), default=0):
        return tuple(sight.mark for sight in full if len(sight.full) == longest)
    known = NOUNS | {sight.noun for sight in seen}
    nouns = {noun for noun in known if _has(text, noun)}
    if not nouns:
        raise EmbodiedError(f"{text[:60]!r} names no object; expected one of {listing(sorted(known), 40)}")
    # The name of an absent object is not the noun of another.
    if any("_" in name and _has(text, name.replace("_", " ")) for name in HOUSEHOLD):
        return ()
    return tuple(sight.mark for sight in seen if sight.noun in nouns and _colours(text) <= {sight.colour})


def question(seen: Sequence[ObjectDescription], instruction: str) -> str | None:
    """Question before acting; None where the instruction fits exactly one object."""
    found = _of(seen, referents(seen, instruction))
    if len(found) == 1:
        return None
    if not found:
        return "I see nothing like that. Which object do you mean?"
    nouns = {sight.noun for sight in found}
    phrases = list(_phrases(found).values())
    return f"Which {nouns.pop() if len(nouns) == 1 else 'object'} do you mean: {_alternatives(phrases)}?"


def answer(seen: Sequence[ObjectDescription], instruction: str, wanted: int) -> str:
    """Answer to the question by the simulated user, who wants object `wanted`.

    Raises:
        UnknownNameError: no such object; lists those there are.
        EmbodiedError: the instruction is clear, or fits others only.
    """
    if wanted not in {sight.mark for sight in seen}:
        raise UnknownNameError("object", str(wanted), [str(sight.mark) for sight in seen])
    found = referents(seen, instruction)
    if len(found) == 1 or (found and wanted not in found):
        raise EmbodiedError(
            f"{instruction!r} fits {listing(found)}; an answer for object {wanted} needs a question, so that "
            "it and another fit, or none does"
        )
    phrase = _phrases(_of(seen, found) or tuple(seen))[wanted]
    return f"{phrase[0].upper()}{phrase[1:]}."


def resolved(seen: Sequence[ObjectDescription], instruction: str, said: str) -> int | None:
    """The object that is meant after the user's answer; None where that did not settle it.

    Raises:
        EmbodiedError: the instruction or the answer is empty or too long.
    """
    text = _checked(said)
    phrases = _phrases(_of(seen, referents(seen, instruction)) or tuple(seen))
    fitting = {mark: phrase for mark, phrase in phrases.items() if _has(text, phrase)}
    if not fitting:
        return None
    longest = max(map(len, fitting.values()))
    meant = [mark for mark, phrase in fitting.items() if len(phrase) == longest]
    return meant[0] if len(meant) == 1 else None


def _checked(text: str) -> str:
    """Its words in lower case, separated by single spaces."""
    words = " ".join(re.findall(WORD, text[: LONGEST + 1].lower()))
    if not words or len(text) > LONGEST:
        raise EmbodiedError(f"an instruction or answer of {len(text)} characters; expected words, up to {LONGEST}")
    return words


def _colours(text: str, name: str = "") -> set[str]:
    """Colour words of a text, outside a name."""
    rest = f" {text} ".replace(f" {name} ", " ") if name else text
    return {colour for colour in COLOURS if _has(rest, colour)}


def _has(text: str, phrase: str) -> bool:
    return f" {' '.join(re.findall(WORD, phrase.lower()))} " in f" {text} "


def _noun(full: str) -> str:
    """The last of an object's own words."""
    return full.split()[-1]


NOUNS = frozenset(map(_noun, (*(name.replace("_", " ") for name in HOUSEHOLD), *SHAPES.values())))
"""Nouns for objects."""


def _of(seen: Sequence[ObjectDescription], marks: Sequence[int]) -> tuple[ObjectDescription, ...]:
    return tuple(sight for sight in seen if sight.mark in marks)


Say = Callable[[ObjectDescription], str]
SAYINGS: tuple[Say, ...] = (
    lambda sight: f"the {sight.colour} one",
    lambda sight: f"the {sight.full}",
    lambda sight: f"the {sight.colour} {sight.noun}",
)
"""Phrases that distinguish objects, shortest first."""


def _phrases(found: Sequence[ObjectDescription]) -> dict[int, str]:
    """Mark -> phrase that fits it and no other."""
    for number, say in enumerate(SAYINGS):
        said = {sight.mark: say(sight) for sight in found}
        # "The red one" is used for objects with the same noun.
        alike = len({sight.noun for sight in found}) == 1
        if len(set(said.values())) == len(said) and (number or alike):
            return said
    order = sorted(found, key=lambda sight: (sight.x, sight.mark))
    return {sight.mark: f"the {ORDINALS[place]} from the left" for place, sight in enumerate(order)}


def _alternatives(phrases: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(phrases[:-1]), phrases[-1]) if part)
