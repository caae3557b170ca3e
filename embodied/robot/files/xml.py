"""Third-party files: read whole and parsed as XML without entities."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from embodied.errors import ModelError
from embodied.storage.files import read_file

ABOVE = 6  # folders above a model among which its package is looked for
MARKS = ("package.xml", "pyproject.toml", "setup.py", "__init__.py", ".git")
"""What a package's own folder has: ROS', Python's, a repository's."""
LARGEST = 64 * 2**20  # bytes of a file: the largest known model, with everything inlined, has 3 MB

PREFIXED = re.compile(rb"(</?|\s)([\w.-]+):([\w.-]+(?=[\s/>=]))")


def content(path: Path) -> bytes:
    """The bytes of a third party's file.

    Raises:
        ModelError: it cannot be read, or is larger than any model.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise ModelError(f"{path} has {size:,} bytes; expected at most {LARGEST:,}")
        return read_file(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def parse(name: Path | str, text: bytes) -> ElementTree.Element:
    """The root of an XML file without entities, which could grow without end or read other files.

    Raises:
        ModelError: it is no XML, has a document type, or is nested too deeply.
    """
    if b"\0" in text:  # UTF-16 and UTF-32, in which the search below would find nothing
        raise ModelError(f"{name} is no XML in UTF-8; expected text")
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise ModelError(f"{name}: has a document type, which no model needs; remove it")
    try:
        try:
            return ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            if "unbound prefix" not in str(error):
                raise
            # `drake:` and the like, which readers of URDF take for parts of names
            return ElementTree.fromstring(PREFIXED.sub(rb"\1\2_\3", text))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ModelError(f"{name} is no XML: {error}") from None
    except RecursionError:
        raise ModelError(f"{name}: elements within elements, too deep to read") from None


def package_of(path: Path) -> Path:
    """The folder within which a model may refer to files: that of its package, else the one that holds the model's."""
    home = path.resolve().parent
    above = [home, *home.parents][: ABOVE + 1]
    marked = (folder for folder in above if any((folder / mark).exists() for mark in MARKS))
    return next(marked, above[min(1, len(above) - 1)])


def jointed(root: ElementTree.Element) -> list[tuple[str | None, str, str]]:
    """Type, parent and child of a URDF's joints, of those that have both."""
    return [
        (joint.get("type"), parent.get("link", ""), child.get("link", ""))
        for joint in root.findall("joint")
        if (parent := joint.find("parent")) is not None and (child := joint.find("child")) is not None
    ]


def reached(name: str, children: dict[str, list[str]]) -> set[str]:
    """Names of a link and of all its descendants."""
    found, waiting = {name}, [name]
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found
