"""`embodied COMMAND`: every command by one name, at once, and help that fits a screen."""

import ast
import contextlib
import importlib.util
import io
import json
import re
import sys
import tomllib
from dataclasses import MISSING
from pathlib import Path

import pytest
import tyro

import embodied.__main__ as program
from embodied import cli
from embodied.cli import arguments, commands
from embodied.cli.commands import COMMANDS, GROUPS, SUMMARY_WIDTH, as_called
from embodied.errors import EmbodiedError
from tests.kit.commands import HEAVY, ROOT, interpreted, run

ROUGH = "locomotion/g1-joystick-rough"
LINES = 62  # of a short help: a screen that people still scroll


@pytest.fixture(autouse=True)
def as_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/embodied"])


def refusal(*words: str) -> str:
    """The only line that the program says."""
    done = run(program.main, *words)
    assert done.code == 2
    (line,) = done.err.splitlines()
    return line


def test_every_command_has_a_line_of_the_overview(capsys):
    assert program.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 60
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert named == [command.name for group in GROUPS.values() for command in group]
    assert all(len(command.summary) <= SUMMARY_WIDTH for command in COMMANDS.values())


def test_names_are_unique_and_modules_have_a_main():
    assert sum(len(group) for group in GROUPS.values()) == len(COMMANDS)
    for command in COMMANDS.values():
        spec = importlib.util.find_spec(command.module)
        assert spec is not None, command
        assert spec.origin is not None
        file = Path(spec.origin)
        file = file.with_name("__main__.py") if file.name == "__init__.py" else file
        defined = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}
        assert "main" in defined, command


NEEDS_NEITHER = [
    ["--help"],
    ["nonsense"],
    ["list"],
    ["list", "--help"],
    ["list", "--learners"],
    ["play", "--help"],
    ["play", "swarm/hoover"],
    ["train", "--help"],
    ["train", "locomotion/go1-joystick-flat", "--help"],
    ["train", "swarm/hoover"],
    ["train", "swarm/hover", "--lr", "1e-3"],
    ["train", "swarm/hover", "--steps", "many", "--config.preset", "p250"],
    ["train", "mt10", "--seeds", "0", "0"],
    ["train", "--algorithm", "pppo"],
    ["train", "--resume", "runs", "--seed", "1"],
]


ASKING = f"""
import contextlib, io, json, sys
import embodied.__main__ as program
known, found = set(sys.modules), []
for words in {[[], *NEEDS_NEITHER]!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            words and program.main(words)
    found.append(sorted({set(HEAVY)!r} & (set(sys.modules) if not words else set(sys.modules) - known)))
    known = set(sys.modules)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def imported() -> list[list[str]]:
    """What each of the command lines is the first to import, in one interpreter; before them what importing does."""
    return json.loads(interpreted("-c", ASKING).stdout)


@pytest.mark.parametrize("number", range(len(NEEDS_NEITHER) + 1), ids=["import", *map(" ".join, NEEDS_NEITHER)])
def test_what_needs_neither_jax_nor_torch_imports_neither(number: int, imported: list[list[str]]) -> None:
    assert imported[number] == []


def test_an_unknown_command_suggests():
    assert "unknown command 'trian'; did you mean 'train'?" in refusal("trian")
    assert "did you mean 'asking-evaluate' or 'evaluate'?" in refusal("eval")


def test_the_version(capsys):
    import embodied

    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == f"embodied {embodied.__version__}\n"


def test_a_command_looks_as_if_it_had_been_started_alone():
    assert "nothing-here" in refusal("ship", "nothing-here")
    assert sys.argv == ["embodied ship", "nothing-here"]
    assert cli.command_line("embodied.ship") == "python -m embodied.ship nothing-here"


def test_words_of_a_command_go_before_those_of_the_user(monkeypatch):
    called = []
    monkeypatch.setattr(commands, "load_target", lambda target, what: lambda: called.append((target, sys.argv)) or 0)
    assert program.main(["demo", "--port", "9000"]) == 0
    words = ["embodied demo", *commands.DEMO, "--port", "9000"]
    assert called == [("embodied.play:main", words)]


def test_commands_are_named_in_the_form_in_which_the_program_was_started(monkeypatch):
    text = "python -m embodied.train TASK, python -m sim2real.twin_rl, python -m tasks.questions.clutter.score."
    assert as_called(text) == text
    monkeypatch.setattr(sys, "argv", ["embodied list"])
    assert as_called(text) == "embodied train TASK, embodied twin-rl, python -m tasks.questions.clutter.score."
    monkeypatch.setattr(sys, "argv", ["python -m embodied list"])
    assert as_called("python -m embodied.doctor") == "python -m embodied doctor"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "--resume", "swarm"), None),
        (("evaluate",), "which task? embodied evaluate TASK; embodied list names all"),
        (("collect", "mt10"), "where to? embodied collect TASK --out FOLDER"),
        (("curves",), "which runs? embodied curves RUN"),
        (("evaluate", ROUGH, "--policy", "shipped"), f"Train one: embodied train {ROUGH}"),
    ],
)
def test_errors_name_commands_as_they_were_typed(words, said):
    line = refusal(*words)
    assert "python -m" not in line
    assert said is None or said in line


def test_notes_and_results_name_commands_as_they_were_typed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["embodied new"])
    cli.say("Train it:  python -m embodied.train my_reach.py")
    cli.show("python -m embodied.list TASK describes one")
    said = capsys.readouterr()
    assert (said.err, said.out) == ("Train it:  embodied train my_reach.py\n", "embodied list TASK describes one\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_short_help_and_all_help(name, monkeypatch):
    asked = []
    flags_of = arguments.flags_of
    monkeypatch.setattr(
        arguments, "flags_of", lambda kind, default=MISSING: asked.append((kind, default)) or flags_of(kind, default)
    )
    shown = {}
    for way in ("--help", "--help-all"):
        done = run(program.main, name, way)
        assert done.code == 0
        shown[way] = done.out
        assert max(map(len, shown[way].splitlines())) <= 80
        assert COMMANDS[name].arguments or f"embodied {name} " in shown[way].splitlines()[0]
    assert len(shown["--help"].splitlines()) <= LINES
    kind, default = asked[-1]
    ours = {form for flag in flags_of(kind, default) for form in flag.accepted}
    assert tyros(kind, default) - {"--help"} == {form for form in ours if form.startswith("--")}
    named = {flag.names[0] for flag in flags_of(kind, default)}
    assert {flag for flag in named if flag not in shown["--help-all"]} == set()


@pytest.mark.parametrize("name", ["evaluate", "play", "collect", "ladder"])
def test_help_without_a_task_shows_the_options_of_none_and_says_how_to_see_them(name):
    shown = run(program.main, name, "--help-all").out
    assert not re.findall(r"^  --config\.", shown, re.MULTILINE)
    assert f"{name} TASK --help-all shows them" in " ".join(shown.split())


def tyros(kind: object, default: object) -> set[str]:
    """The flags in tyro's own help."""
    said = io.StringIO()
    named = {} if default is MISSING else {"default": default}
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit):
        tyro.cli(kind, args=["--help"], config=(tyro.conf.EnumChoicesFromValues,), **named)  # type: ignore[call-overload]
    heads = [line for line in said.getvalue().splitlines() if re.match(r".{1,2}--?[a-z]", line)]
    return {flag for line in heads for flag in re.findall(r"--[\w.-]+", line[2:].partition("  ")[0])}


def test_train_help_is_under_sixty_lines_and_examples_stand_in_their_lines():
    lines = run(program.main, "train", "--help").out.splitlines()
    assert len(lines) < 60
    assert "  embodied train my_task.py:Reach" in lines
    assert "  embodied train mt10" in lines


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("train", "--lr", "1e-3"), "--ppo.learning-rate"),
        (("train", "swarm/hover", "--discount=0.9"), "--ppo.gamma"),
        (("train", "--algorithm", "sac", "--batch_size", "64"), "--sac.batch-size"),
        (("train", "--algorithm", "sac", "--lr", "1e-3"), "--sac.critic-learning-rate"),
        (("train", "--num-steps", "100"), "--steps"),
        (("train", "--n-envs", "100"), "--num-envs"),
        (("train", "--ppo.epoch", "100"), "--ppo.epochs"),
        (("train", "--config.prest", "p250"), "--config.preset"),
        (("play", "swarm/hover", "--film", "x.mp4"), "--video"),
        (("evaluate", "swarm/hover", "--checkpoint", "runs/x"), "--policy"),
    ],
)
def test_an_unknown_flag_says_which_was_meant(words, flag):
    line = refusal(*words)
    assert line.startswith("error: unknown flag --")
    assert f"did you mean {flag}" in line
    assert line.endswith(f"embodied {words[0]} --help-all shows all")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "swarm/hover", "--steps", "abc"), "--steps 'abc': expected INT"),
        (("train", "swarm/hover", "--steps"), "--steps needs a value: INT"),
        (("train", "swarm/hover", "--config.preset", "p25"), "invalid choice 'p25' for argument '--config.preset'"),
        (("train", "swarm/hover", "swarm/swap"), "unrecognized options: swarm/swap"),
        (("snapshots", "mt10"), "--out is missing: embodied snapshots TASK --out PATH [FLAGS]"),
        (("bundle",), "BUNDLE is missing: embodied bundle BUNDLE [FLAGS]"),
    ],
)
def test_a_refused_command_line_is_one_line(words, said):
    assert said in refusal(*words)


NEEDED = [(command, package) for command in COMMANDS.values() for package in command.needs]


@pytest.mark.parametrize(("command", "package"), NEEDED, ids=lambda value: getattr(value, "name", value))
def test_a_package_that_a_command_needs_is_missed_before_its_work(command, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(commands, "load_target", lambda target, what: pytest.fail("its module was imported"))
    said = f'error: embodied {command.name} needs the package {package}; pip install "embodied-sim[{command.extra}]"'
    assert refusal(command.name, "x") == said
    with pytest.raises(EmbodiedError, match=f"needs the package {package}"):
        commands.check_needs(command.module)


def test_extras_that_errors_name_bring_what_is_missing():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for command, package in NEEDED:
        assert any(line.startswith(package) for line in extras[command.extra]), (command.name, package)
