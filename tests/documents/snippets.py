"""The fenced code blocks of README, CONTRIBUTING and docs, and how a test runs them.

A comment before a block says how; without one it runs as it stands:

    <!-- run: no, needs a GPU -->                                 not at all, and why
    <!-- run: by tests/test_robot_page.py -->                      by another test
    <!-- run: slow; with --steps 1536 for embodied.train -->      with the slow tests; flags that shorten a command
    <!-- run: replace TASK => swarm/hover; needs a1; after demos -->

Clauses are separated by semicolons. `replace A => B` is made in the text, `with FLAGS` goes to every command of the
block, or `for MODULE` to one, on top of `SHORTER`. `needs NAME` is a function in `materials.py` that makes files.
`named NAME` and `after NAME` say that a block works on what another one of the page has made. The commands of a page
share a folder, its Python blocks also a namespace; one that is `alone` has a namespace of its own. `exit N N` are the
exit codes that are right. A comment `<!-- run below: ... -->` holds to the end of its section.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import os
import re
import runpy
import select
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
SHELL, PYTHON = "bash", "python"
LANGUAGES = (SHELL, PYTHON, "toml", "csv", "text", "json", "yaml")
"""What a block may be; the first two run."""

SHORTER: Mapping[str, str] = {
    "embodied.bench": "--num-envs 8",
    "embodied.collect": "--episodes 2",
    "embodied.evaluate": "--episodes 2",
    "embodied.play": "--video film.png --seconds 0.1",
    "embodied.train": "--num-envs 32 --steps 1536 --evaluate-episodes 2",
    "policies.demonstrations": "--episodes 2",
    "policies.vla.train": "--steps 2 --evaluate-episodes 0",
    "sim2real.deploy": "--seconds 1 --no-realtime",
}
"""Command -> flags that a test adds to it, in place of its own of the same name."""

PRELUDE = """\
python() { printf '%s\\0' "$#" "$@" > "$ASK"; local code; read -r code < "$ANSWER"; return "$code"; }
embodied() { python -m embodied "$@"; }
"""
"""The shell that runs a block asks the test's own process to run Python's commands: starting one takes seconds."""


@dataclasses.dataclass(frozen=True)
class Directive:
    """How a block runs."""

    reason: str | None = None
    """Why it does not run."""
    by: str | None = None
    """The test that runs it instead."""
    slow: bool = False
    alone: bool = False
    needs: tuple[str, ...] = ()
    name: str | None = None
    after: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    shorter: tuple[tuple[str | None, str], ...] = ()
    """Module, or None for all; flags."""
    codes: tuple[int, ...] = (0,)


def directive(text: str) -> Directive:
    """Parse the clauses of a comment.

    Raises:
        ValueError: a clause that does not exist.
    """
    values: dict[str, Any] = {}
    for clause in filter(None, (part.strip() for part in text.split(";"))):
        word, _, rest = clause.partition(" ")
        word, rest = word.rstrip(","), rest.strip()
        if word == "no" and rest:
            values["reason"] = rest
        elif word in ("slow", "alone") and not rest:
            values[word] = True
        elif word == "by" and rest:
            values["by"] = rest
        elif word == "named" and rest:
            values["name"] = rest
        elif word in ("needs", "after") and rest:
            values[word] = (*values.get(word, ()), *rest.split())
        elif word == "exit" and rest:
            values["codes"] = tuple(map(int, rest.split()))
        elif word == "replace" and "=>" in rest:
            before, _, behind = rest.partition("=>")
            values["replaced"] = (*values.get("replaced", ()), (before.strip(), behind.strip()))
        elif word == "with" and rest:
            flags, _, module = rest.partition(" for ")
            values["shorter"] = (*values.get("shorter", ()), (module.strip() or None, flags.strip()))
        else:
            raise ValueError(f"a block cannot run '{clause}'; see {Path(__file__).name}")
    return Directive(**values)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """Of the first line of its text, from 1."""
    language: str
    text: str
    """As it stands, without the indentation of the list that it is in."""
    how: Directive
    section: str = ""
    """Heading that it stands under."""

    @property
    def place(self) -> str:
        """Where a reader finds it."""
        inside = self.page.is_relative_to(ROOT)
        return f"{self.page.relative_to(ROOT) if inside else self.page.name}:{self.line}"

    @property
    def code(self) -> str:
        """What runs: the text with the directive's replacements."""
        code = self.text
        for before, behind in self.how.replaced:
            if before not in code:
                raise ValueError(f"{self.place}: there is no '{before}' to replace")
            code = code.replace(before, behind)
        return code

    @property
    def runs(self) -> bool:
        """Whether `Workspace` runs it."""
        return self.language in (SHELL, PYTHON) and self.how.reason is None and self.how.by is None


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in their order.

    Raises:
        ValueError: a block that does not end, or a comment that says what does not exist.
    """
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    here: str | None = None  # the comment that stands before the next block
    below, depth = "", 0  # the comment that holds to the end of the section, and that section's depth
    section, index = "", 0
    while index < len(lines):
        line = lines[index]
        if heading := re.match(r"(#+) (.*)", line):
            section = heading[2]
            below = below if len(heading[1]) > depth else ""
            depth = depth if below else len(heading[1])
        if comment := re.match(r" *<!-- run( below)?: (.*?) *-->$", line):
            if comment[1]:
                below = comment[2]
            else:
                here = comment[2]
        elif fence := re.match(r"( *)(```+)(\w*)", line):
            end = next((n for n in range(index + 1, len(lines)) if lines[n].strip() == fence[2]), None)
            if end is None:
                raise ValueError(f"{page.name}:{index + 1}: a code block that does not end")
            text = textwrap.dedent("\n".join(lines[index + 1 : end])) + "\n"
            found.append(Block(page, index + 2, fence[3], text, directive(below if here is None else here), section))
            index, here = end, None
        elif line.strip() and not line.lstrip().startswith("<!--"):
            here = None
        index += 1
    return found


def wanted(block: Block, blocks: Sequence[Block]) -> list[Block]:
    """What of a page's blocks has to run before one of them: named ones, and what defines the names of Python's."""
    named = {other.how.name: other for other in blocks if other.how.name}
    found = [named[name] for name in block.how.after]
    if block.language == PYTHON and not block.how.alone:
        before = blocks[: blocks.index(block)]
        found += [other for other in before if other.language == PYTHON and other.runs and not other.how.alone]
    return found


def is_slow(block: Block, blocks: Sequence[Block]) -> bool:
    """Whether a block, or what has to run before it, is slow."""
    return block.how.slow or any(is_slow(other, blocks) for other in wanted(block, blocks))


class Workspace:
    """The folder and the namespace that the blocks of a page share."""

    def __init__(self, page: Path, folder: Path, materials: Mapping[str, Any]) -> None:
        """Take an empty folder; a name in `materials` stands for a function that makes files in the present one."""
        self.blocks, self.folder, self.materials = blocks_of(page), folder, materials
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.done: set[Any] = set()
        self.begun: set[Block] = set()
        for name in ("examples", "assets", "benchmarks"):
            (folder / name).symlink_to(ROOT / name)

    def run(self, block: Block) -> None:
        """Run a block, and before it what it needs, each once.

        Raises:
            AssertionError: a command ended with another exit code than the page says.
        """
        if block in self.done:
            return
        assert block not in self.begun, f"{block.place}, which is needed here, has failed"
        for other in wanted(block, self.blocks):
            self.run(other)
        with contextlib.chdir(self.folder):
            for name in block.how.needs:
                if name not in self.done:
                    self.materials[name]()
                    self.done.add(name)
            self.begun.add(block)
            if block.language == PYTHON:
                namespace = {"__name__": "__main__"} if block.how.alone else self.namespace
                code = "\n" * (block.line - 1) + block.code
                exec(compile(code, str(block.page), "exec"), namespace)
            else:
                run_shell(block, self.folder)
        self.done.add(block)


def run_shell(block: Block, folder: Path) -> None:
    """Run a block in bash, whose calls of Python come back to this process, in the present folder."""
    ask, answer = folder / ".ask", folder / ".answer"
    for pipe in (ask, answer):
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
    environment = {**os.environ, "ASK": str(ask), "ANSWER": str(answer)}
    script = f"{PRELUDE}set -euo pipefail\n{block.code}"
    # Both ends of both pipes stay open here: none of the shell's openings waits, or meets an end of file.
    reading, writing = os.open(ask, os.O_RDWR | os.O_NONBLOCK), os.open(answer, os.O_RDWR)
    process = subprocess.Popen(["bash", "-c", script], env=environment, text=True, stderr=subprocess.PIPE)
    try:
        for words in asked(reading, process):
            code = run_python(words, block)
            assert code in block.how.codes, f"{block.place}: {shlex.join(words)} ended with {code}"
            os.write(writing, b"0\n")
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait() == 0, f"{block.place}: {said.strip()}"
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


def asked(reading: int, process: subprocess.Popen[str]) -> Iterator[list[str]]:
    """The commands that the shell asks for, until it ends."""
    rest = b""
    while True:
        if select.select([reading], [], [], 0.05)[0]:
            rest += os.read(reading, 65536)
            count, _, words = rest.partition(b"\0")
            parts = words.split(b"\0")
            if count and len(parts) > int(count):
                rest = b"\0".join(parts[int(count) :])
                yield [part.decode() for part in parts[: int(count)]]
        elif process.poll() is not None:
            return


def resolved(words: Sequence[str]) -> tuple[str, list[str]]:
    """Module and arguments of the words after `python`.

    Raises:
        ValueError: neither a module nor a file.
    """
    if words[:1] == ["-m"]:
        module, arguments = words[1], list(words[2:])
        if module == "embodied" and arguments and arguments[0] in COMMANDS:
            command = COMMANDS[arguments[0]]
            return command.module, [*command.arguments, *arguments[1:]]
        return module, arguments
    if words and words[0].endswith(".py"):
        return words[0], list(words[1:])
    raise ValueError(f"python {shlex.join(words)}: expected -m MODULE or FILE.py")


def shortened(arguments: Sequence[str], flags: str) -> list[str]:
    """Arguments in which some flags stand in place of their own of the same name."""
    added = shlex.split(flags)
    names = {word for word in added if word.startswith("--")}
    kept: list[str] = []
    dropping = False
    for word in arguments:
        if word.startswith("--"):
            dropping = word in names
        if not dropping:
            kept.append(word)
    return [*kept, *added]


def run_python(words: Sequence[str], block: Block) -> int:
    """Run one of Python's commands in this process; returns its exit code."""
    module, arguments = resolved(words)
    for name, flags in ((module, SHORTER.get(module, "")), *block.how.shorter):
        if name in (None, module):
            arguments = shortened(arguments, flags)
    before, sys.argv = sys.argv, [module, *arguments]
    try:
        if module.endswith(".py"):
            runpy.run_path(module, run_name="__main__")
            return 0
        return main_of(module)(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv = before


def main_of(module: str) -> Any:
    """The function that `python -m MODULE` calls.

    Raises:
        LookupError: there is no such command.
    """
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    if spec is None:
        raise LookupError(f"python -m {module}: there is no such module")
    if spec.submodule_search_locations is not None:
        module = f"{module}.__main__"
    main = getattr(importlib.import_module(module), "main", None)
    takes_words = main is not None and inspect.signature(main).parameters
    return main if takes_words else functools.partial(run_as_program, module)


def run_as_program(module: str, arguments: Sequence[str]) -> int:
    """Run a module whose command is not a function; returns its exit code, or leaves by `SystemExit`."""
    before, sys.argv = sys.argv, [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.argv = before
    return 0


def commands_of(block: Block, folder: Path) -> list[list[str]]:
    """The words after `python` of every command in a shell block, expanded as the shell does it in a folder."""
    script = textwrap.dedent(
        """\
        python() { printf '%s\\0' "$#" "$@"; }
        embodied() { python -m embodied "$@"; }
        python3() { :; }; pip() { :; }; make() { :; }; torchrun() { :; }; command_not_found_handle() { :; }
        """
    )
    done = subprocess.run(["bash", "-c", script + block.code], capture_output=True, check=False, cwd=folder)
    words, found = done.stdout.decode().split("\0")[:-1], []
    while words:
        count = int(words[0])
        found.append(words[1 : count + 1])
        words = words[count + 1 :]
    return found
