"""Operators that spoil a valid example: of values, of trees as JSON and TOML hold them, of bytes, and of files."""

from __future__ import annotations

import copy
import json
import math
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TEXTS = (
    "", " ", "0", "nan", "None", "../../etc/passwd", "/dev/zero", "x" * 10_000, "a\nb", "\0", "ключ", "%s%n{0}",
    "\u202egnp.exe", "'; --", "$(id)", "C:\\con", "~", "-1", "[]", "\ufeff",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2**31, 2**63, 10**40, 10**400, -(2**63), 0.5, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf, -0.0,
)  # fmt: skip


def deep(levels: int = 2000) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def other_value(rng: random.Random, than: Any = None) -> Any:
    """A value that is not `than`: of another type, or of the same and strange."""
    value = than
    while same(value, than):
        value = rng.choice(
            (
                lambda: rng.choice(TEXTS),
                lambda: rng.choice(NUMBERS),
                lambda: rng.choice((None, True, False, [], {}, [[]], {"": None}, [None], [1, "a"])),
                lambda: [rng.choice(NUMBERS)] * rng.choice((1, 3, 1000)),
                lambda: {rng.choice(TEXTS): rng.choice(NUMBERS)},
                lambda: deep(rng.choice((3, 200))),
                lambda: than * rng.choice((-1, 1000, 1e-3)) if is_number(than) else str(than),
            )
        )()
    return value


def same(left: Any, right: Any) -> bool:
    """Whether two values are one to everybody who reads them."""
    if is_number(left) and is_number(right):
        return left == right or (left != left and right != right)
    return type(left) is type(right) and left == right


def is_number(value: Any) -> bool:
    """Whether it is a number, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in a tree of dicts and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """What stands there."""
    for key in path:
        tree = tree[key]
    return tree


def put(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the tree with another value there."""
    tree = copy.deepcopy(tree)
    at(tree, path[:-1])[path[-1]] = value
    return tree


def edited(tree: Any, rng: random.Random, under: tuple[Any, ...] = ()) -> tuple[Any, str]:
    """A copy of a tree with one thing in it dropped, renamed, doubled, moved or of another value; and what was done."""
    paths = [path for path in places(at(tree, under), under)]
    if not paths:
        return other_value(rng, tree), "all"
    path = rng.choice(paths)
    key, parent = path[-1], at(tree := copy.deepcopy(tree), path[:-1])
    name = "/".join(map(str, path))
    way = rng.choice(("value", "value", "value", "drop", "rename", "double", "swap"))
    if way == "drop":
        del parent[key]
    elif way == "rename" and isinstance(parent, dict):
        parent[rng.choice((f"{key}s", str(key).upper(), "", "__class__", f" {key}"))] = parent.pop(key)
    elif way == "double" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif way == "swap" and len(parent) > 1:
        other = rng.choice([k for k in (parent if isinstance(parent, dict) else range(len(parent))) if k != key])
        parent[key], parent[other] = parent[other], parent[key]
        name += f" with {other}"
    else:
        way = "value"
        parent[key] = other_value(rng, parent[key])
        name += f" = {str(parent[key])[:40]!r}"
    return tree, f"{way} {name}"


def damaged(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Other bytes, and what was done."""
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: data[: rng.randrange(len(data))],
        lambda: data[: rng.choice((0, 1, 8))],
        lambda: flipped(data, rng, rng.choice((1, 8, 200))),
        lambda: data + rng.choice((b"\0", data[:100], b"\n")) * rng.choice((1, 1000)),
        lambda: data[: (cut := rng.randrange(len(data)))] + data[cut + 1 :],
        lambda: zeroed(data, rng),
        lambda: data.replace(b"\n", b"\r"),
        lambda: b"\xff\xfe" + data,
        lambda: rng.randbytes(len(data) % 5000),
    )
    number = rng.randrange(len(ways))
    return ways[number](), f"bytes by way {number}"


def flipped(data: bytes, rng: random.Random, count: int) -> bytes:
    """With other bytes at some places."""
    changed = bytearray(data)
    for _ in range(count):
        changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
    return bytes(changed)


def zeroed(data: bytes, rng: random.Random) -> bytes:
    """With a stretch of zeros, as a file system leaves after a power cut."""
    begin = rng.randrange(len(data))
    end = min(len(data), begin + 4096)
    return data[:begin] + bytes(end - begin) + data[end:]


def replaced(path: Path, rng: random.Random, elsewhere: Path) -> str:
    """Something else in a file's or folder's place: nothing, a folder, a pipe, a device, links; says what."""
    away = path.with_name(path.name + ".away")
    path.rename(away)
    ways: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "an empty folder": path.mkdir,
        "a pipe": lambda: os.mkfifo(path),
        "a link to nowhere": lambda: path.symlink_to("/no/such/file"),
        "a link to itself": lambda: path.symlink_to(path.name),
        "a link to a device": lambda: path.symlink_to("/dev/zero"),
        "a link to a folder of others": lambda: path.symlink_to(elsewhere),
        "an empty file": path.touch,
        "very deep JSON": lambda: path.write_text("[" * 100_000),
        "a name in capitals": lambda: away.rename(path.with_name(path.name.upper())),
    }
    way = rng.choice(sorted(ways))
    ways[way]()
    return f"{path.name}: {way}"


def files_of(folder: Path) -> list[Path]:
    """Files below a folder, in an order that is always the same."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    """A JSON file with another content; one that is sealed is sealed again, as an attacker would."""
    from embodied.storage.files import seal

    document = json.loads(path.read_bytes())
    sealed = isinstance(document, dict) and document.pop("sha256", None) is not None
    document = change(document)
    if sealed and isinstance(document, dict):
        path.write_bytes(seal(document))
    else:
        path.write_text(json.dumps(document))
