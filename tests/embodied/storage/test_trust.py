"""Code that a document names is not run before it was shown to be the user's."""

from __future__ import annotations

import json
import py_compile
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embodied import evaluate, play, train
from embodied.core.task_file import import_file
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage import checkpoints, trust
from embodied.storage.runs import Run
from policies.training.loading import shipped_path
from sim2real import export
from tests.kit.commands import refused

NICE = """from pathlib import Path

from tasks.swarm.single.hover import Hover

Path("ran").touch()


class Nice(Hover):
    \"\"\"Hover nicely.\"\"\"


def policy(obs):
    return obs["policy"][:, :4]
"""


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run from somebody else, in the working folder of a user who never trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(trust, "_everything", False)
    shipped, task = checkpoints.load(shipped_path("swarm/hover")), "/gone/nice.py:Nice"
    with Run.create(tmp_path, task, {"num_envs": 1}, tmp_path / "run") as run:
        run.save(64, shipped.tensors, {**shipped.meta, "task": task})
    (run.path / "nice.py").write_text(NICE)
    return run.path


def config(given: Path, name: str, text: str) -> list[str]:
    """Words that train by a config of a name and a text."""
    shutil.copy(given / "nice.py", "nice.py")
    Path(name).write_text(text)
    return ["--config-file", name, "--steps", "64"]


def elsewhere(given: Path) -> list[str]:
    """The run, whose task's file lies where it says."""
    place = (given.parent / "elsewhere.py").resolve()
    place.write_text(NICE)
    document = json.loads((given / "config.json").read_text())
    shutil.rmtree(given)
    with Run.create(given.parent, f"{place}:Nice", document["config"], given):
        return [str(given)]


BROTHERS: dict[str, tuple[Callable[[list[str]], object], Callable[[Path], list[str]]]] = {
    "play": (play.main, lambda given: [str(given)]),
    "play of a file that is there": (play.main, elsewhere),
    "evaluate": (evaluate.main, lambda given: [str(given), "--episodes", "1"]),
    "resume": (train.main, lambda given: ["--resume", str(given)]),
    "export": (export.main, lambda given: [str(given)]),
    "a run's config": (train.main, lambda given: ["--config-file", str(given / "config.json")]),
    "json": (train.main, lambda given: config(given, "own.json", '{"task": "nice.py:Nice"}')),
    "toml": (train.main, lambda given: config(given, "own.toml", 'task = "nice.py"')),
    "policy": (train.main, lambda given: config(given, "own.toml", 'start_from = "nice.py:policy"\nnum_envs = 1')),
}


@pytest.mark.parametrize("name", BROTHERS)
def test_code_that_only_a_document_names_is_refused_in_one_line(name: str, given: Path) -> None:
    main, words = BROTHERS[name]
    said = refused(main, *words(given))  # type: ignore[arg-type]
    assert ".py' is code that a run or a config names, and you never trained with it here; read it, then add" in said
    assert not Path("ran").exists()


def test_a_user_who_trusts_or_trained_with_the_same_content_runs_it(given: Path) -> None:
    trust.typed(["--trust"])
    task = Run.open(given).task
    assert join_content()[task].summary == "Hover nicely."
    assert Path("ran").exists()
    again = Path(shutil.copytree(given, "again"))
    trust.typed([])
    with pytest.raises(EmbodiedError, match="never trained with it"):
        join_content()[Run.open(again).task]
    trust.trained_with([str(again.resolve() / "nice.py")])
    assert join_content()[Run.open(again).task].summary == "Hover nicely."
    assert str(again.resolve()) not in sys.path, "only the file is known, not what lies beside it"
    changed = Path(shutil.copytree(given, "changed"))
    (changed / "nice.py").write_text(NICE + "#")
    with pytest.raises(EmbodiedError, match="never trained with it"):
        join_content()[Run.open(changed).task]


def test_a_file_that_the_user_names_or_trained_with_may_change(given: Path) -> None:
    own = given.parent / "own.py"
    for number in range(2):
        own.write_text(f"{NICE}# {number}\n")
        trust.named({"task": f"{own}:Nice"})
        if not number:
            trust.typed([f"rest={own}:policy"])
            trust.trained_with([str(own)])
            trust._typed.clear()
        assert trust.is_own(own, own.read_bytes())
    (given.parent / "state" / "embodied" / "trained").chmod(0o666)
    with pytest.raises(EmbodiedError, match="never trained with it"):
        trust.is_own(own, own.read_bytes())


def test_bytecode_beside_a_file_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "compiled.py"
    file.write_text("answer = 6 * 7")
    made = py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.write_text("answer = 7 * 7")
    assert made
    assert import_file(file).answer == 49


def test_documents_as_deep_as_json_may_be_are_read() -> None:
    document: object = "x.py"
    for _ in range(100_000):
        document = [document]
    trust.named(document)
    assert Path("x.py").resolve() in trust._named
