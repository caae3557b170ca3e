"""The way of a setting from the command line to the learner: functions of ours that return it, alone or in a config.

Calls `embodied.train` with a number that occurs nowhere else and counts the returns whose value holds it, until the
learner's first rollout. A return is counted once for each call; generated `__init__`s and properties that return the
bare number are not, for reading a setting is no station on its way.

    python -m benchmarks.setting_way --json benchmarks/results/setting_way.json
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from embodied import cli

ROOT = str(Path(__file__).resolve().parent.parent)
PACKAGES = tuple(f"{ROOT}/{name}/" for name in ("embodied", "policies", "tasks", "sim2real"))
CASES = {
    "--ppo.gamma 0.987123": ("0.987123", 0.987123),
    "--episode-steps 137": ("137", 137),
}
"""Flag of a training of `swarm/hover` -> its text, and its value."""
DEEPEST = 5  # configs within configs


class Reached(BaseException):
    """The learner was reached; not an `Exception`, so that no command turns it into a message."""


def holds(value: Any, mark: tuple[str, Any], depth: int = 0) -> bool:
    """Whether a value is the setting, or has it in a field, an item or a word."""
    if isinstance(value, str):
        return value == mark[0]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value == mark[1]
    if depth == DEEPEST:
        return False
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts: Any = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = value
    else:
        return False
    return any(holds(part, mark, depth + 1) for part in parts)


def stations(words: list[str], mark: tuple[str, Any]) -> collections.Counter[str]:
    """Function -> number of its returns that hold the setting."""
    found: collections.Counter[str] = collections.Counter()

    def note(frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGES):
            return
        if event == "call" and code.co_name == "iterate":
            raise Reached
        if event == "return" and value is not None and holds(value, mark):
            found[f"{code.co_filename.removeprefix(ROOT + '/')}:{code.co_qualname}"] += 1

    from embodied.train import main

    try:
        sys.setprofile(note)
        main(words)
    except Reached:
        pass
    finally:
        sys.setprofile(None)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for flag, mark in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            place = ["--num-envs", "16", "--steps", "4096", "--evaluate-episodes", "0", "--out", f"{folder}/run"]
            found = stations(["swarm/hover", *flag.split(), *place], mark)
        rows.append({"flag": flag, "returns": found.total(), "functions": dict(found.most_common())})
        print(
            f"{flag}: {found.total()} returns", *(f"  {count} {name}" for name, count in found.most_common()), sep="\n"
        )
    cli.write_result(given.json, cli.command_line("benchmarks.setting_way"), {"results": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
