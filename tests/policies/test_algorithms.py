"""Learners by name, on the command line: trained, resumed, evaluated, exported like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from embodied import evaluate, train
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.storage.configs import override, run_document
from embodied.storage.runs import Run
from policies import demonstrations
from policies.data import demonstrations as demonstrations_file
from policies.networks.config import Architecture
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3Config
from policies.ppo.config import PPOConfig
from policies.registry import ALGORITHMS, TrainConfig, algorithm_of, default_config, find_algorithm
from policies.training import launch, settings
from policies.training.loading import load_policy, policy_from_checkpoint
from tasks.swarm.multi.training import WAYPOINTS
from tests.kit import pusher, training
from tests.kit.learning import vectors
from tests.kit.pushers import TEAM
from tests.kit.training import NUM_ENVS, TASK
from tests.kit.worlds import world

SMALL = [*training.SMALL, "--evaluate-episodes", "0"]
SAC = [*SMALL, "--algorithm", "sac", "--sac.unroll", "4", "--sac.warm-up", "32", "--sac.batch-size", "16",
       "--sac.actor.hidden", "16", "--sac.critic.hidden", "16", "--sac.buffer-size", "96"]  # fmt: skip
PUSHER = f"{pusher.__file__}:Pusher"
STEP = NUM_ENVS * 4  # environment steps per iteration


def run_main(*words: str) -> int:
    """The exit code of a command line."""
    try:
        return train.main(list(words))
    except SystemExit as stop:
        return int(stop.code or 0)


def tensors(run: Path) -> dict[str, torch.Tensor]:
    return Run.open(run).load().tensors


def test_a_task_s_own_settings_come_before_the_algorithm_s():
    own = TD3Config(gamma=0.5)
    training = TrainConfig(algorithms=(PPOConfig(gamma=0.7), SACConfig(gamma=0.6), own))
    assert default_config("td3", training) is own
    assert default_config("ppo", training).gamma == 0.7
    assert default_config("rlpd", training).gamma == 0.99  # an RLPDConfig is no SACConfig of the task's
    with pytest.raises(UnknownNameError, match="unknown algorithm 'sacc'; did you mean 'sac'"):
        find_algorithm("sacc")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_flags_of_its_own(name):
    entry = join_content().find("swarm/hover")
    parsed = launch.parse(entry, ["swarm/hover", "--algorithm", name, f"--{name}.unroll", "5"])
    assert parsed.algorithm_config.unroll == 5
    assert type(parsed.algorithm_config) is ALGORITHMS[name].config_type
    assert algorithm_of(parsed.algorithm_config).name == name
    with pytest.raises(EmbodiedError, match=r"unknown flag --other\.gamma"):
        launch.parse(entry, ["swarm/hover", "--algorithm", name, "--other.gamma", "0.5"])


def test_a_run_of_another_version_says_how_to_go_on_with_its_policy(tmp_path):
    defaults = settings.default_settings(join_content().find("swarm/hover"))
    document = run_document(defaults)
    run = Run.create(tmp_path, "swarm/hover", document, tmp_path / "run")
    assert settings.saved_settings(run) == defaults
    document["ppo"] = document.pop("algorithm_config")
    earlier = Run.create(tmp_path, "swarm/hover", document, tmp_path / "earlier")
    with pytest.raises(EmbodiedError, match=r"another version of embodied \(it does not know ppo .*--start-from"):
        settings.saved_settings(earlier)


def test_a_run_from_images_of_another_version_says_how_to_train_again(tmp_path):
    defaults = settings.default_settings(join_content().find("manipulation/reach"), "svea")
    document = run_document(override(defaults, {"cameras": ("view", "wrist")}))
    document["algorithm_config"]["image_shape"] = [6, 64, 64]
    earlier = Run.create(tmp_path, "manipulation/reach", document, tmp_path / "earlier")
    again = "begin a new run: python -m embodied.train manipulation/reach --algorithm svea --cameras view wrist"
    with pytest.raises(EmbodiedError, match=rf"another version of embodied \(.*unknown fields image_shape.*{again}$"):
        settings.saved_settings(earlier)


@pytest.mark.parametrize(
    ("name", "stored", "difference"),
    [
        ("trainer/algorithm/random_warm_up", None, "it lacks 'random_warm_up'"),
        ("trainer/obs/policy", None, "it lacks 'policy'"),
        ("trainer/algorithm/normalizers/policy/mean", torch.zeros(3), "The size of tensor"),
    ],
)
def test_an_off_policy_training_saved_by_another_version_says_how_to_go_on(
    whole, name, stored, difference, tmp_path, capsys
):
    run = Run.open(shutil.copytree(whole, tmp_path / "run"))
    saved = run.load()
    other = {key: tensor for key, tensor in saved.tensors.items() if key != name}
    shutil.rmtree(saved.path)
    run.save(saved.step, other if stored is None else other | {name: stored}, saved.meta)
    with pytest.raises(SystemExit):
        train.main(["--resume", str(run.path), "--steps", str(7 * STEP)])
    said = capsys.readouterr().err
    assert said.count("error:") == 1
    assert "Traceback" not in said
    words = " ".join(said.split())
    assert f"saved by another version of embodied ({difference}" in words
    assert words.endswith("begin a new run with its policy: python -m embodied.train TASK --start-from RUN")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert run_main(*SAC, "--seed", "3", "--steps", str(6 * STEP), "--out", str(out)) == 0
    return out


def test_a_resumed_run_is_the_same_bit_for_bit(whole, tmp_path):
    parts = tmp_path / "parts"
    assert run_main(*SAC, "--seed", "3", "--steps", str(3 * STEP), "--out", str(parts)) == 0
    assert run_main("--resume", str(parts), "--steps", str(6 * STEP)) == 0
    a, b = tensors(whole), tensors(parts)
    assert a.keys() == b.keys()
    assert not [name for name in a if not torch.equal(a[name], b[name])]
    assert "trainer/algorithm/replay/buffer/reward" in a
    assert int(a["trainer/algorithm/updates"]) > 0


def test_a_run_records_its_algorithm_and_named_losses(whole):
    run = Run.open(whole)
    assert run.config["algorithm"] == "sac"
    assert run.config["algorithm_config"]["actor"]["hidden"] == [16]
    last = run.metrics()[-1]
    assert {"critic_loss", "policy_loss", "temperature", "entropy", "value", "buffer", "updates"} <= last.keys()
    policy = policy_from_checkpoint(run.load(), "the policy")
    assert policy.kind == "squashed-mlp"


def test_its_policy_is_evaluated_and_started_from(whole, tmp_path, capsys):
    result = tmp_path / "result.json"
    few = ["--episodes", str(NUM_ENVS), "--num-envs", str(NUM_ENVS), "--json", str(result)]
    assert evaluate.main([TASK, "--policy", str(whole), *few]) == 0
    assert json.loads(result.read_text())["episodes"] == NUM_ENVS
    assert run_main(*SAC, "--steps", str(STEP), "--start-from", str(whole), "--out", str(tmp_path / "next")) == 0
    assert run_main(*SMALL, "--steps", str(STEP), "--start-from", str(whole), "--out", str(tmp_path / "ppo")) == 2
    assert "a policy of kind 'squashed-mlp'" in capsys.readouterr().err


RECORDED = [*training.SMALL, "--policy", "zero", "--failures", "--episodes", str(NUM_ENVS)]


def test_demonstrations_are_recorded_and_learned_from(tmp_path):
    file, out = tmp_path / "zero.safetensors", tmp_path / "run"
    assert demonstrations.main([*RECORDED, "--out", str(file)]) == 0
    assert run_main(*SAC, "--sac.demonstrations", str(file), "--steps", str(2 * STEP), "--out", str(out)) == 0
    found = tensors(out)
    recorded = load_file(file)["reward"]
    assert torch.equal(found["trainer/algorithm/replay/demonstrations/reward"][:, 0], recorded)
    file.unlink()
    assert run_main("--resume", str(out), "--steps", str(3 * STEP)) == 0


def test_a_clone_is_trained_and_resumed_like_any_policy(tmp_path):
    file, out = tmp_path / "zero.safetensors", tmp_path / "run"
    assert demonstrations.main([*RECORDED, "--out", str(file)]) == 0
    bc = [*SMALL, "--algorithm", "bc", "--bc.unroll", "4", "--bc.actor.hidden", "16", "--bc.batch-size", "16"]
    assert run_main(*bc, "--bc.demonstrations", str(file), "--steps", str(2 * STEP), "--out", str(out)) == 0
    file.unlink()
    assert run_main("--resume", str(out), "--steps", str(3 * STEP)) == 0
    run = Run.open(out)
    last = run.metrics()[-1]
    assert last["updates"] == 120  # 10 for each of 12 control steps
    assert {"imitation_loss", "samples", "finished"} <= last.keys()
    assert policy_from_checkpoint(run.load(), "the policy").kind == "squashed-mlp"


def test_a_policy_without_a_perceptron_is_stored_and_resumed(tmp_path):
    out = tmp_path / "run"
    options = {"unroll": "4", "warm-up": "32", "batch-size": "16", "critic.hidden": "16", "buffer-size": "96",
               "samples": "4", "offline-updates": "0"}  # fmt: skip
    words = [word for option, value in options.items() for word in (f"--idql.{option}", value)]
    assert run_main(*SMALL, "--algorithm", "idql", *words, "--steps", str(2 * STEP), "--out", str(out)) == 0
    assert run_main("--resume", str(out), "--steps", str(3 * STEP)) == 0
    policy = policy_from_checkpoint(Run.open(out).load(), "the policy")
    assert policy.kind == "idql"


def test_an_adviser_named_on_the_command_line_is_asked_also_after_a_resume(tmp_path):
    out = tmp_path / "run"
    advised = ["--sac.adviser", "zero", "--sac.advice-interval", "2"]
    assert run_main(*SAC, *advised, "--steps", str(2 * STEP), "--out", str(out)) == 0
    assert int(tensors(out)["trainer/algorithm/advice/given"]) == 8 * 4
    assert run_main("--resume", str(out), "--steps", str(3 * STEP)) == 0
    assert int(tensors(out)["trainer/algorithm/advice/given"]) == 8 * 6


def test_a_team_is_taught_by_its_script_and_teams_as_one_are_not(tmp_path, capsys):
    out, small = tmp_path / "run", ["--num-envs", "4", "--evaluate-episodes", "0"]
    learner = ["--algorithm", "dagger", "--dagger.unroll", "4", "--dagger.batch-size", "16", "--dagger.updates", "1"]
    assert train.main([TEAM, *small, *learner, "--steps", "96", "--out", str(out)]) == 0
    policy = policy_from_checkpoint(Run.open(out).load(), "the policy")
    env = world(TEAM, "mujoco", 4)
    assert (policy.kind, load_policy(out, env)(env.reset()).shape) == ("gaussian-mlp", (4, 3, 4))
    attack = ["--adversaries", "1", "--against", "zero", "--out", str(tmp_path / "other")]
    with pytest.raises(SystemExit):
        train.main([TEAM, *small, *learner, *attack, "--steps", "96"])
    assert "adviser='expert' advises each agent of a team, not teams as one" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ppo", "dagger"])
def test_teams_of_drones_learn_with_attention_over_what_is_around_each(name):
    assert default_config(name, WAYPOINTS).actor.architecture is Architecture.ENTITIES


def test_of_a_team_each_agent_is_recorded_by_itself(tmp_path):
    script, out = tmp_path / "mine.py", tmp_path / "recorded.safetensors"
    script.write_text("def follow(obs):\n    return obs['policy'][..., :4].clamp(-1, 1)\n")
    recorded = [TEAM, "--policy", f"{script}:follow", "--num-envs", "4", "--failures"]
    assert demonstrations.main([*recorded, "--episodes", "4", "--out", str(out)]) == 0
    env = world(TEAM, "mujoco", 4)
    seen = env.reset(0)[POLICY].flatten(0, 1)
    steps = demonstrations_file.load(out, vectors(policy=seen.shape[1]), env.action_size)
    ended = (steps.terminated | steps.truncated)[:, 0].nonzero()[:, 0]
    assert len(ended) == 4 * 3
    rows, following = steps.obs[POLICY][:, 0], steps.next_obs[POLICY][:, 0]
    torch.testing.assert_close(steps.action[:, 0], rows[:, :4].clamp(-1, 1))
    inside = torch.ones(len(rows), dtype=torch.bool).index_fill(0, ended, False)[:-1]
    assert torch.equal(following[:-1][inside], rows[1:][inside])  # of one agent after the other
    first = rows[torch.cat([torch.zeros(1, dtype=torch.int64), ended[:-1] + 1])]
    assert any((row == seen).all(1).any() for row in first)


EYES = ["--engine", "mujoco", "--cameras", "view", "--resolution", "16", "--num-envs", "4", "--steps", "64",
        "--evaluate-episodes", "0"]  # fmt: skip
SVEA = [*EYES, "--algorithm", "svea", "--svea.unroll", "4", "--svea.warm-up", "16", "--svea.batch-size", "8",
        "--svea.buffer-size", "96"]  # fmt: skip


@pytest.fixture(scope="module")
def seeing(tmp_path_factory) -> Path:
    """The run of a policy that sees; tests/test_learners_table.py trains in the tasks of the package, with the slow."""
    run = tmp_path_factory.mktemp("seeing") / "run"
    assert train.main([PUSHER, *SVEA, "--out", str(run)]) == 0
    return run


def test_a_policy_that_sees_is_trained_and_resumed_without_being_told_where_things_are(seeing, tmp_path):
    run = shutil.copytree(seeing, tmp_path / "run")
    described = Run.open(run).load().meta["policy"]
    assert (described["cameras"], described["resolution"], described["group"]) == (["view"], [16, 16], "proprio")
    assert described["observation_size"] == 3
    assert train.main(["--resume", str(run), "--steps", "80"]) == 0
    assert Run.open(run).task == PUSHER


def test_a_policy_that_sees_is_evaluated_with_its_own_cameras_and_other_looks(seeing, tmp_path):
    result = tmp_path / "result.json"
    words = [PUSHER, "--policy", str(seeing), "--engine", "mujoco", "--episodes", "4", "--json", str(result)]
    assert evaluate.main([*words, "--visual-shift", "lights"]) == 0
    assert json.loads(result.read_text())["visual_shift"] == "lights"
    env = make(PUSHER, 1, "mujoco", cameras=("view", "wrist"), resolution=16)
    with pytest.raises(EmbodiedError, match=r"sees through view, .* the environment has view, wrist"):
        load_policy(seeing, env)


def test_a_policy_that_sees_is_taught_by_the_script_which_is_told(tmp_path):
    run = tmp_path / "run"
    learner = ["--algorithm", "dagger-pixels", "--dagger-pixels.unroll", "4", "--dagger-pixels.batch-size", "8"]
    assert train.main([PUSHER, *EYES, *learner, "--dagger-pixels.features", "8", "--out", str(run)]) == 0
    described = Run.open(run).load().meta["policy"]
    assert (described["kind"], described["cameras"], described["group"]) == ("squashed-pixels", ["view"], "proprio")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swarm/hover", "--algorithm", "dagger-pixels"], "with --cameras none: svea, dagger-pixels learn from images"),
        (["swarm/hover", "--algorithm", "svea"], "--algorithm svea with --cameras none"),
        (["swarm/hover", "--cameras", "front"], "--algorithm ppo with --cameras front"),
        (["mt10", "--algorithm", "svea", "--cameras", "view"], "not for the suite mt10"),
    ],
)
def test_eyes_without_a_learner_of_images_and_the_reverse_are_refused(words, message, capsys):
    with pytest.raises(SystemExit):
        train.main(words)
    assert message in " ".join(capsys.readouterr().err.split())
