"""Files that blocks of the documents work on and that a reader has of his own: `needs NAME` makes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest


def a1() -> None:
    """`a1/a1.urdf`, from the package `pybullet_data`."""
    data = pytest.importorskip("pybullet_data", reason="pybullet_data is not installed: no a1/a1.urdf")
    shutil.copytree(Path(data.getDataPath()) / "a1", "a1")


def arm() -> None:
    """`my_arm.xml` and `my_robot.xml`: the small arm that new tasks come with."""
    from embodied.new.__main__ import main

    assert main(["task", "small_arm", "--kind", "arm"]) == 0
    model = next(Path().glob("small_arm*.xml"))
    shutil.copy(model, "my_arm.xml")


MATERIALS: Mapping[str, Callable[[], None]] = {made.__name__: made for made in (a1, arm)}
"""Name -> what makes it in the present folder."""
