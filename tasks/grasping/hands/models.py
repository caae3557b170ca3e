"""The hands: LEAP, Allegro and one like Shadow's. Masses, joint ranges and their origin are in the MJCF files."""

from __future__ import annotations

from collections.abc import Mapping

from embodied.errors import UnknownNameError
from tasks.grasping.hands.hand import Hand

FOUR_FINGERS = ("index", "middle", "ring", "thumb")
FOUR_FINGERS_PADS = (
    *(f"{finger}_{link}" for finger in FOUR_FINGERS[:3] for link in ("proximal", "middle")),
    "thumb_middle",
    "palm",
)
ALLEGRO_JOINTS = tuple(f"{finger}_{joint}" for finger in FOUR_FINGERS for joint in range(4))
ALLEGRO = Hand(
    name="allegro",
    asset="robots/allegro/allegro.xml",
    joint_names=ALLEGRO_JOINTS,
    actuator_names=ALLEGRO_JOINTS,
    fingers=FOUR_FINGERS,
    pads=FOUR_FINGERS_PADS,
    width=0.10,
    mass=1.08,
)

# The makers count a finger's sideways joint first.
LEAP_JOINTS = (
    *(f"{finger}_{joint}" for finger in FOUR_FINGERS[:3] for joint in ("side", "mcp", "pip", "dip")),
    *(f"thumb_{joint}" for joint in ("cmc", "axl", "mcp", "ipl")),
)
LEAP = Hand(
    name="leap",
    asset="robots/leap/leap.xml",
    joint_names=LEAP_JOINTS,
    actuator_names=LEAP_JOINTS,
    fingers=FOUR_FINGERS,
    pads=FOUR_FINGERS_PADS,
    width=0.10,
    mass=0.746,
)

FIVE_FINGERS = ("index", "middle", "ring", "little", "thumb")
WRIST = ("WRJ2", "WRJ1")
THUMB = tuple(f"THJ{i}" for i in (5, 4, 3, 2, 1))


def _fingers(last: tuple[int, ...]) -> tuple[str, ...]:
    """Joints of index, middle, ring and little finger from the palm outwards; `last`: the numbers after J3."""
    bases = {"FF": (4, 3), "MF": (4, 3), "RF": (4, 3), "LF": (5, 4, 3)}
    return tuple(f"{finger}J{i}" for finger, base in bases.items() for i in (*base, *last))


# 24 joints with the wrist, 20 servos: one tendon bends the last two joints of a finger.
SHADOW = Hand(
    name="shadow",
    asset="robots/shadow/shadow.xml",
    joint_names=(*WRIST, *_fingers((2, 1)), *THUMB),
    actuator_names=(*WRIST, *_fingers((0,)), *THUMB),
    fingers=FIVE_FINGERS,
    pads=(*(f"{finger}_{link}" for finger in FIVE_FINGERS for link in ("proximal", "middle")), "palm"),
    width=0.08,
    mass=3.794,
    on_arm="stub",
)

HANDS: Mapping[str, Hand] = {hand.name: hand for hand in (ALLEGRO, LEAP, SHADOW)}
"""Name -> hand."""


def hand_named(name: str) -> Hand:
    if name not in HANDS:
        raise UnknownNameError("hand", name, HANDS)
    return HANDS[name]
