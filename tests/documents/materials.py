"""Files that blocks of the documents work on and that a reader has of his own: `needs NAME` makes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.documents.snippets import ROOT, blocks_of


def a1() -> None:
    """`a1/a1.urdf`, from the package `pybullet_data`."""
    data = pytest.importorskip("pybullet_data", reason="pybullet_data is not installed: no a1/a1.urdf")
    shutil.copytree(Path(data.getDataPath()) / "a1", "a1")


def mine() -> None:
    """`mine.toml`, as docs/experiments.md shows it."""
    shown = next(block for block in blocks_of(ROOT / "docs" / "experiments.md") if block.language == "toml")
    Path("mine.toml").write_text(shown.text)


def optuna() -> None:
    """No file, but Optuna, which few installations have."""
    pytest.importorskip("optuna", reason="optuna is not installed (the extra sweep)")


MATERIALS: Mapping[str, Callable[[], None]] = {made.__name__: made for made in (a1, mine, optuna)}
"""Name -> what makes it in the present folder."""
