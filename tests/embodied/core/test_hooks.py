"""Whatever a user's hooks return or raise, the message names his file, the line and the hook."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import Array

from embodied.core import episode
from embodied.core.world import World
from embodied.env.registry import join_content
from embodied.errors import guard
from tests.kit.commands import refused
from tests.kit.task_file import SOUND

ARGUMENTS = {
    "build_spec": "", "reset": ", key", "process_action": ", world, state, action, key",
    "apply_action": ", world, state, command", "post_step": ", world, state, action, key",
    "observe": ", world, state, key", "rewards": ", world, state, action", "outcome": ", world, state",
    "metrics": ", world, state", "declared_terms": "",
}  # fmt: skip
"""Hook -> what follows `self`."""
NOTHING = ("return None", "return 'words'", "return [[1], [2, 3]]", "return (1 for _ in ())", "return {3: 'x'}")
"""Bodies whose result is no hook's."""
RAISED = (
    "raise ValueError('mine')", "raise SystemExit(0)", "raise GeneratorExit", "raise BaseException('mine')",
    "raise BrokenPipeError", "raise KeyboardInterrupt('mine')",
    "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})",
    "raise __import__('embodied').EmbodiedError('mine')",
)  # fmt: skip
WRONG = {
    "reset": [
        ("return ResetState(jnp.zeros(4), jnp.zeros(1), None)", r"expected qpos of shape \(1,\), not float32 of shape"),
        ("return ResetState(jnp.zeros(1), jnp.zeros(1), 'x')", "expected a task_state of arrays, not 'x'"),
        ("return ResetState(jnp.zeros(1), jnp.zeros(1), None, {'nope': 3})", "expected model with fields of MjModel"),
    ],
    "process_action": [("return action", r"returned float32 of shape \(1,\); expected \(command, state\)")],
    "apply_action": [
        ("return None, state", r"expected \(Control, state\)"),
        ("from embodied.core.world import Control; return Control(jnp.zeros(3)), state", r"gives ctrl \(3,\)"),
    ],
    "post_step": [
        ("return None", "expected the state, a State of arrays"),
        ("return State(jnp.zeros(7), state.steps, state.start)", "expected a state of the shapes State"),
    ],
    "observe": [
        ("return {'policy': {}}", "expected groups of terms"),
        ("return {3: {'place': world.qpos}}", "expected a group 'policy' among its groups, which are .3."),
        ("return {'policy': {'place': world.qpos}, 3: {'place': world.qpos}}", "expected groups with names, not 3"),
        ("return {'policy': {'a': [[1], [2, 3]]}}", r"expected arrays with names, not 'a': \[\[1\], \[2, 3\]\]"),
        ("return {'policy': {'a': jnp.zeros(3, complex)}}", "not 'a': complex64 of shape"),
        ("return {'policy': {'a': world['gyro']}}", r"unknown sensor 'gyro'; .* \(own\d+.py, line 65, in observe\)"),
    ],
    "rewards": [
        ("return {'near': jnp.zeros(7)}", r"expected numbers of shape \(\) with names, not 'near': float32 of shape"),
        ("return {'far': 1.0}", "term 'far' has no weight"),
    ],
    "outcome": [("return Outcome(jnp.zeros(()), False)", "expected success as one true or false, not float32")],
    "metrics": [("return {'speed': world.qvel}", r"not 'speed': float32 of shape \(1,\)")],
}
"""Hook -> bodies whose results are nearly right, and what is said."""
CASES = [
    *((hook, body, "") for hook, body in itertools.product(ARGUMENTS, NOTHING)),
    *((hook, body, "") for hook, body in itertools.product(("build_spec", "rewards"), RAISED)),
    *((hook, *case) for hook, cases in WRONG.items() for case in cases),
]
numbers = itertools.count()


@guard
def used(arguments: list[str]) -> None:
    """Trace every hook, as whatever simulates a task does."""
    task = join_content()[arguments[0]].load()()
    assert task.terms is not None
    world, action = World.zeros(task.model), jnp.zeros(task.action_shape)

    def step(key: Array) -> None:
        start, key = episode.begin(task, key)
        running, _ = episode.first(task, world, start.task_state, key)
        command, running = episode.before(task, world, running, action)
        _, running = episode.apply_action(task, world, running, command)
        episode.after(task, world, running, action)

    jax.eval_shape(step, jax.random.PRNGKey(0))


@pytest.mark.parametrize(("hook", "body", "said"), CASES)
def test_a_hook_is_named_with_its_line(hook: str, body: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / f"own{next(numbers)}.py"
    file.write_text(f"{SOUND}\n\nclass Bad(Sound):\n    def {hook}(self{ARGUMENTS[hook]}):\n        {body}\n")
    line = refused(used, f"{file}:Bad")
    assert f"{file.name}, line 6" in line
    assert hook in line
    assert re.search(said, line), line


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "def rewards(self, world):\n        return {}",
            "Bad.rewards takes (self, world); expected (self, world: 'World'",
        ),
        ("rewards = 3", "Bad.rewards is 3; expected a method"),
        ("timing = 3", "Bad.timing is 3; expected a Timing"),
        ("action_size = 2.5", "Bad.action_size is 2.5; expected a int"),
        ("action_size = -1", "Bad.action_size is -1; expected a whole number from 1 to"),
        ("action_size = 2**63", "Bad.action_size is 9223372036854775808; expected a whole number from 1 to"),
        ("config_type = dict", "Bad.config_type is <class 'dict'>; expected a dataclass"),
        ("engines = ()", "Bad.engines names none"),
        ("timing = Timing(0.01, 2, float('inf'))", "episode_seconds=inf finite and at least one control step"),
        ("timing = Timing(float('nan'), 2, 1.0)", "physics_dt=nan s must be positive"),
        ("timing = Timing(0.01, 2.5, 1.0)", "substeps=2.5 a whole number"),
        ("engines = 'mujoco'", "Bad.engines is 'mujoco'; expected a tuple or list"),
        ("reward_weights = 3", "Bad.reward_weights is 3; expected a Mapping"),
        ("reward_weights = {'near': 'x'}", "expected terms for reward_weights, which are {'near': 'x'}"),
        ("language = 'words'", "Bad.language is 'words'; expected a Language"),
        ("team = 3", "Bad.team is 3; expected a Team"),
        ("config_type = None", "Bad.config_type is None; expected a type"),
        ("config_type = State", "Bad.config_type cannot be made without arguments"),
    ],
)
def test_what_a_class_declares_is_named_too(body: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / f"own{next(numbers)}.py"
    file.write_text(f"{SOUND}\n\nclass Bad(Sound):\n    {body}\n")
    line = refused(used, f"{file}:Bad")
    assert said in line
    assert file.name in line
