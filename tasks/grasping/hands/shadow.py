"""A hand like Shadow's: 24 joints with the wrist, 20 servos; one tendon bends the last two joints of a finger."""

from tasks.grasping.hands.each_hand import tasks_of
from tasks.grasping.hands.hand import Hand

FINGERS = ("index", "middle", "ring", "little", "thumb")
WRIST = ("WRJ2", "WRJ1")
THUMB = tuple(f"THJ{i}" for i in (5, 4, 3, 2, 1))


def _fingers(last: tuple[int, ...]) -> tuple[str, ...]:
    """Index, middle, ring and little finger from the palm outwards; `last`: the numbers after J3."""
    bases = {"FF": (4, 3), "MF": (4, 3), "RF": (4, 3), "LF": (5, 4, 3)}
    return tuple(f"{finger}J{i}" for finger, base in bases.items() for i in (*base, *last))


HAND = Hand(
    name="shadow",
    asset="robots/shadow/shadow.xml",
    joint_names=(*WRIST, *_fingers((2, 1)), *THUMB),
    actuator_names=(*WRIST, *_fingers((0,)), *THUMB),
    fingers=FINGERS,
    pads=(*(f"{finger}_{link}" for finger in FINGERS for link in ("proximal", "middle")), "palm"),
    width=0.08,
    mass=3.794,
    on_arm="stub",
)
Reorient, RotateZ, Lift, HandOver, Catch, Pour = tasks_of(HAND)
