"""Files of a bundle: names, sizes and SHA-256 are checked, each read once, before any of them is parsed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, listing, reason
from embodied.storage.files import read_file, unseal
from sim2real.contract.contract import FORMAT

MANIFEST, CONTRACT, ONNX, GOLDEN, README = "manifest.json", "contract.json", "policy.onnx", "golden.csv", "README.md"
PLANNER, PLANS = "planner.onnx", "planner.safetensors"
REQUIRED = (CONTRACT, ONNX, GOLDEN, README, "policy.c", "policy.h", "check.c")
CRAZYFLIE = ("Kbuild", "Makefile", "README.md", "app-config", "controller_embodied.c", "policy.c", "policy.h")
OPTIONAL = (PLANNER, PLANS, *(f"crazyflie/{name}" for name in CRAZYFLIE))
MAX_BYTES = {MANIFEST: 1 << 16, CONTRACT: 1 << 20, GOLDEN: 1 << 24, README: 1 << 20, PLANNER: (1 << 31) - 1}
MAX_OTHER_BYTES = 1 << 28  # 256 MiB, some 10^7 parameters as C text
FOREIGN = {
    b"PK\x03\x04": "a zip archive, such as torch.save writes around a pickle",
    **{bytes((0x80, protocol)): "a pickle" for protocol in range(2, 6)},
    b"\x1f\x8b": "a gzip archive",
    b"\x93NUMPY": "a NumPy file",
}
"""First bytes of files that have no place in a bundle, whatever their names."""


class ExportError(EmbodiedError):
    """A policy that cannot be exported, or a place where no bundle can be written."""


class BundleError(EmbodiedError):
    """A folder that is no bundle, or one that was damaged or edited."""


def is_bundle(path: Path) -> bool:
    """Whether a folder has the manifest of a bundle, of any version."""
    try:
        document = json.loads(read_file(path / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and {"format", "policy", "files"} <= document.keys()


def verified_files(path: Path) -> tuple[dict[str, bytes], str]:
    """Content of every file of a bundle as its manifest describes it, and the policy's digest."""
    if not (path / MANIFEST).is_file():
        found = "it does not exist" if not path.exists() else f"it has no {MANIFEST}"
        raise BundleError(f"'{path}' is no bundle: {found}; python -m sim2real.export writes one")
    try:
        manifest = unseal(_read(path, MANIFEST), FORMAT, "bundle")
    except ValueError as error:
        raise refused(path, MANIFEST, f"{error}; export the policy again") from None
    listed, sha256 = _listed(path, manifest)
    found = _walk(path)
    if missing := sorted({*listed, *REQUIRED} - found):
        raise BundleError(f"bundle '{path}' is incomplete: {listing(missing)} missing; export it again")
    if unknown := sorted(found - set(listed) - {MANIFEST}):
        raise BundleError(f"bundle '{path}' holds files that are not part of it: {listing(unknown)}; remove them")
    files = {}
    for name, (size, expected) in listed.items():
        data = _read(path, name)
        if len(data) != size:
            change = "truncated" if len(data) < size else "edited"
            raise refused(path, name, f"{change}: it has {len(data)} bytes, expected {size}")
        if (digest := hashlib.sha256(data).hexdigest()) != expected:
            raise refused(path, name, f"edited: its sha256 is {digest[:12]}, expected {expected[:12]}")
        files[name] = data
    return files, sha256


def _listed(path: Path, manifest: Mapping[str, Any]) -> tuple[dict[str, tuple[int, str]], str]:
    """Name -> size and SHA-256 of the files that a manifest lists, and the policy's digest."""
    entries, sha256 = manifest.get("files"), manifest.get("policy")
    if not isinstance(entries, dict) or not isinstance(sha256, str):
        raise refused(path, MANIFEST, "it lacks 'files' or 'policy'")
    if strange := sorted(set(entries) - {*REQUIRED, *OPTIONAL}):
        raise refused(path, MANIFEST, f"it lists {listing(map(repr, strange))}; a bundle has {listing(REQUIRED)}")
    listed = {}
    for name, entry in entries.items():
        size, digest = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if type(size) is not int or not isinstance(digest, str):
            raise refused(path, MANIFEST, f"its entry of {name} is {entry!r}; expected bytes and sha256")
        listed[name] = (size, digest)
    return listed, sha256


def _walk(path: Path) -> set[str]:
    """Names of everything in a bundle's folder, as far down as bundles go; folders that should not be there too."""
    found = set()
    for folder in (path, path / "crazyflie"):
        if folder.is_symlink() or not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{folder.name}/{entry.name}" if folder != path else entry.name
                if name != "crazyflie" or entry.is_symlink() or not entry.is_dir():
                    found.add(name)
    return found


def _read(path: Path, name: str) -> bytes:
    """A file's content, of bounded size and nothing foreign; it is never opened where it is no plain file."""
    place, limit = path / name, MAX_BYTES.get(name, MAX_OTHER_BYTES)
    try:
        # The file is checked after it was opened, so that it cannot be exchanged in between.
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise refused(path, name, "it is no plain file")
            data = file.read(limit + 1)
    except OSError as error:
        raise refused(path, name, f"it cannot be read as a plain file: {reason(error)}") from None
    if len(data) > limit:
        raise refused(path, name, f"it is larger than {limit} bytes")
    for start, what in FOREIGN.items():
        if data.startswith(start):
            raise refused(path, name, f"it is {what}; nothing of it was read")
    return data


@contextlib.contextmanager
def refusing(path: Path, name: str, errors: tuple[type[Exception], ...] = (ValueError,)) -> Iterator[None]:
    """Errors of these types, raised while a file of the bundle at `path` is read, become a `BundleError`."""
    try:
        yield
    except errors as error:
        raise refused(path, name, str(error)) from None


def refused(path: Path, name: str, why: str) -> BundleError:
    """The error for a file of the bundle at `path`, in one line."""
    return BundleError(" ".join(f"bundle '{path}' is refused: {name}: {why}".split()))
