"""The Allegro hand: 16 joints, each with its servo."""

from tasks.grasping.hands.each_hand import tasks_of
from tasks.grasping.hands.hand import Hand

FINGERS = ("index", "middle", "ring", "thumb")
JOINTS = tuple(f"{finger}_{joint}" for finger in FINGERS for joint in range(4))

HAND = Hand(
    name="allegro",
    asset="robots/allegro/allegro.xml",
    joint_names=JOINTS,
    actuator_names=JOINTS,
    fingers=FINGERS,
    pads=(*(f"{finger}_{link}" for finger in FINGERS[:3] for link in ("proximal", "middle")), "thumb_middle", "palm"),
    width=0.10,
    mass=1.08,
)
Reorient, RotateZ, Lift, HandOver, Catch, Pour = tasks_of(HAND)
