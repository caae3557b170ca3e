"""Reads the XML of a model from a user: no entities, nothing from outside its folder, every count within bounds.

What comes out is text that was written here from what was checked here, with all files in memory under names given
here. MuJoCo's own parser, which follows paths wherever they lead, sees nothing else.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from embodied.errors import ModelError, listing, reason


class UserModelError(ModelError):
    """A model from a user that reaches outside its folder, exceeds a bound, or does not compile."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What a model may ask for."""

    xml_bytes: int = 16 << 20
    """Of all XML files together."""
    file_bytes: int = 64 << 20
    """Of a mesh, texture, height field or skin."""
    total_bytes: int = 512 << 20
    """Of all files together."""
    files: int = 2000
    elements: int = 50_000
    """After copies by `replicate` are made."""
    depth: int = 100
    """Elements within one another, files they are included from counted in."""
    copies: int = 10_000
    """By `replicate`, points of `composite` and `flexcomp`; nested ones multiplied."""
    keys: int = 1000
    """`nkey`."""
    users: int = 1_000_000
    """`nuserdata`, `njmax`, `nconmax`; bytes of `nstack` are bound by `memory`."""
    fields: int = 1000
    """`nuser_body` and its like; samples of a delay."""
    pixels: int = 4096 * 4096
    """Of a texture or camera, and cells of a height field."""
    side: int = 16_384
    """Pixels along one side of a picture; slices of a shape."""
    iterations: int = 10_000
    """Of solvers, per step."""
    memory: int = 2 << 30
    """Bytes: `memory` of the model's arena, and of its compilation above what the program itself takes."""
    cpu_seconds: int = 60
    seconds: float = 120.0
    """For compiling."""


@dataclasses.dataclass
class Element:
    """One element of XML, and where it stood."""

    name: str
    attributes: dict[str, str]
    where: str
    """'file', line n."""
    children: list[Element] = dataclasses.field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """Itself and all below it."""
        pending: list[Element] = [self]
        while pending:
            element = pending.pop()
            yield element
            pending.extend(reversed(element.children))


@dataclasses.dataclass(frozen=True)
class Kind:
    """Files that an attribute may name."""

    suffixes: tuple[str, ...]
    folder: str = ""
    """Attribute of `compiler` that says where they lie."""
    named: bool = False
    """Whether the element is called after the file where it has no name."""


MESH = Kind((".stl", ".obj", ".msh"), "meshdir", named=True)
TEXTURE = Kind((".png", ".ktx", ".ktx2"), "texturedir", named=True)
FACES = tuple(f"file{side}" for side in ("right", "left", "up", "down", "front", "back"))
FILES: dict[tuple[str, str], Kind] = {
    ("mesh", "file"): MESH,
    ("hfield", "file"): Kind((".png", ".bin", ".hf"), "meshdir", named=True),
    ("skin", "file"): Kind((".skn",), "meshdir"),
    ("flexcomp", "file"): Kind((".stl", ".obj", ".msh", ".png"), "meshdir"),
    ("texture", "file"): TEXTURE,
    **{("texture", face): dataclasses.replace(TEXTURE, named=False) for face in FACES},
    ("model", "file"): Kind((".xml", ".mjcf")),
}
"""(element, attribute) -> files it names. An attribute that begins with "file" and is not here is refused."""

XML = Kind((".xml", ".mjcf"))
FOLDERS = ("assetdir", "meshdir", "texturedir", "strippath")

COUNTS: dict[tuple[str, str], Callable[[Bounds], int]] = {
    ("size", "nkey"): lambda b: b.keys,
    **{("size", name): lambda b: b.users for name in ("nuserdata", "njmax", "nconmax")},
    ("size", "nstack"): lambda b: b.memory // 8,
    **{
        ("size", f"nuser_{kind}"): lambda b: b.fields
        for kind in ("body", "jnt", "geom", "site", "cam", "tendon", "actuator", "sensor")
    },
    ("replicate", "count"): lambda b: b.copies,
    ("composite", "count"): lambda b: b.copies,
    ("flexcomp", "count"): lambda b: b.copies,
    ("flexcomp", "cellcount"): lambda b: b.copies,
    ("flex", "cellcount"): lambda b: b.copies,
    ("texture", "width"): lambda b: b.side,
    ("texture", "height"): lambda b: b.side,
    ("texture", "nchannel"): lambda _: 4,
    ("texture", "gridsize"): lambda b: b.side,
    ("hfield", "nrow"): lambda b: b.side,
    ("hfield", "ncol"): lambda b: b.side,
    ("camera", "resolution"): lambda b: b.pixels,
    ("global", "offwidth"): lambda b: b.side,
    ("global", "offheight"): lambda b: b.side,
    ("quality", "shadowsize"): lambda b: b.side,
    ("quality", "offsamples"): lambda _: 64,
    **{("quality", name): lambda b: b.fields for name in ("numslices", "numstacks", "numquads")},
    **{
        ("option", name): lambda b: b.iterations
        for name in (
            "iterations", "ls_iterations", "noslip_iterations", "ccd_iterations", "sdf_iterations", "sdf_initpoints",
        )
    },
}  # fmt: skip
"""(element, attribute) -> the largest it may be. Of several numbers their product counts."""

ANYWHERE: dict[str, Callable[[Bounds], int]] = {"nsample": lambda b: b.fields}
"""Attributes that are bound on whichever element they stand."""

COPIERS = ("replicate", "composite", "flexcomp")
"""Elements that make copies of what is in them, or of points."""

AREAS = (("texture", "width", "height"), ("hfield", "nrow", "ncol"), ("global", "offwidth", "offheight"))
"""Pairs of attributes whose product is a number of pixels."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
"""Of `memory`."""


class Folder:
    """The files of a model: read once each, from within one folder only."""

    def __init__(self, root: Path, bounds: Bounds) -> None:
        """Nothing is read yet; `root` must exist."""
        self.root, self.bounds = root.resolve(), bounds
        self._bytes = self._xml = self._files = 0

    def find(self, name: str, base: Path, where: str, kind: Kind) -> Path:
        """The real path of a file named in XML.

        Args:
            name: As it stands there.
            base: Folder it is relative to.
            where: Where it stands.
            kind: What it should be.

        Raises:
            UserModelError: it is absolute, has `..`, leads out of the folder by a link, or has another suffix.
        """
        self.check_relative(name, where)
        if Path(name).suffix.lower() not in kind.suffixes:
            raise UserModelError(f"{where}: '{name}' should end in {' or '.join(kind.suffixes)}")
        path = base / name
        try:
            real = path.resolve()
            exists = real.exists()
        except (OSError, RuntimeError):
            short = name if len(name) < 100 else f"{name[:100]}..."
            raise UserModelError(f"{where}: cannot read '{short}': its name is too long, or a link to itself") from None
        if not real.is_relative_to(self.root):
            raise UserModelError(f"{where}: '{name}' is a link out of the model's folder")
        if not exists:
            raise UserModelError(f"{where}: there is no file '{self.shown(path)}'")
        return real

    @staticmethod
    def check_relative(name: str, where: str) -> None:
        """Check a path or folder named in XML by its letters.

        Raises:
            UserModelError: it could lead out of the folder.
        """
        if name.startswith(("/", "~")) or ":" in name or "\\" in name or not name.isprintable():
            raise UserModelError(
                f"{where}: {name!r} is not a path within the model's folder (a/b.stl, without : or \\)"
            )
        if ".." in name.split("/"):
            raise UserModelError(f"{where}: '{name}' leads upwards; a model's files lie in its folder or below")

    def shown(self, path: Path) -> str:
        """A path for messages, without where the folder lies."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.name

    def read(self, path: Path, where: str, xml: bool = False) -> bytes:
        """The content of a real path that `find` gave.

        Raises:
            UserModelError: it is no ordinary file, or a bound is exceeded.
        """
        bounds, shown = self.bounds, self.shown(path)
        limit = min(bounds.xml_bytes - self._xml if xml else bounds.file_bytes, bounds.total_bytes - self._bytes)
        self._files += 1
        if self._files > bounds.files:
            raise UserModelError(f"{where}: the model has more than {bounds.files} files")
        try:
            # A pipe would wait for ever without O_NONBLOCK, and a link that appeared since `find` is not followed.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise UserModelError(f"{where}: '{shown}' is no ordinary file")
                data = file.read(limit + 1)
        except OSError as error:
            raise UserModelError(f"{where}: cannot read '{shown}': {reason(error)}") from error
        if len(data) > limit:
            raise UserModelError(f"{where}: '{shown}' has more than the {limit:,} bytes that are left for it")
        self._bytes += len(data)
        self._xml += len(data) if xml else 0
        return data


def parse(data: bytes, shown: str, bounds: Bounds) -> Element:
    """The tree of a document.

    Raises:
        UserModelError: it is not XML, declares a document type (and with it entities), or is nested too deep.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack: list[Element] = []
    roots: list[Element] = []
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        where = f"'{shown}', line {parser.CurrentLineNumber}"
        if len(stack) >= bounds.depth:
            raise UserModelError(f"{where}: <{name}> is nested deeper than {bounds.depth} elements")
        if count > bounds.elements:
            raise UserModelError(f"{where}: more than {bounds.elements:,} elements")
        element = Element(name, attributes, where)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def refuse(*_: object) -> None:
        raise UserModelError(f"'{shown}', line {parser.CurrentLineNumber}: document types and entities are not allowed")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: stack.pop()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UserModelError(f"'{shown}', line {error.lineno}: not XML: {expat.errors.messages[error.code]}") from None
    except (UnicodeError, LookupError, ValueError) as error:
        raise UserModelError(f"'{shown}': not XML: {reason(error)}") from None
    return roots[0]


def check_counts(root: Element, bounds: Bounds) -> None:
    """Check every number that says how much is to be made.

    Raises:
        UserModelError: one is beyond its bound; names file, line, element and bound.
    """
    made = _check_copies(root, bounds, 1)
    if made > bounds.elements:
        raise UserModelError(
            f"{root.where}: {made:,} elements once copies are made; at most {bounds.elements:,} are allowed"
        )
    for element in root.walk():
        for attribute, text in element.attributes.items():
            bound = COUNTS.get((element.name, attribute)) or ANYWHERE.get(attribute)
            if bound is not None:
                _check(element, attribute, product(text), bound(bounds))
        for name, first, second in AREAS:
            if element.name == name:
                sides = [product(element.attributes.get(key, "0")) for key in (first, second)]
                _check(element, f"{first} x {second}", math.prod(sides), bounds.pixels)
        if element.name == "size" and "memory" in element.attributes:
            _check(element, "memory", memory(element), bounds.memory)


def _check_copies(element: Element, bounds: Bounds, copies: int) -> int:
    """How many elements come of one, its copies by `replicate` counted; recursion as deep as `Bounds.depth`."""
    inner = copies
    if element.name in COPIERS:
        inner = copies * max(int(product(element.attributes.get("count", "1"))), 1)
        _check(element, "count (nested ones multiplied)", inner, bounds.copies)
    return copies + sum(_check_copies(child, bounds, inner) for child in element.children)


def _check(element: Element, attribute: str, value: float, bound: int) -> None:
    if not value <= bound:
        raise UserModelError(
            f"{element.where}: <{element.name}> has {attribute} {value:,.0f}; at most {bound:,} is allowed"
        )


def product(text: str) -> float:
    """The product of the numbers in a text, those below 1 taken as 1; inf where it holds something else.

    What is no number is for MuJoCo to complain of, unless MuJoCo's reading of it could be a large number.
    """
    try:
        return math.prod(max(float(word), 1.0) for word in text.split())
    except ValueError:
        return math.inf


def memory(element: Element) -> float:
    """Bytes that `<size memory>` asks for; -1, MuJoCo's own choice, is 0."""
    match = re.fullmatch(r"\s*(-?\d+)\s*([KMGTPE]?)[Bb]?\s*", element.attributes["memory"], re.IGNORECASE)
    if match is None:
        raise UserModelError(
            f"{element.where}: <size> has memory {element.attributes['memory']!r}; expected such as 100M"
        )
    return max(int(match[1]), 0) * UNITS[match[2].upper()]


def write(root: Element) -> tuple[str, list[str]]:
    """The text of a tree, one element's beginning or end in a line, and where the element of each line stood."""
    lines: list[str] = []
    places: list[str] = []
    pending: list[Element | str] = [root]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            lines.append(f"</{item}>")
            places.append("")
            continue
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in item.attributes.items())
        lines.append(f"<{item.name}{attributes}{'' if item.children else '/'}>")
        places.append(item.where)
        if item.children:
            pending += [item.name, *reversed(item.children)]
    return "\n".join(lines), places


def check_plugins(root: Element) -> None:
    """Check that plugins are MuJoCo's own and are told no paths.

    Raises:
        UserModelError: another plugin, or a value that looks like a path.
    """
    for element in root.walk():
        if element.name == "plugin" and not element.attributes.get("plugin", "mujoco.").startswith("mujoco."):
            raise UserModelError(
                f"{element.where}: plugin '{element.attributes['plugin']}'; only MuJoCo's own (mujoco.*) are allowed"
            )
        value = element.attributes.get("value", "")
        if element.name == "config" and ("/" in value or "\\" in value or ".." in value):
            raise UserModelError(f"{element.where}: a plugin is told the path '{value}'; plugins may not read files")


def unknown_files(element: Element) -> None:
    """Check that no attribute names a file in a way that is not known here.

    Raises:
        UserModelError: one does.
    """
    known = [attribute for name, attribute in FILES if name == element.name]
    for attribute in element.attributes:
        if attribute.startswith("file") and attribute not in known:
            raise UserModelError(
                f"{element.where}: <{element.name}> has the attribute '{attribute}'; files are named by "
                f"{listing(known) or 'other elements'}"
            )
