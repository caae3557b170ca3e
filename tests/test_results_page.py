"""docs/results.md and the figures in README and docs are what the JSON files say; on the site every file has a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.results_page import figures, tables
from benchmarks.results_page.page import FOLDER, PAGE, SECTIONS, page, site_pages
from benchmarks.results_page.records import LINK, SEED, checked, read
from tests.kit.budget import sharing

RECORD = {
    "success": 0.856, "success_low": 0.8331, "success_high": 0.8784, "train_seconds": 120.0, "steps": 3_612_672,
    "means": {"with, but no map": {"error": 0.00123}},
    "results": [{"task": "a/reach", "seed": 0, "rate": 1.0}, {"task": "a/push", "seed": 0, "rate": 0.5}],
}  # fmt: skip


@pytest.fixture(scope="module")
def records() -> Mapping[str, Any]:
    return read()


@pytest.fixture(scope="module")
def written(records: Mapping[str, Any]) -> str:
    return page(records)


def test_the_page_is_what_the_files_say(written: str) -> None:
    assert PAGE.read_text(encoding="utf-8") == written, "run python -m benchmarks.results_page"


@pytest.mark.parametrize("path", figures.PAGES, ids=lambda path: path.name)
def test_figures_in_prose_are_what_the_files_say(path: Path, records: Mapping[str, Any]) -> None:
    assert path.read_text(encoding="utf-8") == figures.refreshed(path, records), "run python -m benchmarks.results_page"


@pytest.fixture(scope="module")
def pages(records: Mapping[str, Any]) -> Mapping[str, str]:
    with sharing("pages of results"):
        return site_pages(records)


def test_every_file_has_a_row_on_a_page_that_the_first_one_names(
    written: str, records: Mapping[str, Any], pages: Mapping[str, str]
) -> None:
    text = written + "".join(pages.values())
    assert not [name for name in records if f"{LINK}{name}.json" not in text]
    assert all(f"`{FOLDER}/{name}.md`" in written for name in pages)
    assert all(f"## {section.title}\n" in written for section in SECTIONS)


def test_every_file_lies_by_room_and_study_and_names_its_study(records: Mapping[str, Any]) -> None:
    assert not [name for name in records if len(name.split("/")) not in (2, 3)]
    assert not [name for name in records if SEED.sub("", name.rpartition("/")[2]) != records[name]["study"]]


def test_a_result_of_uncommitted_changes_is_refused() -> None:
    clean = {"hardware": {"dirty": False, "date": "2026-12-24T00:00:00+00:00"}}
    assert checked("a", clean) is clean
    with pytest.raises(ValueError, match=r"a\.json was measured with uncommitted changes"):
        checked("a", {"hardware": clean["hardware"] | {"dirty": True}})


def test_seeds_share_a_row() -> None:
    record = {"task": "t", "study": "train", "episodes": 4, "steps": 1e6, "train_seconds": 60.0}
    results = {f"t/train-seed{seed}": record | {"success": value} for seed, value in enumerate((0.5, 1.0))}
    (row,) = tables.trained(results)
    assert row[:5] == ("`t`", "ppo", "1.0", "1.0 (1.0, 1.0)", "75.0 (50.0, 100.0)")


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("success: .1%", "85.6 %"),
        ("success: .1% with interval", "85.6 % (83.3 to 87.8)"),
        ("train_seconds: .0f/60", "2"),
        ("steps: ,d", "3,612,672"),
        ("means > with, but no map > error: .1f*1000", "1.2"),
        ("results > 1 > rate: .0%", "50 %"),
        ("results > task=a/push & seed=0 > rate: .0%", "50 %"),
        ("results > * > rate: .2f", "0.75"),
    ],
)
def test_a_title_says_where_a_figure_stands_and_how_it_is_written(title: str, text: str) -> None:
    assert figures.shown(RECORD, title) == text


@pytest.mark.parametrize(
    "title", ["sucess: .1%", "results > 2 > rate: .0%", "results > task=a/pull > rate: .0%", "steps"]
)
def test_a_title_that_leads_nowhere_is_an_error(title: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f'[1](../benchmarks/results/run.json "{title}")')
    with pytest.raises(figures.FigureError, match=r"page\.md: run\.json has no"):
        figures.refreshed(path, {"run": RECORD})


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text('[85.6 %\n(83.3 to 87.8)](benchmarks/results/run.json "success: .1% with interval")')
    assert figures.refreshed(path, {"run": RECORD}) == path.read_text()
    path.write_text('a [8](benchmarks/results/run.json "success: .1%"), b [c](benchmarks/results/run.json)')
    written = 'a [85.6 %](benchmarks/results/run.json "success: .1%"), b [c](benchmarks/results/run.json)'
    assert figures.refreshed(path, {"run": RECORD}) == written


def test_figures_of_files_in_folders_are_written_too(tmp_path):
    path, file = tmp_path / "page.md", "learners/sparse/drawer-open/bc_demos10_seed0"
    said = json.loads((figures.RESULTS / f"{file}.json").read_text())["evaluation"]["success"]
    path.write_text(f'[?](../benchmarks/results/{file}.json "evaluation > success: .0%")')
    assert figures.refreshed(path, {}).startswith(f"[{100 * said:.0f} %]")
    path.write_text('[?](../benchmarks/results/learners/none.json "evaluation > success: .0%")')
    with pytest.raises(figures.FigureError, match=r"learners/none\.json has no"):
        figures.refreshed(path, {})
