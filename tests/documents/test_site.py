"""The site is built without a warning, has every page, and a browser that shows it needs no network.

Building it takes half a minute; what a build warns of is found here in the pages themselves, and by `test_links.py`.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.results_page.page import FOLDER, SECTIONS
from tests.documents.snippets import PAGES, ROOT
from tests.kit.commands import interpreted

CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
API = sorted((DOCS / "api").glob("*.md"))


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page() -> None:
    # By `.ci/site.py`, of files beside `docs` and of results.
    built = {f"{FOLDER}/{name}.md" for name in {*(section.page for section in SECTIONS), "learners"} - {""}}
    made = {"contributing.md", "changelog.md", *built}
    listed = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", CONFIG.partition("nav:\n  - Begin")[2], re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) - made == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_no_page_and_no_theme_asks_for_anything_from_elsewhere() -> None:
    assert "font: false" in CONFIG
    assert not re.search(r"extra_(css|javascript)|https?://", CONFIG)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(
            r"!\[[^\]]*\]\(\w+:|<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"(?:https?:)?//", text
        ), page


def documented() -> Iterator[tuple[str, Any]]:
    """What the pages of the API show: place, object; of a class also the members that they list."""
    for page in API:
        for name, options in re.findall(r"^::: ([\w.]+)\n((?: +.*\n?)*)", page.read_text(encoding="utf-8"), re.M):
            found = pkgutil.resolve_name(name)
            yield f"{page.name}: {name}", found
            for member in re.findall(r"\w+", (re.findall(r"members: \[(.*)\]", options) or [""])[0]):
                declared = [*vars(found), *getattr(found, "__annotations__", {})]
                inherited = [own for kind in getattr(found, "__mro__", ()) for own in (*vars(kind), *kind.__dict__)]
                assert member in (*declared, *inherited), f"{page.name}: {name} has no {member}"
                yield f"{page.name}: {name}.{member}", getattr(found, member, None)


def test_the_api_shows_what_exists_and_docstrings_name_arguments_that_there_are() -> None:
    """What mkdocstrings warns of."""
    shown = list(documented())
    assert len(shown) > 40
    for place, found in shown:
        for one in [found, *(vars(found).values() if inspect.isclass(found) else ())]:
            if not inspect.isfunction(one) or not one.__doc__:
                continue
            section = re.search(r"^Args:\n((?:    .*\n|\n)*)", f"{inspect.cleandoc(one.__doc__)}\n", re.M)
            named = re.findall(r"^    \**(\w+)(?: \(.*\))?:", section[1], re.M) if section else []
            assert set(named) <= set(inspect.signature(one).parameters), f"{place}: {one.__name__}"


def test_the_pages_hooks_are_python() -> None:
    for hook in re.findall(r"hooks: \[(.*)\]", CONFIG):
        ast.parse((ROOT / hook).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    if any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")):
        pytest.skip('the site is not built: mkdocs is not installed (pip install -e ".[docs]")')
    done = interpreted("-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]+)", text)
        assert not fetched, page.name


@pytest.mark.slow
def test_the_api_has_what_docstrings_say(site: Path) -> None:
    assert "Build <code>num_envs</code> environments" in (site / "api" / "embodied.html").read_text(encoding="utf-8")
    assert "golden vectors" in (site / "api" / "sim2real.html").read_text(encoding="utf-8")
