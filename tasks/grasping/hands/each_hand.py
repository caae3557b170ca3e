"""Every task, made for each hand."""

from __future__ import annotations

from typing import Any

from embodied.core.task import Task
from tasks.grasping.bimanual.catch import Catch
from tasks.grasping.bimanual.hand_over import HandOver
from tasks.grasping.bimanual.pour import Pour
from tasks.grasping.hands.hand import Hand
from tasks.grasping.inhand.reorient import Reorient
from tasks.grasping.inhand.rotate_z import RotateZ
from tasks.grasping.lift.lift import Lift

BASES: tuple[type[Task[Any]], ...] = (Reorient, RotateZ, Lift, HandOver, Catch, Pour)
"""In the order in which a hand's module names them."""


def tasks_of(hand: Hand) -> tuple[type[Task[Any]], ...]:
    """Each of `BASES` for one hand, in their order."""
    prefix = hand.name.capitalize()
    return tuple(
        type(f"{prefix}{base.__name__}", (base,), {"hand": hand, "__doc__": base.__doc__, "__module__": __name__})
        for base in BASES
    )
