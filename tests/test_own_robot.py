"""The commands of docs/own_robot.md do what the page says, one after the other: from a downloaded URDF to a bundle."""

from __future__ import annotations

import dataclasses
import importlib
import re
import shlex
import shutil
from pathlib import Path

import pytest

from embodied.registry import join_content
from sim2real.bundles import bundle

pytestmark = pytest.mark.timeout(290)

PAGE = Path(__file__).parents[1] / "docs" / "own_robot.md"
SHORTER = {
    "embodied.train": ("--engine", "mujoco", "--num-envs", "32", "--steps", "1536", "--evaluate-episodes", "0"),
    "embodied.play": ("--video", "film.png", "--seconds", "0.2"),
    "embodied.new": ("--kind", "arm"),
}
"""Command -> what a test adds to it."""


def commands(block: int) -> list[list[str]]:
    """The lines of one of the page's blocks of shell commands, as words after `python -m`."""
    found = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.M | re.S)[block]
    return [shlex.split(line, comments=True)[2:] for line in found.splitlines() if line.startswith("python -m ")]


def run(words: list[str]) -> int:
    module, *arguments = words
    try:
        command = importlib.import_module(module + ".__main__")
    except ImportError:
        command = importlib.import_module(module)
    return command.main([*arguments, *SHORTER.get(module, ())])


def test_from_a_urdf_to_a_bundle_that_is_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("pybullet_data")
    shutil.copytree(Path(data.getDataPath()) / "a1", tmp_path / "a1")
    monkeypatch.chdir(tmp_path)
    lines = commands(0)
    assert [line[0] for line in lines] == [
        "embodied.robot",
        "embodied.train",
        "embodied.play",
        "sim2real.export",
        "sim2real.deploy",
    ]
    for line in lines[:-1]:
        assert run(line) == 0, line
    assert (tmp_path / "a1.png").stat().st_size > 50_000
    assert (tmp_path / "film.png").stat().st_size > 10_000
    made = bundle.load(tmp_path / "a1_bundle")
    assert made.contract.action_size == 12
    # What has hardly learned may fall: the safety chain then latches, which is no error of the page's.
    assert run(lines[-1]) in (0, 3)


def test_every_table_names_tasks_that_take_a_robot() -> None:
    registry = join_content()
    table = PAGE.read_text().split("| robot | tasks")[1].split("\n\n")[0]
    named = set(re.findall(r"`((?:locomotion|manipulation|swarm)/[a-z-]+)`", table))
    assert len(named) >= 5
    for name in named:
        assert "robot" in {field.name for field in dataclasses.fields(registry[name].load().config_type)}, name
