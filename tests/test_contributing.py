"""The task that CONTRIBUTING.md walks through is registered as it stands there, and meets the contract of all tasks."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from embodied.check import words
from embodied.env.env import Env
from embodied.registry import Registry, join_content
from policies.training.loading import load_policy
from tests.documents.snippets import PYTHON, blocks_of
from tests.tasks import test_contract as contract

NAME, MODULE = "locomotion/cartpole", "tasks.locomotion.cartpole"
DOCUMENT = Path(__file__).parents[1] / "CONTRIBUTING.md"


def blocks() -> tuple[str, str, str]:
    """How terms change from outside, the task's module, and the code that registers it."""
    found = [block.text for block in blocks_of(DOCUMENT) if block.language == PYTHON]
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
        yield contract.built(NAME)


def test_terms_come_and_go_from_outside_as_documented() -> None:
    changed, _, _ = blocks()
    scope: dict[str, object] = {}
    exec(changed.replace("1024", "4"), scope)
    env = scope["env"]
    assert isinstance(env, Env)
    env.reset()
    assert torch.isfinite(env.step(torch.zeros(env.action_shape)).reward).all()
    assert {"low"} <= set(env.task.reward_weights)
    assert "spin" not in env.task.reward_weights
    assert "payload" in env.variations
    assert "mass" not in env.variations


CHECKS = {
    name: check
    for name, check in inspect.getmembers(contract, inspect.isfunction)
    if name.startswith("test_") and list(inspect.signature(check).parameters) == ["env"]
}


@pytest.mark.parametrize("check", [name for name in CHECKS if name != "test_other_engines_step_too"])
def test_the_documented_task_meets_the_contract(check: str, env: Env) -> None:
    CHECKS[check](env)


def test_its_config_is_documented(env: Env) -> None:
    assert not words.undocumented(type(env.task.config))


def test_its_script_succeeds(env: Env) -> None:
    expert, obs, success = load_policy("expert", env), env.reset(seed=0), torch.zeros(contract.N, dtype=torch.bool)
    for _ in range(200):
        step = env.step(expert(obs))
        obs, success = step.obs, success | step.success
    assert success.all()
