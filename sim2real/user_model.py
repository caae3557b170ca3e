"""`load`: a MuJoCo model from somebody else, compiled without trusting it.

A model is a program for MuJoCo's compiler: it names files, makes copies, asks for memory. Here

- files are read from the model's own folder only: no absolute paths, no `..`, no links that lead out;
- XML has no entities, and every count in it is within `Bounds`;
- what MuJoCo gets is text written anew from what was checked, and files in memory: it opens none itself;
- it is compiled in a process of its own first, with limits on time and memory. Only what has passed there is compiled
  in this one.

Memory is limited on Linux, time everywhere but on Windows, where nothing is compiled.
"""

from __future__ import annotations

import dataclasses
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import mujoco

from sim2real import _mjcf
from sim2real._mjcf import FILES, FOLDERS, XML, Bounds, Element, Folder, Kind, UserModelError

__all__ = ["Bounds", "Checked", "UserModelError", "check", "load"]

DEFAULT = Bounds()
PNG = b"\x89PNG\r\n\x1a\n"
WORKER = Path(__file__).with_name("_compile_model.py")
MOST_ANSWER = 1 << 16  # bytes that a process's answer is read of
LONGEST_MESSAGE = 300  # characters of MuJoCo's


@dataclasses.dataclass(frozen=True)
class Checked:
    """A model that was read and checked, and not yet compiled."""

    xml: str
    places: tuple[str, ...]
    """Where the element of each line of `xml` stood in the user's files."""
    assets: dict[str, bytes]
    """Files by the names that `xml` calls them."""

    def spec(self) -> mujoco.MjSpec:
        """The model, for MuJoCo to compile."""
        # Models within models are found only among what MuJoCo calls includes.
        parts = {name: data for name, data in self.assets.items() if name.endswith(".xml")}
        files = {name: data for name, data in self.assets.items() if name not in parts}
        return mujoco.MjSpec.from_string(self.xml, include=parts, assets=files)


def load(path: Path, bounds: Bounds = DEFAULT) -> mujoco.MjSpec:
    """The model in a file, safe to `compile()`.

    Args:
        path: MJCF; the folder it lies in is the only one from which files are read.
        bounds: What it may ask for.

    Raises:
        UserModelError: it reaches beyond its folder, exceeds a bound, or does not compile; one line with file, line,
            element and bound.
    """
    checked = check(path, bounds)
    try_compile(checked, path.name, bounds)
    return checked.spec()


def check(path: Path, bounds: Bounds = DEFAULT) -> Checked:
    """Read a model and all its files, without MuJoCo.

    Raises:
        UserModelError: it reaches beyond its folder, or exceeds a bound.
    """
    if not path.is_file():
        raise UserModelError(f"there is no model '{path}'; expected an MJCF file")
    assembly = _Assembly(Folder(path.parent, bounds), bounds)
    real = assembly.folder.find(path.name, assembly.folder.root, f"'{path.name}'", XML)
    root = assembly.model(real, f"'{path.name}'", ())
    text, places = _mjcf.write(root)
    return Checked(text, tuple(places), assembly.assets)


class _Assembly:
    """Collects a model and what it is made of."""

    def __init__(self, folder: Folder, bounds: Bounds) -> None:
        self.folder, self.bounds = folder, bounds
        self.assets: dict[str, bytes] = {}
        self._names: dict[Path, str] = {}

    def model(self, path: Path, where: str, within: tuple[Path, ...]) -> Element:
        """The checked tree of a model whose files are renamed to those in `assets`."""
        root = self._read(path, where)
        if root.name != "mujoco":
            raise UserModelError(f"{root.where}: a model begins with <mujoco>, not with <{root.name}>")
        self._include(root, path.parent, path.parent, (*within, path))
        _mjcf.check_counts(root, self.bounds)
        _mjcf.check_plugins(root)
        folders = self._folders(root)
        for element in root.walk():
            _mjcf.unknown_files(element)
            for (name, attribute), kind in FILES.items():
                if element.name == name and element.attributes.get(attribute):
                    self._attach(element, attribute, kind, path, folders, (*within, path))
        return root

    def _read(self, path: Path, where: str) -> Element:
        return _mjcf.parse(self.folder.read(path, where, xml=True), self.folder.shown(path), self.bounds)

    def _include(self, element: Element, main: Path, here: Path, within: tuple[Path, ...], depth: int = 0) -> None:
        """Put the content of included files where they are named, as MuJoCo does.

        Paths are relative to the main model's folder `main`, or else to the including file's, `here`.
        """
        if depth > self.bounds.depth:
            raise UserModelError(
                f"{element.where}: <{element.name}> is nested deeper than {self.bounds.depth} elements"
            )
        children: list[Element] = []
        for child in element.children:
            if child.name != "include":
                self._include(child, main, here, within, depth + 1)
                children.append(child)
                continue
            name = child.attributes.get("file", "")
            base = here if name and not (main / name).exists() and (here / name).exists() else main
            path = self.folder.find(name, base, child.where, XML)
            if path in within:
                raise UserModelError(f"{child.where}: '{name}' includes itself")
            part = self._read(path, child.where)
            self._include(part, main, path.parent, (*within, path), depth + 1)
            children += part.children
        element.children = children

    def _folders(self, root: Element) -> dict[str, str]:
        """Take out of the tree what it says of its files' folders, and return it."""
        said: dict[str, str] = {}
        for element in root.walk():
            if element.name == "compiler":
                for name in FOLDERS:
                    if name in element.attributes:
                        said[name] = element.attributes.pop(name)
                        self.folder.check_relative(said[name], element.where)
        common = said.get("assetdir", "")
        return {
            "meshdir": said.get("meshdir", common),
            "texturedir": said.get("texturedir", common),
            "strippath": said.get("strippath", "false"),
        }

    def _attach(
        self, element: Element, attribute: str, kind: Kind, model: Path, folders: dict[str, str],
        within: tuple[Path, ...],
    ) -> None:  # fmt: skip
        """Read the file that an attribute names, and call it by its name in `assets`."""
        name = element.attributes[attribute]
        if folders["strippath"] == "true":
            self.folder.check_relative(name, element.where)
            name = Path(name).name
        base = model.parent / folders.get(kind.folder, "")
        path = self.folder.find(name, base, element.where, kind)
        if kind.named and "name" not in element.attributes:
            element.attributes["name"] = Path(name).stem
        if path not in self._names:
            if kind.suffixes == XML.suffixes:
                if path in within:
                    raise UserModelError(f"{element.where}: '{name}' is made of itself")
                data = _mjcf.write(self.model(path, element.where, within))[0].encode()
            else:
                data = self.folder.read(path, element.where)
                self._check_picture(data, element, name)
            suffix = ".xml" if kind.suffixes == XML.suffixes else path.suffix.lower()
            self._names[path] = f"file{len(self._names)}{suffix}"
            self.assets[self._names[path]] = data
        element.attributes[attribute] = self._names[path]

    def _check_picture(self, data: bytes, element: Element, name: str) -> None:
        """Check how large a PNG is when unpacked, which its header says (PNG specification, 11.2.1)."""
        if data.startswith(PNG) and len(data) >= 24:
            width, height = struct.unpack(">II", data[16:24])
            if width * height > self.bounds.pixels:
                raise UserModelError(
                    f"{element.where}: '{name}' has {width:,} x {height:,} pixels; at most {self.bounds.pixels:,} in "
                    "all are allowed"
                )


def try_compile(checked: Checked, name: str, bounds: Bounds = DEFAULT) -> dict[str, int]:
    """Compile in a process of its own, and run one step of it.

    Returns:
        Numbers of bodies, positions, actuators, and bytes.

    Raises:
        UserModelError: it fails, crashes, or takes too long or too much.
    """
    files = [(name, checked.xml.encode()), *checked.assets.items()]
    header = {
        "cpu_seconds": bounds.cpu_seconds,
        "memory": bounds.memory,
        "files": [(called, len(data)) for called, data in files],
    }
    data = json.dumps(header).encode() + b"\n" + b"".join(content for _, content in files)
    with tempfile.TemporaryDirectory() as empty:
        try:
            done = subprocess.run(
                [sys.executable, "-I", str(WORKER)], input=data, capture_output=True, timeout=bounds.seconds, cwd=empty,
                env={"MUJOCO_GL": "disable", "OMP_NUM_THREADS": "1"}, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UserModelError(f"'{name}' did not compile within {bounds.seconds:g} s") from None
    try:
        answer = json.loads(done.stdout[:MOST_ANSWER].strip().rpartition(b"\n")[2])
    except ValueError:
        raise UserModelError(
            f"compiling '{name}' ended with code {done.returncode}: it takes more than {bounds.cpu_seconds} s of CPU "
            f"time or {bounds.memory >> 20} MiB, or crashes MuJoCo"
        ) from None
    if not answer.pop("ok"):
        if answer["error"] == "memory" or "allocate" in answer["error"]:
            raise UserModelError(f"compiling '{name}' takes more than {bounds.memory >> 20} MiB of memory")
        raise UserModelError(f"'{name}' does not compile: {translated(answer['error'], checked)}")
    return answer


def translated(message: str, checked: Checked) -> str:
    """MuJoCo's message in one line, with the user's files and lines in place of those of the text it was given."""

    def place(match: re.Match[str]) -> str:
        number = int(match[1]) - 1
        return checked.places[number] if 0 <= number < len(checked.places) and checked.places[number] else match[0]

    return re.sub(r"line (\d+)", place, " ".join(message.split()))[:LONGEST_MESSAGE]
