"""A plot of the hand's paths before and after: a row for each task, from above and from the side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

from embodied.errors import EmbodiedError
from policies.vla.comparison.trajectories import Trajectory

PANEL, MARGIN, TITLE = 360, 28, 46  # pixels: a panel's sides, around what is drawn in it, above a row
VIEWS = ((0, 1, "from above, x and y"), (1, 2, "from the side, y and z"))
"""Axes across and up, of the world frame, and what the panel is called."""
INK, SOFT, PAGE = (48, 36, 29), (120, 104, 93), (255, 255, 255)  # BGR
COLOURS = ((165, 149, 138), (222, 111, 47))  # BGR, before and after
FINE = 4  # bits of a pixel's fraction, by which lines are smooth


def draw_paths(trajectories: Mapping[str, tuple[Sequence[Trajectory], Sequence[Trajectory]]]) -> np.ndarray:
    """(H, W, 3) uint8 BGR; task -> trajectories before and after. Successful episodes end in a dot, others are thin."""
    rows = []
    for task, sides in trajectories.items():
        head = np.full((TITLE, PANEL * len(VIEWS), 3), 255, np.uint8)
        solved = [f"{sum(trajectory.success for trajectory in side)} of {len(side)} solved" for side in sides]
        _write(head, task, (MARGIN, 28), INK)
        _write(head, f"before: {solved[0]}", (PANEL + MARGIN, 18), COLOURS[0])
        _write(head, f"after: {solved[1]}", (PANEL + MARGIN, 38), COLOURS[1])
        rows += [head, np.concatenate([_panel(sides, *view) for view in VIEWS], 1)]
    return np.concatenate(rows, 0)


def save_paths(path: Path, trajectories: Mapping[str, tuple[Sequence[Trajectory], Sequence[Trajectory]]]) -> None:
    """Write the plot as PNG.

    Raises:
        EmbodiedError: it cannot be written there.
    """
    ok, data = cv2.imencode(".png", draw_paths(trajectories))
    assert ok
    try:
        path.write_bytes(data.tobytes())
    except OSError as error:
        raise EmbodiedError(f"cannot write '{path}': {error.strerror}") from error


def _panel(sides: tuple[Sequence[Trajectory], Sequence[Trajectory]], across: int, up: int, name: str) -> np.ndarray:
    """One view of all paths, to one scale."""
    panel = np.full((PANEL, PANEL, 3), 255, np.uint8)
    points = np.concatenate([trajectory.hand.numpy()[:, [across, up]] for side in sides for trajectory in side])
    low, high = points.min(0), points.max(0)
    center, half = (low + high) / 2, max(float((high - low).max()) / 2, 0.01)

    def place(path: np.ndarray) -> np.ndarray:
        unit = (path - center) / half * [1, -1]
        return np.round((unit * (PANEL / 2 - MARGIN) + PANEL / 2) * 2**FINE).astype(np.int32)

    for side, colour in zip(sides, COLOURS, strict=True):
        for trajectory in side:
            line = place(trajectory.hand.numpy()[:, [across, up]])
            cv2.polylines(panel, [line[:, None]], False, colour, 1 + trajectory.success, cv2.LINE_AA, FINE)
            if trajectory.success:
                cv2.circle(panel, line[-1].tolist(), 4 << FINE, colour, -1, cv2.LINE_AA, FINE)
    _write(panel, f"{name}, {200 * half:.0f} cm wide", (MARGIN, PANEL - 8), SOFT)
    return panel


def _write(picture: np.ndarray, text: str, place: tuple[int, int], colour: tuple[int, int, int]) -> None:
    cv2.putText(picture, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, 1, cv2.LINE_AA)
