"""The main job as users run it: trains, resumes bit for bit, survives signals, and says plainly what it cannot do."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import embodied
from embodied import train
from embodied.core.initial_states import InitialStateBuffer, first_reset_states, save
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage import checkpoints
from embodied.storage.checkpoints import CheckpointError
from embodied.storage.configs import override
from embodied.storage.runs import Run
from policies.networks.optim import distributed
from policies.training import launch, settings, task_session
from policies.training.loading import critic_state
from tests.kit.commands import environment, interpreted, refused, run
from tests.kit.task_file import BALL, QUICK, STEP, WITH_OPTION, mass

HOVER = ["swarm/hover", "--num-envs", "16", "--ppo.unroll", "8", "--ppo.minibatches", "2", "--ppo.epochs", "1",
         "--evaluate-episodes", "0"]  # fmt: skip
HOVER_STEP = 16 * 8  # environment steps per iteration


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of tasks."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "mass.py").write_text(WITH_OPTION)
    (folder / "ball.py").write_text(BALL)
    return folder


@pytest.fixture(scope="module")
def small(lab: Path) -> list[str]:
    """The words of a training of a second, but for its steps."""
    return [f"{lab}/mass.py:Optional", *QUICK, "--evaluate-episodes", "0"]


# An adaptive rate: a linear one depends on how many steps were planned.
ADAPTIVE = ["--ppo.schedule", "adaptive", "--ppo.learning-rate", "1e-3", "--seed", "3"]
TWICE = [*ADAPTIVE, "--steps", str(2 * STEP), "--checkpoint-seconds", "0"]
"""Two iterations, after each of which a checkpoint is saved."""


@pytest.fixture(scope="module")
def finished(small: list[str], lab: Path) -> Path:
    """A run of two iterations, evaluated; tests that change it have a copy."""
    words = [*small, *TWICE, "--config.stiff", "--ppo.actor.hidden", "24", "8", "--evaluate-episodes", "4"]
    out = ["--json", str(lab / "result.json"), "--out", str(lab / "finished")]
    assert run(train.main, *words, *out).code == 0
    return lab / "finished"


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def policy_tensors(folder: Path) -> dict[str, torch.Tensor]:
    tensors = Run.open(folder).load().tensors
    return {name: value for name, value in tensors.items() if name.startswith(("policy/", "trainer/algorithm"))}


TRIALS = ["--episodes-per-trial", "2", "--episode-steps", "5", "--ppo.actor.architecture", "gru", "--ppo.actor.memory",
          "8"]  # fmt: skip


@pytest.fixture(scope="module", params=["mass", "trials", "fused"])
def whole(request: pytest.FixtureRequest, lab: Path, finished: Path) -> Path:
    """A run of two iterations with both their checkpoints: alone, in trials with memory, on a fused engine."""
    if request.param == "mass":
        return finished
    task, more = {"trials": ("mass.py:Optional", TRIALS), "fused": ("ball.py", [])}[request.param]
    words = [f"{lab}/{task}", *QUICK, "--evaluate-episodes", "0", *TWICE, *more]
    assert run(train.main, *words, "--out", str(lab / request.param)).code == 0
    return lab / request.param


def test_resume_is_bit_exact(whole: Path, tmp_path: Path) -> None:
    parts = Path(shutil.copytree(whole, tmp_path / "parts"))
    assert checkpoints.steps(parts / "checkpoints") == [STEP, 2 * STEP]
    shutil.rmtree(parts / "checkpoints" / checkpoints.name_of(2 * STEP))
    assert run(train.main, "--resume", str(parts), "--steps", str(2 * STEP)).code == 0
    one, other = policy_tensors(whole), policy_tensors(parts)
    assert one.keys() == other.keys()
    assert not [name for name in one if not torch.equal(one[name], other[name])]


def test_training_starts_from_a_trained_policy_with_its_layers_and_its_critic(small, finished, tmp_path):
    out = tmp_path / "second"
    still = ("--ppo.schedule", "fixed", "--ppo.learning-rate", "1e-9", "--seed", "1", "--steps", str(STEP))
    assert run(train.main, *small, "--start-from", str(finished), *still, "--out", str(out)).code == 0
    assert Run.open(out).config["algorithm_config"]["actor"]["hidden"] == [24, 8]
    states = [critic_state(str(folder)) for folder in (finished, out)]
    torch.testing.assert_close(*(state["optimizer"]["parameters"] for state in states if state))
    assert critic_state("shipped") is None


def test_training_starts_from_no_policy_without_tensors(small, tmp_path):
    said = refused(train.main, *small, "--start-from", "random", "--out", str(tmp_path / "third"))
    assert "--start-from random: expected a trained policy" in said


def test_run_folder_holds_what_a_reader_needs(finished, lab):
    made = Run.open(finished)
    assert made.config["num_envs"] == 8
    assert made.config["engine"] == "mujoco"
    assert made.config["config"]["stiff"] is True
    assert [row["step"] for row in made.metrics()] == [STEP, 2 * STEP]
    assert list(finished.glob("events.*"))
    values = json.loads((lab / "result.json").read_text())
    assert {"success", "success_low", "success_high", "return", "train_seconds", "hardware", "command"} <= values.keys()
    assert values["episodes"] == 4
    assert values["resumed_at"] == 0
    assert str(lab) not in (lab / "result.json").read_text()


def test_a_resume_that_ends_says_where_it_began(copied, tmp_path):
    result = tmp_path / "result.json"
    assert run(train.main, "--resume", str(copied), "--steps", str(3 * STEP), "--json", str(result)).code == 0
    values = json.loads(result.read_text())
    assert (values["resumed_at"], values["steps"]) == (2 * STEP, 3 * STEP)
    assert values["train_env_steps_per_second"] * values["train_seconds"] == pytest.approx(STEP)


def after_iteration(monkeypatch: pytest.MonkeyPatch, count: int, act: Callable[[], None]) -> None:
    """Do something after so many iterations of a training in this process."""
    on_iteration, done = task_session.TaskSession._on_iteration, [0]

    def acting(session: task_session.TaskSession, *given: Any) -> None:
        on_iteration(session, *given)
        done[0] += 1
        if done[0] == count:
            act()

    monkeypatch.setattr(task_session.TaskSession, "_on_iteration", acting)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_and_ends_the_training(small, tmp_path, monkeypatch, number):
    def unexpected(*_: object) -> None:
        raise AssertionError("the training does not catch the signal")

    after_iteration(monkeypatch, 2, lambda: signal.raise_signal(number))
    before = signal.signal(number, unexpected)
    try:
        done = run(train.main, *small, "--steps", "100000000", "--out", str(tmp_path / "run"))
    finally:
        signal.signal(number, before)
    assert done.code == 0
    assert f"--resume {tmp_path}/run" in " ".join(done.err.split())
    assert signal.Signals(number).name in done.err
    assert Run.open(tmp_path / "run").load().step == Run.open(tmp_path / "run").metrics()[-1]["step"] == 2 * STEP


class Killed(BaseException):
    """Stands for a signal that no process survives: nothing more is saved."""


def test_what_is_killed_leaves_a_checkpoint_to_resume_from(small, tmp_path, monkeypatch):
    def kill() -> None:
        raise Killed

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        after_iteration(patch, 2, kill)
        patch.setattr(task_session.TaskSession, "save_when_due", task_session.TaskSession.save)
        with pytest.raises(Killed):
            run(train.main, *small, "--steps", "100000000", "--out", str(out))
    assert Run.open(out).load().step == 2 * STEP
    assert run(train.main, "--resume", str(out), "--steps", str(3 * STEP)).code == 0
    assert Run.open(out).load().step == 3 * STEP


def test_only_the_first_of_several_processes_writes(small, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    assert run(train.main, *small, "--steps", str(STEP), "--out", str(tmp_path / "run")).code == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_process_that_is_ended_leaves_a_checkpoint_to_resume_from(tmp_path, number):
    out, saved = tmp_path / "run", lambda: checkpoints.steps(tmp_path / "run" / "checkpoints")
    often = "0.0" if number == signal.SIGKILL else "0.2"  # so often that it is killed while it saves
    words = [*HOVER, "--steps", "100000000", "--out", str(out), "--checkpoint-seconds", often]
    command = [sys.executable, "-m", "embodied.train", *words]
    heard = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever tests may ignore it (`nohup`)
    try:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGHUP, heard)
    deadline = time.monotonic() + 120
    while len(saved()) < 2:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no checkpoint appeared"
        time.sleep(0.05)
    before = saved()[-1]
    time.sleep(0.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        step = Run.open(out).load().step
        assert run(train.main, "--resume", str(out), "--steps", str(step + HOVER_STEP)).code == 0
        assert Run.open(out).load().step == step + HOVER_STEP
        return
    assert process.returncode == 0
    assert "--resume" in said
    assert "Traceback" not in said
    assert saved()[-1] > before
    assert Run.open(out).load().step == Run.open(out).metrics()[-1]["step"]


@pytest.mark.slow
def test_two_processes_train_one_policy(tmp_path):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    out = tmp_path / "run"
    command = [*launcher, "embodied.train", *HOVER, "--steps", str(4 * HOVER_STEP), "--out", str(out)]
    done = interpreted(*command, cwd=tmp_path, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert Run.open(out).load().step == 4 * HOVER_STEP
    assert len(Run.open(out).metrics()) == 2  # each iteration counts the steps of both processes


def test_training_on_a_full_disk_says_so(small, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise CheckpointError("cannot save checkpoint 'x': no space left on device")

    monkeypatch.setattr(checkpoints, "save", full)
    said = refused(train.main, *small, "--steps", str(STEP), "--out", str(tmp_path / "run"))
    assert "no space left on device" in said


OUT = "--out=run"
REFUSED = {
    "task": (["swarm/hoover"], ["'swarm/hoover'", "did you mean 'swarm/hover'"]),
    "engine": (["swarm/hover", "--engine", "bullet", OUT], ["'bullet'", "rigid"]),
    "engine of the task": (["locomotion/go1-joystick-flat", "--engine", "rigid", OUT], ["does not run", "mujoco"]),
    "too small": ([*HOVER, "--ppo.minibatches", "100000", OUT], ["minibatches=100000 exceeds"]),
    "resume a seed": (["--resume", ".", "--seed", "3"], ["'--seed' cannot be given with --resume"]),
    "resume nonsense": (["--resume", ".", "--nonsense"], ["'--nonsense' cannot be given with --resume"]),
    "resume a task": (["--resume", ".", "swarm/hover"], ["'swarm/hover' cannot be given with --resume"]),
    "resume many": (["--resume", ".", "--steps", "many"], ["--steps many: expected a whole number"]),
    "resume nothing": (["--resume", "nowhere"], ["nowhere"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_is_refused_in_one_line_and_leaves_no_run(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, parts = REFUSED[case]
    said = refused(train.main, *words)
    assert [part for part in parts if part not in said] == []
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_missing_gpu(tmp_path):
    said = refused(train.main, "swarm/hover", "--device", "cuda", "--out", str(tmp_path / "run"))
    assert "'cuda'" in said
    assert "cpu" in said


def test_nothing_is_overwritten(small, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    assert tmp_path.name in refused(train.main, *small, "--out", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_what_a_resume_changes_is_read_from_its_flags():
    words = ["--resume", "runs/a", "--watch", "--steps=500", "--json", "a.json"]
    assert train.resume_changes(words) == {"watch": True, "steps": 500, "json": Path("a.json")}
    assert train.resume_changes(["--resume", "runs/a"]) == {}


def test_resume_of_a_truncated_checkpoint(copied):
    for tensors in copied.glob("checkpoints/*/state.safetensors"):
        tensors.write_bytes(tensors.read_bytes()[:-10])
    assert "bytes" in refused(train.main, "--resume", str(copied))


@pytest.mark.parametrize(("before", "after", "said"), [
    ('"seed": 3', '"seed": 1', "config.json"), ('"format": 1', '"format": 99', "99"),
])  # fmt: skip
def test_resume_of_an_edited_config_or_of_another_version(copied, before, after, said):
    config = copied / "config.json"
    assert before in config.read_text()
    config.write_text(config.read_text().replace(before, after))
    assert said in refused(train.main, "--resume", str(copied))


def test_what_a_task_sets_in_training_holds_there_alone_and_can_be_set_otherwise():
    entry = join_content()["grasping/leap-reorient"]
    options = entry.load_training().options
    assert options["curriculum"]
    assert not entry.load().config_type().curriculum
    config = settings.default_settings(entry).config
    assert {name: getattr(config, name) for name in options} == options
    assert launch.parse(entry, [entry.name, "--config.no-curriculum"]).config.curriculum is False
    assert settings.without_training_options(entry, config) == entry.load().config_type()
    patient = launch.parse(entry, [entry.name, "--config.patience", "7", "--config.within", "0.3"]).config
    judged = settings.without_training_options(entry, patient)
    assert (judged.patience, judged.within, judged.curriculum, judged.without) == (7.0, 0.3, False, ())


def test_training_begins_some_episodes_at_starts_from_a_file(tmp_path):
    path, entry = tmp_path / "initial_states.safetensors", join_content()[mass(tmp_path)]
    buffer = InitialStateBuffer(first_reset_states(entry.load()(), 3, 1), np.ones(1))
    save(path, buffer)
    given = {"initial_states": path, "initial_states_share": 1.0, "device": "cpu"}
    banked = override(settings.default_settings(entry), given)
    env = task_session.build_env(banked, 4, 0)
    assert isinstance(env, embodied.Env)
    env.reset()
    np.testing.assert_allclose(np.asarray(env.world().qpos), np.tile(buffer.reset_states.qpos, (4, 1)), atol=1e-6)
    suite = settings.default_settings(join_content().find("mt10"))
    with pytest.raises(EmbodiedError, match=r"no initial states can be read from .*reach"):
        task_session.build_env(override(suite, {"initial_states": path}), 10, 0)


CONFIGS: dict[str, tuple[str, str]] = {
    "name.json": ('{"task": "swarm/hover", "name": ["a"]}', "name is ['a']; expected text"),
    "envs.json": ('{"task": "swarm/hover", "num_envs": 1000000000000}', "num_envs=1000000000000; expected at most"),
    "algorithm.json": ('{"task": "swarm/hover", "algorithm": ["ppo"]}', "unknown algorithm ['ppo']"),
    "engine.json": ('{"task": "swarm/hover", "engine": ["rigid"]}', "engine is ['rigid']; expected text"),
    "options.json": (
        '{"task": "swarm/hover", "engine_options": [1]}',
        "[1]; expected names and values",
    ),
    "long.json": (f'{{"task": "swarm/hover", "name": "{"x" * 5000}"}}', "expected a name that a folder can have"),
    "surrogate.json": ('{"task": "swarm/hover", "name": "\\ud800"}', "expected a name that a folder can have"),
    "null.json": ('{"task": "swarm/hover", "name": "a\\u0000b"}', "expected a name that a folder can have"),
    "file.json": ('{"task": "a\\u0000.py:X"}', "unknown task 'a\\x00.py:X'"),
    "network.json": (
        '{"task": "swarm/hover", "algorithm_config": {"actor": {"hidden": [1000000000000]}}}',
        "not enough memory: ",
    ),
    "deep.json": ("[" * 100_000, "it is nested too deeply"),
    "deep.toml": (f"a = {'[' * 5000}{']' * 5000}", "it is nested too deeply"),
    "number.json": (f'{{"task": "swarm/hover", "steps": {"9" * 5000}}}', "cannot be read: Exceeds the limit"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_of_settings_that_mean_nothing_is_refused_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, said = CONFIGS[name]
    Path(name).write_text(text)
    line = refused(train.main, "--config-file", name)
    assert said in line
    assert len(line) < 500


def test_a_checkpoint_without_a_training_is_not_gone_on_with(tmp_path, small):
    out = tmp_path / "run"
    assert run(train.main, *small, "--steps", str(STEP), "--out", str(out)).code == 0
    (folder,) = (out / "checkpoints").iterdir()
    saved = checkpoints.load(folder)
    shutil.rmtree(folder)
    policy = {name: tensor for name, tensor in saved.tensors.items() if name.startswith("policy/")}
    checkpoints.save(out / "checkpoints", saved.step, policy, saved.meta)
    said = refused(train.main, "--resume", str(out))
    assert "holds no training to go on with; begin a new one with its policy: python -m embodied.train TASK" in said
