"""The task that CONTRIBUTING.md walks through is registered as it stands there, and meets the contract of all tasks."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from embodied.check import words
from embodied.check.contract import CHECKS, NUM_ENVS, Check, environment, run_check
from embodied.env.env import Env
from embodied.env.registry import Registry, join_content
from policies.training.loading import load_policy
from tests.documents.snippets import PYTHON, blocks_of
from tests.kit.worlds import every_engine

NAME, MODULE = "locomotion/cartpole", "tasks.locomotion.cartpole"
DOCUMENT = Path(__file__).parents[1] / "CONTRIBUTING.md"


def blocks() -> tuple[str, str, str]:
    """How terms change from outside, the task's module, and the code that registers it."""
    page = [block for block in blocks_of(DOCUMENT) if block.language == PYTHON]
    found = [block.text for block in page if block.section.startswith("Adding a task")]
    changed, *parts, registration = found
    head, state, body, methods = parts
    return changed, "\n\n".join([head, state, body + "\n" + textwrap.indent(methods, "    ")]), registration


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Env]:
    _, module, registration = blocks()
    file = tmp_path_factory.mktemp("lab") / "cartpole.py"
    file.write_text(module)
    spec = importlib.util.spec_from_file_location(MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    own: Registry = Registry()
    scope: dict[str, object] = {}
    exec(registration, scope)
    with pytest.MonkeyPatch.context() as patch:
        task = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, MODULE, task)
        spec.loader.exec_module(task)
        scope["register"](own)  # pyright: ignore[reportCallIssue]
        patch.setitem(join_content()._tasks, NAME, own[NAME])
        env = environment(NAME)
        env.reset()
        env.step(torch.zeros(env.action_shape))
        yield env


@pytest.fixture(scope="module")
def changed() -> Env:
    """The environments of the page whose terms come and go, fewer of them."""
    scope: dict[str, object] = {}
    exec(blocks()[0].replace("1024", '4, "mujoco"'), scope)
    env = scope["env"]
    assert isinstance(env, Env)
    return env


def test_terms_come_and_go_from_outside_as_documented(changed: Env) -> None:
    assert {"low"} <= set(changed.task.reward_weights)
    assert "spin" not in changed.task.reward_weights
    assert "height" in changed.observation_terms["policy"]
    assert "payload" in changed.variations
    assert "mass" not in changed.variations


@pytest.mark.slow
def test_terms_that_came_from_outside_are_computed(changed: Env) -> None:
    changed.reset()
    assert torch.isfinite(changed.step(torch.zeros(changed.action_shape)).reward).all()


@pytest.mark.parametrize("check", [one for one in CHECKS if not one.slow], ids=lambda one: one.name)
def test_the_documented_task_meets_the_contract(check: Check, env: Env) -> None:
    if check.name == "every listed engine builds":
        every_engine()
    assert run_check(check, env if check.simulated else env.task) == ()


def test_its_config_is_documented(env: Env) -> None:
    assert not words.undocumented(type(env.task.config))


def test_its_script_succeeds(env: Env) -> None:
    expert, obs, success = load_policy("expert", env), env.reset(seed=0), torch.zeros(NUM_ENVS, dtype=torch.bool)
    for _ in range(200):
        step = env.step(expert(obs))
        obs, success = step.obs, success | step.success
    assert success.all()
