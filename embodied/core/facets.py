"""Facets of a task: optional parts of its contract, each for one kind of reader; a task without one has None.

    @functools.cached_property
    def operator(self) -> Operator: ...

Functions of a facet are hooks: pure functions of one environment, the task's state their last argument. A task makes a
facet once, so that programs compiled from its functions are found again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self, TypeAlias

from embodied.core.instruction import Instruction

StateMap: TypeAlias = Callable[[Any], Any]
"""Function of a wrapper's state to the state of the task within."""


@dataclasses.dataclass(frozen=True)
class Facet:
    """Values, and functions whose last argument is the task's state."""

    def of_wrapper(self, inner: StateMap) -> Self:
        """The same facet for a wrapper's state, of which `inner` takes the state of the task within."""

        def through(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given: function(*given[:-1], inner(given[-1]))

        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **{name: through(one) for name, one in own.items() if callable(one)})


@dataclasses.dataclass(frozen=True)
class Language(Facet):
    """The task in language, for policies that follow instructions and suites whose tasks are encoded by words."""

    instructions: tuple[str, ...]
    """The instruction, then paraphrases."""
    of_episode: Callable[[Any], Instruction] | None = None
    """An episode's instruction from its state, as numpy arrays (it is not traced); None: every episode has the same."""

    @property
    def varies(self) -> bool:
        """Whether the instruction depends on the episode."""
        return self.of_episode is not None

    @classmethod
    def of(cls, *instructions: str) -> Self:
        """The same instruction in every episode, and paraphrases."""
        return cls(instructions)


FACETS = ("language",)
"""Names of all facets among the hooks."""
