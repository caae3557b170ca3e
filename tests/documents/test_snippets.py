"""Every code block of README, CONTRIBUTING and docs does what the page says, or says why it does not run here."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import embodied.runs.__main__ as runs
import embodied.sweep.__main__ as sweep
from embodied import cli
from embodied.env.registry import join_content
from policies.training import command_line, launch
from policies.training.sweep import Varied
from tests.documents import snippets
from tests.documents.materials import MATERIALS
from tests.documents.snippets import PAGES, ROOT, Block, Workspace, blocks_of, commands_of, main_of, resolved
from tests.kit.commands import run

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SEEN_BY_HELP = ("embodied.", "policies.", "sim2real.")
"""Packages whose commands name every flag in their help."""

OURS = ("embodied", "policies", "sim2real", "tasks")
ALSO_TAKES = {"embodied.sweep": "embodied.train"}
"""Command -> another one whose flags it takes."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Workspace]:
    """The workspace of a page."""
    made: dict[Path, Workspace] = {}

    def get(page: Path) -> Workspace:
        if page not in made:
            made[page] = Workspace(page, tmp_path_factory.mktemp(page.stem), MATERIALS)
        return made[page]

    return get


def parameters() -> list[object]:
    """The blocks that run, those that are slow marked as such."""
    found: list[object] = []
    for page in PAGES:
        blocks = blocks_of(page)
        for block in filter(lambda block: block.runs, blocks):
            slow = snippets.is_slow(block, blocks)
            marks = [pytest.mark.slow, pytest.mark.timeout(1800)] if slow else []
            found.append(pytest.param(block, id=block.place, marks=marks))
    return found


@pytest.mark.parametrize("block", parameters())
def test_runs_as_it_stands(
    block: Block, workspace: Callable[[Path], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    workspace(block.page).run(block)


def commands(page: Path, folder: Path) -> Iterator[tuple[Block, str, list[str]]]:
    """Block, module and arguments of every Python command of a page."""
    for block in (block for block in blocks_of(page) if block.language == snippets.SHELL):
        for words in commands_of(block, folder):
            yield (block, *resolved(words))


@functools.cache
def help_of(module: str, *arguments: str) -> str:
    """What a command says of its flags; those of a task depend on the words before them."""
    said = run(main_of(module), *arguments, "--help-all")
    return said.out + said.err


def telling(arguments: list[str]) -> list[str]:
    """The arguments on which flags depend: the task, the algorithm, the robot, a file of settings."""
    kept = [word for word in arguments[:1] if not word.startswith("-")]
    for flag in ("--algorithm", "--robot", "--config-file"):
        if flag in arguments:
            kept += arguments[(at := arguments.index(flag)) : at + 2]
    return kept


def train(words: list[str]) -> None:
    """Parse a training whose task and settings are not files that the reader has yet."""
    name = cli.named_task(words, join_content(), "swarm/hover")
    assert name is not None
    if not name.endswith(".py") and "--config-file" not in words:
        assert launch.parse(join_content().find(name), words).task == name


def compare_or_list(words: list[str]) -> None:
    comparing = words[:1] == [runs.COMPARE]
    cli.parse(runs.Comparing if comparing else runs.Listing, words[comparing:], "runs")


def search(words: list[str]) -> None:
    """Parse a sweep, and the training of its lowest values."""
    settings, rest = cli.parse_known(sweep.Settings, words, "sweep")
    assert settings.vary
    drawn = [f"--{one.flag}={one.values[0] if one.values else one.low}" for one in map(Varied.parse, settings.vary)]
    train([*rest, *drawn])


PARSERS: Mapping[str, Callable[[list[str]], None]] = {
    "embodied.train": train,
    "embodied.runs": compare_or_list,
    "embodied.sweep": search,
}
"""Commands that are parsed whole, values included, where they run with the slow tests only or not at all."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist_and_take_their_flags_and_values(page: Path, tmp_path: Path) -> None:
    for block, module, arguments in commands(page, tmp_path):
        if module.endswith(".py"):
            assert (ROOT / module).is_file(), f"{block.place}: there is no {module}"
        elif module.startswith(SEEN_BY_HELP):
            known = help_of(module, *telling(arguments)) + help_of(ALSO_TAKES.get(module, module))
            flags = {word.partition("=")[0] for word in arguments if re.match("--[a-z]", word)}
            unknown = sorted(flag for flag in flags if not re.search(rf"{flag}\b", known))
            assert not unknown, f"{block.place}: {module} does not know {', '.join(unknown)}"
        elif module not in ("pytest", "benchmarks", "http.server", "torch.distributed.run"):
            assert main_of(module), f"{block.place}: {module}"
        PARSERS.get(module, lambda words: None)(arguments)


def test_tasks_that_pages_name_exist(tmp_path: Path) -> None:
    families = "|".join({name.partition("/")[0] for name in join_content()})
    for page in PAGES:
        named = [(block, word) for block, _, arguments in commands(page, tmp_path) for word in arguments]
        for block in (block for block in blocks_of(page) if block.language == snippets.PYTHON):
            named += [(block, node.value) for node in ast.walk(ast.parse(block.text))
                      if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
        for block, word in named:
            if re.fullmatch(rf"({families})/[a-z0-9-]+", word) and block.how.by is None:
                assert word in join_content(), f"{block.place}: there is no {word}"


def bound(tree: ast.AST) -> Iterator[tuple[str, Any]]:
    """Names that imports of this repository's packages bind, and what they are; others must be installed at most."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, getattr(module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in (alias for alias in node.names if alias.name.partition(".")[0] in OURS):
                module = importlib.import_module(alias.name)
                yield (alias.asname, module) if alias.asname else (alias.name.partition(".")[0], module)


def called(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """What an expression such as `embodied.make` means; None for what is not imported."""
    if isinstance(node, ast.Attribute):
        return None if (owner := called(node.value, scope)) is None else getattr(owner, node.attr)
    return scope.get(node.id) if isinstance(node, ast.Name) else None


def check_calls(page: Path, blocks: list[Block]) -> None:
    """Import what Python blocks import of ours, and bind the arguments of what they call."""
    scope: dict[str, Any] = {}
    for block in blocks:
        tree = ast.parse(block.text)
        scope |= bound(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            function = called(call.func, scope)
            if function is None or any(isinstance(word, ast.Starred) for word in call.args):
                continue
            keywords = {word.arg: None for word in call.keywords if word.arg is not None}
            try:
                inspect.signature(function).bind(*call.args, **keywords)
            except TypeError as error:
                pytest.fail(f"{page.name}:{block.line + call.lineno - 1}: {ast.unparse(call)}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_imports_what_exists_and_calls_it_as_declared(page: Path) -> None:
    """Also where a block runs with the slow tests only."""
    check_calls(page, [block for block in blocks_of(page) if block.language == snippets.PYTHON and block.runs])


def test_a_call_that_does_not_fit_is_seen(tmp_path: Path) -> None:
    for code in ("import embodied\nembodied.make('swarm/hover', 1, 'rigid', 0, 'cpu', 5)", "from embodied import mkae"):
        (tmp_path / "page.md").write_text(f"```python\n{code}\n```\n")
        with pytest.raises((pytest.fail.Exception, AttributeError)):
            check_calls(tmp_path / "page.md", blocks_of(tmp_path / "page.md"))


def test_the_file_of_settings_is_read(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        MATERIALS["mine"]()
        read = command_line.read(Path("mine.toml")).settings(join_content().find("swarm/hover"), None)
    assert (read.steps, read.config.latency, read.algorithm_config.actor.hidden) == (2_000_000, (0.0, 0.0), (128, 128))


def test_every_block_says_its_language() -> None:
    assert not [block.place for block in BLOCKS if block.language not in snippets.LANGUAGES]


def test_no_command_stands_outside_of_a_block() -> None:
    """A block that is made by indentation alone is not found, and so not run."""
    for page in PAGES:
        text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        found = re.findall(r"^ {4,}(?:python|embodied|pip|make|import) .*", text, re.M)
        assert not found, f"{page.name}: {found[0].strip()}"


def test_what_another_test_runs_is_run_there() -> None:
    for block in BLOCKS:
        if block.how.by is not None:
            assert block.page.stem in (ROOT / block.how.by).read_text(encoding="utf-8"), block.place


@pytest.mark.parametrize("clause", ["never", "no", "slow now", "replace A with B", "needs"])
def test_a_clause_that_does_not_exist_is_an_error(clause: str) -> None:
    with pytest.raises(ValueError, match="cannot run"):
        snippets.directive(clause)


def test_blocks_share_what_the_page_says(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    parts = (
        ("replace 4 => 5", "python", "number = 4"),
        ("", "python", "assert number == 5\nopen('made', 'w').write('x')"),
        ("after counted", "bash", "python show.py $(cat counted) && test -f made"),
        ("named counted", "bash", "cat > show.py <<'END'\nimport sys\nprint(sys.argv[1])\nEND\necho 7 > counted"),
        ("no, needs a robot", "bash", "false"),
    )
    page.write_text("\n".join(f"<!-- run: {how} -->\n```{language}\n{code}\n```" for how, language, code in parts))
    folder = tmp_path / "folder"
    folder.mkdir()
    here = Workspace(page, folder, {})
    first, second, shell, counted, robot = here.blocks
    assert not robot.runs
    here.run(second)
    assert here.done == {first, second}
    here.run(shell)
    assert counted in here.done


def test_a_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\npython -m embodied.train no/such-task\n```\n```bash\nls no-such-file\n```\n")
    here = Workspace(page, tmp_path, {})
    for block in here.blocks:
        with pytest.raises(AssertionError):
            here.run(block)
