"""`embodied COMMAND`, or `python -m embodied COMMAND`: every command by one name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from embodied import __version__
from embodied.cli.commands import COMMANDS, GROUPS, call, program
from embodied.errors import UnknownNameError, guard

HELP = ("-h", "--help", "help")


@guard
def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help", *words[2:]]
    if not words or words[0] in HELP:
        print(overview())
        return 0
    if words[0] == "--version":
        print(f"embodied {__version__}")
        return 0
    if words[0] not in COMMANDS:
        raise UnknownNameError("command", words[0], COMMANDS)
    return call(COMMANDS[words[0]], words[1:])


def overview() -> str:
    """All commands, a line each, in groups."""
    width = max(map(len, COMMANDS))
    lines = [
        f"usage: {program()} COMMAND [ARGUMENTS]",
        "",
        "Batched simulation of robots, learning, and the way to a robot.",
    ]
    for heading, commands in GROUPS.items():
        lines += ["", heading, *(f"  {command.name:<{width}}  {command.summary}" for command in commands)]
    lines += ["", f"{program()} COMMAND --help says what people set, --help-all everything."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
