"""The report of a calibration: values with their intervals, what the log does not identify, errors of the twin."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from embodied.errors import listing
from embodied.evaluation import page as pages
from embodied.evaluation.page import Html
from embodied.evaluation.tables import decimals
from sim2real.identification.calibration import NORMAL, Calibration, Direction, Estimate, improvement
from sim2real.identification.parameters import Kind
from sim2real.identification.simulate import Output, Samples, Track, Twin
from sim2real.logs.log import UNITS

SHOWN = 4  # windows in a chart, side by side
CHARTS = 12  # at most, so that a humanoid's page stays readable
SIZE = (380, 110, 64)  # pixels: width of a chart, height of the signal, height of the error
GAP = 12  # pixels between the two
NOWRAP = "white-space: nowrap"
SMALL = -4  # power of ten below which it is written with the unit
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PURE = {Kind.LOSS: "share"}
"""Names for numbers without a unit that are not factors of the nominal value."""
MARGIN = 0.15  # of the measured range, above and below it
COLOURS = {"measured": "#8a95a5", "nominal": "#d9822b", "calibrated": "#2f6fde"}
LABELS = (("measured", "measured"), ("nominal", "nominal model"), ("calibrated", "calibrated twin"))


def page(result: Calibration, twin: Twin, track: Track, command: str) -> str:
    """The page as HTML; `command` is how it can be made again."""
    doubt = pages.paragraph("Gauss-Newton did not converge: take the values as provisional.", "warn")
    assumed = [estimate.name for estimate in result.estimates if estimate.parameter.assumed]
    keys = pages.legend({label: COLOURS[name] for name, label in LABELS})
    parts = [
        _numbers(result),
        *([] if result.converged else [doubt]),
        pages.heading("Parameters"),
        pages.paragraph(
            "Intervals hold 95 %, by the noise with its autocorrelation or by how parts of the log contradict each "
            "other, whichever is more. The bar shows the interval between the bounds; the tick is the nominal value."
        ),
        _estimates(result),
        *([_assumed(assumed)] if assumed else []),
        pages.heading("What the log cannot tell"),
        *_directions(result.unidentified),
        pages.heading("Open-loop error on held-out data"),
        pages.paragraph(
            Html(
                "The twin starts from the state measured, follows the logged commands for the horizon, and nothing "
                "corrects it. A noisy start is an error of its own: <i>start fitted</i> is the calibrated twin without "
                "it. Noise is what remains in the fit: of sensors, and what no parameter explains."
            )
        ),
        _errors(result),
        pages.heading("Held-out windows"),
        pages.paragraph(
            pages.join(("Errors above are over all windows; the first of them here, side by side. ", keys))
        ),
        pages.grid(_charts(twin, track), cell="22rem"),
    ]
    return pages.page(f"Calibration of {result.robot}", result.source or "a log", command, parts)


def _numbers(result: Calibration) -> Html:
    horizons = [error.horizon for error in result.errors]
    shown, channel = 0.5 if 0.5 in horizons else horizons[-1], result.errors[0].channel
    left = improvement(result.errors, channel, shown)
    identified = sum(estimate.identified for estimate in result.free)
    return pages.numbers(
        {
            "parameters identified": f"{identified} of {len(result.free)}",
            f"of the nominal error left in {channel}, {shown:g} s": f"{100 * left:.2g} %",
            "of the log fitted": f"{result.seconds:.0f} s",
            "of computation": f"{result.took:.0f} s",
        }
    )


def _estimates(result: Calibration) -> Html:
    rows = ((estimate.name, *values(estimate), _bar(estimate), _remark(estimate)) for estimate in result.estimates)
    columns = ("parameter", "#nominal", "#value", "#± 95 %", "unit", "between the bounds", "")
    return pages.table(columns, rows, {4: NOWRAP, 5: "min-width: 8rem", 6: NOWRAP})


def values(estimate: Estimate) -> tuple[str, str, str, str]:
    """Nominal value, value, and half the width of its interval, all with the digits of that; and their unit."""
    nominal, value, half = estimate.parameter.nominal, estimate.value, NORMAL * estimate.sd
    unit = _unit(estimate.parameter.unit) or PURE.get(estimate.parameter.kind, "factor")
    power = math.floor(math.log10(max(abs(nominal), abs(value)) or 1.0))
    if power < SMALL:
        nominal, value, half = (number / 10.0**power for number in (nominal, value, half))
        unit = f"10{str(power).translate(RAISED)} {unit}"
    if not (estimate.parameter.free and math.isfinite(half)):
        return _number(nominal), _number(value), "", unit
    digits = decimals(0.0, half)
    return f"{nominal:.{digits}f}", f"{value:.{digits}f}", f"{half:.{digits}f}", unit


def _unit(unit: str) -> str:
    """A unit as it is printed; empty for a pure number."""
    return "" if unit == "1" else unit.replace("^2", "²")


def _error_unit(channel: str) -> str:
    """The unit of a channel's errors, which for an orientation are angles."""
    return "rad" if channel == "orientation" else _unit(UNITS.get(channel, ""))


def _assumed(names: Sequence[str]) -> Html:
    return pages.paragraph(
        f"Assumed: {listing(names)} at the nominal value. What depends on it is uncertain by as much as that is, and "
        "intervals include it. Weigh the robot, or state what you take for granted (--known NAME VALUE)."
    )


def _remark(estimate: Estimate) -> Html | str:
    if not estimate.parameter.free:
        return pages.span("assumed" if estimate.parameter.assumed else "known", "soft")
    if estimate.at_bound:
        return pages.span("at its bound", "warn")
    if not estimate.told:
        return pages.span("not identified: only together with others, see below", "warn")
    if not estimate.identified:
        return pages.span("not identified: mostly the prior", "warn")
    return ""


def _bar(estimate: Estimate) -> Html:
    parameter, width = estimate.parameter, 180
    place = lambda value: width * (value - parameter.lower) / (parameter.upper - parameter.lower)  # noqa: E731
    low, high = (place(end) for end in estimate.interval)
    tick, size = place(parameter.nominal), max(high - low, 3.0)
    begin = (low + high - size) / 2
    mark = f'<rect x="{begin:.1f}" y="3" width="{size:.1f}" height="8" rx="1.5" fill="var(--accent)"/>'
    shapes = [
        f'<rect y="6.5" width="{width}" height="1" fill="var(--line)"/>',
        *([mark] if parameter.free else []),
        f'<rect x="{tick - 0.5:.1f}" y="1" width="1" height="12" fill="var(--ink)"/>',
    ]
    return pages.svg(width, 14, shapes, "bar")


def _directions(directions: Sequence[Direction]) -> list[Html]:
    if not directions:
        return [pages.paragraph("Nothing: every combination of parameters shows in the log.")]
    rows = []
    for d in directions:
        terms = " ".join(_term(n, s, i) for i, (n, s) in enumerate(zip(d.names, d.shares, strict=True)))
        left = "all of it" if math.isinf(d.left) else f"{d.left:.3g} x"
        rows.append((f"{'scale, all by one factor: ' if d.scale else ''}{terms}", left))
    note = Html(
        "Combinations about which the log says less than the prior. Along them the values stay where they were; excite "
        "the robot in another way, fix a parameter, or give a value known from elsewhere (<code>--known</code>)."
    )
    columns = ("combination, in prior standard deviations", "#uncertainty the log leaves, of the prior's")
    return [pages.paragraph(note), pages.table(columns, rows)]


def _term(name: str, share: float, index: int) -> str:
    sign = "-" if share < 0 else "+" if index else ""
    return f"{sign} {abs(share):.2f} {name}"


def _errors(result: Calibration) -> Html:
    rows = []
    for e in result.errors:
        left = f"{100 * e.after / e.before:.2g} %" if e.before > 0 else "-"
        errors = (_number(e.before), _number(e.after), left, _number(e.fitted), _number(e.noise))
        rows.append((e.channel, f"{e.horizon:g} s", e.windows, _error_unit(e.channel), *errors))
    columns = ("channel", "#horizon", "#windows", "unit", "#nominal", "#calibrated", "#left", "#start fitted", "#noise")
    return pages.table(columns, rows)


def _charts(twin: Twin, track: Track) -> list[Html]:
    charts: list[Html] = []
    for index, output in enumerate(twin.outputs):
        samples, before, after = track.windows.samples[index], track.before[index], track.after[index]
        for column, name in enumerate(output.names):
            if len(charts) < CHARTS:
                charts.append(_chart(output, name, column, samples, (before, after), track.windows.timestep))
    return charts


def _chart(
    output: Output, name: str, column: int, samples: Samples, tracks: tuple[np.ndarray, np.ndarray], timestep: float
) -> Html:
    """One component in the first windows, each in a field of its own: above the signal, below its error."""
    count = min(SHOWN, len(samples.measured))
    rows = np.arange(count)[:, None]
    step, part = samples.step[:count], samples.fraction[:count]
    seen = samples.measured[:count, :, column]
    at = [(1 - part) * t[rows, step, column] + part * t[rows, step + 1, column] for t in tracks]
    wrong = [values - seen for values in at]
    width = SIZE[0] / count
    x_of = lambda window: window * width + 3 + (width - 6) * (step[window] + part[window]) / step.max()  # noqa: E731
    panels = (
        (0, SIZE[1], (("measured", 4.0, seen), ("nominal", 1.5, at[0]), ("calibrated", 1.5, at[1])), seen),
        (SIZE[1] + GAP, SIZE[2], (("nominal", 1.2, wrong[0]), ("calibrated", 1.2, wrong[1])), np.stack(wrong)),
    )
    lines = []
    for top, height, curves, whole in panels:
        # What left the picture is cut off: an unstable nominal model would hide everything else.
        low, high = np.percentile(whole, (0.5, 99.5))
        room = MARGIN * max(high - low, 1e-9)
        low, high = low - room, high + room
        for key, thick, values in curves:
            y = top + height * (1 - (np.clip(values, low, high) - low) / (high - low))
            lines += [_line(key, x_of(window), y[window], thick) for window in range(count)]
        lines += [_text(top + 10, high), _text(top + height - 2, low)]
    unit, whole = _unit(UNITS.get(output.channel, "")), f"{step.max() * timestep:.2g} s each"
    caption = f"{output.channel}: {name}{f', {unit}' if unit else ''}, and the error; {whole}"
    return pages.figure(pages.svg(SIZE[0], SIZE[1] + GAP + SIZE[2], lines), caption)


def _text(y: float, value: float) -> str:
    return f'<text x="2" y="{y:.0f}">{value:.3g}</text>'


def _line(key: str, x: np.ndarray, y: np.ndarray, width: float) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    look = f'fill="none" stroke="{COLOURS[key]}" stroke-width="{width}" stroke-linejoin="round"'
    return f'<polyline points="{points}" {look}/>'


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.4g}"
