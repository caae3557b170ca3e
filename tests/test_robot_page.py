"""The commands of docs/your_robot.md do what the page says, one after the other: from a downloaded URDF to a bundle."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from embodied.env.registry import join_content
from policies.training import launch
from sim2real.bundles import bundle
from sim2real.graphs.describe import describe
from tests.documents.snippets import Block, blocks_of, commands_of, directive, run_python
from tests.kit.robots import quadruped

pytestmark = pytest.mark.timeout(290)

PAGE = Path(__file__).parents[1] / "docs" / "your_robot.md"
SHORTER = "--engine mujoco --num-envs 32 --steps 1536 --evaluate-episodes 0"
"""What a test adds to `train`."""


def lines_of(block: Block, folder: Path) -> list[list[str]]:
    """The commands of the page, in its order."""
    lines = commands_of(block, folder)
    assert [line[1] for line in lines] == [
        "embodied.robot",
        "embodied.train",
        "embodied.play",
        "sim2real.export",
        "sim2real.deploy",
    ]
    return lines


def test_the_commands_take_what_those_before_have_made(tmp_path: Path) -> None:
    """The robot is another, of which training takes joints and servos."""
    block = next(block for block in blocks_of(PAGE) if block.how.by)
    understood, trained, played, exported, deployed = lines_of(block, tmp_path)
    robot, out = trained[trained.index("--robot") + 1], trained[trained.index("--out") + 1]
    assert robot == understood[2]
    assert out == played[played.index("--policy") + 1] == exported[2]
    assert deployed[2] == exported[exported.index("--out") + 1]
    (tmp_path / "own.urdf").write_text(quadruped())
    entry = join_content()[trained[2]]
    settings = launch.parse(entry, [str(tmp_path / "own.urdf") if word == robot else word for word in trained[2:]])
    task = entry.load()(settings.config)
    assert task.action_size == 8
    assert describe(task, trained[2]).contract.action_size == 8


@pytest.mark.slow
def test_from_a_urdf_to_a_bundle_that_is_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("pybullet_data")
    shutil.copytree(Path(data.getDataPath()) / "a1", tmp_path / "a1")
    monkeypatch.chdir(tmp_path)
    block = next(block for block in blocks_of(PAGE) if block.how.by)
    block = dataclasses.replace(block, how=directive(f"with {SHORTER} for embodied.train"))
    lines = lines_of(block, tmp_path)
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
    assert named | {"locomotion/getup", "locomotion/reach"} <= {name for name in registry if registry[name].robots}
    for name in (name for name in registry if registry[name].robots):
        assert "robot" in {field.name for field in dataclasses.fields(registry[name].load().config_type)}, name
