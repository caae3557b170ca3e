"""Places on the table: bins, a tray, a shelf. Made of boxes like objects, but they stay where they are.

A place is open to above or to the front (-y). How steeply one must look down to see the middle of its floor over its
rim follows from its size.
"""

from __future__ import annotations

import dataclasses
import math
from enum import Enum

from tasks.grasping.objects.object_spec import ObjectSpec, object_spec
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.grasping.objects.shapes import Colour, box

WALL = 0.006  # m, thickness of walls and floors
PALE: Colour = (0.90, 0.89, 0.86, 1.0)
NAVY: Colour = (0.16, 0.24, 0.46, 1.0)
DARK: Colour = (0.24, 0.25, 0.28, 1.0)
OAK: Colour = (0.66, 0.50, 0.33, 1.0)


class Opening(Enum):
    """Open side of a place."""

    ABOVE = "above"
    FRONT = "front"


@dataclasses.dataclass(frozen=True)
class Kind:
    """Kind of place."""

    words: str
    """After "the"."""
    item: ObjectSpec
    opening: Opening
    steepness: float
    """rad below the horizon, from where the middle of its floor is seen over the rim."""
    flat: bool
    """Whether a hand gets at what lies in it: nothing is in the hand's way."""


def _bin(words: str, width: float, height: float, rgba: Colour) -> Kind:
    """An open box, square, m."""
    side, out = width / 2, width / 2 - WALL / 2
    parts = (
        box((width, width, WALL), (0, 0, WALL / 2)),
        *(box((WALL, width, height), (x, 0, height / 2)) for x in (-out, out)),
        *(box((width, WALL, height), (0, y, height / 2)) for y in (-out, out)),
    )
    item = object_spec(words.replace(" ", "_"), 1.0, parts, rgba)
    return Kind(words, item, Opening.ABOVE, math.atan2(height - WALL, side - WALL), flat=False)


def _shelf(width: float, depth: float, height: float) -> Kind:
    """A box that is open to the front."""
    parts = (
        box((width, depth, WALL), (0, 0, WALL / 2)),
        box((width, depth, WALL), (0, 0, height - WALL / 2)),
        box((width, WALL, height), (0, depth / 2 - WALL / 2, height / 2)),
        *(box((WALL, depth, height), (x, 0, height / 2)) for x in (-width / 2 + WALL / 2, width / 2 - WALL / 2)),
    )
    return Kind("shelf", object_spec("shelf", 1.0, parts, OAK), Opening.FRONT, 0.0, flat=False)


TRAY = Kind(
    "tray", object_spec("tray", 1.0, (box((0.16, 0.16, WALL), (0, 0, 0)),), PALE), Opening.ABOVE, 0.0, flat=True
)
LOW_BIN = _bin("low bin", 0.20, 0.07, NAVY)
DEEP_BIN = _bin("deep bin", 0.18, 0.15, DARK)
SHELF = _shelf(0.36, 0.20, 0.24)
KINDS = (TRAY, LOW_BIN, DEEP_BIN, SHELF)
"""One of each stands in a scene."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A place of a scene."""

    kind: Kind
    placed: PlacedObject

    @property
    def name(self) -> str:
        """Its words, which are its name: "low bin"."""
        return self.kind.words

    @property
    def top(self) -> float:
        """m, height of its rim over the table."""
        return self.placed.pos[2] + float(self.kind.item.extents[2]) / 2
