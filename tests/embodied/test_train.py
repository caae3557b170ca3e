"""The main job as users run it: trains, resumes bit for bit, survives signals, and says plainly what it cannot do."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import embodied
from embodied import train
from embodied.core.initial_states import InitialStateBuffer, first_reset_states, save
from embodied.errors import EmbodiedError
from embodied.registry import join_content
from embodied.storage import checkpoints
from embodied.storage.checkpoints import CheckpointError
from embodied.storage.runs import Run
from policies.training import launch, settings, task_session
from policies.training.loading import critic_state

SMALL = ["swarm/hover", "--num-envs", "16", "--ppo.unroll", "8", "--ppo.minibatches", "2", "--ppo.epochs", "1",
         "--evaluate-episodes", "0"]  # fmt: skip
STEP = 16 * 8  # environment steps per iteration


def run_main(*words: str) -> int:
    """The exit code of a command line."""
    try:
        return train.main(list(words))
    except SystemExit as stop:
        return int(stop.code or 0)


def policy_tensors(run: Path) -> dict[str, torch.Tensor]:
    tensors = Run.open(run).load().tensors
    return {name: value for name, value in tensors.items() if name.startswith(("policy/", "trainer/algorithm"))}


TRIALS = ["--episodes-per-trial", "2", "--episode-steps", "5", "--ppo.actor.architecture", "gru", "--ppo.actor.memory",
          "8"]  # fmt: skip


@pytest.mark.parametrize(("engine", "more"), [("rigid", []), ("mujoco", []), ("mujoco", TRIALS)])
def test_resume_is_bit_exact(tmp_path, engine, more):
    # An adaptive rate: a linear one depends on how many steps were planned, which differ here.
    rate = ["--ppo.schedule", "adaptive", "--ppo.learning-rate", "1e-3"]
    common = [*SMALL, "--engine", engine, "--seed", "3", *rate, *more]
    assert run_main(*common, "--steps", str(6 * STEP), "--out", str(tmp_path / "whole")) == 0
    assert run_main(*common, "--steps", str(3 * STEP), "--out", str(tmp_path / "parts")) == 0
    assert run_main("--resume", str(tmp_path / "parts"), "--steps", str(6 * STEP)) == 0
    whole, parts = policy_tensors(tmp_path / "whole"), policy_tensors(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    different = [name for name in whole if not torch.equal(whole[name], parts[name])]
    assert not different


def test_training_starts_from_a_trained_policy_with_its_layers_and_its_critic(tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    assert run_main(*SMALL, "--steps", str(STEP), "--ppo.actor.hidden", "24", "8", "--out", str(first)) == 0
    still = ("--ppo.schedule", "fixed", "--ppo.learning-rate", "1e-9", "--seed", "1")
    assert run_main(*SMALL, "--steps", str(STEP), "--start-from", str(first), *still, "--out", str(second)) == 0
    assert Run.open(second).config["algorithm_config"]["actor"]["hidden"] == [24, 8]
    states = [critic_state(str(folder)) for folder in (first, second)]
    torch.testing.assert_close(*(state["optimizer"]["parameters"] for state in states if state))
    assert critic_state("shipped") is None
    assert run_main(*SMALL, "--start-from", "random", "--out", str(tmp_path / "third")) == 2
    assert "--start-from random: expected a trained policy" in capsys.readouterr().err


def test_run_folder_holds_what_a_reader_needs(tmp_path):
    out, result = tmp_path / "run", tmp_path / "result.json"
    words = [*SMALL, "--steps", str(2 * STEP), "--out", str(out), "--json", str(result), "--evaluate-episodes", "4"]
    assert run_main(*words) == 0
    run = Run.open(out)
    assert run.config["num_envs"] == 16
    assert run.config["engine"] == "rigid"
    assert run.config["config"]["preset"] == "p250"
    assert [row["step"] for row in run.metrics()] == [STEP, 2 * STEP]
    assert list(out.glob("events.*"))
    values = json.loads(result.read_text())
    assert {"success", "success_low", "success_high", "return", "train_seconds", "hardware", "command"} <= values.keys()
    assert values["episodes"] == 4
    assert values["resumed_at"] == 0
    assert str(tmp_path) not in result.read_text()
    assert run_main("--resume", str(out), "--steps", str(3 * STEP), "--json", str(result)) == 0
    values = json.loads(result.read_text())
    assert (values["resumed_at"], values["steps"]) == (2 * STEP, 3 * STEP)
    assert values["train_env_steps_per_second"] * values["train_seconds"] == pytest.approx(STEP)


def spawn(*words: str, cwd: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(train.__file__).parent.parent)}
    command = [sys.executable, "-m", "embodied.train", *words]
    return subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[str], count: int = 1) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if len(checkpoints.steps(folder / "checkpoints")) >= count:
            return
        time.sleep(0.05)
    pytest.fail(f"no checkpoint appeared; exit code {process.poll()}: {process.stderr and process.stderr.read()}")


SLOW_SIGNALS = [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGHUP)]


@pytest.mark.parametrize("number", [signal.SIGTERM, *SLOW_SIGNALS])
def test_signal_saves_and_exits_cleanly(tmp_path, number):
    out = tmp_path / "run"
    process = spawn(*SMALL, "--steps", "100000000", "--out", str(out), "--checkpoint-seconds", "0.2", cwd=tmp_path)
    wait_for_checkpoint(out, process)
    before = checkpoints.steps(out / "checkpoints")[-1]
    time.sleep(0.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "--resume" in said
    assert "Traceback" not in said
    assert checkpoints.steps(out / "checkpoints")[-1] > before
    assert Run.open(out).load().step == Run.open(out).metrics()[-1]["step"]


def test_kill_leaves_a_checkpoint_to_resume_from(tmp_path):
    out = tmp_path / "run"
    process = spawn(*SMALL, "--steps", "100000000", "--out", str(out), "--checkpoint-seconds", "0.0", cwd=tmp_path)
    wait_for_checkpoint(out, process, count=2)
    process.kill()
    process.communicate(timeout=60)
    step = Run.open(out).load().step
    assert run_main("--resume", str(out), "--steps", str(step + STEP)) == 0
    assert Run.open(out).load().step == step + STEP


def test_two_processes_train_one_policy(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(train.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    out = tmp_path / "run"
    command = [*launcher, "embodied.train", *SMALL, "--steps", str(4 * STEP), "--out", str(out)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    assert Run.open(out).load().step == 4 * STEP
    assert len(Run.open(out).metrics()) == 2  # each iteration counts the steps of both processes


def test_training_on_a_full_disk_says_so(tmp_path, monkeypatch, capsys):
    def full(*_: object, **__: object) -> None:
        raise CheckpointError("cannot save checkpoint 'x': no space left on device")

    monkeypatch.setattr(checkpoints, "save", full)
    assert run_main(*SMALL, "--steps", str(STEP), "--out", str(tmp_path / "run")) == 2
    assert "no space left on device" in capsys.readouterr().err


def error_of(capsys, *words: str) -> str:
    """The one line that a refused command prints."""
    assert run_main(*words) == 2
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "Traceback" not in said
    return lines[0]


def test_unknown_task_suggests(capsys):
    said = error_of(capsys, "swarm/hoover")
    assert "'swarm/hoover'" in said
    assert "did you mean 'swarm/hover'" in said


def test_unknown_engine_lists(capsys, tmp_path):
    said = error_of(capsys, "swarm/hover", "--engine", "bullet", "--out", str(tmp_path / "run"))
    assert "'bullet'" in said
    assert "rigid" in said
    assert not (tmp_path / "run").exists()


def test_engine_that_does_not_run_the_task(capsys, tmp_path):
    said = error_of(capsys, "locomotion/go1-joystick-flat", "--engine", "rigid", "--out", str(tmp_path / "run"))
    assert "does not run" in said
    assert "mujoco" in said


def test_missing_gpu(capsys, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    said = error_of(capsys, "swarm/hover", "--device", "cuda", "--out", str(tmp_path / "run"))
    assert "'cuda'" in said
    assert "cpu" in said


def test_nothing_is_overwritten(capsys, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    said = error_of(capsys, *SMALL, "--out", str(tmp_path))
    assert tmp_path.name in said
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_a_training_that_cannot_begin_leaves_no_run(capsys, tmp_path):
    words = (*SMALL, "--ppo.minibatches", "100000", "--out", str(tmp_path / "run"))
    assert "minibatches=100000 exceeds" in error_of(capsys, *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "3"], "'--seed' cannot be given with --resume"),
        (["--nonsense"], "'--nonsense' cannot be given with --resume"),
        (["swarm/hover"], "'swarm/hover' cannot be given with --resume"),
        (["--steps", "many"], "--steps many: expected a whole number"),
    ],
)
def test_resume_takes_no_other_settings(capsys, tmp_path, words, message):
    assert message in error_of(capsys, "--resume", str(tmp_path), *words)


def test_resume_of_what_is_no_run(capsys, tmp_path):
    assert "nowhere" in error_of(capsys, "--resume", str(tmp_path / "nowhere"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    assert run_main(*SMALL, "--steps", str(STEP), "--out", str(out)) == 0
    return out


def damaged(finished: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(finished, tmp_path / "copy"))


def test_what_a_resume_changes_is_read_from_its_flags():
    words = ["--resume", "runs/a", "--watch", "--steps=500", "--json", "a.json"]
    assert train.resume_changes(words) == {"watch": True, "steps": 500, "json": Path("a.json")}
    assert train.resume_changes(["--resume", "runs/a"]) == {}


def test_resume_of_a_truncated_checkpoint(capsys, finished, tmp_path):
    run = damaged(finished, tmp_path)
    tensors = next(run.glob("checkpoints/*/state.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-10])
    assert "bytes" in error_of(capsys, "--resume", str(run))


def test_resume_of_an_edited_config(capsys, finished, tmp_path):
    run = damaged(finished, tmp_path)
    config = run / "config.json"
    config.write_text(config.read_text().replace('"seed": 0', '"seed": 1'))
    assert "config.json" in error_of(capsys, "--resume", str(run))


def test_resume_of_another_version(capsys, finished, tmp_path):
    run = damaged(finished, tmp_path)
    config = run / "config.json"
    document = json.loads(config.read_text())
    document["format"] = 99
    config.write_text(json.dumps(document))
    assert "99" in error_of(capsys, "--resume", str(run))


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
    path = tmp_path / "initial_states.safetensors"
    buffer = InitialStateBuffer(first_reset_states(embodied.make("swarm/hover", 1).task, 3, 1), np.ones(1))
    save(path, buffer)
    banked = dataclasses.replace(
        settings.default_settings(join_content().find("swarm/hover")), initial_states=path, initial_states_share=1.0
    )
    env = task_session.build_env(banked, 4, 0)
    assert isinstance(env, embodied.Env)
    env.reset()
    np.testing.assert_allclose(np.asarray(env.world().qpos), np.tile(buffer.reset_states.qpos, (4, 1)), atol=1e-6)
    suite = settings.default_settings(join_content().find("mt10"))
    with pytest.raises(EmbodiedError, match=r"no initial states can be read from .*reach"):
        task_session.build_env(dataclasses.replace(suite, initial_states=path), 10, 0)
