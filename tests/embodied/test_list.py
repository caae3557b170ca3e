"""`embodied list`: a line for each task, for people and for other programs."""

import json

import pytest

from embodied import list as listing
from embodied.engines import ENGINES, SUMMARIES
from embodied.env.registry import join_content
from policies.registry import ALGORITHMS
from tests.kit.commands import on_terminal, plain, refused, run


def test_a_pipe_gets_a_line_for_each_task(capsys):
    assert listing.main([]) == 0
    said = capsys.readouterr()
    proven = [name for name in join_content() if not join_content()[name].experimental]
    assert [line.partition("\t")[0] for line in said.out.splitlines()] == proven
    assert not any(character in said.out for character in "│╭─\x1b…")
    assert f"{len(proven)} tasks" in said.err
    assert f"{len(join_content()) - len(proven)} experimental ones (--all)" in said.err
    assert [row["task"] for row in json.loads(run(listing.main, "--all", "--json").out)] == list(join_content())


def narrow(*words: str) -> list[str]:
    """The lines of a list on a terminal, none of which is too wide; neither is one of the notes beside it."""
    said = run(listing.main, *words)
    lines, notes = (plain(text).splitlines() for text in (said.out, said.err))
    assert max(map(len, lines + notes)) <= 80
    return lines


def test_a_terminal_gets_tasks_without_variants_in_80_columns(terminal):
    registry = join_content()
    assert listed(narrow()) == [
        name for name in registry if registry[name].variant_of is None and not registry[name].experimental
    ]
    assert listed(narrow("--all")) == list(registry)


@pytest.mark.parametrize(
    "words", [["--suites"], ["--learners"], ["--engines"], ["--robots"], ["mt10"], ["go1"], ["swarm/hover"]]
)
def test_every_listing_and_description_fits_80_columns(words, terminal):
    narrow(*words)


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["walker", "parts"], "only experimental tasks have 'walker parts'"),
        (["hovr"], "unknown task 'hovr'; did you mean 'swarm/hover'?"),
        (["no_such_task.py"], "no_such_task.py' does not exist"),
        (["--engines", "mujco"], "unknown engine 'mujco'; did you mean 'mujoco'?"),
    ],
)
def test_words_that_nothing_has_suggest(words, said):
    assert said in refused(listing.main, *words)


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("--learners", [name for name, entry in ALGORITHMS.items() if not entry.experimental]),
        ("--engines", list(ENGINES)),
        ("--suites", ["mt10"]),
        ("--robots", ["go1"]),
    ],
)
def test_what_else_there_is(flag, names, capsys, monkeypatch):
    assert listing.main([flag, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {next(iter(row.values())) for row in rows} >= set(names)
    assert all(row["summary"] for row in rows)
    assert listing.main([flag]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 1
    on_terminal(monkeypatch)
    assert narrow(flag)


def test_all_lists_experimental_algorithms_too(capsys):
    names = []
    for words in (["--learners"], ["--learners", "--all"]):
        assert listing.main(words) == 0
        names.append([line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()][1:])
    assert names[1] == list(ALGORITHMS)
    assert set(names[1]) - set(names[0]) == {"hasac", "idql", "matd3", "qmix"}


def test_words_choose_among_what_else_there_is(capsys):
    assert listing.main(["--robots", "quadruped"]) == 0
    names = [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["robot", "go1", "go2"]


def test_every_engine_is_described():
    assert list(SUMMARIES) == list(ENGINES)


def test_a_task_in_full_fits_80_columns(terminal):
    assert any("commands reach the rotors late" in line for line in narrow("swarm/hover"))
