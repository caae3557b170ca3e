"""What every registered task must meet, on its default engine; stepping the other engines is marked slow.

Each task's environment is built and compiled once, for all tests that take `env`; pytest runs these task by task. Of
tasks that differ in one thing only, the body above all, one stands for the others by default: an entry that names
another in `variant_of` is tested with the slow ones.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from embodied.engines import ENGINES, make_engine
from embodied.env.env import Env
from embodied.env.vec_env import vector_sizes
from embodied.errors import ActionError
from embodied.factory import default_engine, make
from embodied.registry import TaskEntry, join_content
from embodied.storage.configs import from_json, to_json
from policies.registry import ALGORITHMS, default_config
from policies.training.defaults import TrainConfig
from policies.training.settings import default_settings
from tests.conftest import has_pybullet

N = 8
REGISTRY = join_content()
NAMES = list(REGISTRY)

pytestmark = pytest.mark.timeout(280)


def param(name: str) -> Any:
    """A task's name as the parameter of a test; slow where another task stands for it."""
    return pytest.param(name, marks=[pytest.mark.slow] if REGISTRY[name].variant_of else [])


@pytest.fixture(scope="module", params=[param(name) for name in NAMES])
def env(request: pytest.FixtureRequest) -> Env:
    return built(request.param)


def built(name: str, engine: str | None = None) -> Env:
    return make(name, num_envs=N, engine=engine or default_engine(REGISTRY[name]), device="cpu")


def entry_of(env: Env) -> TaskEntry:
    assert env.entry is not None
    return env.entry


def actions(env: Env, steps: int) -> torch.Tensor:
    return 2 * torch.rand(steps, *env.action_shape, generator=torch.Generator().manual_seed(0)) - 1


def test_reset_and_step_give_finite_float32_of_the_announced_shapes(env: Env) -> None:
    obs = env.reset(seed=0)
    assert "policy" in obs
    for action in actions(env, 10):
        step = env.step(action)
        for group in (obs, step.obs, step.final_obs):
            assert {key: tuple(value.shape) for key, value in group.items()} == {
                key: (*env.action_shape[:-1], size) for key, size in vector_sizes(env.observation_spec).items()
            }
            for value in group.values():
                assert value.dtype == torch.float32
                assert torch.isfinite(value).all()
        assert step.reward.dtype == torch.float32
        assert torch.isfinite(step.reward).all()
        assert step.reward.shape == env.action_shape[:-1]
        for flag in (step.terminated, step.truncated, step.success, step.done):
            assert flag.shape == (N,)
        for flag in (step.terminated, step.truncated, step.success):
            assert flag.dtype == torch.bool
        assert not (step.terminated & step.truncated).any()
        for key, value in step.info.items():
            assert value.shape == (N,), key
            assert torch.isfinite(value.float()).all(), key


def test_every_term_of_every_observation_varies(env: Env) -> None:
    """Under random actions or, where they never reach, with state (a count of steps held still) or world (a plate)."""
    rows = [env.reset(seed=1)] + [env.step(action).obs for action in actions(env, 40)]
    constant = []
    for group, terms in env.observation_terms.items():
        values = torch.cat([row[group].flatten(0, -2) for row in rows])
        sizes = [int(np.prod(shape)) for shape in terms.values()]
        for term, part in zip(terms, values.split(sizes, dim=1), strict=True):
            if part.std(dim=0).max() == 0:
                constant.append((group, term))
    if constant:
        key = jax.random.PRNGKey(0)
        world, state = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), (env.world(), env.task_state))
        worlds = [world, world, world, shifted(world, 1)]
        states = [state, shifted(state, 10), shifted(state, -10), state]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *zip(worlds, states, strict=True))
        seen = jax.jit(jax.vmap(lambda both: env.task.observe(both[0], both[1], key)))(stacked)
        for group, term in constant:
            values = np.asarray(seen[group][term])
            assert not (values[1:] == values[0]).all(), f"{group}/{term} is constant"


def shifted(state: Any, by: int) -> Any:
    """Every number of a state moved, every flag turned: counters run up, waiting times run out."""
    return jax.tree.map(lambda leaf: ~leaf if leaf.dtype == bool else leaf + leaf.dtype.type(by), state)


def test_a_seed_decides_everything(env: Env) -> None:
    runs = []
    for seed in (3, 3, 4):
        first = env.reset(seed=seed)["policy"].clone()
        steps = [env.step(action) for action in actions(env, 8)]
        runs.append(torch.stack([first, *(step.obs["policy"] for step in steps)]))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0][0], runs[2][0])


def test_starts_are_random_across_environments(env: Env) -> None:
    obs = env.reset(seed=2)["policy"]
    world = env.world()
    joints = np.concatenate([np.asarray(world.qpos), np.asarray(world.qvel)], axis=1)
    assert len(np.unique(obs.numpy(), axis=0)) == N
    drawn = [np.asarray(leaf).reshape(N, -1) for leaf in jax.tree.leaves(env.task_state)]
    assert len(np.unique(np.concatenate([joints, *drawn], axis=1), axis=0)) == N


def test_reward_terms_are_the_weighted_ones(env: Env) -> None:
    task = env.task
    start = jax.eval_shape(task.reset, jax.ShapeDtypeStruct((2,), np.uint32))
    env.reset()
    world = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), env.world())
    action = jax.ShapeDtypeStruct(env.task.action_shape, np.float32)
    terms = jax.eval_shape(task.rewards, world, start.task_state, action)
    assert set(terms) == set(task.reward_weights)
    assert all(term.shape in {(), env.task.action_shape[:-1]} for term in terms.values())
    assert all(np.isfinite(weight) for weight in task.reward_weights.values())


def test_success_is_not_failure(env: Env) -> None:
    env.reset()
    outcome = jax.eval_shape(
        lambda world, key: env.task.outcome(world, env.task.reset(key).task_state),
        jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), env.world()),
        jax.ShapeDtypeStruct((2,), np.uint32),
    )
    assert (outcome.success.shape, outcome.success.dtype) == ((), bool)
    assert (outcome.failure.shape, outcome.failure.dtype) == ((), bool)
    for action in actions(env, 30):
        step = env.step(action)
        assert not (step.success & step.terminated).any()


def test_an_episode_is_truncated_exactly_at_its_time_limit(env: Env) -> None:
    limit = env.max_episode_steps
    for taken, ends in ((limit - 2, False), (limit - 1, True)):
        env.reset(seed=0)
        state = env.state()
        (steps,) = [key for key in state["simulator"] if key.endswith("episode.steps") and "diverged_state" not in key]
        state["simulator"][steps] = np.full(N, taken, np.int32)
        env.load_state(state)
        step = env.step(torch.zeros(env.action_shape))
        assert torch.equal(step.truncated, ~step.terminated) if ends else not step.truncated.any()
        assert (step.info["length"] == taken + 1).all()


def test_options_survive_the_way_to_a_file_and_back() -> None:
    for name in NAMES:
        config = REGISTRY[name].load().config_type()
        written = json.dumps(to_json(config), allow_nan=False)
        assert from_json(type(config), json.loads(written)) == config, name


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_task_and_suite_has_settings_to_train_it_with(algorithm: str) -> None:
    """Also those for which another task stands in slower tests."""
    suites = [suite for suite in REGISTRY.suites.values() if suite.training]
    assert suites
    for entry in (*(REGISTRY[name] for name in NAMES), *suites):
        settings = default_settings(entry, algorithm)
        assert settings.algorithm_config == default_config(algorithm, entry.load_training() or TrainConfig())
        document = json.loads(json.dumps(to_json(settings), allow_nan=False))
        read = from_json(type(settings.algorithm_config), document["algorithm_config"])
        assert read == settings.algorithm_config


def test_every_task_is_said_in_words() -> None:
    for name in NAMES:
        entry, task = REGISTRY[name], REGISTRY[name].load()
        assert task.instruction, name
        assert all(isinstance(text, str) and text.strip() for text in task.instruction), name
        assert len(set(task.instruction)) == len(task.instruction), name
        assert entry.summary.endswith("."), name
        assert inspect.getdoc(task), name


def documented(task: type[Any]) -> str:
    """What a task and its bases say of themselves, of `observe` and of the methods that its docstring names."""
    own = inspect.getdoc(task.observe) or ""
    methods = ["observe", *re.findall(r"`(\w+)`", own)]
    said = [inspect.getdoc(getattr(base, name, None)) or "" for base in task.__mro__ for name in methods]
    return " ".join([inspect.getdoc(task) or "", *said]).lower()


def test_observations_are_documented(env: Env) -> None:
    """Each group by its name, each term by its name or the start of a word of it ('rotors': 'rotor speeds')."""
    task = env.task
    text = documented(type(task))
    for group, terms in env.observation_terms.items():
        assert f"`{group}`" in text, f"the docstring of observe does not mention the group {group}"
        for term in terms:
            starts = "|".join(re.escape(word[:4]) for word in term.split("_") if word)
            assert re.search(rf"\b({starts})", text), f"{group}/{term} is undocumented"


def test_every_field_of_every_config_has_a_docstring() -> None:
    configs = {REGISTRY[name].load().config_type for name in NAMES}
    assert not sorted(itertools.chain.from_iterable(undocumented(config) for config in configs))


def undocumented(config: type) -> list[str]:
    """Fields, also of nested dataclasses, without a docstring below them."""
    documented = set()
    for owner in config.__mro__[:-1]:
        (definition,) = ast.parse(inspect.getsource(owner)).body
        assert isinstance(definition, ast.ClassDef)
        for statement, following in itertools.pairwise(definition.body):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                documented.add(ast.unparse(statement.target))
    fields = dataclasses.fields(config)
    missing = [f"{config.__name__}.{field.name}" for field in fields if field.name not in documented]
    for field in fields:
        nested = type(field.default)
        missing += undocumented(nested) if dataclasses.is_dataclass(nested) else []
    return missing


def test_the_model_has_a_camera_and_both_models_agree(env: Env) -> None:
    task = env.task
    assert task.model.ncam >= 1
    assert task.model.nq == task.visual_model.nq
    names = [[model.sensor(i).name for i in range(model.nsensor)] for model in (task.model, task.visual_model)]
    assert names[0] == names[1]
    np.testing.assert_allclose(task.model.body_mass, task.visual_model.body_mass, rtol=1e-9)
    np.testing.assert_allclose(task.model.body_inertia, task.visual_model.body_inertia, rtol=1e-9, atol=1e-15)


CAMERAS = {"manipulation": {"view", "wrist"}, "grasping": {"view", "wrist"}, "swarm": {"front", "track"}}
"""Family -> names that the cameras of all its tasks have, so that a policy's observations mean the same everywhere."""


def test_cameras_bear_the_names_of_their_family(env: Env) -> None:
    task = env.task
    cameras = {task.visual_model.camera(i).name for i in range(task.visual_model.ncam)} | set(task.agent_cameras)
    assert cameras >= CAMERAS.get(entry_of(env).name.split("/")[0], {"track"})


def test_every_listed_engine_builds(env: Env) -> None:
    for engine in entry_of(env).engines:
        assert engine in ENGINES
        if engine == "pybullet" and not has_pybullet():
            continue
        for options in ({"impl": "jax"}, {"impl": "warp"}) if engine == "mjx" else ({},):  # in all its implementations
            make_engine(engine, env.task, 2, **options)


@pytest.mark.slow
def test_other_engines_step_too(env: Env) -> None:
    """The first observation agrees without noise of physics; three steps stay finite."""
    for engine in set(entry_of(env).engines) - {env.engine_name}:
        other = built(entry_of(env).name, engine)
        torch.testing.assert_close(other.reset(seed=5)["policy"], env.reset(seed=5)["policy"], atol=1e-3, rtol=1e-3)
        for action in actions(other, 3):
            assert torch.isfinite(other.step(action).obs["policy"]).all()


@pytest.fixture(scope="module")
def hover() -> Env:
    return built("swarm/hover")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros((N, 4)), r"action is a ndarray; expected a torch tensor \(8, 4\)"),
        (torch.zeros(N, 3), r"action has shape \(8, 3\); expected \(num_envs, action_size\) = \(8, 4\)"),
        (torch.zeros(4), r"action has shape \(4,\)"),
        (torch.zeros(N, 4, dtype=torch.int64), r"action has dtype torch.int64; expected a floating-point tensor"),
        (torch.full((N, 4), float("nan")), r"action of environment 0 is not finite: \[nan, nan, nan, nan\]"),
        (
            torch.zeros(N, 4).index_fill(0, torch.tensor(5), float("inf")),
            r"action of environment 5 is not finite: \[inf",
        ),
    ],
    ids=["numpy", "size", "unbatched", "integers", "nan", "inf"],
)
def test_a_wrong_action_is_refused_in_plain_words(action: Any, message: str, hover: Env) -> None:
    hover.reset()
    with pytest.raises(ActionError, match=message):
        hover.step(action)


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ActionError, match=r"step\(\) before reset\(\)"):
        make("swarm/hover", num_envs=1, engine="mujoco").step(torch.zeros(1, 4))


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_spread_episodes_end_at_different_times(engine: str) -> None:
    env = make("swarm/hover", 4, engine)
    env.reset()
    env.spread_episode_lengths()
    limit = env.max_episode_steps
    np.testing.assert_array_equal(env.episode_length, [0, limit // 4, limit // 2, 3 * limit // 4])
    env.episode_length = torch.tensor([0, 0, 0, limit - 1])
    step = env.step(torch.zeros(env.action_shape))
    assert step.truncated.tolist() == [False, False, False, True]
    np.testing.assert_array_equal(env.episode_length, [1, 1, 1, 0])
