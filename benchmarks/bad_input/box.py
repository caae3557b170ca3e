"""The folder of one case: where it works, and what is watched around it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

SMALL = 1 << 20  # bytes of which the content is compared


@dataclasses.dataclass(frozen=True)
class Box:
    """Folders of a case.

    The case runs in `work`, whose folder `out` alone may be written; HOME and TMPDIR point at folders beside it, and
    `precious` holds files that nobody named.
    """

    root: Path
    good: Path
    """Valid examples, one of each kind; read, never written."""

    @property
    def work(self) -> Path:
        """The working folder."""
        return self.root / "work"

    @property
    def out(self) -> Path:
        """Where results may be written."""
        return self.work / "out"

    @property
    def precious(self) -> Path:
        """A folder of somebody else."""
        return self.root / "precious"

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Make the folders, work in them, and leave everything as it was."""
        for folder in (self.work, self.out, self.root / "home", self.root / "tmp", self.precious):
            folder.mkdir(parents=True)
        (self.precious / "thesis.txt").write_text("ten years of work\n")
        before, variables = Path.cwd(), {name: os.environ.get(name) for name in ("HOME", "TMPDIR")}
        os.chdir(self.work)
        os.environ.update(HOME=str(self.root / "home"), TMPDIR=str(self.root / "tmp"))
        os.environ.setdefault("MPLCONFIGDIR", str(self.root.parent / "matplotlib"))  # whose caches are not ours
        tempfile.tempdir = None
        try:
            yield
        finally:
            os.chdir(before)
            for name, value in variables.items():
                os.environ.pop(name, None)
                os.environ.update({} if value is None else {name: value})
            tempfile.tempdir = None
            shutil.rmtree(self.root, ignore_errors=True)

    def copied(self, name: str, to: str = "") -> Path:
        """A copy of a valid example in the working folder."""
        source, target = self.good / name, self.work / (to or Path(name).name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy(source, target)
        return target

    def content(self) -> dict[str, object]:
        """What is in the box, except under `out` and in the documented cache: path -> kind, size, content."""
        found: dict[str, object] = {}
        for folder, folders, files in os.walk(self.root):
            if Path(folder) == self.work:
                folders[:] = [name for name in folders if name != "out"]
            elif Path(folder) == self.root / "home":
                folders[:] = [name for name in folders if name != ".cache"]
            elif Path(folder) == self.root / "tmp":
                files[:] = [name for name in files if name != ".ses"]  # onnxruntime's, of every session
            for name in (*folders, *files):
                path = Path(folder) / name
                found[str(path.relative_to(self.root))] = _looks(path)
        return found

    def changed_since(self, before: dict[str, object]) -> set[str]:
        """Paths that came, went or changed."""
        now = self.content()
        return {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}


def _looks(path: Path) -> object:
    try:
        status = path.lstat()
    except OSError:
        return None
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        return kind, os.readlink(path) if kind == stat.S_IFLNK else ""
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if status.st_size < SMALL else ""
    return kind, status.st_size, digest, stat.S_IMODE(status.st_mode)
