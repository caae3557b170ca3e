"""Hooks of mkdocs: files beside `docs/` that pages link to are a part of the site, which so needs no network."""

from __future__ import annotations

import os.path
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results_page.page import FOLDER, site_pages  # noqa: E402
from benchmarks.results_page.records import read  # noqa: E402

PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""File -> the page of the site that it is."""
BUILT = re.compile(rf"`({FOLDER}/(\w+))\.md`")
"""A page with tables, as docs/results.md names it."""
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add them."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    pages = {page: page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md")}
    for name, text in site_pages(read()).items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))
        pages[ROOT / "docs" / FOLDER / f"{name}.md"] = text
    linked = {name for page, text in pages.items() for _, name in outside(text, page)}
    for name in sorted(linked - PAGES.keys()):
        if (ROOT / name).is_file():
            files.append(File.generated(config, inside(name), abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at them where they are in the site."""
    where = ROOT / "docs" / page.file.src_uri
    if page.file.src_uri == "results.md":
        markdown = BUILT.sub(r"[\2](\1.md)", markdown)
    for link, name in set(outside(markdown, where)):
        target = os.path.relpath(inside(name), os.path.dirname(page.file.src_uri) or ".")
        markdown = markdown.replace(f"]({link}", f"]({target}")
    return markdown


def outside(markdown: str, page: Path) -> Iterator[tuple[str, str]]:
    """Links of a page that lead out of `docs/`, and what they lead to, from the repository's root."""
    for link in LINK.findall(markdown):
        name = os.path.relpath(os.path.normpath(page.parent / link), ROOT)
        if not name.startswith(("docs/", "..")):
            yield link, name


def inside(name: str) -> str:
    """Where the site has a file of the repository; a README.md would become its folder's index."""
    return PAGES.get(name, name.replace("README.md", "README.txt"))
