"""Answers of models: lines {"id": ..., "answer": ...}, the answer as JSON or as text that holds it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, reason


def truth(benchmark: Path, version: int, what: str) -> dict[str, dict[str, Any]]:
    """Question id -> its row of the benchmark's answers.

    Args:
        benchmark: The folder.
        version: Format that can be scored.
        what: Name of the benchmark, for messages.

    Raises:
        EmbodiedError: the folder is not an undamaged benchmark of this format.
    """
    try:
        manifest = json.loads(read(benchmark / "manifest.json"))
        expected = manifest["sha256"]["answers.jsonl"]
        found = manifest["format"]
        if not str(manifest.get("what", what)).startswith(what):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise EmbodiedError(f"'{benchmark / 'manifest.json'}' is not the manifest of a {what} benchmark") from None
    if found != version:
        raise EmbodiedError(f"'{benchmark}' has format {found}; this version scores format {version}")
    data = read(benchmark / "answers.jsonl")
    if hashlib.sha256(data).hexdigest() != expected:
        raise EmbodiedError(f"'{benchmark / 'answers.jsonl'}' is not what the manifest says; write the benchmark again")
    return {row["id"]: row for row in map(json.loads, data.decode().splitlines())}


def read(path: Path) -> bytes:
    """A file's content.

    Raises:
        EmbodiedError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmbodiedError(f"cannot read '{path}': {reason(error)}") from error


def given(data: bytes, known: Mapping[str, Any]) -> tuple[dict[str, tuple[int, Any]], list[str]]:
    """Question id -> line number and answer; and what is wrong with other lines, one line each."""
    found: dict[str, tuple[int, Any]] = {}
    problems = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            name, answer = row["id"], row["answer"]
        except (ValueError, KeyError, TypeError, RecursionError):
            problems.append(f'line {number}: not {{"id": ..., "answer": ...}} in JSON')
            continue
        if not isinstance(name, str) or name not in known:
            problems.append(f"line {number}: no question has the id {str(name)[:60]!r}")
        elif name in found:
            problems.append(f"line {number}: {name} is answered before, in line {found[name][0]}; the first counts")
        else:
            found[name] = (number, answer)
    return found, problems


def parsed(answer: Any, begins: str, ends: str) -> Any:
    """An answer as it is, or the JSON that a text holds between the first `begins` and the last `ends`.

    Raises:
        ValueError: the text holds none.
    """
    if not isinstance(answer, str):
        return answer
    start, end = answer.find(begins), answer.rfind(ends)
    if start < 0 or end < start:
        raise ValueError(f"no {begins} ... {ends} in the answer")
    try:
        return json.loads(answer[start : end + 1])
    except (ValueError, RecursionError):
        raise ValueError(f"what is between {begins} and {ends} is not JSON") from None
