"""Scores of a file of answers, for any benchmark: each kind of question brings its own measure.

    BENCHMARK = Benchmark("clutter", FORMAT, MEASURES)
    report = score_answers(answers, folder, BENCHMARK)
    score_command("tasks.questions.clutter.score", BENCHMARK)

A question without an answer that can be read counts as the measure's worst. Every score is a mean over questions, given
for each group of questions (a difficulty) too; `balanced` is the mean over the groups, so that rare ones count as much.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from embodied import cli
from embodied.errors import EmbodiedError, guard, reason


def load_truth(benchmark: Path, version: int, what: str) -> dict[str, dict[str, Any]]:
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
    """A file's content; an `EmbodiedError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmbodiedError(f"cannot read '{path}': {reason(error)}") from error


def parse_answers(data: bytes, known: Mapping[str, Any]) -> tuple[dict[str, tuple[int, Any]], list[str]]:
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


def parse_json(answer: Any, begins: str, ends: str) -> Any:
    """An answer as it is, or the JSON that a text holds between the first `begins` and the last `ends`."""
    if not isinstance(answer, str):
        return answer
    start, end = answer.find(begins), answer.rfind(ends)
    if start < 0 or end < start:
        raise ValueError(f"no {begins} ... {ends} in the answer")
    try:
        return json.loads(answer[start : end + 1])
    except (ValueError, RecursionError):
        raise ValueError(f"what is between {begins} and {ends} is not JSON") from None


Scores = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Measure:
    """Measure of answers to one kind of question."""

    score: Callable[[Any, Mapping[str, Any]], Scores]
    """Scores of an answer, given its row of the benchmark's answers; ValueError explains why it cannot be read."""
    worst: Scores
    """Scores of a question without an answer; names of the scores."""


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Benchmark and its measures."""

    name: str
    """For messages."""
    version: int
    """Of its files' format."""
    measures: Mapping[str, Measure]
    """Kind of question -> measure, in the order in which they are reported."""
    group: str = "difficulty"
    """Key of an answer's row whose values are the groups."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Scores, and lines that could not be read."""

    scores: Mapping[str, Mapping[str, float]]
    """Kind -> name -> value: means over questions; `count`, `answered`; of each score also `NAME_GROUP` and
    `NAME_balanced`."""
    problems: tuple[str, ...]
    """One line each, with the line's number in the file of answers."""


@dataclasses.dataclass(frozen=True)
class ScoreSettings:
    """Answers, and their benchmark."""

    answers: Annotated[Path, tyro.conf.Positional]
    """JSON lines {"id": ..., "answer": ...}."""
    benchmark: Annotated[Path, tyro.conf.Positional]
    """Folder that the benchmark was written into."""
    json: Path | None = None
    """File for the scores."""


@guard
def score_command(module: str, benchmark: Benchmark) -> None:
    """Run a command line that scores a file of answers, prints the scores and writes them as JSON."""
    settings = cli.parse(ScoreSettings, None, module)
    show(score_answers(settings.answers, settings.benchmark, benchmark), module, settings.json)


def score_answers(answers: Path, folder: Path, benchmark: Benchmark) -> Report:
    rows_of = load_truth(folder, benchmark.version, benchmark.name)
    said, problems = parse_answers(read(answers), rows_of)
    rows: dict[str, list[tuple[str, Scores]]] = collections.defaultdict(list)
    answered: collections.Counter[str] = collections.Counter()
    for name, row in rows_of.items():
        kind = row["kind"]
        found = benchmark.measures[kind].worst
        if name in said:
            line, answer = said[name]
            try:
                found = benchmark.measures[kind].score(answer, row)
                answered[kind] += 1
            except ValueError as error:
                problems.append(f"line {line}: {name}: {error}")
        rows[kind].append((row[benchmark.group], found))
    scores = {str(kind): _means(rows[kind], answered[kind]) for kind in benchmark.measures if rows[kind]}
    return Report(scores, tuple(problems))


def show(report: Report, module: str, json: Path | None) -> None:
    """Print a report, and write it where a file is given."""
    cli.say(*report.problems)
    cli.show(*(cli.table(kind, _printed(values)) for kind, values in report.scores.items()))
    cli.write_result(json, cli.command_line(module), {"scores": report.scores, "problems": len(report.problems)})


def balanced(scores: Mapping[str, Sequence[float]]) -> float:
    """Mean over groups of the mean score in each; nan without any."""
    means = [float(np.mean(values)) for values in scores.values() if len(values)]
    return float(np.mean(means)) if means else float("nan")


def _means(rows: Sequence[tuple[str, Scores]], answered: int) -> dict[str, float]:
    result = {"count": float(len(rows)), "answered": float(answered)}
    for name in rows[0][1]:
        groups: dict[str, list[float]] = collections.defaultdict(list)
        for group, scores in rows:
            groups[group].append(scores[name])
        result[name] = float(np.mean([scores[name] for _, scores in rows]))
        result[f"{name}_balanced"] = balanced(groups)
        result |= {f"{name}_{group}": float(np.mean(values)) for group, values in groups.items()}
    return result


def _printed(values: Mapping[str, float]) -> dict[str, str]:
    """Each score over all questions, balanced, and in each group."""
    rows = {"questions": f"{values['count']:.0f}, answered {values['answered']:.0f}"}
    for name in values:
        if f"{name}_balanced" in values:
            parts = {key.removeprefix(f"{name}_"): value for key, value in values.items() if key.startswith(f"{name}_")}
            rows[name] = f"{values[name]:.3f}  ({', '.join(f'{part} {value:.3f}' for part, value in parts.items())})"
    return rows
