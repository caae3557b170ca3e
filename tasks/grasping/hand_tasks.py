# ruff: noqa: D101 -- each class is its base with one hand, and inherits its docstring
"""The grasping tasks of each hand."""

from __future__ import annotations

from tasks.grasping.bimanual.catch import Catch
from tasks.grasping.bimanual.hand_over import HandOver
from tasks.grasping.bimanual.pour import Pour
from tasks.grasping.hands.models import ALLEGRO, LEAP, SHADOW
from tasks.grasping.inhand.reorient import Reorient
from tasks.grasping.inhand.rotate_z import RotateZ
from tasks.grasping.lift.lift import Lift


class LeapReorient(Reorient):
    hand = LEAP


class LeapRotateZ(RotateZ):
    hand = LEAP


class LeapLift(Lift):
    hand = LEAP


class LeapHandOver(HandOver):
    hand = LEAP


class LeapCatch(Catch):
    hand = LEAP


class LeapPour(Pour):
    hand = LEAP


class AllegroReorient(Reorient):
    hand = ALLEGRO


class AllegroRotateZ(RotateZ):
    hand = ALLEGRO


class AllegroLift(Lift):
    hand = ALLEGRO


class AllegroHandOver(HandOver):
    hand = ALLEGRO


class AllegroCatch(Catch):
    hand = ALLEGRO


class AllegroPour(Pour):
    hand = ALLEGRO


class ShadowReorient(Reorient):
    hand = SHADOW


class ShadowRotateZ(RotateZ):
    hand = SHADOW


class ShadowLift(Lift):
    hand = SHADOW


class ShadowHandOver(HandOver):
    hand = SHADOW


class ShadowCatch(Catch):
    hand = SHADOW


class ShadowPour(Pour):
    hand = SHADOW
