"""`robot.toml`: the owner's description of a robot; everything left out is derived from the model file."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embodied.core.hooks import shown
from embodied.errors import ModelError, closest
from embodied.robot.files import content
from embodied.storage.files import write_atomic

NAME = "robot.toml"
Vector = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Description:
    """Description of a robot, in the field's words; `None` or empty: derived."""

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
    speed: dict[str, float] = dataclasses.field(default_factory=dict)
    """Joint -> largest speed rad/s, or m/s."""
    acceleration: dict[str, float] = dataclasses.field(default_factory=dict)
    """Joint -> largest acceleration rad/s^2, or m/s^2."""
    rotors: tuple[str | Vector, ...] = ()
    """Multirotors: bodies or sites, or places in m in the trunk's frame, all of one kind."""
    rotor_axes: tuple[Vector, ...] = ()
    """Multirotors: where each rotor pushes, in the trunk's frame; upwards, or along z of what was named."""
    spin: tuple[int, ...] = ()
    """Multirotors: 1 turns counter-clockwise seen from where the rotor pushes, -1 clockwise."""
    thrust: tuple[float, ...] = ()
    """Multirotors: N that each rotor gives at most, or one number for all."""
    thrust_to_weight: float | None = None
    """Multirotors, instead of thrust: what all rotors give together, in weights."""
    torque_per_thrust: float | None = None
    """Multirotors: m, a rotor's reaction torque in N m for each N of thrust."""
    rotor_lag: float | None = None
    """Multirotors: s, time constant with which rotors reach a commanded speed."""
    drag: Vector | None = None
    """Multirotors: N s/m of air drag along x, y, z of the trunk."""

    @classmethod
    def read(cls, path: Path) -> Description:
        """Read a TOML file.

        Raises:
            ModelError: it cannot be read, or a key is unknown or of another type; names it and lists what exists.
        """
        try:
            given = tomllib.loads(content(path).decode())
        except (ValueError, RecursionError) as error:  # also of integers of thousands of digits
            raise ModelError(f"{path} is no TOML: {error}") from None
        fields = {field.name: field for field in dataclasses.fields(cls)}
        if unknown := sorted(set(given) - set(fields)):
            guess = f" did you mean {near[0]!r}?" if (near := closest(unknown[0], fields, 1)) else ""
            raise ModelError(f"{path}: unknown key {unknown[0]!r};{guess} expected {', '.join(fields)}")
        return cls(**{key: _checked(path, key, value) for key, value in given.items()})

    @classmethod
    def beside(cls, model: Path) -> Description:
        """Description beside a model file, or an empty one."""
        path = model.parent / NAME
        said = cls.read(path) if os.path.lexists(path) else cls()  # a broken link is no absence
        return said if said.file in (None, model.name) else cls()

    def write(self, path: Path) -> None:
        """Write a TOML file with a comment for every key that is set."""
        lines = [
            '# What is left out is derived from the model file; names in tables may be patterns, such as "*_knee".'
        ]
        for name, comment in COMMENTS.items():
            if (value := getattr(self, name)) or isinstance(value, float):
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
    "speed": "rad/s (m/s), the fastest that a joint moves",
    "acceleration": "rad/s^2 (m/s^2), the most that a joint speeds up or slows down",
    "rotors": "bodies or sites, or places in m in the trunk's frame",
    "rotor_axes": "where each rotor pushes, in the trunk's frame",
    "spin": "1 turns counter-clockwise seen from where the rotor pushes, -1 clockwise",
    "thrust": "N that each rotor gives at most",
    "thrust_to_weight": "what all rotors give together, in weights",
    "torque_per_thrust": "m, reaction torque in N m for each N of thrust",
    "rotor_lag": "s, time constant of a rotor's speed",
    "drag": "N s/m of air drag along x, y, z",
}
LARGEST = 1e6  # of any number


def _checked(path: Path, key: str, value: Any) -> Any:
    """A value of the type that its key has."""
    expected, convert = CHECKS.get(key, ("a name in quotes", _name))
    converted = convert(value)
    if converted is None:
        raise ModelError(f"{path}: {key} is {shown(value)}; expected {expected}")
    return converted


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _names(value: Any) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(name, str) for name in value) else None


def _table(number: Callable[[Any], float | None], value: Any) -> dict[str, float] | None:
    """A table of joints and numbers, of which each is what `number` makes of it."""
    if not isinstance(value, dict):
        return None
    found = {name: number(entry) for name, entry in value.items()}
    return None if None in found.values() else {name: entry for name, entry in found.items() if entry is not None}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _any(value: Any) -> float | None:
    return float(value) if _is_number(value) else None


def _positive(value: Any) -> float | None:
    return float(value) if _is_number(value) and value > 0 else None


def _at_least_zero(value: Any) -> float | None:
    return float(value) if _is_number(value) and value >= 0 else None


def _vector(value: Any) -> Vector | None:
    if not isinstance(value, list) or len(value) != 3 or not all(_is_number(number) for number in value):
        return None
    return float(value[0]), float(value[1]), float(value[2])


def _drag(value: Any) -> Vector | None:
    vector = _vector(value)
    return vector if vector is not None and min(vector) >= 0 else None


def _axes(value: Any) -> tuple[Vector, ...] | None:
    vectors = [_vector(entry) for entry in value] if isinstance(value, list) else []
    axes = tuple(vector for vector in vectors if vector is not None and any(vector))
    return axes if axes and len(axes) == len(vectors) else None


def _places(value: Any) -> tuple[str | Vector, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(name, str) for name in value):
        return tuple(value)
    vectors = [_vector(entry) for entry in value]
    return None if None in vectors else tuple(vector for vector in vectors if vector is not None)


def _spins(value: Any) -> tuple[int, ...] | None:
    good = isinstance(value, list) and value and all(_is_number(spin) and abs(spin) == 1 for spin in value)
    return tuple(int(spin) for spin in value) if good else None


def _thrusts(value: Any) -> tuple[float, ...] | None:
    thrusts = [_positive(thrust) for thrust in (value if isinstance(value, list) else [value])]
    return None if not thrusts or None in thrusts else tuple(thrust for thrust in thrusts if thrust is not None)


CHECKS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "joints": ("a list of names", _names),
    "feet": ("a list of names", _names),
    "home": ("a table of joints and numbers", functools.partial(_table, _any)),
    "kp": ("a table of joints and positive numbers", functools.partial(_table, _positive)),
    "kv": ("a table of joints and numbers, at least 0", functools.partial(_table, _at_least_zero)),
    "effort": ("a table of joints and numbers, at least 0", functools.partial(_table, _at_least_zero)),
    "speed": ("a table of joints and positive numbers", functools.partial(_table, _positive)),
    "acceleration": ("a table of joints and positive numbers", functools.partial(_table, _positive)),
    "rotors": ("a list of names, or of places [x, y, z] in m", _places),
    "rotor_axes": ("a list of directions [x, y, z]", _axes),
    "spin": ("a list of 1 (counter-clockwise seen from above) and -1", _spins),
    "thrust": ("a positive number of N, or a list of them", _thrusts),
    "thrust_to_weight": ("a positive number", _positive),
    "torque_per_thrust": ("a number of m, at least 0", _at_least_zero),
    "rotor_lag": ("a number of s, at least 0", _at_least_zero),
    "drag": ("[x, y, z] in N s/m, at least 0", _drag),
}
"""Key of a table, a list or a multirotor's number -> what is expected, and the value that is meant, or None."""


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        value = _shortened(value)
        return "{ " + ", ".join(f"{_quoted(name)} = {number:.6g}" for name, number in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    if isinstance(value, int | float):
        return f"{value:.6g}"
    return _quoted(value or "")


def _shortened(table: dict[str, float]) -> dict[str, float]:
    """A table with its most frequent number given once, for `*`."""
    rounded = {name: float(f"{number:.6g}") for name, number in table.items()}
    common, count = collections.Counter(rounded.values()).most_common(1)[0]
    others = {name: number for name, number in rounded.items() if number != common}
    return {"*": common, **others} if count > 1 else rounded


def _quoted(text: str) -> str:
    """A basic string of TOML: as JSON writes it, but for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
