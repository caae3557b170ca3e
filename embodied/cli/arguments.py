"""Command lines: their flags, which are the fields of a config, and the task that they name."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro

from embodied.cli.commands import check_needs
from embodied.cli.flags import Flag, flags_of, groups_of, meant, unknown_flags
from embodied.cli.help import ALL, SHORT, help_text, usage
from embodied.cli.outputs import check_outputs
from embodied.env.options import NoConfig
from embodied.env.registry import Registry
from embodied.errors import EmbodiedError, alternatives, listing
from embodied.storage import trust
from embodied.storage.configs import not_numbers

S = TypeVar("S")
BOX, RULE = "╭╮╰╯│+| ", "─-"  # what `tyro` draws around a message and between its parts, where it knows Unicode or not
RUNS_CODE = "Run the Python files that a run or a config names, also where you never trained with them."
TRUST = Flag((trust.FLAG,), "", False, RUNS_CODE, rare=True)
"""A flag of every command; it holds before there are settings, since tasks have some of their own."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def parse(kind: type[S], arguments: Sequence[str] | None, command: str, default: S | None = None) -> S:
    """Parse the flags of `python -m embodied.COMMAND`; enumerations go by their values, as in stored configs.

    A command of another package is given with its package: `sim2real.twin`. Where help is requested, prints it and
    leaves the process.

    Raises:
        EmbodiedError: an unknown flag, a value of the wrong type, something missing; says what was meant or expected.
    """
    words = trust.typed(sys.argv[1:] if arguments is None else arguments)
    program = f"python -m {command if '.' in command else f'embodied.{command}'}"
    given = dataclasses.MISSING if default is None else default
    flags = [*flags_of(kind, given), TRUST]
    _answer_help(words, program, kind, flags, given)
    check_needs(program.removeprefix("python -m "))
    if unknown := unknown_flags(words, flags):
        raise _unknown(unknown[0], meant(unknown[0], flags), program)
    named: dict[str, Any] = {} if default is None else {"default": default}
    return _parsed(kind, words, program, flags, **named)


def answer_early(kind: type[S], words: Sequence[str], command: str, default: S, later: str) -> None:
    """Answer as `parse` would, as far as that is known before one of the nested configs is loaded, and else return.

    That is a short help, which does not show its flags; a flag that may mean another one; and a value that is refused.

    Args:
        kind: As of `parse`, with a config that has no fields in place of the one to be loaded.
        later: What the flags of the config that is not loaded begin with, before a full stop: `--config`.

    Raises:
        EmbodiedError: as `parse`.
    """
    words = trust.typed(words)
    program, flags = f"python -m embodied.{command}", [*flags_of(kind, default), TRUST]
    if ALL in words:
        return
    _answer_help(words, program, kind, flags, default)
    unknown = [word for word in unknown_flags(words, flags) if not word.startswith(f"{later}.")]
    if not unknown:
        _parsed(kind, list(words), program, flags, default=default, return_unknown_args=True)
    elif guesses := meant(unknown[0], flags):
        raise _unknown(unknown[0], guesses, program)


def parse_known(kind: type[S], arguments: Sequence[str], command: str) -> tuple[S, list[str]]:
    """As `parse`, and the words that are none of its flags, which another parser takes.

    Raises:
        EmbodiedError: a value of the wrong type, or something missing.
    """
    words, program = trust.typed(arguments), f"python -m embodied.{command}"
    flags = [*flags_of(kind), TRUST]
    _answer_help(words, program, kind, flags)
    check_needs(program.removeprefix("python -m "))
    return _parsed(kind, words, program, flags, return_unknown_args=True)


def _answer_help(
    words: Sequence[str], program: str, kind: type[Any], flags: Sequence[Flag], default: Any = dataclasses.MISSING
) -> None:
    """Print help where that is requested, and leave the process."""
    if asks_for_help(words):
        print(help_text(program, kind, flags, groups_of(kind, default), everything=ALL in words))
        raise SystemExit(0)


def _unknown(word: str, guesses: Sequence[str], program: str) -> EmbodiedError:
    """Error for a flag that does not exist."""
    guess = f"did you mean {alternatives(guesses)}? " if guesses else ""
    return EmbodiedError(f"unknown flag {word}; {guess}{program} {ALL} shows all")


def _parsed(kind: type[Any], words: list[str], program: str, flags: Sequence[Flag], **options: Any) -> Any:
    """Settings that `tyro` parses from a command line; its refusals in one line instead of a box."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            settings = tyro.cli(kind, args=words, prog=program, config=(tyro.conf.EnumChoicesFromValues,), **options)
    except SystemExit as stop:
        if not said.getvalue():
            raise
        raise EmbodiedError(complaint(said.getvalue(), flags, usage(program, flags))) from stop
    sys.stderr.write(said.getvalue())
    parsed = settings[0] if isinstance(settings, tuple) else settings  # with the words that are none of its flags
    if dataclasses.is_dataclass(parsed):
        if wrong := next(not_numbers(parsed), None):
            raise EmbodiedError(f"{wrong} is nan or too large; expected a number")
        check_outputs(parsed)
    return settings


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether a command line requests help instead of work."""
    return bool({*SHORT, ALL} & set(words))


def complaint(said: str, flags: Sequence[Flag], how: str) -> str:
    """One line for `tyro`'s message, in a box, on a command line that it refuses.

    Args:
        said: The box; what is wrong stands between its title and the next rule.
    """
    rows = [row.strip(BOX) for row in COLOURS.sub("", said).splitlines()[1:]]
    below_title = itertools.dropwhile(lambda row: not row.strip(RULE), rows)
    text = " ".join(itertools.takewhile(lambda row: row.strip(RULE), below_title))
    by_name = {name: flag for flag in flags for name in flag.accepted}
    if text.startswith("Missing from"):
        required = [flag for flag in flags if flag.required]
        missing = [flag.names[0] for flag in required if flag.names[0] in text or (flag.text and flag.text in text)]
        return f"{', '.join(missing)} is missing: {how}" if missing else f"{text}: {how}"
    if (found := re.match(r"Error parsing (--\S+): .*?('[^']*'|$)", text)) and (flag := by_name.get(found[1])):
        return f"{found[1]} {found[2]}: expected {flag.metavar}"
    if (found := re.match(r"Missing value for argument '([^']+)'", text)) and (flag := by_name.get(found[1])):
        return f"{found[1]} needs a value: {flag.metavar}"
    text = text.removeprefix("Error parsing ")
    return text[:1].lower() + text[1:]


def named_task(arguments: Sequence[str], registry: Registry, default: str | None = None) -> str | None:
    """The task that a command line means, found before its flags can be parsed: they depend on it.

    A word counts when it is a task's name, or when it stands first; the values of flags do not, nor do numbers.
    """
    words = trust.typed(arguments)
    for index, word in enumerate(words):
        follows_flag = index > 0 and words[index - 1].startswith("--") and "=" not in words[index - 1]
        may_be_one = not word.startswith("-") and not follows_flag and not word.replace(".", "").isdigit()
        if word in registry or word in registry.suites or may_be_one:
            return word
    return default


def required_task(arguments: Sequence[str], registry: Registry, command: str, settings: Any = None) -> str:
    """The task that a command line means; where it means none, help is that of the settings without a task's options.

    Raises:
        EmbodiedError: it means none; says what names those there are.
    """
    name = named_task(arguments, registry)
    if name is not None:
        return name
    if settings is not None and asks_for_help(arguments):
        parse(settings[NoConfig], arguments, command, settings(task=tyro.MISSING, config=NoConfig()))
    raise EmbodiedError(
        f"which task? python -m embodied.{command} TASK; python -m embodied.list names all {len(registry)}: "
        f"{listing(registry, 4)}"
    )


def task_and_policy(name: str, policy: str | None, registry: Registry) -> tuple[str, str | None]:
    """Task or suite, and policy where one is named, of a command line that may name a run in place of a task.

    Raises:
        EmbodiedError: neither a task nor a run.
    """
    if name in registry or name in registry.suites or not Path(name).exists():
        if name.startswith(("runs/", "/", "./", "../")) and not name.endswith(".py") and ".py:" not in name:
            raise EmbodiedError(f"there is no run at {name!r}; python -m embodied.runs lists those there are")
        return registry.find(name).name, policy
    from embodied.storage.runs import Run  # with torch, which a name that does not exist is refused without

    return Run.open(Path(name)).task, policy or name


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
