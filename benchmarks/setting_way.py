"""The way of a setting from the command line to the learner: how often it comes back to a module that it had left.

Calls `embodied.train` with a number that occurs nowhere else and follows the calls of our functions that have it among
their arguments, by itself, in a config or as a word of the command line, until the learner's first rollout. A *stay* is
a stretch of calls and returns within one module; a *return* is a stay in a module that was left before.

    python -m benchmarks.setting_way --json benchmarks/results/package/setting-way.json
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from embodied import cli

ROOT = str(Path.cwd())
PACKAGES = tuple(f"{ROOT}/{name}/" for name in ("embodied", "policies", "tasks", "sim2real"))
CASES = {"--ppo.gamma 0.987123": ("0.987123", 0.987123), "--episode-steps 137": ("137", 137)}
"""Flag of a training of `swarm/hover` -> its text, and its value."""
DEEPEST = 5  # configs within configs
Mark = tuple[str, Any]


class Reached(BaseException):
    """The learner was reached; not an `Exception`, so that no command turns it into a message."""


def holds(value: Any, mark: Mark, depth: int = 0) -> bool:
    """Whether a value is the setting, or has it in a field, an item or a word."""
    if isinstance(value, str | int | float):
        return not isinstance(value, bool) and value in mark
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts: Any = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = value
    else:
        parts = [getattr(value, "settings", None)] if type(value).__name__ == "TaskSession" else []
    return depth < DEEPEST and any(holds(part, mark, depth + 1) for part in parts)


def stays(words: list[str], mark: Mark) -> list[str]:
    """Modules in the order in which the setting comes to them."""
    visited: list[str] = []
    carrying: list[bool] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGES) or event not in ("call", "return"):
            return
        if event == "call":
            if code.co_name == "iterate":
                raise Reached
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            carrying.append(any(holds(frame.f_locals.get(name), mark) for name in arguments))
            if carrying[-1]:
                visited.append(code.co_filename)
        elif carrying and carrying.pop():
            caller = frame.f_back
            while caller is not None and not caller.f_code.co_filename.startswith(PACKAGES):
                caller = caller.f_back
            if caller is not None:
                visited.append(caller.f_code.co_filename)

    from embodied.train import main

    try:
        sys.setprofile(note)
        main(words)
    except Reached:
        pass
    finally:
        sys.setprofile(None)
    return [module.removeprefix(f"{ROOT}/") for module, _ in itertools.groupby(visited)]


def main() -> int:
    """Print, and write, the stays and returns of each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for flag, mark in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            place = ["--num-envs", "16", "--steps", "4096", "--evaluate-episodes", "0", "--out", f"{folder}/run"]
            found = stays(["swarm/hover", *flag.split(), *place], mark)
        modules = len(set(found))
        rows.append({"flag": flag, "stays": len(found), "modules": modules, "returns": len(found) - modules})
        print(rows[-1])
    cli.write_result(given.json, cli.command_line("benchmarks.setting_way"), {"results": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
