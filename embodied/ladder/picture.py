"""The picture of a ladder, drawn with matplotlib: how often the first side wins each pairing, and all ratings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embodied.evaluation.learning_curves import COLOURS, INK, blank, save
from embodied.evaluation.ratings import Ratings

DARK = 0.6  # rates from which on their text is white


def draw(
    path: Path, title: str, sides: tuple[str, str], names: Sequence[str], rates: np.ndarray, ratings: Ratings
) -> None:
    """A map of the pairings, and beside it the ratings of both sides with their intervals.

    Args:
        path: PNG, SVG or PDF.
        sides: Names of both sides.
        rates: (policies, policies) how often the first side wins, its policies first.

    Raises:
        EmbodiedError: matplotlib is missing, or the file cannot be written.
    """
    count = len(names)
    figure = blank(8.6, 1.9 + 0.5 * count)
    rows, rated = figure.subplots(1, 2)
    figure.suptitle(title, fontsize=10, color=INK, fontweight="bold", x=0.01, horizontalalignment="left")
    rows.imshow(rates, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for i, j in np.ndindex(count, count):
        ink = "white" if rates[i, j] > DARK else INK
        rows.text(j, i, f"{100 * rates[i, j]:.0f} %", ha="center", va="center", fontsize=9, color=ink)
    rows.set_xticks(range(count), names)
    rows.set_yticks(range(count), names)
    rows.set_xlabel(sides[1], fontsize=9, color=INK)
    rows.set_ylabel(sides[0], fontsize=9, color=INK)
    rows.set_title(f"{sides[0]} win", loc="left", fontsize=10, color=INK)
    rows.spines[:].set_visible(False)
    for side, own, colour, shift in zip(sides, (ratings.first, ratings.second), COLOURS, (-0.12, 0.12), strict=False):
        low, high = ([abs(end - one.value) for one, end in zip(own, ends, strict=True)]
                     for ends in ([one.low for one in own], [one.high for one in own]))  # fmt: skip
        rated.errorbar([one.value for one in own], np.arange(count) + shift, xerr=(low, high), fmt="o", color=colour,
                       markersize=4, capsize=2, linewidth=1.4, label=side)  # fmt: skip
    rated.set_yticks(range(count), names)
    rated.set_ylim(count - 0.5, -0.5)
    rated.set_title("Elo points about each side's mean", loc="left", fontsize=10, color=INK)
    rated.grid(alpha=0.25, linewidth=0.5)
    rated.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=9, frameon=False, loc="outside upper right", ncols=2)
    for panel in (rows, rated):
        panel.tick_params(labelsize=8, colors=INK, length=0)
    save(figure, path)
