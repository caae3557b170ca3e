"""A task by the name of its file: every command takes it, and what is wrong with the file is one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import embodied
from embodied import bench, collect, evaluate, play, ship, snapshots, train
from embodied import list as listing
from embodied.core.initial_states import load
from embodied.registry import join_content
from embodied.storage import task_names
from embodied.storage.runs import Run
from sim2real import export
from tests.kit.task_file import SOUND

QUICK = ["--num-envs", "8", "--ppo.unroll", "8", "--ppo.minibatches", "2", "--ppo.epochs", "1"]
STEP = 8 * 8  # environment steps per iteration


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mass.py").write_text(SOUND)
    return tmp_path


def run(main: Callable[[list[str]], int], *words: str) -> int:
    try:
        return main(list(words))
    except SystemExit as stop:
        return int(stop.code or 0)


def trained(*words: str) -> Path:
    assert run(train.main, "mass.py:Sound", *QUICK, "--steps", str(STEP), "--evaluate-episodes", "4", *words) == 0
    (path,) = Path("runs/mass/Sound").iterdir()
    return path


def test_names_mean_files_only_where_they_end_in_py() -> None:
    assert task_names.own_file("swarm/hover") is None
    assert task_names.own_file("mt1:push") is None
    assert task_names.run_folder("swarm/hover") == "swarm/hover"
    assert task_names.run_folder("/far/away/my_task.py:Reach") == "my_task/Reach"
    assert task_names.label("/far/away/my_task.py:Reach") == "my_task.py:Reach"
    assert "no_such_file.py:Reach" not in join_content()


def test_a_file_is_one_task_by_all_its_names(folder: Path) -> None:
    entry = join_content()["mass.py:Sound"]
    assert entry == join_content()["mass.py"] == join_content()[f"{folder}/mass.py:Sound"]
    assert entry.name == f"{folder}/mass.py:Sound"
    assert entry.engines == ("mujoco",)
    assert entry.summary == "Push a mass to a goal."
    assert entry.load() is entry.load()


def test_make_takes_a_file(folder: Path) -> None:
    env = embodied.make("mass.py", num_envs=4)
    env.reset(seed=0)
    assert torch.isfinite(env.step(torch.zeros(4, 1)).reward).all()
    assert Path(env.name).is_absolute()


def test_a_run_lies_by_file_and_class_with_a_copy_of_the_file(folder: Path) -> None:
    path = trained("--json", "result.json")
    assert (path / "mass.py").read_text() == SOUND
    assert Run.open(path).task == f"{folder}/mass.py:Sound"
    result = json.loads(Path("result.json").read_text())
    assert result["task"] == "mass.py:Sound"
    assert str(folder) not in Path("result.json").read_text()


def test_every_command_takes_the_file_and_its_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trained()
    assert f"python -m embodied.evaluate mass.py:Sound --policy {path}" in " ".join(capsys.readouterr().err.split())
    assert run(train.main, "--resume", str(path), "--steps", str(2 * STEP)) == 0
    assert run(evaluate.main, "mass.py:Sound", "--policy", str(path), "--episodes", "4", "--json", "e.json") == 0
    assert json.loads(Path("e.json").read_text())["task"] == "mass.py:Sound"
    capsys.readouterr()
    assert run(listing.main, "mass.py:Sound", "--json") == 0
    assert json.loads(capsys.readouterr().out)["reward_weights"] == {"near": 1.0}
    assert run(bench.main, "mass.py", "--num-envs", "8", "--turns", "1", "--steps", "2", "--json", "b.json") == 0
    assert json.loads(Path("b.json").read_text())["task"] == "mass.py:Sound"
    assert run(snapshots.main, "mass.py", "--policy", str(path), "--count", "4", "--num-envs", "32", "--out", "s") == 0
    task = join_content()["mass.py"].load()()
    assert len(load(Path("s/mass/Sound.safetensors"), task)) == 4
    assert Path(play.chosen(play.Settings("mass.py"))[2]).absolute() == path.absolute()
    assert play.chosen(play.Settings(str(path)))[1:] == (f"{folder}/mass.py:Sound", str(path))
    words = ["--policy", "zero", "--cameras", "track", "--episodes", "2", "--failures", "--state", "policy"]
    assert run(collect.main, "mass.py", *words, "--num-envs", "2", "--out", "data") == 0


def test_a_run_goes_on_from_its_copy_where_the_file_is_gone(folder: Path) -> None:
    path = trained().absolute()
    (folder / "mass.py").unlink()
    assert run(train.main, "--resume", str(path), "--steps", str(2 * STEP)) == 0
    assert Run.open(path).load().step == 2 * STEP
    assert play.chosen(play.Settings(str(path)))[1] == f"{path}/mass.py:Sound"


def test_export_and_ship_say_what_they_cannot_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trained()
    assert run(export.main, str(path), "--out", "bundle") == 2
    shown = capsys.readouterr().err
    assert "mass.py:Sound' cannot be deployed: Sound: 'goal' of its state begins otherwise in every episode" in shown
    assert "if somebody tells the robot, name it in the task's `commands`" in shown
    assert run(ship.main, str(path)) == 2
    assert "mass.py:Sound is a task of your own; the package ships policies of its tasks" in capsys.readouterr().err


def test_a_robot_with_a_contract_is_exported_and_no_folder_of_this_machine_with_it(folder: Path) -> None:
    text = 'from tasks.swarm.hover import Hover\n\n\nclass Mine(Hover):\n    """Hover."""\n'
    Path("mine.py").write_text(text)
    words = ["mine.py", *QUICK, "--steps", str(STEP), "--evaluate-episodes", "0", "--out", "run"]
    assert run(train.main, *words) == 0
    assert run(export.main, "run", "--out", "bundle") == 0
    assert json.loads(Path("bundle/contract.json").read_text())["task"] == "mine.py:Mine"
    assert not any(str(folder).encode() in file.read_bytes() for file in Path("bundle").rglob("*") if file.is_file())


def test_a_file_has_training_defaults_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    defaults = "from policies.training.defaults import TrainConfig\n\ntraining = TrainConfig(num_envs=7, steps=70)\n"
    Path("short.py").write_text(SOUND + defaults)
    assert join_content()["short.py"].load_training().num_envs == 7
    Path("wrong.py").write_text(SOUND + "training = 3\n")
    assert run(train.main, "wrong.py") == 2
    assert "training defaults of" in capsys.readouterr().err


def test_a_module_beside_the_file_is_found(folder: Path) -> None:
    Path("constants_of_mine.py").write_text("PRICE = 2.0\n")
    Path("beside.py").write_text("import constants_of_mine\n" + SOUND.replace("1.0}", "constants_of_mine.PRICE}"))
    assert dict(join_content()["beside.py"].load()().reward_weights) == {"near": 2.0}


WRONG = {
    "absent": (None, r"task file '.*/absent.py' does not exist; '.*' has mass.py"),
    "misspelt": (None, r"task file '.*/mas.py' does not exist; did you mean 'mass.py'\? "),
    "syntax": ("x = (\n", r"syntax.py, line 1: '\(' was never closed: 'x = \('"),
    "nothing": ("class Robot:\n    pass\n", r"nothing.py has no task; expected a class that extends .*, it has Robot"),
    "several": (
        SOUND + "\n\nclass Other(Sound):\n    pass\n",
        r"several.py has 2 tasks, Sound, Other; say which: several.py:Sound",
    ),
    "half": (SOUND.replace("def observe", "def observes"), r"the task Sound in half.py lacks observe; write them"),
    "clocks": (SOUND.replace("timing = ", "timings = "), r"the task Sound in clocks.py says no timing; for example: "),
    "binary": ("\0", r"binary.py(, line \d+|.*): .*null byte"),
}
"""File -> its text, and what is said."""


@pytest.mark.parametrize("file", WRONG)
def test_what_is_wrong_with_a_file_is_one_line(file: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, said = WRONG[file]
    if text is not None:
        Path(f"{file}.py").write_text(text)
    assert run(train.main, "mas.py" if file == "misspelt" else f"{file}.py") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")

    assert re.search(said, line), line


def test_an_unknown_class_lists_those_that_exist(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(train.main, "mass.py:Sund") == 2
    assert "unknown task in mass.py 'Sund'; did you mean 'Sound'? known: Sound" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("import numpy\n\nraise ValueError('mine')\n", "own.py, line 3, in <module>: ValueError: mine"),
        ("import no_such_module_anywhere\n", "own.py, line 1, in <module>: ModuleNotFoundError: "),
        (SOUND.replace("jnp.exp(-", "jnp.exp(1 / 0 -"), "in rewards: ZeroDivisionError: division by zero"),
        (SOUND.replace("spec = mujoco.MjSpec()", "open('no such file')"), "in build_spec: FileNotFoundError: "),
    ],
    ids=["import", "missing", "traced", "path"],
)
def test_the_users_own_error_shows_his_lines_and_not_ours(
    text: str, where: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.py").write_text(text)
    assert run(train.main, "own.py", *QUICK, "--steps", "64") == 2
    said = capsys.readouterr().err
    assert f'File "{folder}/own.py", line ' in said
    assert where in said.splitlines()[-1]
    assert "registry.py" not in said
    assert "site-packages" not in said
    (folder / "own.py").unlink()
