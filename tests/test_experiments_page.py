"""docs/experiments.md: its commands parse whole, ranges of sweeps included, and its file is read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import embodied.runs.__main__ as runs
import embodied.sweep.__main__ as sweep
from embodied import cli
from embodied.registry import join_content
from policies.training import launch
from policies.training.sweep import Varied

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "experiments.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def commands(module: str) -> list[list[str]]:
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    found = [shlex.split(line, comments=True)[3:] for line in lines if line.startswith(f"python -m {module} ")]
    return found or pytest.fail(f"no command of {module}")


def test_every_training_parses():
    for words in commands("embodied.train"):
        name = cli.named_task(words, join_content(), "swarm/hover")
        assert name is not None
        without_file = [word for word in words if word != "--config-file" and not word.endswith((".json", ".toml"))]
        assert launch.parse(join_content().find(name), without_file).task == name


def test_every_listing_and_comparison_parses():
    for words in commands("embodied.runs"):
        if words[:1] == [runs.COMPARE]:
            assert len(cli.parse(runs.Comparing, words[1:], "runs compare").runs) == 2
        else:
            cli.parse(runs.Listing, words, "runs")


def test_every_sweep_parses():
    for words in commands("embodied.sweep"):
        settings, rest = cli.parse_known(sweep.Settings, words, "sweep")
        drawn = [f"--{one.flag}={one.values[0] if one.values else one.low}" for one in map(Varied.parse, settings.vary)]
        launch.parse(join_content().find("swarm/hover"), [*rest, *drawn])


def test_the_file_is_read(tmp_path):
    (block,) = blocks("toml")
    (tmp_path / "mine.toml").write_text(block)
    parsed = launch.parse(join_content().find("swarm/hover"), ["--config-file", str(tmp_path / "mine.toml")])
    assert (parsed.steps, parsed.config.latency, parsed.algorithm_config.actor.hidden) == (
        2_000_000, (0.0, 0.0), (128, 128),
    )  # fmt: skip
