"""The LEAP hand: 16 joints, each with its servo; the makers count a finger's sideways joint first."""

from tasks.grasping.hands.each_hand import tasks_of
from tasks.grasping.hands.hand import Hand

FINGERS = ("index", "middle", "ring", "thumb")
JOINTS = (
    *(f"{finger}_{joint}" for finger in FINGERS[:3] for joint in ("side", "mcp", "pip", "dip")),
    *(f"thumb_{joint}" for joint in ("cmc", "axl", "mcp", "ipl")),
)

HAND = Hand(
    name="leap",
    asset="robots/leap/leap.xml",
    joint_names=JOINTS,
    actuator_names=JOINTS,
    fingers=FINGERS,
    pads=(*(f"{finger}_{link}" for finger in FINGERS[:3] for link in ("proximal", "middle")), "thumb_middle", "palm"),
    width=0.10,
    mass=0.746,
)
Reorient, RotateZ, Lift, HandOver, Catch, Pour = tasks_of(HAND)
