"""The site is built without a warning, has every page, and a browser that shows it needs no network."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.snippets import ROOT

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")),
    reason='the site is not built: mkdocs is not installed (pip install -e ".[docs]")',
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]+)", text)
        assert not fetched, page.name


def test_the_api_has_what_docstrings_say(site: Path) -> None:
    assert "Build <code>num_envs</code> environments" in (site / "api" / "embodied.html").read_text(encoding="utf-8")
    assert "golden vectors" in (site / "api" / "sim2real.html").read_text(encoding="utf-8")
