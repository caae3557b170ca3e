"""HTML reports: one file that needs nothing else, with pictures inside and charts drawn as SVG.

Text is escaped wherever it goes in; markup has the type `Html`, which the functions here return.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5d6878; --line: #dfe4ea; --page: #fbfcfd; --card: #fff;
  --accent: #2f6fde; --faint: #9dbcf2; --warn: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #98a3b3; --line: #313a47; --page: #12161c;
  --card: #1a2029; --accent: #6c9df5; --faint: #35568f; --warn: #e69a5c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 72rem;
  margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0 .8rem; max-width: 60rem; } p, code, .soft { color: var(--soft); } .warn { color: var(--warn); }
.note { border-left: 3px solid var(--warn); padding-left: .8rem; }
code, pre { font-size: .85em; overflow-wrap: anywhere; } pre { white-space: pre-wrap; color: var(--soft); }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.4rem 0; }
.numbers b { display: block; font-size: 2rem; line-height: 1.2; }
.numbers span { color: var(--soft); font-size: .85rem; }
.scroll { overflow-x: auto; }
.scroll td:first-child, .scroll th:first-child { position: sticky; left: 0; background: var(--page); z-index: 1; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .85rem; }
td, th { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; white-space: nowrap; }
.bar { display: block; width: 100%; min-width: 7rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(var(--cell), 100%), 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden; }
figure img, figure svg { display: block; width: 100%; height: auto; } figure svg { max-width: 36rem; margin: auto; }
figcaption { padding: .5rem .7rem; font-size: .85rem; } figcaption span { display: block; color: var(--soft); }
.chart { display: block; width: 100%; height: auto; min-width: 34rem; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.key { white-space: nowrap; margin-right: 1em; } .key i { display: inline-block; width: .8em; height: .8em;
  border-radius: 2px; margin-right: .35em; }
@media (min-width: 40rem) { .scroll td:first-child { white-space: nowrap; } }
@media (max-width: 40rem) { body { margin: 1.2rem auto; padding: 0 .9rem; } h1 { font-size: 1.35rem; }
  .numbers b { font-size: 1.5rem; } table { font-size: .88rem; } }
@media print { :root { color-scheme: light; --ink: #1d2430; --soft: #4d5868; --line: #cfd6de; --page: #fff;
  --card: #fff; --accent: #2f6fde; --faint: #9dbcf2; --warn: #b3541e; }
  body { max-width: none; margin: 0; padding: 0; font-size: 10pt; print-color-adjust: exact; }
  .scroll { overflow: visible; } .scroll td:first-child, .scroll th:first-child { position: static; }
  .chart { min-width: 0; } figure, tr, .numbers { break-inside: avoid; }
  h2 { break-after: avoid; } td.n, th.n { white-space: normal; } }
"""


class Html(str):
    """Markup, which is not escaped again."""


def markup(value: object) -> Html:
    """Text escaped; markup as it is."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def join(parts: Iterable[object], between: str = "") -> Html:
    return Html(between.join(map(markup, parts)))


def page(title: str, subtitle: str, command: str, parts: Sequence[Html]) -> str:
    """A whole page.

    Args:
        subtitle: A line below; may be empty.
        command: Command that makes the page again; may be empty.
    """
    below = [markup(subtitle)] * bool(subtitle) + [Html(f"<code>{markup(command)}</code>")] * bool(command)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{markup(title)}</title><style>{STYLE}</style>"
    body = f"<h1>{markup(title)}</h1>{paragraph(join(below, '<br>')) if below else ''}{''.join(parts)}"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>\n"


def heading(text: str) -> Html:
    return Html(f"<h2>{markup(text)}</h2>")


def paragraph(text: object, kind: str = "") -> Html:
    """A paragraph of text or markup; `kind`: `note`, `warn` or `soft`."""
    return Html(f"<p{_class(kind)}>{markup(text)}</p>")


def span(text: object, kind: str) -> Html:
    return Html(f"<span{_class(kind)}>{markup(text)}</span>")


def numbers(items: Mapping[str, str]) -> Html:
    """The results that matter most, in large type: name -> number."""
    each = (f"<div><b>{markup(number)}</b><span>{markup(what)}</span></div>" for what, number in items.items())
    return Html(f'<div class="numbers">{"".join(each)}</div>')


def table(columns: Sequence[object], rows: Iterable[Sequence[object]], styles: Mapping[int, str] | None = None) -> Html:
    """A table.

    Args:
        columns: Headings; one that begins with # is of a column of numbers. All empty: no row of headings.
        rows: Cells, text or markup; a pair (CSS, text or markup) is a cell with a style of its own.
        styles: Column -> CSS of all its cells.
    """
    kinds = ["n" if str(column).startswith("#") else "" for column in columns]

    def cell(tag: str, index: int, value: object) -> str:
        own, value = value if isinstance(value, tuple) else ((styles or {}).get(index, ""), value)
        style = f' style="{own}"' if own else ""
        return f"<{tag}{_class(kinds[index])}{style}>{markup(value)}</{tag}>"

    heads = [str(column)[1:] if kind else column for column, kind in zip(columns, kinds, strict=True)]
    lines = [[cell("td", index, value) for index, value in enumerate(row)] for row in rows]
    if any(heads):
        lines.insert(0, [cell("th", index, head) for index, head in enumerate(heads)])
    body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    return Html(f'<div class="scroll"><table>{body}</table></div>')


def svg(
    width: float, height: float, shapes: Iterable[str], kind: str = "", origin: tuple[float, float] = (0, 0)
) -> Html:
    """A drawing of so many units.

    Args:
        shapes: SVG elements.
        kind: `chart`: as wide as the page, but legible on a phone, where it scrolls; `bar`: in a cell of a table,
            stretched to the cell's width.
        origin: Coordinates of its top left corner.
    """
    stretch = {
        "bar": f' height="{height:g}" preserveAspectRatio="none"',
        "chart": f' style="max-width: {1.25 * width:g}px"',  # text grows with the drawing
    }.get(kind, "")
    box = f"{origin[0]:g} {origin[1]:g} {width:g} {height:g}"
    drawing = f'<svg{_class(kind)} viewBox="{box}"{stretch}>{"".join(shapes)}</svg>'
    return Html(f'<div class="scroll">{drawing}</div>' if kind == "chart" else drawing)


def jpeg(data: bytes, alt: str = "") -> Html:
    return Html(f'<img alt="{markup(alt)}" src="data:image/jpeg;base64,{base64.b64encode(data).decode("ascii")}">')


def figure(picture: Html, caption: object, note: object = "") -> Html:
    """A picture in a frame with a caption, and a note below that."""
    below = Html(f"<span>{markup(note)}</span>") if note else ""
    return Html(f"<figure>{picture}<figcaption>{markup(caption)}{below}</figcaption></figure>")


def grid(figures: Iterable[Html], cell: str = "14rem") -> Html:
    """Figures side by side, as many as fit at a width of `cell` or more."""
    return Html(f'<div class="grid" style="--cell: {cell}">{"".join(figures)}</div>')


def legend(keys: Mapping[str, str]) -> Html:
    """Name -> colour."""
    each = (f'<i style="background:{colour}"></i>{markup(name)}' for name, colour in keys.items())
    return join((span(Html(key), "key") for key in each), " ")


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
