"""The report of a suite's evaluation: rates with their intervals, learning curves, and a picture of every task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.env.env import Env
from embodied.env.registry import Suite
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError
from embodied.evaluation import page as pages
from embodied.evaluation.charts import Line, chart
from embodied.evaluation.learning_curves import BINS, COLOURS, binned
from embodied.evaluation.page import Html
from embodied.evaluation.rates import overall
from embodied.evaluation.suites import Rows
from embodied.evaluation.tables import interval, percent

PICTURE = (320, 240)  # pixels
QUALITY = 80  # of JPEG
VIEW = "view"  # camera that stands before robots which are bolted down
MOMENT = 60  # control steps into the first episode at which the picture is taken


class Photographs:
    """Policies that take one picture of their task on the way."""

    def __init__(self, rule_of: Callable[[Env], PolicyFunction]) -> None:
        self._rule_of = rule_of
        self.taken: dict[str, bytes] = {}
        """Task -> JPEG; nothing where this machine cannot draw."""

    def rule_of(self, env: Env) -> PolicyFunction:
        """The policy, with a picture taken at one step."""
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
    """Curve -> (steps, success in [0, 1]), of the run in which a policy was learned; empty for others."""
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
        rows: Result of `evaluate_suite`.
        command: Command that repeats it.
        pictures: Task -> JPEG.
        curves: Result of `learning_curves`.
    """
    parts: list[Html] = []
    for held_out, title in ((False, ""), (True, "Held out")):
        if part := [row for row in rows if row["held_out"] == held_out]:
            parts += [pages.heading(title)] if title else []
            parts += [_numbers(part), _table(part)]
    if curves:
        parts += [pages.heading("Learning"), _chart(curves)]
    if pictures:
        figures = (_figure(row, pictures[row["task"]]) for row in rows if row["task"] in pictures)
        parts += [pages.heading("Tasks"), pages.grid(figures)]
    engines = ", ".join(dict.fromkeys(row["engine"] for row in rows))
    return pages.page(suite.name, f"{suite.summary} On {engines}.", command, parts)


def _numbers(rows: Rows) -> Html:
    mean = overall(rows)
    shown = {}
    for name, what in (("success_any", "success at any step"), ("success", "success at the last step")):
        bounds = f"95 %: {100 * mean[f'{name}_low']:.1f} to {100 * mean[f'{name}_high']:.1f}"
        shown[f"{what} ({bounds})"] = f"{100 * mean[name]:.1f} %"
    shown[f"tasks, {mean['episodes']:.0f} episodes"] = f"{len(rows)}"
    return pages.numbers(shown)


def _table(rows: Rows) -> Html:
    """One line for each task: both rates with their intervals, as bars and as numbers, and the return."""
    keys = pages.legend({"at any step": "var(--accent)", "at the last step": "var(--faint)"})
    lines = (
        (
            row["task"].partition("/")[2],
            _bar(row),
            *(_rate(row, name) for name in ("success_any", "success")),
            interval(*(row[key] for key in ("return", "return_low", "return_high"))).replace("95 %: ", ""),
        )
        for row in rows
    )
    heads = ("#at any step (95 %)", "#at the last step (95 %)", "#return (95 %)")
    return pages.table(("task", pages.join(("success ", keys)), *heads), lines, {1: "width: 30%"})


def _rate(row: Mapping[str, Any], name: str) -> str:
    return percent(row, name).replace("95 %: ", "")


def _bar(row: Mapping[str, Any]) -> Html:
    """Two bars, each with its 95 % interval as a line between two ticks."""
    shapes = []
    for name, y, colour in (("success_any", 2, "var(--accent)"), ("success", 13, "var(--faint)")):
        width, low, high = (400 * row[key] for key in (name, f"{name}_low", f"{name}_high"))
        middle, ends = y + 4, f"M{low:.1f} {y}v8M{high:.1f} {y}v8"
        shapes.append(f'<rect x="0" y="{y}" width="{width:.1f}" height="8" rx="2" fill="{colour}"/>')
        shapes.append(f'<path d="M{low:.1f} {middle}H{high:.1f}{ends}" stroke="var(--ink)" fill="none" opacity=".75"/>')
    return pages.svg(402, 23, shapes, "bar")


def _chart(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Html:
    """Success against environment steps, a line for each task."""
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(curves)}
    lines = [Line(list(points), colours[name]) for name, points in curves.items()]
    drawn = chart(lines, "environment steps", share=True, size=(640, 300), kind="chart")
    keys = pages.legend({name.rpartition("/")[2]: colour for name, colour in colours.items()})
    return pages.join((drawn, pages.paragraph(pages.join(("success in training, with exploration: ", keys)))))


def _figure(row: Mapping[str, Any], picture: bytes) -> Html:
    name = row["task"].partition("/")[2]
    rates = f"{100 * row['success_any']:.0f} % at any step, {100 * row['success']:.0f} % at the last"
    return pages.figure(pages.jpeg(picture, name), name, rates)
