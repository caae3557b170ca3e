"""Help that fits 80 columns: common flags first, everything on request, examples in lines of their own."""

from __future__ import annotations

import enum
import inspect
import re
import textwrap
import typing
from collections.abc import Iterable, Sequence
from typing import Any

from embodied.cli.commands import as_called
from embodied.cli.flags import Flag

SHORT, ALL = ("-h", "--help"), "--help-all"
WIDTH = 80  # columns
COLUMN = 24  # in which the texts of flags begin
_EXAMPLE = re.compile(r"  |python -m ")  # begins a line that is to be pasted
_POINT = re.compile(r"\d+\. ")  # begins a point of a list


def help_text(program: str, kind: Any, flags: Sequence[Flag], groups: dict[str, str], *, everything: bool) -> str:
    """Help text of a command.

    Args:
        program: `python -m embodied.train`.
        kind: Type of its settings, whose docstring describes the command.
        flags: All of them.
        groups: Docstrings of nested configs.
        everything: All flags in all their words; else those of the settings that are not rare, in a sentence each.
    """
    shown = [flag for flag in flags if everything or not (flag.group or flag.rare)]
    called = textwrap.wrap(f"usage: {usage(as_called(program), flags)}", WIDTH, subsequent_indent=" " * 7)
    lines = [*called, "", *described(inspect.getdoc(typing.get_origin(kind) or kind) or "")]
    group, first = "", next((flag for flag in shown if not flag.positional), None)
    for flag in shown:
        if flag.positional or flag.group != group or flag is first:
            lines.append("")
        if flag.group != group:
            group = flag.group
            lines += _wrapped(f"{group}.*  {groups.get(group, '')}".rstrip(), "")
        lines += entry(flag, everything=everything)
    if len(shown) < len(flags):
        lines += _hidden(groups)
    elif empty := [group for group in groups if not any(f"{flag.group}.".startswith(f"{group}.") for flag in flags)]:
        lines += ["", *_wrapped(f"{empty[0]}.*  {groups[empty[0]]} {program} TASK {ALL} shows them.", "")]
    return as_called("\n".join(lines))


def usage(program: str, flags: Sequence[Flag]) -> str:
    """Usage of a command: its positional arguments, what else it needs, flags."""
    words = [_positional(flag) for flag in flags if flag.positional]
    words += [f"{flag.names[0]} {flag.metavar}" for flag in flags if flag.required and not flag.positional]
    return " ".join([program, *words, "[FLAGS]"])


def described(text: str) -> list[str]:
    """A docstring, its paragraphs and the points of its lists wrapped, its examples in lines of their own."""
    merged: list[str] = []
    for line in re.sub(r" *\\\n *", " ", text).splitlines():  # examples in several lines become one
        if (
            merged
            and merged[-1]
            and line
            and not (_EXAMPLE.match(merged[-1]) or _EXAMPLE.match(line) or _POINT.match(line))
        ):
            merged[-1] += f" {line}"
        else:
            merged.append(line)
    lines: list[str] = []
    for line in merged:
        lines += continued(as_called(line.strip())) if _EXAMPLE.match(line) else _wrapped(line, "") or [""]
    return lines


def continued(command: str) -> list[str]:
    """A command line, in several where it is long: before flags, by backslashes, so that it can be pasted."""
    first, *flags = re.split(r" (?=--)", command)
    lines = [f"  {first}"]
    for flag in flags:
        if len(lines[-1]) + len(flag) + 3 <= WIDTH:
            lines[-1] += f" {flag}"
        else:
            lines[-1] += " \\"
            lines.append(f"      {flag}")
    return lines


def entry(flag: Flag, *, everything: bool) -> list[str]:
    """A flag: its names, its value, what it does, its default."""
    text = flag.text if everything else first_sentence(flag.text)
    default, bound = "" if flag.required else _default(flag), flag.bound if everything else ""
    if facts := "; ".join(fact for fact in (bound, default) if fact):
        text = f"{text.removesuffix('.')} ({facts})"
    metavar = "" if len(flag.metavar) > WIDTH - 8 else flag.metavar  # too many choices: the text has them
    head = _positional(flag) if flag.positional else f"{', '.join(flag.names)} {metavar}".rstrip()
    body = _wrapped(text, " " * COLUMN)
    if len(head) + 4 > COLUMN or not body:
        return [*_wrapped(head, "  "), *body]
    return [f"  {head}".ljust(COLUMN) + body[0][COLUMN:], *body[1:]]


def first_sentence(text: str) -> str:
    """A text up to its first full stop."""
    return re.split(r"(?<=\.)\s+(?=[A-Z0-9-])", text, maxsplit=1)[0]


def _default(flag: Flag) -> str:
    """A default in the words of a command line; empty where there is none to show."""
    value = flag.default
    if value is True:
        return f"default: yes; {flag.accepted[-1]} for no"
    if value is None or value is False or value in ((), "", [], {}):
        return ""
    return f"default: {' '.join(map(_plain, value)) if isinstance(value, list | tuple) else _plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _positional(flag: Flag) -> str:
    name = f"{flag.names[0]} ..." if flag.metavar.endswith("...") else flag.names[0]
    return name if flag.required else f"[{name}]"


def _hidden(groups: Iterable[str]) -> list[str]:
    """Note on the flags that a short help leaves out; the configs among them may not be loaded yet."""
    outer = dict.fromkeys(group.partition(".")[0] for group in groups)
    among = f", those of {' and '.join(f'{group}.*' for group in outer)} among them," if outer else ""
    return ["", *_wrapped(f"{ALL} shows the other flags{among} and says more of these.", "")]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
