"""The grasping tasks of each hand."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from embodied.core.task import Task
from tasks.grasping.bimanual.catch import Catch
from tasks.grasping.bimanual.hand_over import HandOver
from tasks.grasping.bimanual.pour import Pour
from tasks.grasping.hands.hand import Hand
from tasks.grasping.hands.models import ALLEGRO, LEAP, SHADOW
from tasks.grasping.inhand.reorient import Reorient
from tasks.grasping.inhand.rotate_z import RotateZ
from tasks.grasping.lift.lift import Lift

TaskT = TypeVar("TaskT", bound=Task[Any])


def _with_hand(hand: Hand) -> tuple[type[Reorient], type[RotateZ], type[Lift], type[HandOver], type[Catch], type[Pour]]:
    """Each task as one with that hand, whose name its class bears."""

    def of(base: type[TaskT]) -> type[TaskT]:
        name = f"{hand.name.capitalize()}{base.__name__}"
        return cast(type[TaskT], type(name, (base,), {"hand": hand, "__module__": __name__}))

    return of(Reorient), of(RotateZ), of(Lift), of(HandOver), of(Catch), of(Pour)


LeapReorient, LeapRotateZ, LeapLift, LeapHandOver, LeapCatch, LeapPour = _with_hand(LEAP)
AllegroReorient, AllegroRotateZ, AllegroLift, AllegroHandOver, AllegroCatch, AllegroPour = _with_hand(ALLEGRO)
ShadowReorient, ShadowRotateZ, ShadowLift, ShadowHandOver, ShadowCatch, ShadowPour = _with_hand(SHADOW)
