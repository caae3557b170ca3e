import json
import math
import os
import re
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest
import torch

from embodied.errors import CheckpointError, EmbodiedError, RunError
from embodied.storage import files, metrics, runs
from embodied.storage.runs import Run

HALF = np.float32(0.5)
LAYOUT = "config.json, metrics.jsonl, checkpoints/, videos/"


class Engine(StrEnum):
    MUJOCO = "mujoco"


@dataclass(frozen=True)
class Config:
    engine: Engine = Engine.MUJOCO
    seed: int = 3
    rate: float = math.nan
    sizes: tuple[int, ...] = (64, 64)
    folder: Path = Path("a/b")
    gain: np.floating = HALF


def message(call, *args, error: type[EmbodiedError] = RunError, **kwargs) -> str:
    """The one line with which a call fails."""
    with pytest.raises(error) as raised:
        call(*args, **kwargs)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def full(*_):
    raise OSError(28, "No space left on device")


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def run(tmp_path):
    with Run.create(tmp_path / "runs", "swarm/hover", {"seed": 3}) as run:
        yield run


def saved(run: Run, *steps: int) -> None:
    for step in steps:
        run.log(step, {"return": step})
        run.save(step, {"w": torch.full((3,), step)}, {"at": step})


def test_create_lays_out_a_folder(tmp_path):
    run = Run.create(tmp_path, "swarm/hover", asdict(Config()))
    assert tree(run.path) == ["checkpoints", "config.json", "videos"]
    assert run.path.parent == tmp_path / "swarm" / "hover"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", run.path.name)
    assert run.config == {
        **{"engine": "mujoco", "seed": 3, "rate": None, "sizes": [64, 64]},
        **{"folder": "a/b", "gain": 0.5},
    }
    text = (run.path / "config.json").read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=2) + "\n"
    assert str(tmp_path) not in text
    assert datetime.fromisoformat(run.created).utcoffset() is not None
    opened = Run.open(run.path)
    assert (opened.path, opened.task, opened.config, opened.created) == (run.path, run.task, run.config, run.created)
    assert repr(run) == f"Run('{run.path}', task='swarm/hover')"


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path):
    paths = [Run.create(tmp_path, "a/b", {}).path for _ in range(5)]
    assert len(set(paths)) == 5
    assert Run.find(tmp_path).path == paths[-1]


def test_out_may_be_an_empty_folder_but_nothing_else(tmp_path):
    out = tmp_path / "new" / "out"
    assert Run.create(tmp_path, "a/b", {}, out=out).path == out
    before = tree(tmp_path)
    assert message(Run.create, tmp_path, "a/b", {}, out=out) == (
        f"'{out}' is not empty (it holds checkpoints, config.json, videos); nothing was overwritten: choose another "
        "folder, or resume the run that is there"
    )
    assert message(Run.create, tmp_path, "a/b", {}, out=out / "config.json") == (
        f"'{out}/config.json' exists and is not a folder; choose another folder for the run"
    )
    assert tree(tmp_path) == before
    (tmp_path / "empty").mkdir()
    assert Run.create(tmp_path, "a/b", {}, out=tmp_path / "empty").path == tmp_path / "empty"


@pytest.mark.parametrize("task", ["", "../x", "/x", "a//b", "a/./b", "a\\..\\b"])
def test_task_that_cannot_name_a_folder(task, tmp_path):
    assert message(Run.create, tmp_path, task, {}) == (
        f"task name {task!r} cannot name a folder; expected a name like 'manipulation/pick-place'"
    )
    assert tree(tmp_path) == []


def test_configuration_that_json_cannot_hold(tmp_path):
    assert message(Run.create, tmp_path, "a/b", {"ppo": {"clip": math.inf}}) == (
        "cannot store the configuration of a run: 'ppo/clip' is inf, which JSON cannot hold; use None or a large "
        "finite number"
    )
    assert tree(tmp_path) == []


def test_run_that_cannot_be_created(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert message(Run.create, tmp_path / "file", "a/b", {}) == (
        f"cannot create a run in '{tmp_path}/file/a/b': Not a directory"
    )

    monkeypatch.setattr(files, "write_synced", full)
    out = tmp_path / "out"
    assert message(Run.create, tmp_path, "a/b", {}, out=out) == (
        f"cannot create a run in '{out}': No space left on device"
    )
    monkeypatch.undo()
    Run.create(tmp_path, "a/b", {}, out=out)  # The failed attempt left nothing in the way.


@pytest.mark.parametrize(
    ("inside", "step"),
    [
        (".", None),
        ("config.json", None),
        ("metrics.jsonl", None),
        ("checkpoints", None),
        ("videos", None),
        ("checkpoints/000000000010", 10),
        ("checkpoints/000000000010/state.json", 10),
        ("checkpoints/000000000099", 99),
    ],
)
def test_open_accepts_paths_inside(inside, step, run, monkeypatch):
    saved(run, 10)
    opened = Run.open(run.path / inside)
    assert (opened.path, opened.step, opened.config) == (run.path, step, {"seed": 3})
    monkeypatch.chdir(run.path.parent)
    assert Run.open(Path(run.path.name) / inside).step == step
    monkeypatch.chdir(run.checkpoints)
    assert Run.open(Path("000000000010")).step == 10
    assert Run.open(Path()).config == {"seed": 3}


def test_a_path_to_a_checkpoint_selects_it(run):
    saved(run, 10, 20)
    assert Run.open(run.path).load().step == 20
    opened = Run.open(run.checkpoints / "000000000010")
    assert opened.load().step == 10
    assert opened.load(20).step == 20
    assert message(Run.open(run.checkpoints / "000000000030").load, error=CheckpointError) == (
        f"checkpoint '{run.checkpoints}/000000000030' does not exist, expected a folder; steps beside it: 10, 20"
    )


def test_open_where_there_is_no_run(run, tmp_path):
    expected = f"expected a folder with {LAYOUT}, or a path inside it; "
    for path, found in {
        tmp_path / "nowhere": "nothing exists there",
        run.path / "checkpointz": "nothing exists there",
        run.checkpoints / "best": "nothing exists there",
        tmp_path / "runs": f"runs below it: swarm/hover/{run.path.name}",
    }.items():
        assert message(Run.open, path) == f"no run at '{path}': {expected}{found}"
    (tmp_path / "file").write_text("")
    assert message(Run.open, tmp_path / "file").endswith("it is a file")
    (run.path / "config.json").unlink()
    assert message(Run.open, run.path).endswith("it holds checkpoints, videos")
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "file").unlink()
    assert message(Run.open, tmp_path).endswith("it holds nothing")


def test_truncated_configuration(run):
    path = run.path / "config.json"
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:size])
        text = message(Run.open, run.path)
        assert text.startswith(f"run '{run.path}': config.json is truncated or edited: not JSON (")
        assert text.endswith(f"{size} bytes); expected the keys format, embodied, task, created, config, sha256")


def test_edited_configuration(run):
    path = run.path / "config.json"
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 4'))
    assert message(Run.open, run.path).startswith(
        f"run '{run.path}': config.json is edited after it was written: its sha256 is "
    )


def test_foreign_and_other_configurations(run):
    path = run.path / "config.json"
    document = json.loads(path.read_text())
    path.write_text('{"model_type": "llama"}')
    assert message(Run.open, run.path) == (
        f"run '{run.path}': config.json is not written by embodied for a run: it lacks the key 'format'; expected the "
        "keys format, embodied, task, created, config, sha256"
    )
    path.write_text(json.dumps({**document, "format": 7, "embodied": "9.9"}))
    assert message(Run.open, run.path).startswith(
        f"run '{run.path}': config.json is written in run format 7 by embodied 9.9; this is embodied "
    )
    path.write_bytes(files.seal({"format": runs.FORMAT, "embodied": "0", "config": {}}))
    assert message(Run.open, run.path) == (
        f"run '{run.path}': config.json lacks task, created; expected the keys format, embodied, task, created, config"
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("task", ["a"], "has the task ['a']; expected a name"),
        ("created", 7, "has the created 7; expected a time"),
        ("config", "a", "has the config 'a'; expected a table of settings"),
    ],
)
def test_a_sealed_configuration_of_other_types(key, value, expected, run):
    """Whoever seals one can write anything into it."""
    path = run.path / "config.json"
    document = json.loads(path.read_text())
    path.write_bytes(files.seal({name: document[name] for name in runs.KEYS} | {key: value}))
    assert message(Run.open, run.path) == f"run '{run.path}': config.json {expected}"
    assert Run.all(run.path.parent) == []


@pytest.mark.parametrize(
    "result",
    [
        {"steps": "all"},
        {"train_seconds": None},
        {"success": 10**400},
        {"results": [{"success": [-(10**400)]}]},
        {"units": ["m"]},
        {"units": {"return": 3}},
        {"results": {"a": 1}},
        {"results": ["a"]},
    ],
)
def test_a_result_that_no_training_wrote_is_none(result, run):
    (run.path / "result.json").write_text(json.dumps(result))
    assert run.result == {}


def test_log_appends_sorted_lines(run):
    run.log(1, {"success": 0.5, "return": torch.tensor(2.0), "loss": np.float32(0.25), "a": 1})
    run.log(2, {"bad": math.nan, "worse": math.inf})
    first, second = (run.path / "metrics.jsonl").read_text().splitlines()
    assert re.fullmatch(r'\{"a": 1.0, "loss": 0.25, "return": 2.0, "step": 1, "success": 0.5, "time": [\d.]+\}', first)
    assert re.fullmatch(r'\{"bad": null, "step": 2, "time": [\d.]+, "worse": null\}', second)
    read = run.metrics()
    assert [record["step"] for record in read] == [1, 2]
    assert read[0]["return"] == 2.0
    assert math.isnan(read[1]["bad"])


def test_metrics_that_cannot_be_logged(run):
    assert message(run.log, 1, {"step": 2}) == "a metric cannot be called 'step'; the names step, time are taken"
    assert message(run.log, 1, {"x": "fast"}) == "metric 'x' is 'fast', expected one number"
    assert message(run.log, 1, {"x": [1, 2]}) == "metric 'x' is [1, 2], expected one number"
    assert run.metrics() == []


def test_metrics_of_a_killed_run_are_read_up_to_the_cut(run):
    for step in range(3):
        run.log(step, {"x": step})
    run.close()
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for size in range(second, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert [record["step"] for record in Run.open(run.path).metrics()] == [0, 1]
    with Run.open(run.path) as again:
        again.log(3, {"x": 3})
    assert [record["step"] for record in again.metrics()] == [0, 1, 3]


def test_tensorboard_receives_the_same_numbers(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    saved(run, 10, 20)
    run.resume(10)
    run.log(15, {"return": 15})
    run.close()
    events = EventAccumulator(str(run.path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("return")] == [(10, 10.0), (15, 15.0)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux lists open files there")
def test_a_closed_run_holds_no_file_open(run):
    def held():
        links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return [path for path in map(os.path.realpath, links) if path.startswith(str(run.path.resolve()))]

    run.log(1, {"x": 1})
    assert held()
    run.close()
    assert held() == []


def test_log_onto_a_full_disk(run, monkeypatch):
    class Full:
        def write(self, line: bytes) -> int:
            return len(line) // 2

        def close(self) -> None:
            pass

    run.log(1, {"x": 1})
    monkeypatch.setattr(run._metrics, "_file", Full())
    assert message(run.log, 2, {"x": 2}) == f"cannot log to '{run.path}/metrics.jsonl': No space left on device"
    run.log(3, {"x": 3})
    assert [record["step"] for record in run.metrics()] == [1, 3]


def test_resume_ends_the_record_at_the_checkpoint(run):
    saved(run, 10, 20, 30)
    run.log(35, {"return": 35})
    resumed = Run.open(run.path)
    checkpoint = resumed.resume(20)
    assert (checkpoint.step, checkpoint.meta) == (20, {"at": 20})
    assert [record["step"] for record in resumed.metrics()] == [10, 20]
    aside = [p.name for p in run.checkpoints.iterdir() if ".aside-" in p.name]
    assert [name.partition(".")[0] for name in aside] == ["000000000030"]
    saved(resumed, 30)
    resumed.close()
    assert [record["step"] for record in resumed.metrics()] == [10, 20, 30]
    assert resumed.load().step == 30


def test_resume_passes_over_a_damaged_checkpoint_and_can_save_it_again(run):
    saved(run, 10, 20)
    os.truncate(run.checkpoints / "000000000020" / "state.safetensors", 3)
    with pytest.warns(UserWarning, match="truncated"):
        assert run.resume().step == 10
    saved(run, 20)
    assert [record["step"] for record in run.metrics()] == [10, 20]


def test_failed_resume_keeps_every_line(run, monkeypatch):
    saved(run, 10, 20)
    monkeypatch.setattr(metrics, "write_atomic", full)
    path = run.path / "metrics.jsonl"
    assert message(run.resume, 10) == f"cannot shorten '{path}': No space left on device; it is unchanged"
    assert [record["step"] for record in run.metrics()] == [10, 20]


def test_load_without_a_checkpoint_that_loads(run):
    assert message(run.load, error=CheckpointError) == f"run '{run.path}' has no checkpoint yet"
    saved(run, 10)
    (run.checkpoints / "000000000010" / "state.json").unlink()
    with pytest.warns(UserWarning, match="skipped"):
        text = message(run.load, error=CheckpointError)
    assert "expected state.json and state.safetensors, found state.safetensors" in text


def test_find_the_newest(tmp_path):
    root = tmp_path / "runs"
    assert message(Run.find, root) == f"no run below '{root}'; there are no runs at all"
    made = [Run.create(root, task, {}) for task in ("a/x", "b/y", "a/x", "mt1:b/y")]
    assert [run.path for run in Run.all(root)] == [run.path for run in reversed(made)]
    assert Run.find(root).path == made[3].path
    assert Run.find(root, "a/x").path == made[2].path
    assert Run.find(root, "b/y").path == made[1].path
    assert message(Run.find, root, "c/z") == f"no run of 'c/z' below '{root}'; there are runs of a/x, b/y, mt1:b/y"
    (made[2].path / "config.json").write_text("{")
    assert Run.find(root, "a/x").path == made[0].path


def test_a_moved_run_still_works(run, tmp_path):
    saved(run, 10)
    moved = Run.open(run.path.rename(tmp_path / "moved"))
    assert moved.load().step == 10
    assert moved.videos == tmp_path / "moved" / "videos"


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "result.json", "checkpoints", "checkpoints/000000000200", "events.1"]
)
def test_nothing_is_written_through_a_link(name, run, tmp_path):
    """A run from somebody else may have links to files and to other runs of the user."""
    saved(run, 100)
    run.log(100, {"return": 1.0})
    own = tmp_path / "own"
    shutil.copytree(run.path, own)
    shutil.rmtree(run.path / name, ignore_errors=True)
    (run.path / name).unlink(missing_ok=True)
    target = own if "checkpoints/" in name else own / name
    (run.path / name).symlink_to(target)
    run.close()
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    said = f"'{run.path / name}' is a link to '{target}', which a training would change; replace it by a copy"
    assert message(Run.open(run.path).resume) == message(Run.open(run.path).claim) == said
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before
