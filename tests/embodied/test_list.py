"""`embodied list`: a line for each task, for people and for other programs."""

import json
import re

import pytest

from embodied import list as listing
from embodied.engines import ENGINES, SUMMARIES
from embodied.registry import join_content
from policies.registry import ALGORITHMS

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def test_a_pipe_gets_a_line_for_each_task(capsys):
    assert listing.main([]) == 0
    said = capsys.readouterr()
    assert [line.partition("\t")[0] for line in said.out.splitlines()] == list(join_content())
    assert not any(character in said.out for character in "│╭─\x1b…")
    assert f"{len(join_content())} tasks" in said.err


def test_a_terminal_gets_tasks_without_variants_in_80_columns(capsys, terminal):
    assert listing.main([]) == 0
    lines = COLOURS.sub("", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    registry = join_content()
    assert listed(lines) == [name for name in registry if registry[name].variant_of is None]
    assert listing.main(["--all"]) == 0
    lines = COLOURS.sub("", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert listed(lines) == list(registry)


def listed(lines: list[str]) -> list[str]:
    """The tasks that begin lines."""
    return [word for word in (line.split()[0] for line in lines) if word in join_content()]


@pytest.mark.parametrize(
    ("words", "expected", "other"),
    [
        (["go1"], "locomotion/go1-joystick-flat", "go2"),
        (["drones", "formation"], "swarm/formation", "swarm/hover"),
        (["GO1", "stairs"], "locomotion/go1-joystick-rough", "flat"),
        (["mt10"], "manipulation/reach", "swarm"),
        (["swarm"], "swarm/hover", "locomotion"),
    ],
)
def test_words_choose(words, expected, other, capsys):
    assert listing.main(words) == 0
    said = capsys.readouterr().out
    assert any(line.startswith(expected) for line in said.splitlines())
    assert other not in said


def test_words_that_nothing_has_suggest(capsys):
    with pytest.raises(SystemExit):
        listing.main(["hovr"])
    assert "unknown task 'hovr'; did you mean 'swarm/hover'?" in capsys.readouterr().err


def test_a_file_that_does_not_exist_is_named_as_one(capsys):
    with pytest.raises(SystemExit):
        listing.main(["no_such_task.py"])
    assert "no_such_task.py' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "names"),
    [("--learners", list(ALGORITHMS)), ("--engines", list(ENGINES)), ("--suites", ["mt10"]), ("--robots", ["go1"])],
)
def test_what_else_there_is(flag, names, capsys, monkeypatch):
    assert listing.main([flag, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {next(iter(row.values())) for row in rows} >= set(names)
    assert all(row["summary"] for row in rows)
    assert listing.main([flag]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 1
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert listing.main([flag]) == 0
    assert max(map(len, COLOURS.sub("", capsys.readouterr().out).splitlines())) <= 80


def test_words_choose_among_what_else_there_is(capsys):
    assert listing.main(["--robots", "quadruped"]) == 0
    names = [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["robot", "go1", "go2"]
    with pytest.raises(SystemExit):
        listing.main(["--engines", "mujco"])
    assert "unknown engine 'mujco'; did you mean 'mujoco'?" in capsys.readouterr().err


def test_every_engine_is_described():
    assert list(SUMMARIES) == list(ENGINES)


def test_a_task_in_full_fits_80_columns(capsys, terminal):
    assert listing.main(["swarm/hover"]) == 0
    lines = COLOURS.sub("", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("commands reach the rotors late" in line for line in lines)
