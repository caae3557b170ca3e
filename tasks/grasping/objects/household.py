"""Household objects after the YCB set, composed of primitives, with the set's masses and dimensions.

Source of every mass and of `published`: Calli, Walsman, Singh, Srinivasa, Abbeel and Dollar, "Benchmarking in
manipulation research using the Yale-CMU-Berkeley object and model set", IEEE Robotics & Automation Magazine 22 (2015),
its table of objects (object list on ycbbenchmarks.com); the number in a comment is the object's there. Food is fake, as
in the set: a plastic apple weighs 68 g. Data missing there (where a neck begins, how far a handle sticks out, all
colours) are estimated by eye. Names are the set's.
"""

from __future__ import annotations

from embodied.errors import UnknownNameError
from tasks.grasping.objects.object_spec import ObjectSpec, object_spec
from tasks.grasping.objects.shapes import box, capsule, cylinder, sphere, wall

RED = (0.80, 0.16, 0.14, 1.0)
ORANGE = (0.93, 0.48, 0.12, 1.0)
YELLOW = (0.95, 0.77, 0.16, 1.0)
LIME = (0.78, 0.86, 0.22, 1.0)
BLUE = (0.15, 0.36, 0.72, 1.0)
SKY = (0.42, 0.66, 0.88, 1.0)
BROWN = (0.42, 0.25, 0.16, 1.0)
WOOD = (0.80, 0.62, 0.40, 1.0)
WHITE = (0.93, 0.93, 0.91, 1.0)
STEEL = (0.70, 0.72, 0.75, 1.0)
BLACK = (0.13, 0.13, 0.15, 1.0)

BOXES = (
    object_spec("cracker_box", 0.411, (box((0.060, 0.158, 0.210), (0, 0, 0)),), RED, (0.060, 0.158, 0.210)),  # 3
    object_spec("sugar_box", 0.514, (box((0.038, 0.089, 0.175), (0, 0, 0)),), YELLOW, (0.038, 0.089, 0.175)),  # 4
    object_spec("pudding_box", 0.187, (box((0.089, 0.110, 0.035), (0, 0, 0)),), BROWN, (0.035, 0.110, 0.089)),  # 8
    object_spec("gelatin_box", 0.097, (box((0.073, 0.085, 0.028), (0, 0, 0)),), ORANGE, (0.028, 0.085, 0.073)),  # 9
    object_spec("wood_block", 0.729, (box((0.085, 0.085, 0.200), (0, 0, 0)),), WOOD, (0.085, 0.085, 0.200)),  # 36
    object_spec("foam_brick", 0.028, (box((0.050, 0.075, 0.050), (0, 0, 0)),), RED, (0.050, 0.075, 0.050)),  # 61
)

CANS = (
    object_spec(  # 2
        "master_chef_can",
        0.414,
        (cylinder(0.102, (0, 0, 0), (0, 0, 0.125)), cylinder(0.102, (0, 0, 0.125), (0, 0, 0.139), WHITE)),
        BLUE,
        (0.102, 0.139),
    ),
    object_spec("tomato_soup_can", 0.349, (cylinder(0.066, (0, 0, 0), (0, 0, 0.101)),), RED, (0.066, 0.101)),  # 5
    object_spec("tuna_fish_can", 0.171, (cylinder(0.085, (0, 0, 0), (0, 0, 0.033)),), SKY, (0.085, 0.033)),  # 7
    object_spec(  # 10: a rounded box, the tin's key rim on top
        "potted_meat_can",
        0.370,
        (
            box((0.050, 0.077, 0.080), (0, 0, 0.040)),
            box((0.030, 0.097, 0.080), (0, 0, 0.040)),
            box((0.044, 0.086, 0.010), (0, 0, 0.077), STEEL),
        ),
        BLUE,
        (0.050, 0.097, 0.082),
    ),
)

BOTTLES = (
    object_spec(  # 6
        "mustard_bottle",
        0.603,
        (
            box((0.058, 0.075, 0.120), (0, 0, 0.060)),
            box((0.042, 0.095, 0.120), (0, 0, 0.060)),
            box((0.044, 0.072, 0.022), (0, 0, 0.131)),
            capsule(0.036, (0, 0, 0.140), (0, 0, 0.150), RED),
            capsule(0.016, (0, 0, 0.160), (0, 0, 0.182), RED),
        ),
        YELLOW,
        (0.058, 0.095, 0.190),
    ),
    object_spec(  # 21: with the grip of a spray bottle's neck
        "bleach_cleanser",
        1.131,
        (
            box((0.065, 0.082, 0.160), (0, 0, 0.080)),
            box((0.049, 0.098, 0.160), (0, 0, 0.080)),
            box((0.050, 0.070, 0.030), (0, 0.004, 0.175)),
            capsule(0.040, (0, 0.008, 0.180), (0, 0.008, 0.205)),
            box((0.044, 0.044, 0.035), (0, 0.008, 0.2325), BLUE),
        ),
        WHITE,
        (0.250, 0.098, 0.065),
    ),
)

VESSELS = (
    object_spec(  # 19; the handle sticks out by 38 mm, and the jug is open
        "pitcher_base",
        0.178,
        (
            cylinder(0.104, (0, 0, 0), (0, 0, 0.004)),
            *wall(0.108, 0.108, 0.0, 0.235, 0.004, 8),
            capsule(0.016, (0.050, 0, 0.195), (0.084, 0, 0.195), WHITE),
            capsule(0.016, (0.084, 0, 0.195), (0.084, 0, 0.065), WHITE),
            capsule(0.016, (0.084, 0, 0.065), (0.050, 0, 0.065), WHITE),
        ),
        SKY,
        (0.108, 0.235),
    ),
    object_spec(  # 24
        "bowl",
        0.147,
        (cylinder(0.074, (0, 0, 0), (0, 0, 0.005)), *wall(0.072, 0.159, 0.0, 0.0506, 0.005, 12)),
        RED,
        (0.159, 0.053),
    ),
    object_spec(  # 25; the handle sticks out by 37 mm, as in the set's scan
        "mug",
        0.118,
        (
            cylinder(0.074, (0, 0, 0), (0, 0, 0.006)),
            *wall(0.080, 0.080, 0.0, 0.082, 0.005, 8),
            capsule(0.012, (0.036, 0, 0.064), (0.066, 0, 0.058)),
            capsule(0.012, (0.066, 0, 0.058), (0.071, 0, 0.040)),
            capsule(0.012, (0.071, 0, 0.040), (0.062, 0, 0.022)),
            capsule(0.012, (0.062, 0, 0.022), (0.036, 0, 0.016)),
        ),
        RED,
        (0.080, 0.082),
    ),
)

FOOD_AND_BALLS = (
    object_spec(  # 11: the arc's length is 190 mm, its thickness 36 mm
        "banana",
        0.066,
        (
            capsule(0.022, (-0.085, 0.042, 0), (-0.064, 0.016, 0)),
            capsule(0.034, (-0.060, 0.014, 0), (-0.024, -0.004, 0)),
            capsule(0.036, (-0.024, -0.004, 0), (0.024, -0.004, 0)),
            capsule(0.034, (0.024, -0.004, 0), (0.058, 0.013, 0)),
            capsule(0.020, (0.060, 0.014, 0), (0.080, 0.034, 0)),
            capsule(0.012, (-0.084, 0.042, 0), (-0.092, 0.056, 0), BROWN),
        ),
        YELLOW,
        (0.036, 0.190),
    ),
    object_spec("apple", 0.068, (sphere(0.075, (0, 0, 0)),), RED, (0.075,), rolls=True),  # 13
    object_spec(  # 16, lying
        "pear",
        0.049,
        (
            sphere(0.0662, (0.0331, 0, 0.0331)),
            capsule(0.044, (0.040, 0, 0.0300), (0.066, 0, 0.0255)),
            capsule(0.026, (0.066, 0, 0.0255), (0.087, 0, 0.0215)),
        ),
        LIME,
        (0.0662, 0.100),
        rolls=True,
    ),
    object_spec(  # 56; rubber of 3.3 mm and felt of 3 mm: hollow
        "tennis_ball", 0.058, (sphere(0.0647, (0, 0, 0)),), LIME, (0.0647,), shell=0.0063, rolls=True
    ),
)

TOOLS = (
    object_spec(  # 35; 184 mm is the body with its chuck, 46 mm its thickness, 35 mm the grip's
        "power_drill",
        0.895,
        (
            capsule(0.046, (-0.045, 0, 0.160), (0.040, 0, 0.160)),
            capsule(0.034, (0.050, 0, 0.160), (0.0735, 0, 0.160), BLACK),
            capsule(0.010, (0.080, 0, 0.160), (0.111, 0, 0.160), STEEL),
            box((0.044, 0.035, 0.120), (-0.030, 0, 0.090)),
            box((0.100, 0.057, 0.042), (-0.020, 0, 0.021), BLACK),
        ),
        ORANGE,
        (0.035, 0.046, 0.184),
    ),
    object_spec(  # 37: two blades, closed, and two finger rings
        "scissors",
        0.082,
        (
            box((0.110, 0.012, 0.006), (0.055, 0.003, 0.007), STEEL),
            box((0.106, 0.012, 0.006), (0.053, -0.003, 0.007), STEEL),
            *(
                capsule(0.014, start, end)
                for side in (1, -1)
                for start, end in (
                    ((0.0, side * 0.004, 0.007), (-0.026, side * 0.0365, 0.007)),
                    ((-0.026, side * 0.0365, 0.007), (-0.070, side * 0.0365, 0.007)),
                    ((-0.070, side * 0.0365, 0.007), (-0.083, side * 0.018, 0.007)),
                    ((-0.083, side * 0.018, 0.007), (-0.026, side * 0.007, 0.007)),
                )
            ),
        ),
        ORANGE,
        (0.087, 0.200, 0.014),
    ),
    object_spec(  # 40
        "large_marker",
        0.0158,
        (capsule(0.018, (-0.0515, 0, 0), (0.0, 0, 0)), capsule(0.018, (0.0, 0, 0), (0.0515, 0, 0), BLACK)),
        WHITE,
        (0.018, 0.121),
        rolls=True,
    ),
)

HOUSEHOLD: dict[str, ObjectSpec] = {
    item.name: item for item in (*BOXES, *CANS, *BOTTLES, *VESSELS, *FOOD_AND_BALLS, *TOOLS)
}
"""Name -> object."""

HELD_OUT = ("tomato_soup_can", "pudding_box", "wood_block", "mug", "pear", "large_marker")
"""Household objects that training never sees: of most kinds of shape one."""
TRAIN = tuple(name for name in HOUSEHOLD if name not in HELD_OUT)
"""Those that it sees, among them the five of the G-PAYN paper: mustard, sugar, drill, bleach, meat can."""


def household(name: str) -> ObjectSpec:
    try:
        return HOUSEHOLD[name]
    except KeyError:
        raise UnknownNameError("object", name, HOUSEHOLD) from None
