"""What every registered task must meet, on its default engine; stepping the other engines is marked slow.

Each task's environment is built and compiled once, for all tests that take `env`; pytest runs these task by task. Of
tasks that differ in one thing only, the body above all, one stands for the others by default: an entry that names
another in `variant_of` is tested with the slow ones.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

from embodied.check import episodes, functions, models, observations, words
from embodied.check.findings import Finding
from embodied.engines import ENGINES
from embodied.env.env import Env
from embodied.errors import ActionError
from embodied.factory import default_engine, make
from embodied.registry import TaskEntry, join_content
from embodied.storage.configs import from_json, to_json
from policies.registry import ALGORITHMS, default_config
from policies.training.defaults import TrainConfig
from policies.training.settings import default_settings

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


def holds(findings: Iterable[Finding]) -> None:
    """Fail with what a check of `embodied.check` found, in its words."""
    assert [str(finding) for finding in findings] == []


def test_reset_and_step_give_finite_float32_of_the_announced_shapes(env: Env) -> None:
    assert "policy" in env.reset(seed=0)
    holds(observations.everything_is_finite_float32_of_the_announced_shapes(env))


def test_every_term_of_every_observation_varies(env: Env) -> None:
    holds(observations.every_term_of_every_observation_varies(env))


def test_a_seed_decides_everything(env: Env) -> None:
    holds(episodes.a_seed_decides_everything(env))


def test_starts_are_random_across_environments(env: Env) -> None:
    holds(episodes.starts_are_random_across_environments(env))


def test_reward_terms_are_the_weighted_ones(env: Env) -> None:
    holds(functions.reward_terms_are_the_weighted_ones(env.task))


def test_success_is_not_failure(env: Env) -> None:
    holds(functions.outcomes_are_flags(env.task))
    holds(episodes.success_is_not_failure(env))


def test_an_episode_is_truncated_exactly_at_its_time_limit(env: Env) -> None:
    holds(episodes.an_episode_is_truncated_exactly_at_its_time_limit(env))


def test_an_episode_that_follows_begins_afresh(env: Env) -> None:
    holds(episodes.an_episode_that_follows_begins_afresh(env))


@pytest.mark.slow
def test_a_batch_is_so_many_single_environments(env: Env) -> None:
    holds(episodes.a_batch_is_so_many_single_environments(env))


def test_the_state_keeps_its_structure(env: Env) -> None:
    holds(functions.state_keeps_its_structure(env.task))


def test_every_agent_is_on_one_side(env: Env) -> None:
    holds(functions.every_agent_is_on_one_side(env.task))


def test_keypoints_are_places(env: Env) -> None:
    holds(functions.keypoints_are_places(env.task))


def test_functions_are_pure(env: Env) -> None:
    holds(functions.functions_are_pure(env.task))


def test_commands_are_fields_of_the_state_and_are_measured(env: Env) -> None:
    holds(functions.commands_are_fields_of_the_state(env.task))


def test_variations_are_real(env: Env) -> None:
    holds(functions.variations_are_real(env.task))


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


def test_observations_are_documented(env: Env) -> None:
    holds(words.observations_are_documented(env.task))


def test_every_field_of_every_config_has_a_docstring() -> None:
    configs = {REGISTRY[name].load().config_type for name in NAMES}
    assert not sorted(itertools.chain.from_iterable(words.undocumented(config) for config in configs))


def test_the_model_has_a_camera_and_both_models_agree(env: Env) -> None:
    holds(models.the_model_has_a_camera(env))
    holds(models.both_models_agree(env))


CAMERAS = {"manipulation": {"view", "wrist"}, "grasping": {"view", "wrist"}, "swarm": {"front", "track"}}
"""Family -> names that the cameras of all its tasks have, so that a policy's observations mean the same everywhere."""
CROWDS = {"swarm/mean-field-flock": {"view"}}
"""Tasks of so many robots that none has cameras of its own -> names of those that see all."""


def test_cameras_bear_the_names_of_their_family(env: Env) -> None:
    task, name = env.task, entry_of(env).name
    cameras = {task.visual_model.camera(i).name for i in range(task.visual_model.ncam)}
    assert cameras >= set(itertools.chain.from_iterable(task.agent_cameras.values()))
    expected = CROWDS.get(name) or CAMERAS.get(name.split("/")[0], {"track"})
    assert cameras | set(task.agent_cameras) >= expected


def test_every_listed_engine_builds(env: Env) -> None:
    assert set(entry_of(env).engines) <= set(ENGINES)
    holds(models.every_listed_engine_builds(env))


@pytest.mark.slow
def test_other_engines_step_too(env: Env) -> None:
    """The first observation agrees without noise of physics; three steps stay finite."""
    holds(models.other_engines_step_too(env))


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
