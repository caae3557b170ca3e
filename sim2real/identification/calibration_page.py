"""The page of a calibration: values with their intervals, what the log cannot tell, and how the twin follows the robot.

One file that needs nothing else: charts are drawn as SVG.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np

from sim2real.identification.calibration import NORMAL, Calibration, Direction, Estimate, OpenLoop, improvement
from sim2real.identification.simulate import Output, Samples, Track, Twin

SHOWN = 4  # windows in a chart, side by side
CHARTS = 12  # at most, so that a humanoid's page stays readable
SIZE = (380, 110, 64)  # pixels: width of a chart, height of the signal, height of the error
GAP = 12  # pixels between the two
MARGIN = 0.15  # of the measured range, above and below it
COLOURS = {"measured": "#8a95a5", "nominal": "#d9822b", "calibrated": "#2f6fde"}
LABELS = (("measured", "measured"), ("nominal", "nominal model"), ("calibrated", "calibrated twin"))

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5d6878; --line: #dfe4ea; --page: #fbfcfd; --card: #fff;
  --bar: #2f6fde; --warn: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #98a3b3; --line: #313a47; --page: #12161c;
  --card: #1a2029; --bar: #6c9df5; --warn: #e69a5c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 76rem;
  margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .5rem; }
p { margin: .3rem 0 .8rem; max-width: 60rem; } p, code { color: var(--soft); }
code { font-size: .85em; overflow-wrap: anywhere; }
.numbers { display: flex; flex-wrap: wrap; gap: 2.5rem; margin: 1.4rem 0; }
.numbers b { display: block; font-size: 2rem; line-height: 1.2; }
.numbers span { color: var(--soft); font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .85rem; }
td, th { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.n, th.n { text-align: right; } .warn { color: var(--warn); } .soft { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .6rem; }
figcaption { font-size: .85rem; color: var(--soft); } svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .35em 0 1em; }
"""


def page(result: Calibration, twin: Twin, track: Track, command: str) -> str:
    """The page as HTML; `command` is how it can be made again."""
    title = f"Calibration of {html.escape(result.robot)}"
    parts = [
        f"<h1>{title}</h1><p>{html.escape(result.source) or 'a log'}<br><code>{html.escape(command)}</code></p>",
        _numbers(result),
        ""
        if result.converged
        else '<p class="warn">Gauss-Newton did not converge: take the values as provisional.</p>',
        "<h2>Parameters</h2>",
        "<p>Intervals hold 95 %, with the residual's autocorrelation taken into account. The bar shows the interval "
        "between the bounds; the tick is the nominal value.</p>",
        _estimates(result),
        "<h2>What the log cannot tell</h2>",
        _directions(result.unidentified),
        "<h2>Open-loop error on held-out data</h2>",
        "<p>The twin starts from the state measured, follows the logged commands for the horizon, and nothing corrects "
        "it. A noisy start is an error of its own: <i>start fitted</i> is the calibrated twin without it. Noise is "
        "what remains in the fit: of sensors, and what no parameter explains.</p>",
        _errors(result),
        "<h2>Held-out windows</h2>",
        _legend(),
        f'<div class="charts">{"".join(_charts(twin, track))}</div>',
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return f"<!doctype html><html lang=en>{head}<title>{title}</title><style>{STYLE}</style>{''.join(parts)}</html>\n"


def _numbers(result: Calibration) -> str:
    horizons = [error.horizon for error in result.errors]
    shown = 0.5 if 0.5 in horizons else horizons[-1]
    identified = sum(estimate.identified for estimate in result.free)
    rows = (
        (f"{identified} of {len(result.free)}", "parameters identified"),
        (
            f"{100 * improvement(result.errors, result.errors[0].channel, shown):.2g} %",
            f"of the nominal error left in {html.escape(result.errors[0].channel)}, {shown:g} s",
        ),
        (f"{result.seconds:.0f} s", "of the log fitted"),
        (f"{result.took:.0f} s", "of computation"),
    )
    return f'<div class="numbers">{"".join(f"<div><b>{a}</b><span>{b}</span></div>" for a, b in rows)}</div>'


def _estimates(result: Calibration) -> str:
    head = _head("parameter", "#nominal", "#value", "#&plusmn; 95 %", "unit", "between the bounds", "")
    rows = []
    for estimate in result.estimates:
        parameter, half = estimate.parameter, NORMAL * estimate.sd
        spread = _number(half) if parameter.free else ""
        rows.append(
            f"<tr><td>{html.escape(estimate.name)}<td class=n>{_number(parameter.nominal)}"
            f"<td class=n>{_number(estimate.value)}<td class=n>{spread}"
            f"<td>{html.escape(parameter.unit if parameter.unit != '1' else 'factor')}"
            f"<td>{_bar(estimate)}<td>{_remark(estimate)}</tr>"
        )
    return f"<table>{head}{''.join(rows)}</table>"


def _remark(estimate: Estimate) -> str:
    if not estimate.parameter.free:
        return '<span class="soft">fixed</span>'
    if estimate.at_bound:
        return '<span class="warn">at its bound</span>'
    if not estimate.identified:
        return '<span class="warn">not identified: mostly what was believed before</span>'
    return ""


def _bar(estimate: Estimate) -> str:
    parameter, width = estimate.parameter, 180
    place = lambda value: width * (value - parameter.lower) / (parameter.upper - parameter.lower)  # noqa: E731
    low, high = (place(end) for end in estimate.interval)
    tick, size = place(parameter.nominal), max(high - low, 3.0)
    mark = f'<rect x="{(low + high - size) / 2:.1f}" y="3" width="{size:.1f}" height="8" rx="1.5" fill="var(--bar)"/>'
    return (
        f'<svg viewBox="0 0 {width} 14" style="width:{width}px"><rect y="6.5" width="{width}" height="1" '
        f'fill="var(--line)"/>{mark if parameter.free else ""}<rect x="{tick - 0.5:.1f}" y="1" width="1" height="12" '
        f'fill="var(--ink)"/></svg>'
    )


def _directions(directions: Sequence[Direction]) -> str:
    if not directions:
        return "<p>Nothing: every combination of parameters shows in the log.</p>"
    rows = "".join(
        f"<tr><td>{' '.join(_term(n, s, i) for i, (n, s) in enumerate(zip(d.names, d.shares, strict=True)))}"
        f"<td class=n>{'all of it' if math.isinf(d.left) else f'{d.left:.3g} x'}</tr>"
        for d in directions
    )
    return (
        "<p>Combinations about which the log says less than was believed before it. Along them the values stay where "
        "they were; excite the robot in another way, fix a parameter, or give a value known from elsewhere "
        "(<code>--known</code>).</p><table><tr><th>combination, in prior deviations"
        f"<th class=n>uncertainty the log leaves, of that before</tr>{rows}</table>"
    )


def _term(name: str, share: float, index: int) -> str:
    sign = "-" if share < 0 else "+" if index else ""
    return f"{sign} {abs(share):.2f} {html.escape(name)}"


def _errors(result: Calibration) -> str:
    head = _head("channel", "#horizon", "#windows", "#nominal", "#calibrated", "#left", "#start fitted", "#noise")
    rows = "".join(
        f"<tr><td>{html.escape(e.channel)}<td class=n>{e.horizon:g} s<td class=n>{e.windows}"
        f"<td class=n>{_number(e.before)}<td class=n>{_number(e.after)}<td class=n>{_share(e)}"
        f"<td class=n>{_number(e.fitted)}<td class=n>{_number(e.noise)}</tr>"
        for e in result.errors
    )
    return f"<table>{head}{rows}</table>"


def _share(error: OpenLoop) -> str:
    return f"{100 * error.after / error.before:.2g} %" if error.before > 0 else "-"


def _head(*columns: str) -> str:
    """A table's first row; columns of numbers begin with #."""
    cells = (f"<th class=n>{c[1:]}" if c.startswith("#") else f"<th>{c}" for c in columns)
    return f"<tr>{''.join(cells)}</tr>"


def _legend() -> str:
    keys = "".join(f'<span class="key" style="background:{COLOURS[name]}"></span>{label}' for name, label in LABELS)
    return f"<p>Root mean square errors above are over all windows; the first of them here, side by side. {keys}</p>"


def _charts(twin: Twin, track: Track) -> list[str]:
    charts: list[str] = []
    for index, output in enumerate(twin.outputs):
        samples, before, after = track.windows.samples[index], track.before[index], track.after[index]
        for column, name in enumerate(output.names):
            if len(charts) < CHARTS:
                charts.append(_chart(output, name, column, samples, (before, after), track.windows.timestep))
    return charts


def _chart(
    output: Output, name: str, column: int, samples: Samples, tracks: tuple[np.ndarray, np.ndarray], timestep: float
) -> str:
    """One component in the first windows, each in a field of its own: above what it was, below what is wrong of it."""
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
    caption = f"{html.escape(output.channel)}: {html.escape(name)}, and the error; {step.max() * timestep:.2g} s each"
    body = f'<svg viewBox="0 0 {SIZE[0]} {SIZE[1] + GAP + SIZE[2]}">{"".join(lines)}</svg>'
    return f"<figure>{body}<figcaption>{caption}</figcaption></figure>"


def _text(y: float, value: float) -> str:
    return f'<text x="2" y="{y:.0f}">{value:.3g}</text>'


def _line(key: str, x: np.ndarray, y: np.ndarray, width: float) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    look = f'fill="none" stroke="{COLOURS[key]}" stroke-width="{width}" stroke-linejoin="round"'
    return f'<polyline points="{points}" {look}/>'


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.4g}"
