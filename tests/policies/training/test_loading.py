import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest
import torch

import embodied
from embodied import evaluate
from embodied.env.env import Env
from embodied.env.suites import JoinedEnv
from embodied.env.vec_env import vector_sizes
from embodied.env.wrappers.task_encoding import one_hot
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.storage import checkpoints
from embodied.storage.paths import shipped
from embodied.storage.runs import Run
from policies.networks.mlp import GaussianActor, NetworkConfig
from policies.policy import NormalizedActor, Policy
from policies.training.loading import load_policy, open_checkpoint, policy_file, shipped_path
from tests.kit.commands import refused
from tests.kit.learning import PointMass
from tests.kit.training import NUM_ENVS, hover

HOVER = "swarm/hover"


@pytest.fixture(scope="module")
def env() -> Env:
    return hover()


def contents(size: int, actions: int) -> tuple[dict, dict]:
    config = NetworkConfig((8,))
    network = NormalizedActor(GaussianActor(size, actions, config), torch.zeros(size), torch.ones(size), 10.0)
    meta, tensors = Policy(network, config).to_tensors()
    return {f"policy/{name}": tensor for name, tensor in tensors.items()}, {"policy": meta, "task": "toy/task"}


def observation(env: Env) -> dict[str, torch.Tensor]:
    return {group: torch.zeros(NUM_ENVS, size) for group, size in vector_sizes(env.observation_spec).items()}


def test_zero_and_random_act_within_bounds(env: Env) -> None:
    assert not load_policy("zero", env)(observation(env)).any()
    first, again = (load_policy("random", env, seed=3)(observation(env)) for _ in range(2))
    assert first.shape == (NUM_ENVS, 4)
    assert first.abs().max() <= 1
    assert torch.equal(first, again)


def test_a_checkpoint_and_a_run_give_the_same_policy(env: Env, tmp_path: Path) -> None:
    tensors, meta = contents(vector_sizes(env.observation_spec)["policy"], 4)
    with Run.create(tmp_path, "swarm/hover", {}) as run:
        saved = run.save(7, tensors, meta)
    actions = [load_policy(path, env)(observation(env)) for path in (saved, run.path, saved / "state.json")]
    assert actions[0].shape == (NUM_ENVS, 4)
    assert all(torch.equal(action, actions[0]) for action in actions)


def test_a_policy_of_another_size_is_refused_with_both_sizes(env: Env, tmp_path: Path) -> None:
    size = vector_sizes(env.observation_spec)["policy"]
    path = checkpoints.save(tmp_path, 1, *contents(size + 3, 5))
    message = f"reads {size + 3} numbers and gives 5 actions, the task observes {size} and takes 4; .*'toy/task'"
    with pytest.raises(EmbodiedError, match=message):
        load_policy(path, env)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_policy_whose_tensors_are_not_finite_is_refused(env: Env, tmp_path: Path, number: float) -> None:
    tensors, meta = contents(vector_sizes(env.observation_spec)["policy"], 4)
    path = checkpoints.save(tmp_path, 1, {name: torch.full_like(one, number) for name, one in tensors.items()}, meta)
    with pytest.raises(EmbodiedError, match=r"holds numbers that are not finite$"):
        load_policy(path, env)


@pytest.mark.parametrize("identities", [-3, "swarm/hover", [1], {"a": 1}, None])
def test_identities_that_are_no_tasks_are_refused(env: Env, tmp_path: Path, identities: Any) -> None:
    tensors, meta = contents(vector_sizes(env.observation_spec)["policy"], 4)
    path = checkpoints.save(tmp_path, 1, tensors, meta | {"identities": identities})
    with pytest.raises(EmbodiedError, match=r"expected a list of tasks$"):
        load_policy(path, env)


def test_the_terms_that_a_policy_was_trained_on_and_that_are_others_here_are_named(env: Env, tmp_path: Path) -> None:
    """Also those of a task that was not left at its defaults, and in both directions."""
    trained = embodied.make("swarm/trajectory", device="cpu", agents=2, neighbours=1).observation_terms["policy"]
    tensors, meta = contents(sum(map(math.prod, trained.values())), 4)
    meta |= {"task": "swarm/trajectory", "needs": {"agents": 2, "neighbours": 1}}
    path = checkpoints.save(tmp_path, 1, tensors, meta)
    with pytest.raises(EmbodiedError) as refusal:
        load_policy(path, env)
    here = env.observation_terms["policy"]
    for name in {*trained, *here}:
        there, now = (math.prod(terms[name]) if name in terms else "none" for terms in (trained, here))
        assert (f"{name} {there}, here {now}" in str(refusal.value)) == (there != now)


def test_a_checkpoint_without_a_policy_says_so(env: Env, tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, 1, {"x": torch.zeros(1)}, {"other": 1})
    with pytest.raises(EmbodiedError, match="lacks the key 'policy'"):
        load_policy(path, env)
    tensors, meta = contents(5, 4)
    tensors.pop("policy/observation_mean")
    with pytest.raises(EmbodiedError, match="observation_mean is missing"):
        load_policy(checkpoints.save(tmp_path, 2, tensors, meta), env)


def test_unknown_names_list_what_exists(env: Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError, match=r"unknown policy 'shiped'; did you mean 'shipped'.*expert, random"):
        load_policy("shiped", env)
    with pytest.raises(EmbodiedError, match="'swarm/hover' has no scripted expert"):
        load_policy("expert", env)


def test_no_shipped_policy_says_which_tasks_have_one(env: Env, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkpoints_folder = tmp_path / "policies" / "toy" / "task"
    checkpoints_folder.mkdir(parents=True)
    (checkpoints_folder / "state.json").touch()
    monkeypatch.setattr("embodied.storage.paths.asset_roots", lambda: (tmp_path,))
    with pytest.raises(EmbodiedError, match="no policy is shipped for 'swarm/hover'; there are some for toy/task"):
        load_policy("shipped", env)


def test_the_shipped_policy_of_a_suite_is_told_which_of_its_tasks_it_acts_in() -> None:
    path = shipped()["mt10"]
    actions = []
    for task in ("manipulation/reach", "manipulation/push"):
        env = embodied.make(task, 2)
        actions.append(load_policy(path, env)({"policy": torch.zeros(2, *env.observation_spec["policy"].shape)}))
    assert actions[0].shape == (2, 4)
    assert not torch.allclose(*actions)


class Shown(PointMass):
    """The point mass with a script that drives it to its own goal."""

    task_state = None

    def __init__(self, num_envs: int, goal: float) -> None:
        super().__init__(num_envs)
        self.task = SimpleNamespace(expert=lambda obs, state: jnp.clip(goal - obs["policy"], -1.0, 1.0))


def test_the_expert_of_a_suite_is_each_task_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.training.loading.has_expert", lambda task: True)
    envs: Any = {"left": Shown(2, -0.5), "right": Shown(2, 0.5)}
    joined = JoinedEnv(envs, told={name: one_hot(number, 2) for number, name in enumerate(envs)})
    obs = joined.reset()
    rule = load_policy("expert", joined)
    alone = [load_policy("expert", env)(seen) for env, seen in zip(envs.values(), joined.separated(obs), strict=True)]
    assert torch.equal(rule(obs), torch.cat(alone))
    assert not torch.allclose(alone[0], alone[1])


OWN = """
import torch


def fall(obs):
    return -torch.ones(*obs["policy"].shape[:-1], 4)


class Climb:
    def __init__(self, env):
        self.action = torch.ones(env.action_shape).numpy()

    def __call__(self, obs):
        return self.action
"""


def test_a_policy_of_one_s_own_is_named_by_its_file(env: Env, tmp_path: Path) -> None:
    """A function, or a class that is built with the environment; numpy arrays will do."""
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    assert torch.equal(load_policy(f"{file}:fall", env)(observation(env)), -torch.ones(NUM_ENVS, 4))
    assert torch.equal(load_policy(f"{file}:Climb", env)(observation(env)), torch.ones(NUM_ENVS, 4))
    env.reset()
    env.step(load_policy(f"{file}:Climb", env)(observation(env)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.py", r"expected FILE.py:NAME, a function or class of it; it has 'fall', 'Climb'|it has fall, Climb"),
        ("mine.py:fal", r"unknown policy in mine.py 'fal'; did you mean 'fall'"),
        ("mine.py:torch", r"unknown policy in mine.py 'torch'"),
        ("mind.py:fall", r"policy file '.*mind.py' does not exist; did you mean 'mine.py'"),
    ],
)
def test_a_file_without_such_a_policy_says_what_it_has(name: str, message: str, env: Env, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    with pytest.raises(EmbodiedError, match=message):
        load_policy(tmp_path / name, env)
    with pytest.raises(EmbodiedError, match="is not told what to do in words"):
        load_policy(tmp_path / "mine.py:fall", env, instruction="fall")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def bad(obs):\n    return None", r"wrong.py, line 1: bad returned None; expected actions \(N, 4\)"),
        ("def bad(obs):\n    return 'x'", "wrong.py, line 1: bad returned 'x'; expected actions"),
        ("def bad(obs):\n    return [[1], [2, 3]]", r"bad returned \[\[1\], \[2, 3\]\]; expected actions"),
        ("def bad(obs):\n    return obs['policy'][:, :3]", r"bad returned torch.float32 of shape \(\d+, 3\); expected"),
        ("def bad():\n    return None", r"wrong.py, line 1: bad cannot be called with one argument: bad\(\) takes 0"),
        ("class bad:\n    def __call__(self, obs):\n        pass", r"wrong.py, line 1: bad cannot be called with one"),
        ("class bad:\n    def __init__(self, env):\n        pass", "wrong.py, line 1: bad cannot be called with one"),
    ],
)
def test_a_policy_of_one_s_own_that_gives_no_actions_is_named_with_its_line(
    body: str, said: str, env: Env, tmp_path: Path
) -> None:
    (tmp_path / "wrong.py").write_text(body)
    with pytest.raises(EmbodiedError, match=said):
        load_policy(tmp_path / "wrong.py:bad", env)(observation(env))


def test_a_run_may_lie_in_a_folder_named_as_a_file(tmp_path: Path) -> None:
    shutil.copytree(shipped_path("swarm/hover"), tmp_path / "run.py")
    assert policy_file(str(tmp_path / "run.py")) is None
    assert open_checkpoint(tmp_path / "run.py").path == tmp_path / "run.py"
    assert policy_file(str(tmp_path / "other.py")) is not None
    assert policy_file(str(tmp_path / "run.py:act")) is not None


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "needs": ({"needs": 3}, "its needs=3; expected options with their values"),
    "need": ({"needs": {"latency": "x"}}, "latency"),
    "identities": ({"identities": 3}, r"its identities=3; expected a list"),
    "task": ({"task": ["x"]}, r"its task=\['x'\]; expected text"),
    "words": ({"task_encoding": "words"}, "is told its task in words, but was trained on no suite"),
    "cameras": ({"policy": {"cameras": 3, "resolution": 64}}, "its cameras=3; expected a list"),
    "resolution": ({"policy": {"cameras": ["track"]}}, "its resolution='none'; expected"),
    "clip": ({"policy": {"clip": None}}, "its clip is None; expected a positive number"),
    "size": ({"policy": {"observation_size": "x"}}, "cannot be rebuilt from checkpoint"),
    "negative size": (
        {"policy": {"observation_size": -(2**63)}},
        "its observation_size is -9223372036854775808; expected",
    ),
    "large size": ({"policy": {"action_size": 10**9}}, "its action_size is 1000000000; expected whole numbers from 1"),
    "layers": (
        {"policy": {"hidden": [64, 10**400]}},
        r"its hidden is \[64, 1000+\.\.\.; expected whole numbers from 1",
    ),
    "memory": ({"policy": {"kind": "gru", "memory": 10**400}}, "cannot be rebuilt from checkpoint"),
    "kind": ({"policy": {"kind": []}}, "cannot be rebuilt from checkpoint"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_policy_that_nobody_trained_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    changes, said = FORGED[name]
    shipped = checkpoints.load(shipped_path("swarm/hover"))
    own = changes.get("policy", {})
    meta = {**shipped.meta, **changes, "policy": {**shipped.meta["policy"], **own}}
    path = checkpoints.save(tmp_path / "forged", 64, shipped.tensors, meta)
    line = refused(evaluate.main, "swarm/hover", "--policy", str(path), "--episodes", "1")
    assert re.search(said, line), line
