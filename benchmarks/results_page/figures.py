"""Figures in the prose of README and docs: links to the file that a figure stands in, whose titles give its place.

    it holds its point in [97.3 %](../benchmarks/results/swarm/hover/train-seed0.json "success: .1%")

A title is the keys, outermost first, with ` > ` between them, a colon, and how the number is written: Python's format,
then `*1000` or `/60` where another unit is shown, then `with interval` where `KEY_low` and `KEY_high` are shown, too.
In a list, a key is an index, `NAME=VALUE` (several with ` & `) of the first entry that has it, or `*`: all, of which
the mean is shown. `python -m benchmarks.results_page` writes the links' texts.

Links keep the text beside a figure readable Markdown. Comments around each number were less readable, and a template of
a page would be a second source of its prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_page.records import RESULTS, ROOT, Record

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
FIGURE = re.compile(
    r'\[(?P<text>[^\]\[]*)\](?P<link>\(\S*benchmarks/results/(?P<file>[\w./-]+)\.json "(?P<title>[^"]*)"\))'
)
INTERVAL = " with interval"
SCALED = re.compile(r"(.*?)([*/])([\d.e]+)")


class FigureError(Exception):
    """A title that names what its file does not have."""


def refreshed(page: Path, results: Mapping[str, Record]) -> str:
    """The text of a page in which every figure is that of its file.

    Raises:
        FigureError: a figure whose file, key or format does not exist.
    """

    def written(match: re.Match[str]) -> str:
        try:
            text = shown(result_of(match["file"], results), match["title"])
        except (KeyError, ValueError, IndexError, TypeError, OSError) as error:
            raise FigureError(f'{page.name}: {match["file"]}.json has no "{match["title"]}" ({error!r})') from error
        same = text.split() == match["text"].split()  # a line may break in it
        return match[0] if same else f"[{text}]{match['link']}"

    return FIGURE.sub(written, page.read_text(encoding="utf-8"))


def result_of(file: str, results: Mapping[str, Record]) -> Record:
    """A result by its file's name, with folders below benchmarks/results and without its end."""
    return results.get(file) or json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))


def shown(record: Record, title: str) -> str:
    """A number of a result, as its title specifies."""
    path, _, how = title.rpartition(": ")
    keys = path.split(" > ")
    whole = how.removesuffix(INTERVAL)
    text = number(at(record, keys), whole)
    if whole == how:
        return text
    low, high = (number(at(record, [*keys[:-1], f"{keys[-1]}_{end}"]), whole) for end in ("low", "high"))
    return f"{text} ({low.removesuffix(' %')} to {high.removesuffix(' %')})"


def at(value: Any, keys: Sequence[str]) -> float:
    """Number below some keys."""
    for index, key in enumerate(keys):
        if isinstance(value, Mapping):
            value = value[key]
        elif key == "*":
            return float(np.mean([at(entry, keys[index + 1 :]) for entry in value]))
        elif "=" in key:
            wanted = dict(part.split("=", 1) for part in key.split(" & "))
            value = next(
                (entry for entry in value if all(str(entry.get(name)) == said for name, said in wanted.items())), None
            )
        else:
            value = value[int(key)]
    return value


def number(value: float, how: str) -> str:
    """A number in Python's format, scaled by what follows it; a space before the percent sign."""
    scaled = SCALED.fullmatch(how)
    spec, sign, scale = scaled.groups() if scaled else (how, "/", "1")
    shown_value = value * float(scale) if sign == "*" else value / float(scale)
    return format(round(shown_value) if spec.endswith("d") else shown_value, spec).replace("%", " %")
