"""What the command lines share: arguments, progress and tables, JSON results, a clean stop by Ctrl-C."""

from embodied.cli.arguments import flag_value, given, named_task, parse, parse_known, required_task
from embodied.cli.interrupts import Interrupts
from embodied.cli.results import command_line, describe, write_json, write_result
from embodied.cli.terminal import Line, console, number, output, table

__all__ = [
    "Interrupts",
    "Line",
    "command_line",
    "console",
    "describe",
    "flag_value",
    "given",
    "named_task",
    "number",
    "output",
    "parse",
    "parse_known",
    "required_task",
    "table",
    "write_json",
    "write_result",
]
