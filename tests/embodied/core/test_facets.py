"""Facets are made once, and a wrapper's facets take the wrapper's state."""

import dataclasses
from typing import Any

import pytest

from embodied.core.facets import FACETS, Language, Operator, Pictures, Team
from embodied.core.task import Task, TaskWrapper
from embodied.errors import EmbodiedError
from tests.kit.toy_tasks import Speck


class Boxed(TaskWrapper[Any]):
    """A task whose state is in a tuple."""

    def inner_state(self, state: Any) -> Any:
        return state[0]

    def outer_state(self, inner: Any, before: Any) -> Any:
        del before
        return (inner,)


def last(*given: Any) -> Any:
    return given[-1]


@pytest.fixture
def task() -> Task[Any]:
    """A task with every facet, whose functions return the state that they are given."""
    made = Speck()
    made.operator, made.language = Operator(measured=last), Language(("Go.",), last)
    made.pictures = Pictures({}, *[last] * 5)
    made.team = Team(2, seen_by=lambda world, state, agent: (world, state + agent))
    return made


def test_every_function_of_a_facet_takes_the_wrappers_state(task: Task[Any]) -> None:
    boxed = Boxed(TaskWrapper(task))
    for name in ("operator", "language", "pictures"):
        facet = getattr(boxed, name)
        for field in dataclasses.fields(facet):
            if callable(function := getattr(facet, field.name)):
                assert function("world", (3,)) == function((3,)) == 3, field.name
    assert boxed.team is not None
    assert boxed.team.seen_by("world", (3,), 1) == ("world", (4,))  # type: ignore[arg-type]  # told apart by eye


@pytest.mark.parametrize("name", FACETS)
def test_a_facet_is_made_once_for_each_task(task: Task[Any], name: str) -> None:
    boxed = Boxed(task)
    assert getattr(boxed, name) is getattr(boxed, name)
    assert getattr(boxed.around(Speck()), name) == getattr(Speck(), name)


def test_agents_that_cannot_change_places_say_so() -> None:
    with pytest.raises(EmbodiedError, match="agents of this task cannot change places: no `seen_by` says what each"):
        Team(4).seen_by(None, None, None)  # type: ignore[arg-type]  # refused before it looks


@pytest.mark.parametrize("name", FACETS)
def test_a_facet_of_another_type_is_refused(name: str) -> None:
    kind = type("Wrong", (Speck,), {name: "reach"})
    with pytest.raises(EmbodiedError, match=rf"Wrong\.{name} is 'reach'; expected a {FACETS[name].__name__}$"):
        kind()
