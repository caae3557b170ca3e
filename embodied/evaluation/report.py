"""The page of a suite's evaluation: rates with their intervals, learning curves, and a picture of every task.

One file that needs nothing else: pictures are in it, charts are drawn as SVG.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.curves import BINS, COLOURS, binned
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from embodied.evaluation.suites import Rows, overall
from embodied.registry import Suite
from policies.training.loading import ActionRule

PICTURE = (320, 240)  # pixels
QUALITY = 80  # of JPEG
VIEW = "view"  # camera that stands before robots which are bolted down
MOMENT = 60  # control steps into the first episode at which the picture is taken

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5d6878; --line: #dfe4ea; --page: #fbfcfd; --card: #fff;
  --any: #2f6fde; --last: #9dbcf2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #98a3b3; --line: #313a47; --page: #12161c;
  --card: #1a2029; --any: #6c9df5; --last: #35568f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 66rem;
  margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p, code { color: var(--soft); } code { font-size: .85em; overflow-wrap: anywhere; }
.numbers { display: flex; flex-wrap: wrap; gap: 2.5rem; margin: 1.4rem 0; }
.numbers b { display: block; font-size: 2rem; line-height: 1.2; }
.numbers span { color: var(--soft); font-size: .85rem; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; color: var(--soft);
  font-size: .85rem; } td, th { padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); }
td.rate { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; width: 9rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden; }
figure img { display: block; width: 100%; } figcaption { padding: .5rem .7rem; font-size: .85rem; }
figcaption span { display: block; color: var(--soft); }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .35em 0 1em; }
"""


class Photographs:
    """Policies that take one picture of their task on the way."""

    def __init__(self, rule_of: Callable[[Env], ActionRule]) -> None:
        """Take pictures while the policies `rule_of(env)` act."""
        self._rule_of = rule_of
        self.taken: dict[str, bytes] = {}
        """Task -> JPEG; nothing where this machine cannot draw."""

    def rule_of(self, env: Env) -> ActionRule:
        """The policy, which a picture is taken of at one step."""
        rule, calls = self._rule_of(env), 0

        def act(obs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == min(MOMENT, env.max_episode_steps):
                self._take(env)
            return rule(obs)

        return act

    def _take(self, env: Env) -> None:
        import cv2

        from embodied.rendering.pictures import Renderer

        cameras = [env.task.visual_model.camera(number).name for number in range(env.task.visual_model.ncam)]
        try:
            with Renderer(env, PICTURE, VIEW if VIEW in cameras else None) as renderer:
                picture = renderer.frame(0)
        except EmbodiedError:
            return
        ok, data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        if ok:
            self.taken[env.name] = data.tobytes()


def learning_curves(policy: str) -> dict[str, list[tuple[float, float]]]:
    """What is plotted -> (steps, success in [0, 1]), of the run in which a policy was learned; nothing for others."""
    from embodied.storage.runs import Run

    if not Path(policy).exists():
        return {}
    try:
        records = Run.open(Path(policy)).metrics()
    except EmbodiedError:
        return {}
    # A task of a suite is called family/name; `reward/success` is a term of the reward.
    each = sorted({name for record in records for name in record if name.count("/") == 2 and name.endswith("/success")})
    found = {}
    for name in each or ["success"]:
        points = [(record["step"], record[name]) for record in records if name in record]
        if points:
            found[name.removesuffix("/success")] = binned(points, BINS)
    return found


def page(
    suite: Suite,
    rows: Rows,
    command: str,
    pictures: Mapping[str, bytes],
    curves: Mapping[str, Sequence[tuple[float, float]]],
) -> str:
    """The page as HTML.

    Args:
        suite: What was evaluated.
        rows: What `evaluate_suite` gave.
        command: As which it can be repeated.
        pictures: Task -> JPEG.
        curves: What `learning_curves` gave.
    """
    name, summary, repeat = (html.escape(text) for text in (suite.name, suite.summary, command))
    parts = [f"<h1>{name}</h1><p>{summary}<br><code>{repeat}</code></p>"]
    for held_out, title in ((False, ""), (True, "Held out")):
        if part := [row for row in rows if row["held_out"] == held_out]:
            parts += [f"<h2>{title}</h2>" if title else "", _numbers(part), _table(part)]
    if curves:
        parts += ["<h2>Learning</h2>", _chart(curves)]
    if pictures:
        figures = "".join(_figure(row, pictures[row["task"]]) for row in rows if row["task"] in pictures)
        parts += ["<h2>Tasks</h2>", f'<div class="grid">{figures}</div>']
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{name}</title>"
    return (
        f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _numbers(rows: Rows) -> str:
    """The means, large."""
    mean = overall(rows)
    shown = []
    for name, what in (("success_any", "success at any step"), ("success", "success at the last step")):
        bounds = f"95 %: {100 * mean[f'{name}_low']:.1f} to {100 * mean[f'{name}_high']:.1f}"
        shown.append(f"<div><b>{100 * mean[name]:.1f} %</b><span>{what} ({bounds})</span></div>")
    shown.append(f"<div><b>{len(rows)}</b><span>tasks, {mean['episodes']:.0f} episodes</span></div>")
    return f'<div class="numbers">{"".join(shown)}</div>'


def _table(rows: Rows) -> str:
    """One line for each task: both rates as bars with their intervals, and as numbers."""
    lines = "".join(
        f"<tr><td>{html.escape(row['task'].partition('/')[2])}</td><td>{_bar(row)}</td>"
        f'<td class="rate">{100 * row["success_any"]:.0f} % / {100 * row["success"]:.0f} %</td></tr>'
        for row in rows
    )
    keys = '<span class="key" style="background:var(--any)"></span>at any step'
    keys += '<span class="key" style="background:var(--last)"></span>at the last step'
    return f"<table><tr><th>task</th><th>success {keys}</th><th></th></tr>{lines}</table>"


def _bar(row: Mapping[str, Any]) -> str:
    """Two bars, each with its 95 % interval as a line."""
    shapes = []
    for name, y, colour in (("success_any", 2, "var(--any)"), ("success", 11, "var(--last)")):
        width, low, high = (400 * row[key] for key in (name, f"{name}_low", f"{name}_high"))
        shapes.append(f'<rect x="0" y="{y}" width="{width:.1f}" height="7" rx="2" fill="{colour}"/>')
        shapes.append(f'<path d="M{low:.1f} {y + 3.5}H{high:.1f}" stroke="var(--ink)" stroke-width="1" opacity=".6"/>')
    return f'<svg viewBox="0 0 402 20" width="100%" height="20" preserveAspectRatio="none">{"".join(shapes)}</svg>'


def _chart(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Success against environment steps, a line for each task."""
    width, height, left, bottom = 900, 300, 46, 28
    last = max(points[-1][0] for points in curves.values())
    grid = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y, x = 10 + (height - 10) * (1 - share), left + (width - left) * share
        grid.append(f'<path d="M{left} {y:.1f}H{width}" stroke="var(--line)"/>')
        grid.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>')
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        grid.append(f'<text x="{x:.0f}" y="{height + 20}" text-anchor="{anchor}">{last * share / 1e6:.3g} M</text>')
    lines, keys = [], []
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{left + (width - left) * x / last:.1f},{10 + (height - 10) * (1 - y):.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6" opacity=".85"/>')
        label = html.escape(name.rpartition("/")[2])
        keys.append(f'<span class="key" style="background:{colour}"></span>{label}')
    picture = f'<svg viewBox="0 0 {width} {height + bottom}" width="100%">{"".join((*grid, *lines))}</svg>'
    return f"{picture}<p>success in training against environment steps: {' '.join(keys)}</p>"


def _figure(row: Mapping[str, Any], picture: bytes) -> str:
    """A task's picture and its rate."""
    data = base64.b64encode(picture).decode("ascii")
    name = html.escape(row["task"].partition("/")[2])
    return (
        f'<figure><img alt="{name}" src="data:image/jpeg;base64,{data}"><figcaption>{name}'
        f"<span>{100 * row['success_any']:.0f} % at any step, {100 * row['success']:.0f} % at the last</span>"
        "</figcaption></figure>"
    )
