"""No relative link in README, CONTRIBUTING or docs leads nowhere: files exist, and so do headings."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.documents.snippets import PAGES, ROOT

LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)(?: \"[^\"]*\")?\)|(?:src|href)=\"(?!\w+:)([^\"]+)\"")
FENCE = re.compile(r"^( *)```.*?^\1```", re.M | re.S)


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """What a link to a heading of a page may end in, as GitHub and the site both form it."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+?) *$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.append(name if name not in found else f"{name}-{found.count(name)}")
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in (first or second for first, second in LINK.findall(text)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{page.name}: {link} leads out of the repository"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}: the page has no such heading"
