"""Charts of report pages: lines against steps or minutes as SVG, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from embodied.evaluation.learning_curves import Points
from embodied.evaluation.page import Html, markup, svg

LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 34  # of the margins around the field of a chart
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)  # what a step between two ticks may be, times a power of ten
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
LEAST_TICKS = 3
Place = Callable[[float], float]
"""From a value to its place in the drawing."""


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    points: Points
    colour: str
    """CSS."""
    width: float = 1.6
    opacity: float = 0.9
    band: Sequence[tuple[float, float, float]] = ()
    """(x, low, high), filled behind the line."""


def chart(
    lines: Sequence[Line], across: str, *, share: bool = False, size: tuple[float, float] = (420, 220), kind: str = ""
) -> Html:
    """Lines in one field.

    Args:
        lines: Lines to draw, the first below; those without points are left out.
        across: Quantity of the x axis, with its unit.
        share: Whether they are shares of 1: the axis is from 0 to 100 %.
        size: Width and height of the drawing, in units of which a text is 12 high.
        kind: As of `embodied.evaluation.page.svg`.
    """
    drawn = [line for line in lines if line.points]
    width, height = size[0] - LEFT - RIGHT, size[1] - TOP - BOTTOM
    xs = [x for line in drawn for x, _ in line.points] or [0.0, 1.0]
    ys = [y for line in drawn for y in _heights(line)] or [0.0, 1.0]
    low, high = (0.0, 1.0) if share else _room(min(ys), max(ys))
    last = max(max(xs), 1e-12)
    x_of = lambda x: LEFT + width * x / last  # noqa: E731
    y_of = lambda y: TOP + height * (1 - (min(max(y, low), high) - low) / (high - low))  # noqa: E731
    shapes = [*_y_axis(low, high, y_of, size, share=share), *_x_axis(last, x_of, size, across)]
    for line in drawn:
        shapes += [*_band(line, x_of, y_of), _polyline(line, x_of, y_of)]
    return svg(*size, shapes, kind)


def scatter(
    points: Points,
    across: str,
    ends: tuple[float, float],
    *,
    log: bool = False,
    share: bool = False,
    size: tuple[float, float] = (420, 220),
) -> Html:
    """Points in one field.

    Args:
        across: Quantity of the x axis.
        ends: Ends of the field, in x.
        log: Whether equal factors of x, which is then positive, are equally far apart.
    """
    width, height = size[0] - LEFT - RIGHT, size[1] - TOP - BOTTOM
    scale = math.log10 if log else float
    xs, ys = [scale(x) for x, _ in points], [y for _, y in points]
    left, right = (scale(end) for end in ends)
    low, high = (0.0, 1.0) if share else _room(min(ys), max(ys))
    x_of = lambda x: LEFT + 6 + (width - 12) * (x - left) / max(right - left, 1e-12)  # noqa: E731
    y_of = lambda y: TOP + height * (1 - (y - low) / (high - low))  # noqa: E731
    shapes = _y_axis(low, high, y_of, size, share=share)
    for x, anchor in ((left, "start"), (right, "end")):
        text = short(10**x if log else x)
        shapes.append(f'<text x="{x_of(x):.1f}" y="{size[1] - BOTTOM + 16}" text-anchor="{anchor}">{text}</text>')
    middle, said = (LEFT + size[0] - RIGHT) / 2, f"{across}, logarithmic" if log else across
    shapes.append(f'<text x="{middle:.0f}" y="{size[1] - BOTTOM + 31}" text-anchor="middle">{markup(said)}</text>')
    for x, y in zip(xs, ys, strict=True):
        shapes.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="4" fill="var(--accent)" opacity=".75"/>')
    return svg(*size, shapes)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers from `low` to `high`, about `count` of them."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / count))
    fitting = (power * size for size in ROUND if (high - low) / (power * size) <= count)
    step = next(fitting, 10 * power)
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A number as a tick shows it: 2.5 M, 40 k, 0.05."""
    for size, prefix in PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}"
    return f"{value:.4g}"


def _heights(line: Line) -> list[float]:
    return [y for _, y in line.points] + [end for _, low, high in line.band for end in (low, high)]


def _room(low: float, high: float) -> tuple[float, float]:
    """A range that holds both, from a round number to a round number."""
    if not high > low:
        low, high = low - max(abs(low), 1.0) / 2, high + max(abs(high), 1.0) / 2
    marks = ticks(low, high)
    step = marks[1] - marks[0] if len(marks) >= LEAST_TICKS else (high - low) / 2
    return step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)


def _y_axis(low: float, high: float, y_of: Place, size: tuple[float, float], *, share: bool) -> list[str]:
    shapes = []
    for value in ticks(low, high):
        y, text = y_of(value), f"{100 * value:.0f} %" if share else short(value)
        shapes.append(f'<path d="M{LEFT} {y:.1f}H{size[0] - RIGHT}" stroke="var(--line)"/>')
        shapes.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return shapes


def _x_axis(last: float, x_of: Place, size: tuple[float, float], across: str) -> list[str]:
    base = size[1] - BOTTOM + 16
    shapes = []
    for value in ticks(0.0, last):
        anchor = "start" if value == 0 else "end" if x_of(value) > size[0] - RIGHT - 16 else "middle"
        shapes.append(f'<text x="{x_of(value):.1f}" y="{base}" text-anchor="{anchor}">{short(value)}</text>')
    middle = (LEFT + size[0] - RIGHT) / 2
    return [*shapes, f'<text x="{middle:.0f}" y="{base + 15}" text-anchor="middle">{markup(across)}</text>']


def _polyline(line: Line, x_of: Place, y_of: Place) -> str:
    points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line.points)
    look = f'fill="none" stroke="{line.colour}" stroke-width="{line.width:g}" stroke-linejoin="round"'
    if len(line.points) == 1:  # of which a line would show nothing
        x, y = line.points[0]
        return f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.5" fill="{line.colour}"/>'
    return f'<polyline points="{points}" {look} opacity="{line.opacity:g}"/>'


def _band(line: Line, x_of: Place, y_of: Place) -> list[str]:
    if not line.band:
        return []
    above = [f"{x_of(x):.1f},{y_of(high):.1f}" for x, _, high in line.band]
    below = [f"{x_of(x):.1f},{y_of(low):.1f}" for x, low, _ in reversed(line.band)]
    return [f'<polygon points="{" ".join((*above, *below))}" fill="{line.colour}" opacity=".15"/>']
