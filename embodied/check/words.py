"""Checks of a task's descriptions: docstrings, instructions, options, its image in a mirror."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

from embodied.check.findings import Finding, place_of
from embodied.cli.flags import field_texts
from embodied.core.task import Task
from embodied.errors import EmbodiedError
from embodied.storage.configs import from_json, to_json


def the_task_is_said_in_words(task: Task[Any]) -> Iterator[Finding]:
    """In a docstring, and in instructions of which no two are the same."""
    kind = type(task.unwrapped)
    said = task.language.instructions if task.language else ()
    if not said:
        yield Finding("language", "there is none", 'the task in words: language = Language.of("Reach the red point.")')
    elif not all(isinstance(text, str) and text.strip() for text in said) or len(set(said)) != len(said):
        yield Finding("language", f"{said!r}", "words, no two of them the same")
    if not inspect.getdoc(kind):
        yield Finding(f"class {kind.__name__}", "it has no docstring", "what the robot does, success and failure")


FILLERS = ("", "of", "the", "to", "in", "at", "on", "by", "and", "for", "from")
"""Words of a term's name that any docstring has."""


def observations_are_documented(task: Task[Any]) -> Iterator[Finding]:
    """Each group by its name, each term by the start of a word of its name ('rotors': 'rotor speeds')."""
    text = documented(type(task.unwrapped))
    for group, terms in task.observation_terms.items():
        if f"`{group}`" not in text:
            yield Finding(
                f"observation group {group!r}", "the docstring of observe does not name it", f"`{group}`: ..."
            )
        for term in terms:
            words = [word for word in term.split("_") if word not in FILLERS] or [term]
            if not any(re.search(rf"\b{re.escape(word[:4])}", text) for word in words):
                yield Finding(
                    f"observation {group}/{term}", "the docstring of observe does not name it", "its size and unit"
                )


def a_mirror_shows_every_observed_term(task: Task[Any]) -> Iterator[Finding]:
    """A task's mirror covers each observed term, with its length, and the action."""
    try:
        mirror = task.mirror
    except EmbodiedError:  # a robot from a file that is not symmetric
        return
    if mirror is None:
        return
    try:
        mirror.of_groups(task.observation_terms)
    except EmbodiedError as error:
        yield Finding("mirror", str(error), "every observed term", place_of(task, "mirror"))
    if len(mirror.action) != task.action_size:
        yield Finding(
            "mirror", f"it reflects actions of {len(mirror.action)} numbers", f"{task.action_size}",
            place_of(task, "mirror"),
        )  # fmt: skip


def options_are_documented(task: Task[Any]) -> Iterator[Finding]:
    """Every field of the config has a docstring below it, which --help shows."""
    for field in undocumented(type(task.config)):
        yield Finding(f"option {field}", "it has no docstring", "a line below the field, which --help shows")


def options_survive_the_way_to_a_file_and_back(task: Task[Any]) -> Iterator[Finding]:
    """A run keeps them as JSON, and goes on with the same ones."""
    kind, config = type(task.config), task.config
    try:
        read = from_json(kind, json.loads(json.dumps(to_json(config), allow_nan=False)))
    except (EmbodiedError, TypeError, ValueError) as error:
        yield Finding(
            f"options {kind.__name__}", f"they cannot be kept as JSON: {error}", "numbers, words, lists of them"
        )
        return
    if read != config:
        fields = [
            field.name for field in dataclasses.fields(kind) if getattr(read, field.name) != getattr(config, field.name)
        ]
        yield Finding(f"options {', '.join(fields)}", "they come back from JSON as others", "types that JSON has")


def documented(kind: type[Any]) -> str:
    """Docstrings of a task and its bases, of `observe` and of the methods that its docstring names."""
    own = inspect.getdoc(kind.observe) or ""
    methods = ["observe", *re.findall(r"`(\w+)`", own)]
    said = [inspect.getdoc(getattr(base, name, None)) or "" for base in kind.__mro__ for name in methods]
    return " ".join([inspect.getdoc(kind) or "", *said]).lower()


def undocumented(config: type) -> list[str]:
    """Fields, also of nested dataclasses, without a docstring below them."""
    found, fields = field_texts(config), dataclasses.fields(config)
    missing = [f"{config.__name__}.{field.name}" for field in fields if field.name not in found]
    for field in fields:
        nested = type(field.default)
        missing += undocumented(nested) if dataclasses.is_dataclass(nested) else []
    return missing
