"""The table of the learners, Markdown, written from the cells' files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


def markdown(records: Sequence[Record]) -> str:
    """The table."""
    lines = []
    for record in records:
        found = record["evaluation"]
        lines.append(
            f"{record['task']} {record['method']} {record['demonstrations']} seed {record['seed']}: "
            f"{100 * found['success']:.0f} / {100 * found['success_any']:.0f} %, {record['env_steps']} steps, "
            f"{record['core_minutes']:.1f} core-minutes"
        )
    return "\n".join(lines)
