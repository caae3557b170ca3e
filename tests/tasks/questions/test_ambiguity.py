"""Ambiguous instructions have several referents; every question is settled by the answer to it."""

import pytest

from embodied.errors import EmbodiedError, UnknownNameError
from tasks.grasping.objects.household import household
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.questions.ambiguity import ObjectDescription, answer, describe_objects, question, referents, resolved
from tasks.questions.cooperation.scenes import cooperation_scene, drawn, plain

ITEMS = (plain("red", "block"), plain("blue", "block"), household("tomato_soup_can"), household("tuna_fish_can"))


@pytest.fixture
def seen() -> tuple[ObjectDescription, ...]:
    return describe_objects(
        [PlacedObject(item, (0.1 * number, 0.0, 0.05)) for number, item in enumerate((*ITEMS, household("apple")))]
    )


@pytest.mark.parametrize(
    ("instruction", "marks"),
    [
        ("pick up the block", (1, 2)),
        ("Pick up the RED block, please!", (1,)),
        ("the green block", ()),
        ("take the can", (3, 4)),
        ("take the tuna fish can", (4,)),
        ("take the red can", (3,)),
        ("the potted meat can", ()),
        ("the apple", (5,)),
        ("the green apple", ()),
        ("the banana", ()),
    ],
)
def test_what_an_instruction_fits(
    seen: tuple[ObjectDescription, ...], instruction: str, marks: tuple[int, ...]
) -> None:
    assert referents(seen, instruction) == marks
    assert (question(seen, instruction) is None) == (len(marks) == 1)


def test_questions_name_what_there_is(seen: tuple[ObjectDescription, ...]) -> None:
    assert question(seen, "the block") == "Which block do you mean: the red one or the blue one?"
    cans = {"the red one": 3, f"the {seen[3].colour} one": 4}
    assert question(seen, "the can") == f"Which can do you mean: {' or '.join(cans)}?"
    assert {phrase: resolved(seen, "the can", phrase) for phrase in cans} == cans
    assert answer(seen, "the block", 2) == "The blue one."
    assert resolved(seen, "the block", "well, the blue one of course") == 2
    assert resolved(seen, "the block", "the green one") is None
    assert answer(seen, "the green block", 5) == "The apple."


def test_twins_are_told_apart_from_the_left() -> None:
    twins = describe_objects([PlacedObject(plain("red", "ball"), (x, 0.0, 0.03)) for x in (0.3, -0.2, 0.1)])
    assert referents(twins, "the red ball") == (1, 2, 3)
    asked = "Which ball do you mean: the first from the left, the second from the left or the third from the left?"
    assert question(twins, "the red ball") == asked
    assert resolved(twins, "the red ball", "The first from the left.") == 2


def test_every_answer_settles_every_question() -> None:
    for seed in range(6):
        seen = describe_objects(cooperation_scene(seed).objects)
        nouns = {sight.noun for sight in seen}
        ambiguous = [noun for noun in nouns if len(referents(seen, noun)) > 1]
        assert ambiguous, "each scene has two of a kind"
        for noun in (*nouns, "banana"):
            found = referents(seen, noun)
            if len(found) != 1:
                for wanted in found or [sight.mark for sight in seen]:
                    assert resolved(seen, noun, answer(seen, noun, wanted)) == wanted


def test_drawn_objects_differ() -> None:
    import numpy as np

    for seed in range(20):
        names = [item.name for item in drawn(6, np.random.default_rng(seed))]
        assert len(set(names)) == 6


def test_bad_input_is_refused(seen: tuple[ObjectDescription, ...]) -> None:
    for text in ("", "  ...  ", "block " * 2000):
        with pytest.raises(EmbodiedError, match="expected words, up to 1000"):
            referents(seen, text)
    with pytest.raises(EmbodiedError, match="'dance' names no object; expected one of"):
        referents(seen, "dance")
    with pytest.raises(UnknownNameError, match="object '9'"):
        answer(seen, "the block", 9)
    with pytest.raises(EmbodiedError, match="needs a question"):
        answer(seen, "the apple", 5)
    with pytest.raises(EmbodiedError, match="needs a question"):
        answer(seen, "the block", 5)
