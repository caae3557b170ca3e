"""Bounds of settings, declared with their type and checked where settings are made.

class Settings(Bounded):
    gamma: Annotated[float, FRACTION] = 0.99

Settings(gamma=2.0)   # BoundError: gamma=2.0 must be between 0 and 1
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from embodied.errors import EmbodiedError


class BoundError(EmbodiedError, ValueError):
    """A setting that has a value which it may not have."""


@dataclasses.dataclass(frozen=True)
class Bound:
    """The values that a setting may have; None, where its type allows that, has no bound.

    It is made beside a class, not in an annotation, whose text is evaluated where a lambda does not see its module.
    """

    text: str
    """Expected values, as errors and `--help-all` show them."""
    holds: Callable[[Any], bool]


LARGEST = 1e30  # of numbers of single precision, with which physics computes: products of larger ones are infinite
POSITIVE = Bound("positive", lambda value: value > 0)
NOT_NEGATIVE = Bound("0 or more", lambda value: value >= 0)
FRACTION = Bound("between 0 and 1", lambda value: 0 <= value <= 1)
BELOW_ONE = Bound("0 or more and less than 1", lambda value: 0 <= value < 1)
FINITE = Bound("finite", lambda value: abs(value) <= LARGEST)
OPEN_RANGE = Bound("two numbers, the smaller first; inf for no end", lambda ends: ends[0] < ends[1])


def at_least(low: int) -> Bound:
    """Whole numbers from `low` on."""
    return Bound(f"at least {low}", lambda value: value >= low)


class Bounded:
    """A dataclass whose fields keep to the bounds in their annotations; every float is finite, also in tuples and in
    dataclasses that it holds, but for the ends of an `OPEN_RANGE`.

    A field that a derived class declares again keeps the bounds that it had.
    """

    def __post_init__(self) -> None:
        """Check all fields.

        Raises:
            BoundError: one has a value that it may not have; says its name, the value and what is expected.
        """
        for name, bounds in bounds_of(type(self)).items():
            value = getattr(self, name)
            for place, number in _floats(value, name):
                if OPEN_RANGE not in bounds and not FINITE.holds(number):
                    raise BoundError(f"{place}={number if place != name else value} must be {FINITE.text}")
            for bound in bounds:
                if value is not None and not bound.holds(value):
                    raise BoundError(f"{name}={value} must be {bound.text}")


def _floats(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """The floats of a field and of what it holds; a dataclass with bounds of its own has checked its own."""
    if isinstance(value, float):
        yield name, value
    elif isinstance(value, tuple):
        for one in value:
            yield from _floats(one, name)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type | Bounded):
        for field in dataclasses.fields(value):
            yield from _floats(getattr(value, field.name), f"{name}.{field.name}")


@functools.cache
def bounds_of(kind: type[Any]) -> dict[str, tuple[Bound, ...]]:
    """Field of a dataclass -> its bounds, those of the classes that it derives from included."""
    found: dict[str, dict[Bound, None]] = {field.name: {} for field in dataclasses.fields(kind)}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            for name, hint in get_type_hints(base, include_extras=True).items():
                if get_origin(hint) is Annotated and name in found:
                    found[name] |= {bound: None for bound in get_args(hint)[1:] if isinstance(bound, Bound)}
    return {name: tuple(bounds) for name, bounds in found.items()}
