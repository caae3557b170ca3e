"""Tables: whole names, 80 columns on a terminal, tabs in a pipe; results on standard output alone."""

import random
import re
import string
import time
from pathlib import Path

import pytest
from rich.text import Text

from embodied import cli
from embodied.cli import Table
from embodied.cli import terminal as terminal_module
from embodied.evaluation import tables
from tests.kit.commands import plain


def drawn_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    said = capsys.readouterr()
    assert said.err == ""
    return plain(said.out).splitlines()


def word(generator: random.Random, longest: int) -> str:
    return "".join(generator.choices(string.ascii_lowercase, k=generator.randint(1, longest)))


@pytest.mark.parametrize("seed", range(30))
def test_a_table_fits_80_columns_and_breaks_no_name(seed, capsys, terminal):
    generator = random.Random(seed)
    columns = generator.randint(1, 7)
    rows = tuple(
        tuple([word(generator, 60), *(word(generator, 20) for _ in range(columns - 1))])
        for _ in range(generator.randint(1, 8))
    )
    headings = tuple(word(generator, 12) for _ in range(columns)) if generator.random() < 0.5 else ()
    cli.show(Table("A title", rows, headings))
    lines = drawn_lines(capsys)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert all(cell in text for row in rows for cell in row)


def test_prose_is_wrapped_at_words_beside_names(capsys, terminal):
    cli.show(cli.table("what", {"a-name-of-some-length": "many words " * 40}))
    lines = drawn_lines(capsys)
    assert max(map(len, lines)) <= 80
    assert set(" ".join(lines[1:]).split()) == {"a-name-of-some-length", "many", "words"}


def test_a_pipe_gets_tabs_and_nothing_else(capsys):
    long = "x" * 200
    cli.show(Table("title", (("a", Text("1", "red")), (long, "two\nlines")), ("name", "value"), right=(1,)))
    said = capsys.readouterr()
    assert said.out == f"title\nname\tvalue\na\t1\n{long}\ttwo lines\n"
    assert said.err == ""


def test_lines_stay_whole(capsys, terminal):
    path = f"runs/[bold]/{'long/' * 30}checkpoint"
    cli.show(path)
    cli.say(path)
    said = capsys.readouterr()
    assert plain(said.out) == f"{path}\n"
    assert plain(said.err) == f"{path}\n"


def test_notes_go_to_standard_error_alone(capsys):
    cli.say("compiling ...")
    with cli.Line("training", 10) as line:
        line.update(10, "done")
    said = capsys.readouterr()
    assert said.out == ""
    assert "compiling ..." in said.err
    assert "100 %" in said.err


def test_a_line_has_a_clock_while_nothing_is_reported_and_then_the_time_left(capsys, monkeypatch):
    monkeypatch.setattr(terminal_module, "CLOCK_INTERVAL", 0.02)
    monkeypatch.setattr(terminal_module, "LINE_INTERVAL", 0.05)
    with cli.Line("swarm/hover", 10, before=cli.COMPILING) as line:
        time.sleep(0.2)
        line.update(2, "2 steps")
        time.sleep(0.4)
        line.update(6, "6 steps")
        time.sleep(0.1)
        line.update(10, "10 steps")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "swarm/hover  compiling ...  0 s"
    assert "swarm/hover   20 %  2 steps" in said
    assert any(re.fullmatch(r"swarm/hover   60 %  6 steps  \d s left", each) for each in said)
    assert said[-1] == "swarm/hover  100 %  10 steps"


@pytest.mark.parametrize(("seconds", "said"), [(45.2, "45 s"), (130, "2 min"), (5999, "100 min"), (8000, "2.2 h")])
def test_durations_are_short(seconds, said):
    assert terminal_module.duration(seconds) == said


def test_tables_are_drawn_in_one_place():
    root = Path(cli.__file__).parents[2]
    files = [file for top in ("embodied", "policies", "sim2real", "tasks") for file in (root / top).rglob("*.py")]
    drawing = [file.relative_to(root).as_posix() for file in files if "rich.table" in file.read_text(encoding="utf-8")]
    assert drawing == ["embodied/cli/tables.py"]


def row(task: str, *, held_out: bool = False) -> dict[str, object]:
    names = ("success", "success_any", "return")
    rates = {f"{name}{end}": 1.0 for name in names for end in ("", "_low", "_high")}
    return {
        "task": f"manipulation/{task}",
        "held_out": held_out,
        **rates,
        "return": 12345.6,
        "episodes": 50,
        "seconds": 1.0,
    }


def test_the_table_of_a_suite_fits_80_columns(capsys, terminal):
    cli.show(
        tables.suite_table("ml10", [row("button-press-topdown-wall"), row("plate-slide-back-side", held_out=True)])
    )
    lines = drawn_lines(capsys)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("button-press-topdown-wall") for line in lines)
    assert any(line.startswith("mean of 1, held out") for line in lines)
