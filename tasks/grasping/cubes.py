"""The tasks with a cube in a hand, made for each hand."""

from __future__ import annotations

from typing import Any

from tasks.grasping.hands import Hand
from tasks.grasping.inhand import InHand
from tasks.grasping.reorient import Reorient
from tasks.grasping.rotate_z import RotateZ

BASES: tuple[type[InHand[Any]], ...] = (Reorient, RotateZ)
"""Every task of this kind."""


def tasks_of(hand: Hand) -> tuple[type[InHand[Any]], ...]:
    """Each of `BASES` for one hand, in their order."""
    prefix = hand.name.capitalize()
    return tuple(
        type(f"{prefix}{base.__name__}", (base,), {"hand": hand, "__doc__": base.__doc__, "__module__": __name__})
        for base in BASES
    )
