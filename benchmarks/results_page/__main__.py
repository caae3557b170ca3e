"""Write docs/results.md, and the figures in README and the other pages of docs.

python -m benchmarks.results_page            # write them
python -m benchmarks.results_page --check    # exit code 1 where they differ from the files
"""

from __future__ import annotations

import dataclasses
import sys

import tyro

from benchmarks.results_page.figures import PAGES, refreshed
from benchmarks.results_page.page import PAGE, page
from benchmarks.results_page.records import read


@dataclasses.dataclass(frozen=True)
class Settings:
    """Write docs/results.md and the figures in other pages from the JSON files under benchmarks/results."""

    check: bool = False
    """Only say which are not what the files say."""


def main(settings: Settings) -> int:
    results = read()
    texts = {PAGE: page(results)} | {path: refreshed(path, results) for path in PAGES if path != PAGE}
    changed = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        print(path.name)
        if not settings.check:
            path.write_text(texts[path], encoding="utf-8")
    return int(settings.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings)))
