"""The observation of a body as a list of parts: one fixed row of features for each, whatever the body.

A task whose bodies come in many forms observes `parts` rows of `WIDTH` numbers, one after the other, the root first;
a policy for any of these bodies reshapes its input to `(parts, WIDTH)`. The rows have everything a policy needs to
know of a body's form: which part hangs on which, how long the limbs are, which joints there are. Rows of zeros stand
for parts that a body does not have, so that several bodies fit in one batch.

In a row, vectors come first, each (3,) in the world frame, then scalars. A part has up to three hinges, in slots 0 to
2; a slot without a hinge is zero throughout. An action has three numbers for each part but the root, one for each slot,
in the order of the rows; numbers for slots without a motor do nothing. Features and slots after the environments of
Chen et al., "Subequivariant graph reinforcement learning in 3D environment", ICML 2023 (arXiv:2305.18951).
"""

from __future__ import annotations

import dataclasses
import itertools

SLOTS = 3
"""Hinges that a part may have."""


@dataclasses.dataclass(frozen=True)
class Feature:
    """One entry of a part's row."""

    name: str
    size: int
    """Numbers it takes."""
    scale: float
    """Factor that brings its typical values to about 1; a network multiplies by it."""


VECTORS = (
    Feature("position", 3, 2.0),  # m, from the root's frame to the part's
    Feature("velocity", 3, 0.5),  # m/s, of the part's frame
    Feature("angular_velocity", 3, 0.1),  # rad/s
    Feature("forward", 3, 1.0),  # x axis of the part's frame
    Feature("up", 3, 1.0),  # z axis of the part's frame
    Feature("axis_0", 3, 1.0),  # axes of the hinges, unit vectors
    Feature("axis_1", 3, 1.0),
    Feature("axis_2", 3, 1.0),
    Feature("target", 3, 1.0),  # horizontal unit vector from the root to the target
)
"""Vectors in the world frame, which turn with the world."""

SCALARS = (
    Feature("present", 1, 1.0),  # 1; 0 where there is no such part
    Feature("parent", 1, 0.0),  # number of the row it hangs on, counted from 1; 0 for the root
    Feature("height", 1, 1.0),  # m, of the part's frame over the ground
    Feature("distance", 1, 0.2),  # m, from the root to the target along the ground
    Feature("length", 1, 2.0),  # m, of the limb
    Feature("radius", 1, 10.0),  # m, of the limb
    Feature("angle", SLOTS, 1.0),  # rad
    Feature("fraction", SLOTS, 1.0),  # where the angle lies between its limits, -1 to 1
    Feature("speed", SLOTS, 0.1),  # rad/s
    Feature("lower", SLOTS, 1.0),  # rad, limits
    Feature("upper", SLOTS, 1.0),  # rad
    Feature("strength", SLOTS, 0.01),  # N m at an action of 1; 0 where there is no motor
)
"""Numbers that stay the same when the world turns about the vertical."""

FEATURES = VECTORS + SCALARS
WIDTH = sum(feature.size for feature in FEATURES)
"""Length of a part's row."""
VECTOR_WIDTH = sum(feature.size for feature in VECTORS)
"""Length of its first part, the vectors."""

_ENDS = list(itertools.accumulate(feature.size for feature in FEATURES))
COLUMNS = {feature.name: slice(end - feature.size, end) for feature, end in zip(FEATURES, _ENDS, strict=True)}
"""Feature -> its columns in a row."""


def parts_in(observation_size: int) -> int:
    """Number of parts that an observation of that length describes.

    Raises:
        ValueError: it is not made of such rows.
    """
    parts, rest = divmod(observation_size, WIDTH)
    if rest or parts < 1:
        raise ValueError(
            f"an observation of length {observation_size} is not a list of body parts, which take {WIDTH} numbers each"
        )
    return parts


def actions_of(parts: int) -> int:
    """Length of the action of a body of that many parts."""
    return SLOTS * (parts - 1)
