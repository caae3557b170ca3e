"""Left-right symmetry: the image of vectors of numbers when the world is reflected in the plane y = 0.

A `Reflection` permutes the entries of a vector and changes signs; a `Mirror` has one for a robot's action and one for
each observed term. Reflecting state and action of a symmetric robot reflects what follows:

    mirror.action(action)                       # action of the mirrored robot
    mirror.of_groups(task.observation_terms)    # the same for whole observation groups
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError


@dataclass(frozen=True)
class Reflection:
    """A signed permutation that is its own inverse: entry i of the image is `sign[i]` times entry `index[i]`."""

    index: tuple[int, ...]
    sign: tuple[int, ...]
    """1 or -1 each."""

    def __post_init__(self) -> None:
        own = range(len(self.index))
        pairs = sorted(self.index) == list(own) and all(self.index[self.index[i]] == i for i in own)
        signs = len(self.sign) == len(self.index) and set(self.sign) <= {1, -1}
        if not (pairs and signs and all(self.sign[i] == self.sign[self.index[i]] for i in own)):
            raise ValueError(f"index={self.index} sign={self.sign} undo nothing when applied twice; expected pairs")

    def __len__(self) -> int:
        """Length of the vectors."""
        return len(self.index)

    def __call__(self, values: Any) -> Any:
        """The image of (..., n) values, arrays of numpy or JAX."""
        return values[..., np.array(self.index, int)] * np.array(self.sign, np.float32)

    def rows(self, entries: Reflection) -> Reflection:
        """Reflection of a flattened matrix: rows are permuted as by this one, and each is reflected by `entries`."""
        size = len(entries)
        return Reflection(
            tuple(size * row + entry for row in self.index for entry in entries.index),
            tuple(row * entry for row in self.sign for entry in entries.sign),
        )

    @classmethod
    def joined(cls, parts: Iterable[Reflection]) -> Reflection:
        """Reflection of vectors that follow each other."""
        index: list[int] = []
        sign: list[int] = []
        for part in parts:
            start = len(index)
            index += [start + i for i in part.index]
            sign += part.sign
        return cls(tuple(index), tuple(sign))


def unchanged(size: int) -> Reflection:
    """Reflection of numbers that look the same in the mirror, such as heights and times."""
    return Reflection(tuple(range(size)), (1,) * size)


VECTOR = Reflection((0, 1, 2), (1, -1, 1))
"""Of a vector (x, y, z), in the world's or a body's frame: position, velocity, force, an axis of the body."""
PSEUDOVECTOR = Reflection((0, 1, 2), (-1, 1, -1))
"""Of a rotation vector (x, y, z): angular velocity, torque. A mirrored wheel turns the other way about its x and z."""
QUATERNION = Reflection((0, 1, 2, 3), (1, -1, 1, -1))
"""Of an orientation (w, x, y, z): its vector part is along a rotation vector."""
PLANAR = Reflection((0, 1), (1, -1))
"""Of a vector (x, y)."""
PLANAR_COMMAND = Reflection((0, 1, 2), (1, -1, -1))
"""Of a velocity command: forward, left, turn left."""


@dataclass(frozen=True)
class Mirror:
    """Reflections of a robot's action and of its observed terms."""

    action: Reflection
    observed: Mapping[str, Reflection]
    """Observed term, in whichever group, or observation group -> its reflection."""

    def of_groups(self, terms: Mapping[str, Mapping[str, tuple[int, ...]]]) -> Mirror:
        """The same for whole observation groups, whose terms and their shapes are given in order.

        Raises:
            EmbodiedError: a term has no reflection, or one of another length; names it.
        """
        return Mirror(self.action, {group: self._joined(group, shapes) for group, shapes in terms.items()})

    def _joined(self, group: str, shapes: Mapping[str, tuple[int, ...]]) -> Reflection:
        for name, shape in shapes.items():
            if name not in self.observed:
                raise EmbodiedError(
                    f"observed term '{group}/{name}' has no mirror image; expected one in the task's `mirror`, which "
                    f"has {', '.join(self.observed)}"
                )
            if len(self.observed[name]) != int(np.prod(shape)):
                raise EmbodiedError(
                    f"observed term '{group}/{name}' has shape {shape}; its mirror image {len(self.observed[name])} "
                    "numbers"
                )
        return Reflection.joined(self.observed[name] for name in shapes)


def partners(distance: np.ndarray, names: Sequence[str], furthest: float) -> tuple[int, ...]:
    """The mirror image of each of n things among them: the nearest, by pairs.

    Args:
        distance: (n, n) from the image of thing i to thing j.
        names: Of the things, for the error.
        furthest: Distance beyond which a thing is no image.

    Raises:
        EmbodiedError: a thing has no image among them; names it.
    """
    nearest = distance.argmin(1)
    for i, j in enumerate(nearest):
        if distance[i, j] > furthest or nearest[j] != i:
            raise EmbodiedError(f"{names[i]!r} has no mirror image among {', '.join(names)}; nearest: {names[j]!r}")
    return tuple(int(j) for j in nearest)
