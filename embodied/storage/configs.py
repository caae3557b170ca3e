"""Configs (nested frozen dataclasses): some fields replaced; to JSON values and back.

A config that is `Inline` shares the names of the config that holds it: its fields stand among that one's in flags, in
files and in keyword arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import types
import typing
from collections.abc import Iterator, Mapping, Sequence, Sized
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from embodied.errors import EmbodiedError, RunError, UnknownNameError, alternatives, listing, suggestions, whole_number

T = TypeVar("T")

RARE = "rare"
Rare = Annotated[T, RARE]
"""Type of a field whose flag few people set: `--help` leaves it to `--help-all`."""
Unflagged = Annotated[T, tyro.conf.Fixed, tyro.conf.Suppress]
"""Type of a field without a flag, which Python code alone sets."""


INFINITIES = ("inf", "-inf")
"""Text of infinite numbers: they are bounds that a user may set, and JSON has none."""
UNSAVED = ("out", "resume", "json", "watch", "seeds", "config_file")
"""Settings that belong to a command and not to the run."""
NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


class Inline:
    """Base of configs whose fields stand among those of the config that holds them."""


class Switched(Inline):
    """Base of configs that are off while their first field is None or empty; the others then have their defaults."""

    def __post_init__(self) -> None:
        first, *others = dataclasses.fields(self)  # type: ignore[arg-type]
        changed = [field.name for field in others if getattr(self, field.name) != field.default]
        if not self.is_given and changed:
            raise EmbodiedError(f"{changed[0]}={getattr(self, changed[0])!r} without {first.name}; expected both")

    @property
    def is_given(self) -> bool:
        first = getattr(self, dataclasses.fields(self)[0].name)  # type: ignore[arg-type]
        return first is not None and not (isinstance(first, tuple) and not first)


@functools.lru_cache(maxsize=256)
def _hints(kind: type) -> Mapping[str, Any]:
    """The annotations of a dataclass; they are text, and evaluating it takes longer than what is done with them."""
    return typing.get_type_hints(kind)


@dataclasses.dataclass(frozen=True)
class Place:
    """Type and value of a field, of a config or of an inline one that it holds."""

    kind: Any
    """Its annotation; of one that is generic, the type of its value."""
    value: Any


def places(config: Any) -> dict[str, Place]:
    """Name of every field of a config, and of the inline configs that it holds -> its type and value."""
    hints, found = _hints(type(config)), {}
    for field in dataclasses.fields(config):
        value, kind = getattr(config, field.name), hints[field.name]
        if isinstance(value, Inline):
            found |= places(value)
        else:
            found[field.name] = Place(type(value) if isinstance(kind, TypeVar) else kind, value)
    return found


def override(config: T, overrides: Mapping[str, Any]) -> T:
    """`config` with some fields replaced, by values as `fitting` takes them.

    Raises:
        EmbodiedError: a field does not exist, or a value is refused; names it and lists the fields, or the members.
    """
    known = places(config)
    for field in overrides:
        if field not in known:
            guess = alternatives(map(repr, suggestions(str(field), known)))
            hint = f"; did you mean {guess}? It" if guess else "; it"
            raise EmbodiedError(f"{type(config).__qualname__} has no field {field!r}{hint} has {', '.join(known)}")
    named = {field: _members(known[field].kind, value, field) for field, value in overrides.items()}
    made = wrong = None
    try:
        made = _replaced(config, named)
    except EmbodiedError:
        raise  # the config's own words say more than its types
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:  # RuntimeError: the truth of a tensor
        wrong = error
    for field, value in named.items():
        _check(known[field].kind, value, field)
    if made is None:
        raise EmbodiedError(f"{type(config).__qualname__}: {wrong}") from None
    return made


def fitting(kind: Any, value: Any, where: str) -> Any:
    """`value` as the annotation `kind` has it: texts as members of enumerations or paths, lists as tuples.

    Raises:
        EmbodiedError: there is no such member, a tuple has another length, or a value another type; says what is
            expected.
    """
    found = _members(kind, value, where)
    _check(kind, found, where)
    return found


LARGEST_WHOLE = (1 << 63) - 1
"""Of what arrays and loops hold."""


def not_numbers(config: Any, at: str = "") -> Iterator[str]:
    """Names of all fields of a config, and of those that it holds, that are NaN or too large for a computer's words."""
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{at}.{field.name}".lstrip(".")
        if dataclasses.is_dataclass(value):
            yield from not_numbers(value, name)
        elif _is_beyond(value):
            yield name


def _is_beyond(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_beyond, value))
    return (isinstance(value, float) and value != value) or (isinstance(value, int) and abs(value) > LARGEST_WHOLE)


def _replaced(config: Any, values: Mapping[str, Any]) -> Any:
    """`config` with values in their places."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Inline):
            if inner := {name: values[name] for name in places(value) if name in values}:
                changes[field.name] = _replaced(value, inner)
        elif field.name in values:
            changes[field.name] = values[field.name]
    return dataclasses.replace(config, **changes)


def _members(kind: Any, value: Any, where: str) -> Any:
    """`value` with texts as the members that they name, where the annotation `kind` has members.

    Raises:
        EmbodiedError: there is no such member, a tuple has another length, or a number is none; says what is expected.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        choice = next((one for one in arguments if _is_tuple_of(one, value)), arguments[0])
        return None if value is None else _members(choice, value, where)
    if origin is tuple:
        if isinstance(value, str | bool | float | int | Mapping) or not _is_tuple_of(kind, value):
            raise EmbodiedError(f"{where}={value!r}; expected {_values(arguments)}")
        kinds = itertools.repeat(arguments[0]) if arguments[-1] is Ellipsis else arguments
        return tuple(_members(one, inner, where) for one, inner in zip(kinds, value, strict=False))
    if kind is float and (isinstance(value, str | bytes | bool | complex | list | tuple | Mapping) or value != value):
        raise EmbodiedError(f"{where}={value!r}; expected a number")
    if kind is Path:
        if not isinstance(value, str | Path):
            raise EmbodiedError(f"{where}={value!r}; expected a path")
        return Path(value)
    if kind is str and isinstance(value, Path):
        return str(value)
    if not (isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str)):
        return value
    try:
        return kind(value)
    except ValueError:
        raise UnknownNameError(where, value, [str(member.value) for member in kind]) from None


def _check(kind: Any, value: Any, where: str) -> None:
    """Check that a value is whole, a text, a switch or a config where the annotation `kind` is.

    Raises:
        EmbodiedError: it is something else; says what is expected.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None or any(one is type(value) or _is_tuple_of(one, value) for one in arguments):
            return
        _check(arguments[0], value, where)
    elif origin is tuple:
        kinds = itertools.repeat(arguments[0]) if arguments[-1] is Ellipsis else arguments
        for one, inner in zip(kinds, value, strict=False):
            _check(one, inner, where)
    elif kind is int:
        whole_number(where, value)
    elif kind in (str, bool) and not isinstance(value, kind):
        raise EmbodiedError(f"{where}={value!r}; expected {NAMES[kind]}")
    elif dataclasses.is_dataclass(kind) and not dataclasses.is_dataclass(value):
        raise EmbodiedError(f"{where}={value!r}; expected the settings {getattr(kind, '__name__', kind)}")


def _is_tuple_of(kind: Any, value: Any) -> bool:
    """Whether the annotation `kind` is of tuples as long as a value."""
    arguments = typing.get_args(kind)
    sized = typing.get_origin(kind) is tuple and isinstance(value, Sized)
    return sized and (arguments[-1] is Ellipsis or len(value) == len(arguments))


def _values(kinds: Sequence[Any]) -> str:
    """Description of a tuple of these annotations."""
    return "a list" if kinds[-1] is Ellipsis else f"a list of {len(kinds)}"


def to_json(value: Any) -> Any:
    """A config as JSON values: dictionaries, lists, strings, finite numbers, booleans, None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            found |= to_json(inner) if isinstance(inner, Inline) else {field.name: to_json(inner)}
        return found
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return str(value) if isinstance(value, Path) else value


def run_document(settings: Any) -> dict[str, Any]:
    """Settings of a command that a run keeps: all as JSON values, but for those of the command alone."""
    return {name: value for name, value in to_json(settings).items() if name not in UNSAVED}


def from_json(kind: type[T], value: Any, where: str = "config") -> T:
    """The config of type `kind` that `to_json` described.

    Raises:
        RunError: a field is unknown, or a value is refused; a field that is missing keeps its default.
    """
    return _convert(kind, value, where)


def _convert(kind: Any, value: Any, where: str) -> Any:
    """`value` as an instance of the annotation `kind`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        first, *others = (choice for choice in arguments if choice is not type(None))
        several = isinstance(value, list | tuple)  # a number, or a pair of them
        fitting = next((choice for choice in others if several and typing.get_origin(choice) is tuple), first)
        return None if value is None else _convert(fitting, value, where)
    if origin is tuple:
        repeated = len(arguments) == 2 and arguments[1] is Ellipsis
        if not isinstance(value, list | tuple) or not (repeated or len(value) == len(arguments)):
            raise RunError(f"{where} is {value!r}; expected {_values(arguments)}")
        kinds = [arguments[0]] * len(value) if repeated else arguments
        return tuple(_convert(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=False)))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise RunError(f"{where} is {value!r}; expected names and values")
        return value
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Path):
        if not isinstance(value, str):
            raise RunError(f"{where} is {value!r}; expected a path")
        return kind(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _saved_member(kind, value, where)
    if kind is float and (_is_whole(value) or value in INFINITIES):
        return float(value)
    if kind is float and value != value:
        raise RunError(f"{where} is {value!r}; expected a number")
    missing = kind is float and value is None  # as JSON has it of NaN
    if kind in NAMES and not missing and not (_is_whole(value) if kind is int else isinstance(value, kind)):
        raise RunError(f"{where} is {value!r}; expected {NAMES[kind]}")
    return value


def _saved_member(kind: type[Enum], value: Any, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        known = listing(str(member.value) for member in kind)
        raise RunError(f"{where} is {value!r}; expected one of {known}") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _dataclass(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise RunError(f"{where} is {value!r}; expected the fields of {kind.__name__}")
    hints = _hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    if unknown := sorted(set(value) - set(known)):
        raise RunError(f"{where} has unknown fields {listing(unknown)}; {kind.__name__} has {listing(known)}")
    try:
        return kind(**{name: _convert(hints[name], item, f"{where}.{name}") for name, item in value.items()})
    except (TypeError, ValueError) as error:
        raise RunError(f"{where}: {error}") from None
