"""What the command lines share: arguments, progress and tables, JSON results, a clean stop by Ctrl-C."""

from embodied.cli.arguments import flag_value, given, named_task, parse, required_task
from embodied.cli.interrupts import Interrupts
from embodied.cli.results import command_line, write_json, write_result
from embodied.cli.terminal import Line, console, number, table

__all__ = [
    "Interrupts",
    "Line",
    "command_line",
    "console",
    "flag_value",
    "given",
    "named_task",
    "number",
    "parse",
    "required_task",
    "table",
    "write_json",
    "write_result",
]
