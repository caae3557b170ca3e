"""Report pages in a real browser: no wider than the screen, dark where that is asked for, without network.

Needs what `tests/embodied/viewer/test_browser.py` needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embodied.evaluation import page as pages
from embodied.evaluation.charts import Line, chart

pytestmark = pytest.mark.slow

WIDTHS = (1280, 640, 390)  # px: a desk, a narrow window, a phone
SEEDS = Path(__file__).resolve().parents[3] / "benchmarks/results/swarm/hover/train-seeds.html"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with all that pages are made of, wide and long."""
    rows = [(f"family/a-task-with-a-long-name-{row}", *["0.169 m  (95 %: 0.155 to 0.178)"] * 8) for row in range(12)]
    drawn = chart(
        [Line([(0.0, 0.1), (1e6, 0.9)], "#2f6fde")], "environment steps", share=True, size=(640, 300), kind="chart"
    )
    parts = [
        pages.numbers({f"success of run {number} (95 %: 94.5 to 98.7)": "97.3 %" for number in range(6)}),
        pages.heading("Table"),
        pages.table(("task", *["#figure"] * 8), rows, dict.fromkeys(range(1, 9), "white-space: nowrap")),
        drawn,
        pages.grid([pages.figure(chart([Line([(0.0, 0.1), (1.0, 0.9)], "#2f6fde")], "steps", share=True), "name")] * 5),
        pages.Html(f"<pre>{'python -m embodied.train ' + '--config.a-flag-with-a-long-name=0.123456 ' * 9}</pre>"),
    ]
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(pages.page("A title " + "x" * 80, "what was done", "python -m " + "y" * 200, parts))
    return path


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("which", ["everything", "seeds"])
def test_a_page_fits_every_screen_and_needs_no_network(browser: Any, everything: Path, width: int, which: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((everything if which == "everything" else SEEDS).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
    names = page.evaluate("[...document.querySelectorAll('.scroll table')].map(t => t.parentElement.scrollLeft = 500)")
    assert names, "no table"
    left = page.evaluate("document.querySelector('.scroll td').getBoundingClientRect().left")
    assert left == pytest.approx(page.evaluate("document.querySelector('.scroll').getBoundingClientRect().left"), abs=1)
    page.close()


@pytest.mark.parametrize(("scheme", "bright"), [("light", True), ("dark", False)])
def test_a_page_follows_the_reader_s_scheme(browser: Any, everything: Path, scheme: str, bright: bool) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(everything.as_uri())
    for what in ("backgroundColor", "color"):
        red = page.evaluate(f"getComputedStyle(document.body).{what}").partition("(")[2].partition(",")[0]
        assert (float(red) > 127) == (bright == (what == "backgroundColor"))
    page.emulate_media(media="print")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    page.close()
