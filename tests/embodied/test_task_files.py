"""A task by the name of its file: every command takes it, and what is wrong with the file is one line."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

import embodied
from embodied import collect, evaluate, play, ship, snapshots, train
from embodied import list as listing
from embodied.bench import __main__ as bench
from embodied.core.initial_states import load
from embodied.env.registry import join_content
from embodied.storage import checkpoints, task_names
from embodied.storage.runs import Run
from policies.training.loading import shipped_path
from sim2real import export
from tests.kit.budget import sharing
from tests.kit.commands import refused, run
from tests.kit.task_file import QUICK, SOUND, STEP, TRAINED, mass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mass.py").write_text(SOUND)
    return tmp_path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A folder with the file and a run of it, the run's path from there, and what training said; nobody changes it."""
    place = tmp_path_factory.mktemp("lab")
    with contextlib.chdir(place):
        mass(place)
        done = run(train.main, "mass.py:Sound", *TRAINED, "--evaluate-episodes", "4", "--json", "result.json")
        assert done.code == 0
        (path,) = Path("runs/mass/Sound").iterdir()
    return place, path, done.err


@pytest.fixture
def at_run(lab: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The run, in whose folder's folder the test is."""
    monkeypatch.chdir(lab[0])
    return str(lab[1])


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


def test_a_run_lies_by_file_and_class_with_a_copy_of_the_file(lab: tuple[Path, Path, str], at_run: str) -> None:
    assert (Path(at_run) / "mass.py").read_text() == SOUND
    assert Run.open(Path(at_run)).task == f"{lab[0]}/mass.py:Sound"
    assert json.loads(Path("result.json").read_text())["task"] == "mass.py:Sound"
    assert str(lab[0]) not in Path("result.json").read_text()
    assert f"python -m embodied.evaluate mass.py:Sound --policy {at_run}" in " ".join(lab[2].split())


COMMANDS = {
    "evaluate": (evaluate.main, ["mass.py:Sound", "--policy", "RUN", "--episodes", "4", "--json", "e.json"]),
    "bench": (bench.main, ["mass.py", "--num-envs", "8", "--turns", "1", "--steps", "2", "--json", "b.json"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_results_name_the_file_without_its_folder(name: str, at_run: str, tmp_path: Path) -> None:
    main, words = COMMANDS[name]
    path = tmp_path / words[-1]
    assert run(main, *(at_run if word == "RUN" else word for word in words[:-1]), str(path)).code == 0
    assert json.loads(path.read_text())["task"] == "mass.py:Sound"


def test_list_and_play_take_the_file_and_its_run(lab: tuple[Path, Path, str], at_run: str) -> None:
    assert json.loads(run(listing.main, "mass.py:Sound", "--json").out)["reward_weights"] == {"near": 1.0}
    assert Path(play.chosen(play.Settings(task="mass.py"))[2]).absolute() == Path(at_run).absolute()
    assert play.chosen(play.Settings(task=at_run))[1:] == (f"{lab[0]}/mass.py:Sound", at_run)


def test_snapshots_take_the_file(at_run: str, tmp_path: Path) -> None:
    words = ["mass.py", "--policy", at_run, "--count", "4", "--num-envs", "32", "--out", str(tmp_path)]
    assert run(snapshots.main, *words).code == 0
    task = join_content()["mass.py"].load()()
    assert len(load(tmp_path / "mass" / "Sound.safetensors", task)) == 4


def test_demonstrations_of_the_file_by_its_own_cameras(at_run: str, tmp_path: Path) -> None:
    said = refused(collect.main, "mass.py", "--policy", "zero", "--cameras", "front", "--out", str(tmp_path / "data"))
    assert "unknown camera 'front'; known: track" in said


def test_a_run_goes_on_also_from_its_copy_where_the_file_is_gone(lab: tuple[Path, Path, str], folder: Path) -> None:
    path, own = Path(shutil.copytree(lab[0] / lab[1], folder / "run")), lab[0] / "mass.py"
    hidden = own.rename(folder / "hidden")
    try:
        assert run(train.main, "--resume", str(path), "--steps", str(2 * STEP)).code == 0
        assert play.chosen(play.Settings(task=str(path)))[1] == f"{path}/mass.py:Sound"
    finally:
        hidden.rename(own)
    assert Run.open(path).load().step == 2 * STEP


def test_a_run_goes_on_from_the_file(lab: tuple[Path, Path, str], folder: Path) -> None:
    path = Path(shutil.copytree(lab[0] / lab[1], folder / "run"))
    (path / "mass.py").unlink()
    assert run(train.main, "--resume", str(path), "--steps", str(2 * STEP)).code == 0
    assert Run.open(path).load().step == 2 * STEP


def test_export_and_ship_say_what_they_cannot_do(at_run: str, tmp_path: Path) -> None:
    with sharing("an export's look at a task"):
        said = refused(export.main, at_run, "--out", str(tmp_path / "bundle"))
    assert "mass.py:Sound' cannot be deployed: Sound: 'goal' of its state begins otherwise in every episode" in said
    assert "if an operator gives it, name it in the `commands` of the task's `operator`" in said
    said = refused(ship.main, at_run)
    assert "mass.py:Sound is a task of your own; the package ships policies of its tasks" in said


def test_a_robot_with_a_contract_is_exported_and_no_folder_of_this_machine_with_it(folder: Path) -> None:
    text = 'from tasks.swarm.single.hover import Hover\n\n\nclass Mine(Hover):\n    """Hover."""\n'
    Path("mine.py").write_text(text)
    shipped = checkpoints.load(shipped_path("swarm/hover"))
    name = f"{folder}/mine.py:Mine"
    with Run.create(folder, name, {"num_envs": 1}, folder / "run") as made:
        made.save(STEP, shipped.tensors, {**shipped.meta, "task": name})
    assert run(export.main, "run", "--out", "bundle", "--trust").code == 0
    assert json.loads(Path("bundle/contract.json").read_text())["task"] == "mine.py:Mine"
    assert not any(str(folder).encode() in file.read_bytes() for file in Path("bundle").rglob("*") if file.is_file())


def test_a_file_has_training_defaults_of_its_own(folder: Path) -> None:
    defaults = "from policies.registry import TrainConfig\n\ntraining = TrainConfig(num_envs=7, steps=70)\n"
    Path("short.py").write_text(SOUND + defaults)
    assert join_content()["short.py"].load_training().num_envs == 7
    Path("wrong.py").write_text(SOUND + "training = 3\n")
    assert "training defaults of" in refused(train.main, "wrong.py")


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
def test_what_is_wrong_with_a_file_is_one_line(file: str, folder: Path) -> None:
    text, said = WRONG[file]
    if text is not None:
        Path(f"{file}.py").write_text(text)
    (line,) = run(train.main, "mas.py" if file == "misspelt" else f"{file}.py").err.splitlines()
    assert line.startswith("error: ")
    assert re.search(said, line), line


def test_an_unknown_class_lists_those_that_exist(folder: Path) -> None:
    said = refused(train.main, "mass.py:Sund")
    assert "unknown task in mass.py 'Sund'; did you mean 'Sound'? known: Sound" in said


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
def test_the_users_own_error_shows_his_lines_and_not_ours(text: str, where: str, folder: Path) -> None:
    Path("own.py").write_text(text)
    done = run(train.main, "own.py", *QUICK, "--steps", "64")
    assert done.code == 2
    said = done.err
    assert f'File "{folder}/own.py", line ' in said
    assert where in said.splitlines()[-1]
    assert "registry.py" not in said
    assert "site-packages" not in said
    (folder / "own.py").unlink()
