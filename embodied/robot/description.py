"""`robot.toml`: what a robot's owner says of it; everything that is left out is derived from the model file."""

from __future__ import annotations

import collections
import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from embodied.errors import ModelError, closest
from embodied.robot.files import content
from embodied.storage.files import write_atomic

NAME = "robot.toml"


@dataclasses.dataclass(frozen=True)
class Description:
    """What was said, in the field's words; `None` or empty: derive it."""

    file: str | None = None
    """Name of the model file that is described, where several lie in the folder; another one's is not used."""
    kind: str | None = None
    """legged, arm, hand or multirotor."""
    base: str | None = None
    """free or fixed."""
    trunk: str | None = None
    """Body that carries the legs."""
    collision: str | None = None
    """primitives (spheres, capsules and boxes that hold a URDF's meshes) or meshes (their convex hulls)."""
    joints: tuple[str, ...] = ()
    """Actuated joints, in the order of actions."""
    feet: tuple[str, ...] = ()
    """Bodies that stand on the ground."""
    tip: str | None = None
    """Site or body that an arm reaches with."""
    home: dict[str, float] = dataclasses.field(default_factory=dict)
    """Joint -> angle in rad (m for a slide) in the standing or home pose."""
    kp: dict[str, float] = dataclasses.field(default_factory=dict)
    """Joint -> stiffness of its position servo, N m/rad or N/m."""
    kv: dict[str, float] = dataclasses.field(default_factory=dict)
    """Joint -> damping of its position servo, N m s/rad or N s/m."""
    effort: dict[str, float] = dataclasses.field(default_factory=dict)
    """Joint -> largest torque N m, or force N."""

    @classmethod
    def read(cls, path: Path) -> Description:
        """Read a TOML file.

        Raises:
            ModelError: it cannot be read, or a key is unknown or of another type; names it and lists what exists.
        """
        try:
            given = tomllib.loads(content(path).decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ModelError(f"{path} is no TOML: {error}") from None
        fields = {field.name: field for field in dataclasses.fields(cls)}
        if unknown := sorted(set(given) - set(fields)):
            guess = f" did you mean {near[0]!r}?" if (near := closest(unknown[0], fields, 1)) else ""
            raise ModelError(f"{path}: unknown key {unknown[0]!r};{guess} expected {', '.join(fields)}")
        return cls(**{key: _checked(path, key, value) for key, value in given.items()})

    @classmethod
    def beside(cls, model: Path) -> Description:
        """What lies beside a model file, or nothing."""
        path = model.parent / NAME
        said = cls.read(path) if path.exists() else cls()
        return said if said.file in (None, model.name) else cls()

    def write(self, path: Path) -> None:
        """Write a TOML file with a comment for every key that is said."""
        lines = [
            '# What is left out is derived from the model file; names in tables may be patterns, such as "*_knee".'
        ]
        for name, comment in COMMENTS.items():
            if value := getattr(self, name):
                lines += ["", f"# {comment}", f"{name} = {_toml(value)}"]
        write_atomic(path, ("\n".join(lines) + "\n").encode())


COMMENTS = {
    "file": "the model file that is described",
    "kind": "legged, arm, hand or multirotor",
    "base": "free or fixed",
    "trunk": "the body that carries the limbs",
    "collision": "primitives or meshes: what collides where a URDF has meshes that do",
    "joints": "actuated joints, in the order of actions",
    "feet": "bodies that stand on the ground",
    "tip": "site or body that an arm reaches with",
    "home": "rad (m for a slide), the standing or home pose",
    "kp": "N m/rad (N/m), stiffness of the position servos",
    "kv": "N m s/rad (N s/m), their damping",
    "effort": "N m (N), the most that a joint gives",
}
TABLES = ("home", "kp", "kv", "effort")
LISTS = ("joints", "feet")


def _checked(path: Path, key: str, value: Any) -> Any:
    """A value of the type that its key has."""
    if key in TABLES:
        numbers = isinstance(value, dict) and all(
            isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < 1e6
            for number in value.values()
        )
        if not numbers:
            raise ModelError(f"{path}: {key} is {value!r}; expected a table of joints and numbers")
        return {name: float(number) for name, number in value.items()}
    if key in LISTS:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ModelError(f"{path}: {key} is {value!r}; expected a list of names")
        return tuple(value)
    if not isinstance(value, str):
        raise ModelError(f"{path}: {key} is {value!r}; expected a name in quotes")
    return value


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        value = _shortened(value)
        return "{ " + ", ".join(f"{_quoted(name)} = {number:.6g}" for name, number in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(_quoted(name) for name in value) + "]"
    return _quoted(value or "")


def _shortened(table: dict[str, float]) -> dict[str, float]:
    """A table with its most frequent number said once, for `*`; numbers to four digits after the point."""
    rounded = {name: round(number, 4) + 0.0 for name, number in table.items()}
    common, count = collections.Counter(rounded.values()).most_common(1)[0]
    others = {name: number for name, number in rounded.items() if number != common}
    return {"*": common, **others} if count > 1 else rounded


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
