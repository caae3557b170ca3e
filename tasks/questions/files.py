"""A benchmark's files: one new folder, every file listed with its digest, plain JSON and JSON lines.

files = Files(folder)
files.write("scenes/0000/scene.json", document(scene))
files.write("answers.jsonl", lines(rows))
files.write("manifest.json", document({"format": 1, "sha256": files.digests}), listed=False)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, reason


class Files:
    """Writes into one folder, and keeps the files' digests."""

    def __init__(self, folder: Path) -> None:
        """Make it.

        Raises:
            EmbodiedError: it holds something already, or cannot be made.
        """
        self.folder, self.digests = folder, dict[str, str]()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            taken = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            raise EmbodiedError(f"cannot write into '{folder}': {reason(error)}") from error
        if taken:
            raise EmbodiedError(f"'{folder}' is not empty (it holds {taken[0]!r}); expected a new folder")

    def write(self, name: str, data: bytes, listed: bool = True) -> None:
        """Write one file; `name` is its path in the folder.

        Raises:
            EmbodiedError: it cannot be written.
        """
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise EmbodiedError(f"cannot write '{path}': {reason(error)}") from error
        if listed:
            self.digests[name] = hashlib.sha256(data).hexdigest()


def document(content: Mapping[str, Any]) -> bytes:
    """One JSON document."""
    return (json.dumps(content, indent=1) + "\n").encode()


def lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
