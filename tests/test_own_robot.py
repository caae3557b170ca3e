"""The commands of docs/own_robot.md do what the page says, one after the other: from a downloaded URDF to a bundle."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from embodied.registry import join_content
from sim2real.bundles import bundle
from tests.documents.snippets import blocks_of, commands_of, directive, run_python

pytestmark = pytest.mark.timeout(290)

PAGE = Path(__file__).parents[1] / "docs" / "own_robot.md"
SHORTER = "--engine mujoco --num-envs 32 --steps 1536 --evaluate-episodes 0"
"""What a test adds to `train`."""


def test_from_a_urdf_to_a_bundle_that_is_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("pybullet_data")
    shutil.copytree(Path(data.getDataPath()) / "a1", tmp_path / "a1")
    monkeypatch.chdir(tmp_path)
    block = next(block for block in blocks_of(PAGE) if block.how.by)
    block = dataclasses.replace(block, how=directive(f"with {SHORTER} for embodied.train"))
    lines = commands_of(block, tmp_path)
    assert [line[1] for line in lines] == [
        "embodied.robot",
        "embodied.train",
        "embodied.play",
        "sim2real.export",
        "sim2real.deploy",
    ]
    for line in lines[:-1]:
        assert run_python(line, block) == 0, line
    assert (tmp_path / "a1.png").stat().st_size > 50_000
    assert (tmp_path / "film.png").stat().st_size > 10_000
    made = bundle.load(tmp_path / "a1_bundle")
    assert made.contract.action_size == 12
    # What has hardly learned may fall: the safety chain then latches, which is no error of the page's.
    assert run_python(lines[-1], block) in (0, 3)


def test_every_table_names_tasks_that_take_a_robot() -> None:
    registry = join_content()
    table = PAGE.read_text().split("| robot | tasks")[1].split("\n\n")[0]
    named = set(re.findall(r"`((?:locomotion|manipulation|swarm)/[a-z-]+)`", table))
    assert len(named) >= 5
    for name in named:
        assert "robot" in {field.name for field in dataclasses.fields(registry[name].load().config_type)}, name
