"""The page of a failure map: how often the policy fails, what distinguishes failures, and where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embodied.evaluation import page as pages
from embodied.evaluation.page import Html
from embodied.evaluation.rates import wilson
from embodied.evaluation.tables import decimals
from sim2real.failures.failure_map import FailureMap

CELLS = 28  # of the map, along each side
SIZE, LEFT, TOP, BOTTOM = 560, 64, 14, 40  # px of the map and of its margins
LOW, HIGH = np.array([34, 130, 96]), np.array([214, 60, 40])  # RGB of risk 0 and 1, distinct in brightness too
CELL = "color:#14181f; padding-left:.5rem; white-space:nowrap"
MIDDLE = np.array([244, 226, 160])  # RGB of risk one half


def page(title: str, found: FailureMap, chosen: Sequence[int], command: str = "") -> str:
    """The page as HTML.

    Args:
        title: What was swept.
        found: The map.
        chosen: Starts proposed for a demonstration.
        command: As which it can be made again.
    """
    parts = [_numbers(found), pages.heading("What tells failures apart"), _features(found)]
    if found.telling:
        parts += [pages.heading("Where they lie"), _map(found, chosen)]
    if chosen:
        parts += [pages.heading("Worth a demonstration"), _proposals(found, chosen)]
    return pages.page(title, "", command, parts)


def _numbers(found: FailureMap) -> Html:
    count, failures = len(found.failed), int(found.failed.sum())
    low, high = wilson(failures, count)
    return pages.numbers(
        {
            f"fail (95 %: {100 * low:.1f} to {100 * high:.1f})": f"{100 * failures / count:.1f} %",
            "starts, one episode from each": f"{count:,}",
        }
    )


def _features(found: FailureMap) -> Html:
    """Failure rates over the quantiles of each informative feature."""
    if not found.telling:
        return pages.paragraph("Nothing tells more than chance does: failures are everywhere alike, or too few.")
    rows = []
    for feature in found.telling:
        bits = f"{found.information[feature]:.3f} bits"
        cells = [
            (f"background:{_colour(rate)};{CELL}", _two(f"{100 * rate:.0f} %", f"{low:.3g} to {high:.3g}"))
            for low, high, rate in found.rates(feature)
        ]
        rows.append((_two(found.features.label(feature), bits), *cells))
    note = pages.paragraph(
        "Failure rate in each fifth of the starts, from the lowest value to the highest. Quaternions are wxyz; what is "
        "of the task's own state is in SI units."
    )
    widest = max(map(len, rows))
    return pages.join((note, pages.table(("feature", "lowest", *("",) * (widest - 3), "highest"), rows)))


def _two(above: str, below: str) -> Html:
    return pages.join((above, Html("<br><small>"), below, Html("</small>")))


def _map(found: FailureMap, chosen: Sequence[int]) -> Html:
    """Risk over the two most informative features (or one, and the order of the starts), with every start as a dot."""
    axes = [found.features.values[:, i] for i in found.telling[:2]]
    labels = [found.features.label(i) for i in found.telling[:2]]
    if len(axes) == 1:
        axes, labels = [axes[0], np.arange(len(found.failed), dtype=float)], [*labels, "start"]
    x, y = ((axis - axis.min()) / max(float(np.ptp(axis)), 1e-12) for axis in axes)
    shapes = [_cell(i, j, x, y, found.risk) for i in range(CELLS) for j in range(CELLS)]
    for row in range(len(x)):
        cx, cy = _place(x[row], y[row])
        colour = "#14181f" if found.failed[row] else "#fff"
        shapes.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="1.8" fill="{colour}" opacity=".75"/>')
    for number, row in enumerate(chosen):
        cx, cy = _place(x[row], y[row])
        shapes.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="9" fill="none" stroke="#14181f" stroke-width="2"/>')
        shapes.append(f'<text x="{cx + 12:.1f}" y="{cy + 4:.1f}" style="fill:#14181f">{number + 1}</text>')
    shapes += _axis_texts(axes, labels)
    note = "Dark dots failed, light ones succeeded; rings are the starts proposed below. Green: safe, red: risky."
    return pages.join((pages.svg(LEFT + SIZE + 10, TOP + SIZE + BOTTOM + 5, shapes, "chart"), pages.paragraph(note)))


def _place(x: float, y: float) -> tuple[float, float]:
    return LEFT + SIZE * x, TOP + SIZE * (1 - y)


def _cell(i: int, j: int, x: np.ndarray, y: np.ndarray, risk: np.ndarray) -> str:
    """A square of the map, coloured by the risk of the starts around it, as far as there are any."""
    away = (x - (i + 0.5) / CELLS) ** 2 + (y - (j + 0.5) / CELLS) ** 2
    weight = np.exp(-away * CELLS**2 / 4)
    left, top = _place(i / CELLS, (j + 1) / CELLS)
    side = SIZE / CELLS
    seen = min(1.0, float(weight.sum()))
    colour = _colour(float(weight @ risk / max(weight.sum(), 1e-12)))
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{side + 0.3:.1f}" height="{side + 0.3:.1f}" fill="{colour}" '
        f'opacity="{seen:.2f}"/>'
    )


def _axis_texts(axes: Sequence[np.ndarray], labels: Sequence[str]) -> list[str]:
    x_name, y_name = (pages.markup(label) for label in labels)
    (x_low, x_high), (y_low, y_high) = ((float(axis.min()), float(axis.max())) for axis in axes)
    base, middle = TOP + SIZE + 17, LEFT + SIZE / 2
    return [
        f'<text x="{LEFT}" y="{base}">{x_low:.3g}</text>',
        f'<text x="{LEFT + SIZE}" y="{base}" text-anchor="end">{x_high:.3g}</text>',
        f'<text x="{middle}" y="{base + 14}" text-anchor="middle">{x_name}</text>',
        f'<text x="{LEFT - 8}" y="{TOP + SIZE}" text-anchor="end">{y_low:.3g}</text>',
        f'<text x="{LEFT - 8}" y="{TOP + 10}" text-anchor="end">{y_high:.3g}</text>',
        f'<text transform="translate(18 {TOP + SIZE / 2}) rotate(-90)" text-anchor="middle">{y_name}</text>',
    ]


def _proposals(found: FailureMap, chosen: Sequence[int]) -> Html:
    values = found.features.values
    digits = {i: 1 + decimals(float(values[:, i].min()), float(values[:, i].max())) for i in found.telling}
    rows = (
        (number + 1, row, f"{100 * found.risk[row]:.0f} %", *(f"{values[row, i]:.{digits[i]}f}" for i in found.telling))
        for number, row in enumerate(chosen)
    )
    return pages.table(("", "#start", "#risk", *(f"#{found.features.label(i)}" for i in found.telling)), rows)


def _colour(risk: float) -> str:
    share = min(max(risk, 0.0), 1.0)
    below = share < 0.5
    ends = (LOW, MIDDLE) if below else (MIDDLE, HIGH)
    mixed = ends[0] + (ends[1] - ends[0]) * (2 * share if below else 2 * share - 1)
    return "rgb({:.0f},{:.0f},{:.0f})".format(*mixed)
