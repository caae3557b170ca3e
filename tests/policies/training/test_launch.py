"""Training from Python and from config files: the same runs as from the command line."""

from __future__ import annotations

import inspect
import json

import pytest
import torch

import embodied
from embodied import train
from embodied.env.factory import build
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage.runs import Run
from policies.training import command_line, launch
from policies.training.settings import saved_settings
from tests.kit.training import NUM_ENVS, PPO, SMALL, STEP, TASK, UNROLL, hover

FEW = {"num_envs": NUM_ENVS, "engine": "rigid", "evaluate_episodes": NUM_ENVS,
       "algorithm_config": {"unroll": UNROLL, "minibatches": 2, "epochs": 1, "actor": {"hidden": (16,)}}}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "run"
    return embodied.train_policy(TASK, steps=2 * STEP, seed=3, out=out, **FEW)


def test_python_trains_what_the_command_line_trains(trained, tmp_path):
    words = [*SMALL, *PPO, "--steps", str(2 * STEP), "--seed", "3",
             "--evaluate-episodes", str(NUM_ENVS), "--out", str(tmp_path / "run")]  # fmt: skip
    assert train.main(words) == 0
    typed = Run.open(tmp_path / "run")
    assert typed.config == trained.run.config
    tensors, others = trained.run.load().tensors, typed.load().tensors
    assert all(torch.equal(tensors[name], others[name]) for name in tensors if name.startswith("policy/"))
    assert typed.result["return"] == trained.result["return"]


def test_python_says_what_the_command_line_says(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(launch, "start", lambda settings, **_: started.append(settings) or settings)
    embodied.train_policy(TASK, steps=64, config={"latency": (0.0, 0.0)}, out=tmp_path, **FEW)
    words = [*SMALL, *PPO, "--steps", "64", "--config.latency", "0", "0", "--evaluate-episodes", str(NUM_ENVS)]
    assert started == [launch.parse(join_content().find(TASK), [*words, "--out", str(tmp_path)])]


def test_what_is_returned_can_be_used_at_once(trained):
    env = hover()
    assert trained.policy(env.reset()).shape == (NUM_ENVS, 4)
    assert not trained.stopped
    assert trained.run.metrics()[-1]["step"] == 2 * STEP
    assert trained.result["command"].startswith(f"embodied.train_policy('{TASK}', num_envs={NUM_ENVS}")
    assert str(trained.run.path) not in trained.result["command"]


def test_a_config_file_is_a_new_run_of_the_same_settings(trained):
    entry = join_content().find(TASK)
    file = trained.run.path / "config.json"
    parsed = launch.parse(entry, ["--config-file", str(file), "--seed", "4", "--ppo.gamma", "0.9"])
    held = saved_settings(trained.run)
    assert parsed.algorithm_config.actor == held.algorithm_config.actor
    assert parsed.algorithm_config.gamma == 0.9
    assert (parsed.steps, parsed.seed, parsed.engine) == (2 * STEP, 4, "rigid")
    assert parsed.config == held.config
    assert parsed.out is None
    edited = json.loads(file.read_text())
    edited["config"]["steps"] = 7  # which a run would refuse
    (trained.run.path.parent / "edited.json").write_text(json.dumps(edited))
    assert launch.parse(entry, ["--config-file", str(trained.run.path.parent / "edited.json")]).steps == 7


def test_the_task_may_come_from_the_file(trained, tmp_path):
    file, out = trained.run.path / "config.json", tmp_path / "run"
    assert train.main(["--config-file", str(file), "--steps", str(STEP), "--out", str(out)]) == 0
    assert Run.open(out).task == TASK


def test_a_file_of_ones_own_says_only_what_differs(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('task = "swarm/hover"\nsteps = 5\n[algorithm_config]\ngamma = 0.9\nactor = {hidden = [8, 8]}\n')
    entry = join_content().find(TASK)
    usual, parsed = launch.parse(entry, []), launch.parse(entry, ["--config-file", str(file)])
    assert command_line.read(file).task == "swarm/hover"
    assert (parsed.steps, parsed.num_envs) == (5, usual.num_envs)
    assert parsed.algorithm_config.actor.hidden == (8, 8)
    assert parsed.algorithm_config.learning_rate == usual.algorithm_config.learning_rate
    other = launch.parse(entry, ["--config-file", str(file), "--algorithm", "sac"])
    assert (other.algorithm, other.steps, other.algorithm_config.gamma) == ("sac", 5, 0.99)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step = 5", "unknown keys step; did you mean 'steps'"),
        ('steps = "many"', "steps is 'many'; expected a whole number"),
        ("[algorithm_config]\ngama = 1", "algorithm_config has unknown fields gama"),
        ('[algorithm_config]\ngamma = "x"', "algorithm_config.gamma is 'x'; expected a number"),
        ("evaluate_episodes = true", "evaluate_episodes is True; expected a whole number"),
        ("steps", "mine.toml cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(EmbodiedError, match=message):
        launch.parse(join_content().find(TASK), ["--config-file", str(tmp_path / "mine.toml")])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 5}, "has no field 'step'; did you mean 'steps'"),
        ({"seeds": (1, 2)}, "train_policy takes no seeds"),
        ({"algorithm_config": {"lr": 1.0}}, "PPOConfig has no field 'lr'"),
        ({"config": {"latncy": 1.0}}, "did you mean 'latency'"),
        ({"name": "a/b"}, "--name 'a/b': expected a name"),
        ({"steps": 0}, "steps"),
        ({"wandb": "yes"}, "wandb"),
    ],
)
def test_what_python_gets_wrong_is_said(settings, message):
    with pytest.raises(EmbodiedError, match=message):
        embodied.train_policy("swarm/hover", **settings)


def test_names_make_folders_that_are_used_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*SMALL, *PPO, "--steps", str(STEP), "--evaluate-episodes", "0",
             "--name", "gentle"]  # fmt: skip
    assert train.main(words) == 0
    assert Run.open(tmp_path / "runs/swarm/hover/gentle").name == "gentle"
    with pytest.raises(EmbodiedError, match="is not empty"):
        inspect.unwrap(train.main)(words)


def test_a_game_of_opposed_sides_is_no_team_that_earns_together(monkeypatch):
    monkeypatch.setattr("policies.training.task_session.build", build)  # it is refused before anything is compiled
    with pytest.raises(EmbodiedError, match="expected ppo or matd3"):
        embodied.train_policy("swarm/tag", algorithm="happo", num_envs=2, steps=64)
