"""The flags of a command, read off the fields of its settings: names, types, defaults, and docstrings.

`tyro` makes the parser from the same fields; what is here is for people: help, and what an unknown flag may have meant.
A test compares the two for every command.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from embodied.errors import closest, containing
from embodied.storage.bounds import bounds_of
from embodied.storage.configs import RARE

T = TypeVar("T")

_FIXED: Any = tyro.conf.Fixed
_NO_ARG: Any = tyro.conf.arg()
_WORDS = {bool: "{True,False}", int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
_UNSET = (dataclasses.MISSING, tyro.MISSING, inspect.Parameter.empty)

MEANT: Mapping[str, tuple[str, ...]] = {
    "lr": ("learning-rate",),
    "batch-size": ("batch-size", "minibatches"),
    "minibatch-size": ("minibatches", "batch-size"),
    "num-steps": ("steps", "unroll"),
    "n-steps": ("unroll", "steps"),
    "timesteps": ("steps",),
    "total-timesteps": ("steps",),
    "max-iterations": ("steps",),
    "horizon": ("unroll",),
    "n-epochs": ("epochs",),
    "num-epochs": ("epochs",),
    "update-epochs": ("epochs",),
    "discount": ("gamma",),
    "lambda": ("lam",),
    "gae-lambda": ("lam",),
    "clip-range": ("clip",),
    "clip-coef": ("clip",),
    "ent-coef": ("entropy-coef",),
    "vf-coef": ("value-coef",),
    "target-kl": ("desired-kl",),
    "hidden-sizes": ("hidden",),
    "hidden-dims": ("hidden",),
    "envs": ("num-envs",),
    "n-envs": ("num-envs",),
    "nenvs": ("num-envs",),
    "algo": ("algorithm",),
    "learner": ("algorithm",),
    "gpu": ("device",),
    "cuda": ("device",),
    "physics": ("engine",),
    "simulator": ("engine",),
    "backend": ("engine",),
    "sim": ("engine",),
    "output": ("out",),
    "output-dir": ("out",),
    "logdir": ("out",),
    "log-dir": ("out",),
    "checkpoint": ("policy", "start-from", "resume"),
    "load": ("policy", "start-from", "resume"),
    "model": ("policy", "start-from"),
    "load-run": ("policy", "resume"),
    "pretrained": ("start-from",),
    "continue": ("resume",),
    "random-seed": ("seed",),
    "num-episodes": ("episodes",),
    "n-episodes": ("episodes",),
    "film": ("video",),
    "record": ("video",),
}
"""Last words of flags as other libraries call them -> as they are called here."""


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag, or one positional argument."""

    names: tuple[str, ...]
    """`--num-envs` and its aliases; of a positional argument its word, `TASK`."""
    metavar: str
    """Its value: `INT`, `{a,b}`; empty of a switch."""
    default: Any
    """`dataclasses.MISSING` where it must be given."""
    text: str
    """Its docstring."""
    group: str = ""
    """Flag of the config that it belongs to, `--ppo`; empty of the settings themselves."""
    positional: bool = False
    rare: bool = False
    """Whether a short help leaves it out."""
    bound: str = ""
    """The values that it may have, where its type has a bound."""

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def accepted(self) -> tuple[str, ...]:
        """Every form that a command line may have of it; none of a positional argument."""
        if self.positional:
            return ()
        negated = [f"{stem}no-{last}" for stem, last in map(_parted, self.names)] if not self.metavar else []
        return (*self.names, *negated)


def flags_of(kind: Any, default: Any = dataclasses.MISSING) -> list[Flag]:
    """The flags that `tyro` makes of a type of settings: positional ones first, then what must be given, then the rest.

    Those of nested configs follow, in the order of the fields.
    """
    flags = list(_flags(kind, default, ""))
    own = [flag for flag in flags if not flag.group]
    return [
        *sorted(own, key=lambda flag: (not flag.positional, not flag.required)),
        *(flag for flag in flags if flag.group),
    ]


def groups_of(kind: Any, default: Any = dataclasses.MISSING, group: str = "") -> dict[str, str]:
    """Nested configs: prefix of their flags -> their docstring."""
    found: dict[str, str] = {}
    for one in _fields(kind, default):
        if one.nested is not None and not one.inline:
            name = _below(group, one.flag.names[0])
            found |= {name: one.flag.text} | groups_of(one.nested, one.flag.default, name)
    return found


def _flags(kind: Any, default: Any, group: str) -> Iterator[Flag]:
    for one in _fields(kind, default):
        first, *aliases = one.flag.names
        if one.nested is not None:
            yield from _flags(one.nested, one.flag.default, group if one.inline else _below(group, first))
        elif one.flag.positional:
            yield one.flag
        else:
            yield dataclasses.replace(one.flag, names=(_below(group, first), *aliases), group=group)


def _below(group: str, name: str) -> str:
    """`--ppo.actor` of `--ppo` and `--actor`."""
    return f"{group}.{name.removeprefix('--')}" if group else name


@dataclasses.dataclass(frozen=True)
class _Field:
    """A field of settings: its flag as if it belonged to no group, and what it holds."""

    flag: Flag
    nested: Any
    """Its type, where that is a dataclass whose fields have flags of their own."""
    inline: bool
    """Whether those begin without its name."""


def _fields(kind: Any, default: Any) -> Iterator[_Field]:
    """The fields of settings, with type variables replaced by those of the type."""
    origin = typing.get_origin(kind) or kind
    variables = dict(zip(getattr(origin, "__parameters__", ()), typing.get_args(kind), strict=False))
    hints = typing.get_type_hints(origin, include_extras=True)
    texts, bounds = field_texts(origin), bounds_of(origin)
    for field in dataclasses.fields(origin):
        hint, marks = _unwrapped(hints[field.name], variables)
        if not field.init or _FIXED in marks:
            continue
        arg = next((mark for mark in marks if isinstance(mark, type(_NO_ARG))), _NO_ARG)
        name = (arg.name or field.name).replace("_", "-")
        positional = tyro.conf.Positional in marks
        flag = Flag(
            names=(name.upper(),) if positional else (f"--{name}", *(arg.aliases or ())),
            metavar="" if hint is bool else arg.metavar or metavar_of(hint),
            default=_default(field, default),
            text=" ".join((arg.help or texts.get(field.name, "")).split()),
            positional=positional,
            rare=RARE in marks,
            bound=", ".join(mark.text for mark in bounds.get(field.name, ())),
        )
        inner = _without_none(hint)
        if isinstance(inner, type) and isinstance(flag.default, inner):
            inner = type(flag.default)  # as tyro has it: a default may be of a type that extends the field's
        nested = inner if dataclasses.is_dataclass(typing.get_origin(inner) or inner) else None
        yield _Field(flag, nested, tyro.conf.OmitArgPrefixes in marks)


def _unwrapped(hint: Any, variables: Mapping[Any, Any]) -> tuple[Any, list[Any]]:
    """A type without `Annotated` and type variables, and the marks that it had."""
    marks: list[Any] = []
    while True:
        if isinstance(hint, TypeVar) and hint in variables:
            hint = variables[hint]
        elif typing.get_origin(hint) is Annotated:
            hint, *own = typing.get_args(hint)
            marks += own
        else:
            return hint, marks


def _without_none(kind: Any) -> Any:
    """The `X` of `X | None`; every other type as it is."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        rest = [part for part in typing.get_args(kind) if part is not type(None)]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _default(field: dataclasses.Field[Any], default: Any) -> Any:
    """A field's default: of the settings that are given, else its own; `dataclasses.MISSING` for none."""
    if default is not None and not any(default is unset for unset in _UNSET):
        value = getattr(default, field.name)
        return dataclasses.MISSING if any(value is unset for unset in _UNSET) else value
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def metavar_of(kind: Any) -> str:
    """Placeholder of a value of a type: `INT`, `{a,b}`, `PATH ...`."""
    kind = _without_none(_unwrapped(kind, {})[0])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return f"{{{','.join(str(choice.value) for choice in kind)}}}"
    if origin is typing.Literal:
        return f"{{{','.join(map(str, arguments))}}}"
    if origin in (typing.Union, types.UnionType):
        return "|".join(dict.fromkeys(metavar_of(part) for part in arguments if part is not type(None)))
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return f"{' '.join(map(metavar_of, arguments))} ..."
    if inspect.isclass(origin) and issubclass(origin, Sequence):
        repeated = origin is not tuple or Ellipsis in arguments
        return f"{metavar_of(arguments[0])} ..." if repeated else " ".join(map(metavar_of, arguments))
    return "VALUE"


@functools.cache
def field_texts(kind: type) -> Mapping[str, str]:
    """The docstrings below the fields of a dataclass and its bases; none of a class whose source is not available."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__[:-1]):
        try:
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        except (OSError, TypeError, SyntaxError):
            continue
        for statement, following in itertools.pairwise(getattr(definition, "body", ())):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                text = following.value.value if isinstance(following.value, ast.Constant) else ""
                found[ast.unparse(statement.target)] = str(text)
    return found


def unknown_flags(words: Sequence[str], flags: Sequence[Flag]) -> list[str]:
    """The words of a command line that are flags, but none of these."""
    known = {name for flag in flags for name in flag.accepted}
    given = [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2]
    return [word for word in given if word.replace("_", "-") not in known and not word.startswith("--tyro-")]


def meant(word: str, flags: Sequence[Flag]) -> list[str]:
    """Flags that an unknown one may have meant, the likeliest first.

    Those that other libraries call so; those with the same last word; near spellings; those that contain it.
    """
    names = [flag.names[0] for flag in flags if not flag.positional]
    last = _parted(word.replace("_", "-").lower())[1]
    synonyms = [
        name
        for target in (*MEANT.get(last, ()), last)
        for name in sorted((name for name in names if _ends(name, target)), key=lambda name: _parted(name)[1] != target)
    ]
    by_last = {_parted(name)[1]: name for name in reversed(names)}
    near = [by_last[found] for found in closest(last, by_last)] + closest(word, names)
    return list(dict.fromkeys([*synonyms, *near, *containing(last, names)]))[:3]


def _ends(name: str, words: str) -> bool:
    """Whether the last part of a flag is some words, or ends with them."""
    last = _parted(name)[1]
    return last == words or last.endswith(f"-{words}")


def _parted(name: str) -> tuple[str, str]:
    """`--ppo.`, `learning-rate` of `--ppo.learning-rate`; `--`, `seed` of `--seed`."""
    stem, dot, last = name.rpartition(".")
    return (stem + dot, last) if dot else ("--", name.removeprefix("--"))
