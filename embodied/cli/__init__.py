"""Parts of the command lines: arguments, help, notes, progress, tables, results as JSON, a clean stop by Ctrl-C."""

from embodied.cli.arguments import (
    answer_early,
    asks_for_help,
    flag_value,
    given,
    named_task,
    parse,
    parse_known,
    required_task,
    task_and_policy,
)
from embodied.cli.interrupts import Interrupts
from embodied.cli.results import command_line, describe, study_of, write_json, write_result
from embodied.cli.tables import Table, show, table
from embodied.cli.terminal import COMPILING, Line, console, number, output, say
from embodied.storage.configs import Rare

__all__ = [
    "COMPILING",
    "Interrupts",
    "Line",
    "Rare",
    "Table",
    "answer_early",
    "asks_for_help",
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
    "say",
    "show",
    "study_of",
    "table",
    "task_and_policy",
    "write_json",
    "write_result",
]
