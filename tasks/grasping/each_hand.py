"""Every task, made for each hand."""

from __future__ import annotations

from typing import Any

from embodied.task import Task
from tasks.grasping.catch import Catch
from tasks.grasping.hand_over import HandOver
from tasks.grasping.hands import Hand
from tasks.grasping.lifting import Lift
from tasks.grasping.pour import Pour
from tasks.grasping.reorient import Reorient
from tasks.grasping.rotate_z import RotateZ

BASES: tuple[type[Task[Any]], ...] = (Reorient, RotateZ, Lift, HandOver, Catch, Pour)
"""In the order in which a hand's module names them."""


def tasks_of(hand: Hand) -> tuple[type[Task[Any]], ...]:
    """Each of `BASES` for one hand, in their order."""
    prefix = hand.name.capitalize()
    return tuple(
        type(f"{prefix}{base.__name__}", (base,), {"hand": hand, "__doc__": base.__doc__, "__module__": __name__})
        for base in BASES
    )
