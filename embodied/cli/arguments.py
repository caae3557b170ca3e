"""Command lines: their flags, which are the fields of a config, and the task that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from embodied.errors import EmbodiedError
from embodied.registry import Registry

S = TypeVar("S")


def parse(kind: type[S], arguments: Sequence[str] | None, command: str, default: S | None = None) -> S:
    """Parse the flags of `python -m embodied.COMMAND`; enumerations go by their values, as in stored configs.

    A command of another package is given with its package: `sim2real.twin`.
    """
    named: dict[str, Any] = {} if default is None else {"default": default}
    words = None if arguments is None else list(arguments)
    config = (tyro.conf.EnumChoicesFromValues,)
    module = command if "." in command else f"embodied.{command}"
    return tyro.cli(kind, args=words, prog=f"python -m {module}", config=config, **named)


def parse_known(kind: type[S], arguments: Sequence[str], command: str) -> tuple[S, list[str]]:
    """As `parse`, and the words that are none of its flags, which another parser takes."""
    config, program = (tyro.conf.EnumChoicesFromValues,), f"python -m embodied.{command}"
    return tyro.cli(kind, args=list(arguments), prog=program, config=config, return_unknown_args=True)


def named_task(arguments: Sequence[str], registry: Registry, default: str | None = None) -> str | None:
    """The task that a command line means, found before its flags can be parsed: they depend on it.

    A word counts when it is a task's name, or when it stands first; the values of flags do not, nor do numbers.
    """
    for index, word in enumerate(arguments):
        follows_flag = index > 0 and arguments[index - 1].startswith("--") and "=" not in arguments[index - 1]
        may_be_one = not word.startswith("-") and not follows_flag and not word.replace(".", "").isdigit()
        if word in registry or word in registry.suites or may_be_one:
            return word
    return default


def required_task(arguments: Sequence[str], registry: Registry, program: str) -> str:
    """The task that a command line means; where only help is asked for, any.

    Raises:
        EmbodiedError: it means none; names those there are.
    """
    name = named_task(arguments, registry)
    if name is not None:
        return name
    if {"-h", "--help"} & set(arguments):
        return next(iter(registry))
    raise EmbodiedError(f"which task? python -m {program} TASK; tasks: {', '.join(registry)}")


def flag_value(words: Sequence[str], flag: str) -> str | None:
    """The value of `--flag VALUE` or `--flag=VALUE`.

    Raises:
        EmbodiedError: the flag stands without a value.
    """
    for index, word in enumerate(words):
        if word.startswith(flag + "="):
            return word.partition("=")[2]
        if word == flag:
            if index + 1 == len(words):
                raise EmbodiedError(f"{flag} needs a value")
            return words[index + 1]
    return None


def given(settings: Any, words: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Of these fields of parsed settings, those that the command line names, not those that are defaults."""
    flags = {name: f"--{name.replace('_', '-')}" for name in names}
    return {name: getattr(settings, name) for name, flag in flags.items() if flag_value(words, flag) is not None}
