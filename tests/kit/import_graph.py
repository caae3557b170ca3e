"""Which file of the repository knows which: imports, and names of tasks and modules in strings."""

from __future__ import annotations

import ast
import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from embodied.env.registry import join_content
from tests.kit.budget import sharing

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("embodied", "policies", "tasks", "sim2real")
"""The library."""
FURTHER = ("tests", "benchmarks", "examples")
CACHE = ROOT / ".cache" / "import_graph.json"
WORD = re.compile(r"[\w./:-]{3,80}")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the library, by its name."""
    return modules_of(PACKAGES)


@functools.cache
def all_modules() -> dict[str, Path]:
    """The same with tests, benchmarks and examples."""
    return modules_of((*PACKAGES, *FURTHER))


def modules_of(tops: Iterable[str]) -> dict[str, Path]:
    return {module_name(path): path for top in tops for path in sorted((ROOT / top).rglob("*.py"))}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True)
class Scan:
    """What a file names."""

    imported: tuple[tuple[str, str], ...]
    """Module, and what of it; nothing in `import module`. In functions and for types as well."""
    words: tuple[str, ...]
    """Strings of one word, and words of strings: tasks and modules are among them."""


@functools.cache
def scanned(path: Path) -> Scan:
    found, words = [], set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words |= set(WORD.findall(node.value))
    return Scan(tuple(found), tuple(sorted(words)))


def imported(scan: Scan, known: Mapping[str, Path]) -> Iterator[str]:
    """Every known module that a file imports."""
    for module, name in scan.imported:
        submodule = f"{module}.{name}"
        if (which := submodule if submodule in known else module) in known:
            yield which


@functools.cache
def imports() -> dict[str, frozenset[str]]:
    """Module of the library -> the others that it imports."""
    with sharing("imports of the library"):
        return {name: frozenset(imported(scanned(path), modules())) - {name} for name, path in modules().items()}


@functools.cache
def task_modules() -> dict[str, str]:
    """Task, with its family and without, -> the module of its class."""
    registry = join_content()
    whole = {name: registry[name].target.partition(":")[0] for name in registry}
    return {name.rpartition("/")[2]: module for name, module in whole.items()} | whole


def named(scan: Scan) -> set[str]:
    """Modules that strings of a file name, by themselves, as `module:object` or by a task."""
    tasks, words = task_modules(), set(scan.words)
    return {tasks[word] for word in words & tasks.keys()} | {word.partition(":")[0] for word in words}


def scans() -> dict[str, Scan]:
    """Every module -> what it names; kept on disk, since parsing a thousand files takes longer than most tests."""
    with sharing("imports of all files"):
        return _scans()


def _scans() -> dict[str, Scan]:
    kept: dict[str, Any] = json.loads(CACHE.read_text(encoding="utf-8")) if CACHE.exists() else {}
    found, keep = {}, {}
    for name, path in all_modules().items():
        state = path.stat()
        stamp = [state.st_mtime_ns, state.st_size]
        known = kept.get(name)
        scan = Scan(tuple(map(tuple, known[1])), tuple(known[2])) if known and known[0] == stamp else scanned(path)
        found[name], keep[name] = scan, (stamp, scan.imported, scan.words)
    CACHE.parent.mkdir(exist_ok=True)
    CACHE.write_text(json.dumps(keep), encoding="utf-8")
    return found


@dataclasses.dataclass(frozen=True)
class Reach:
    """How far files are from a change: 0 what changed, 1 what imports it, and so on."""

    distances: Mapping[str, int]
    """Module -> imports between it and the change."""

    def tests(self) -> list[tuple[int, str]]:
        """Distance and path of every test file that reaches the change, nearest first."""
        known = all_modules()
        found = ((distance, known[name]) for name, distance in self.distances.items())
        return sorted(
            (distance, path.relative_to(ROOT).as_posix()) for distance, path in found if path.name.startswith("test_")
        )

    def tasks(self) -> dict[str, int]:
        """Registered tasks whose class reaches the change, and their distance."""
        modules = task_modules()
        return {name: self.distances[modules[name]] for name in join_content() if modules[name] in self.distances}


def reach(changed: Iterable[Path]) -> Reach:
    """What knows the changed files, by way of others too; packages know the modules that they import, not all."""
    known = all_modules()
    users: dict[str, set[str]] = {name: set() for name in known}
    for name, scan in scans().items():
        others = set(imported(scan, known)) | (named(scan) if name.startswith("tests.") else set())
        for other in others & known.keys() - {name}:
            users[other].add(name)
    distances = {module_name(path): 0 for path in changed if path.suffix == ".py" and path.is_relative_to(ROOT)}
    ring = [name for name in distances if name in known]
    while ring:
        following = {user for name in ring for user in users[name]} - distances.keys()
        distances |= dict.fromkeys(following, distances[ring[0]] + 1)
        ring = sorted(following)
    return Reach(distances)
