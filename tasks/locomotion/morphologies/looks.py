"""Visual details: shapes on each family's torso that show where its front is."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.locomotion.morphologies.description import Capsule, Vector

DARK: Vector = (0.12, 0.13, 0.15)
"""RGB of bearings, on the right and in the middle."""
DETAIL: Vector = (0.93, 0.94, 0.92)
"""RGB of bearings on the left, and of light details."""
_GLASS: Vector = (0.05, 0.09, 0.14)


def _ball(x: float, y: float, z: float, radius: float) -> Capsule:
    return Capsule((x, y, z), (x, y, z), radius)


def _both(x: float, y: float, z: float, radius: float, colour: Vector) -> tuple[tuple[Capsule, Vector], ...]:
    """A ball on either side."""
    return (_ball(x, y, z, radius), colour), (_ball(x, -y, z, radius), colour)


DECORATIONS: Mapping[str, tuple[tuple[Capsule, Vector], ...]] = {
    "hopper": ((Capsule((0.034, -0.02, 0.185), (0.034, 0.02, 0.185), 0.024), DARK),),
    "walker": (
        (Capsule((0.046, -0.03, 0.27), (0.046, 0.03, 0.27), 0.032), DETAIL),
        (Capsule((0, -0.07, -0.3), (0, 0.07, -0.3), 0.05), (0.25, 0.30, 0.37)),
    ),
    "humanoid": (
        (Capsule((0.055, -0.03, 0.365), (0.055, 0.03, 0.365), 0.042), _GLASS),
        (Capsule((0, 0, 0.2), (0, 0, 0.3), 0.035), DARK),
        (Capsule((-0.005, -0.045, 0.1), (-0.005, 0.045, 0.1), 0.045), DARK),
        (Capsule((-0.01, -0.045, -0.02), (-0.01, 0.045, -0.02), 0.045), DARK),
        (Capsule((-0.015, -0.045, -0.17), (-0.015, 0.045, -0.17), 0.045), DARK),
        (_ball(0.062, 0, 0.165, 0.02), (0.95, 0.62, 0.32)),
    ),
    "cheetah": (
        *_both(0.48, 0.05, 0.185, 0.026, DARK),
        *_both(0.573, 0.04, 0.125, 0.017, DARK),
        (Capsule((0.56, 0, 0.075), (0.6, 0, 0.07), 0.045), DETAIL),
        (_ball(0.642, 0, 0.082, 0.02), DARK),
        (Capsule((-0.44, 0, -0.01), (0.4, 0, -0.01), 0.062), (0.91, 0.66, 0.26)),
        *(spot for x in (-0.28, -0.14, 0.0, 0.14, 0.28) for spot in _both(x, 0.05, 0.036, 0.025, DARK)),
    ),
}
"""Family -> shapes in the torso's frame, and their colours."""
