"""Wrappers do what the task within does, but for what they change; terms come and go from outside."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from embodied.core import randomization
from embodied.core.facets import FACETS
from embodied.core.hooks import UNCHANGED, TaskHooks
from embodied.core.initial_states import InitialStateBuffer, InitialStates, first_reset_states
from embodied.core.randomization import Term
from embodied.core.task import EditedTerms, Task, TaskWrapper, TimeLimit, forwarded, has_expert
from embodied.core.world import StateT, World
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, UnknownNameError
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import build_env, jitted, task_of, toy_task, toy_world

TASK = "swarm/hover"
KEY = jax.random.PRNGKey(3)
HOOKS = [name for name in dict.fromkeys([*TaskHooks.__annotations__, *vars(TaskHooks)]) if not name.startswith("_")]
MOST_HOOKS = 31


def height(world: World, state: Any, *_: Any) -> jax.Array:
    return world.qpos[2]


@pytest.fixture
def task() -> Task[Any]:
    return task_of(TASK)


def test_the_contract_stays_small() -> None:
    """A function that few tasks need, for one kind of reader, belongs to a facet."""
    assert len(HOOKS) <= MOST_HOOKS
    assert set(FACETS) <= set(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_of_a_task_is_forwarded(name: str) -> None:
    assert name in vars(TaskWrapper)
    hook = vars(TaskHooks).get(name)
    if inspect.isfunction(hook):  # what is called `state` is taken apart, so it must be annotated as such
        given = {parameter: hook.__annotations__[parameter] for parameter in inspect.signature(hook).parameters
                 if parameter in ("state", "world")}  # fmt: skip
        assert given.get("state", "StateT") == "StateT"


def test_a_hook_that_hides_the_state_in_its_result_is_refused() -> None:
    def hook(self: Any, state: StateT) -> list[StateT]: ...  # type: ignore[empty-body]

    with pytest.raises(TypeError, match="returns"):
        forwarded(hook)


class Twice(TaskWrapper[Any]):
    """A speck in two wrappers that change nothing."""

    def __init__(self) -> None:
        super().__init__(TaskWrapper(toy_task(Speck)))


def trajectory(task_type: Any, steps: int = 5) -> list[dict[str, np.ndarray]]:
    env = toy_world(task_type, "mujoco", 8)
    env.reset(0)
    action = torch.linspace(-0.9, 0.9, env.action_size).repeat(8, 1)
    found = []
    for _ in range(steps):
        step = env.step(action)
        found.append({"reward": step.reward.numpy(), **{name: obs.numpy() for name, obs in step.obs.items()}})
    return found


def test_a_wrapped_task_is_step_by_step_the_task_within() -> None:
    jax.tree.map(np.testing.assert_array_equal, trajectory(Twice), trajectory(Speck))


def test_wrappers_stack(task: Task[Any]) -> None:
    for wrapped in (TaskWrapper(task), TaskWrapper(TaskWrapper(task))):
        assert wrapped.unwrapped is task
        assert repr(task) in repr(wrapped)
        assert wrapped.config is task.config
        assert has_expert(wrapped) == has_expert(task)
        assert dict(wrapped.variations) == dict(task.variations)
    buffer = InitialStateBuffer(first_reset_states(task, 7, 2), np.ones(2))
    both = TimeLimit(InitialStates(task, buffer, 1.0).without(rewards=["spin"]), 7)
    state = jax.eval_shape(both.reset, KEY).task_state
    assert both.observation_terms == task.observation_terms
    assert set(jax.eval_shape(both.metrics, World.zeros(both.model), state)) == set(
        jax.eval_shape(task.metrics, World.zeros(task.model), jax.eval_shape(task.reset, KEY).task_state)
    )
    assert repr(both) == "TimeLimit(EditedTerms(InitialStates(Hover)))"


def test_terms_are_added_and_removed_from_outside(task: Task[Any]) -> None:
    edited = task.with_rewards(height=(-0.5, height)).without(rewards=["spin"], observations=["critic/latency"])
    edited = edited.with_observations("policy", height=lambda world, state: world.qpos[2:3])
    edited = edited.with_observations("extra", height=lambda world, state: world.qpos[2:3])
    assert set(edited.reward_weights) == {*task.reward_weights, "height"} - {"spin"}
    world, state = World.zeros(task.model), jitted(task.reset)(KEY).task_state
    world = World(world.time, world.qpos.at[2].set(3.0), world.qvel, world.sensordata, world.layout)
    assert jax.jit(edited.rewards)(world, state, jnp.zeros(4))["height"] == 3.0
    assert edited.reward_weights["height"] == -0.5
    terms, before = edited.observation_terms, task.observation_terms
    assert list(terms["policy"]) == [*before["policy"], "height"]
    assert set(terms["critic"]) == set(before["critic"]) - {"latency"}
    assert list(terms["extra"]) == ["height"]
    observed = jax.jit(edited.observe)(world, state, KEY)
    assert observed["extra"]["height"] == observed["policy"]["height"] == 3.0
    assert build_env(edited, "mujoco", 2).observation_spec["extra"].shape == (1,)
    # The task itself is as before.
    assert "spin" in task.reward_weights


def test_variations_are_added_from_outside_listed_and_left_out(task: Task[Any]) -> None:
    light = randomization.scale("lightness", "body_mass", 0.1, 0.2, [1])
    more = task.with_variations(light)
    assert list(more.variations) == [*task.variations, "lightness"]
    assert "lightness" in more.varied
    state = jitted(task.reset)(KEY).task_state
    draws = jax.jit(lambda key: (task.reset(key), more.reset(key), more.restart(key, state).model["body_mass"]))
    own, changed, restarted = draws(KEY)
    mass = np.asarray(own.model.get("body_mass", task.model.body_mass))
    assert 0.1 * mass[1] <= changed.model["body_mass"][1] <= 0.2 * mass[1]
    for ours, theirs in zip(jax.tree.leaves(own.task_state), jax.tree.leaves(changed.task_state), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert restarted[1] < 0.25 * task.model.body_mass[1]
    assert list(more.without(variations=["lightness"]).variations) == list(task.variations)
    assert list(more.without(variations=["mass"]).variations) == [
        *(name for name in task.variations if name != "mass"),
        "lightness",
    ]
    rewarded = more.with_rewards(height=(1.0, height)).without(variations=["lightness"])
    assert "lightness" not in rewarded.variations
    assert "height" in rewarded.reward_weights
    with pytest.raises(EmbodiedError, match="variation 'lightness' already"):
        more.with_variations(light)
    with pytest.raises(EmbodiedError, match="variation 'wind' draws no model field"):
        task.with_variations(Term("wind", "it blows"))


@pytest.mark.parametrize("name", [TASK, pytest.param("locomotion/go1-joystick-flat", marks=pytest.mark.slow)])
def test_every_optional_variation_can_be_left_out_and_its_parameter_is_nominal(name: str) -> None:
    task, nominal, drawn = task_of(name), [], []
    for term in (term for term in task.terms if term.optional):
        less = TaskWrapper(task).without(variations=[term.name])
        assert list(less.variations) == [other for other in task.variations if other != term.name]
        if term.state_field is not None:
            nominal.append(term.nominal)
            drawn.append((less, term.state_field))
    values = jax.jit(lambda: [getattr(less.reset(KEY).task_state, field) for less, field in drawn])()
    assert values
    for value, expected in zip(values, nominal, strict=True):
        np.testing.assert_array_equal(value, np.full_like(value, expected))


class TakesNoChanges(Speck):
    """A speck whose constructor drops what changes it."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)


def test_a_task_that_is_made_again_keeps_its_changes_and_one_that_cannot_is_refused() -> None:
    names: list[str] = []
    once = Speck().rebuilt([lambda spec: names.append("first")])
    assert once.rebuilt([lambda spec: names.append("second")]).model is not once.model
    assert names == ["first", "second", "first"]
    with pytest.raises(EmbodiedError, match=r"TakesNoChanges\.__init__ takes no changes.*super"):
        TakesNoChanges().rebuilt()


@pytest.mark.parametrize("suite", sorted({name.partition("/")[0] for name in join_content()}))
def test_every_task_takes_changes(suite: str) -> None:
    tasks = join_content()
    for name in (name for name in tasks if name.startswith(f"{suite}/")):
        kind = tasks[name].load()
        assert issubclass(kind, TaskWrapper) or inspect.signature(kind).bind(None, changes=UNCHANGED), name


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a reward without a weight": (lambda task: task.with_rewards(low=height), "reward term 'low' is"),
    "a weight of nan": (lambda task: task.with_rewards(low=(float("nan"), height)), "reward term 'low' is"),
    "a reward of no function": (lambda task: task.with_rewards(low=(1.0, 2.0)), "reward term 'low' is"),
    "an observation of no function": (lambda task: task.with_observations("policy", low=3), "observed term 'low' is 3"),
    "a variation that is none": (lambda task: task.with_variations(3), "a variation is 3"),
    "an edit of no function": (lambda task: task.rebuilt([None]), "an edit of the scene is None"),
    "a class of tasks": (lambda task: make("swarm/hover", wrappers=[Speck]), "wrappers contain <class"),
}
"""A change of a task that means nothing, and how it is refused."""


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_means_nothing_is_refused_in_a_line(what: str, task: Task[Any]) -> None:
    change, said = CHANGES[what]
    with pytest.raises(EmbodiedError, match=f"^{said}.*; expected [^\n]*$"):
        change(task)


def test_what_is_not_there_is_refused_and_what_is_there_is_named(task: Task[Any]) -> None:
    with pytest.raises(UnknownNameError, match=r"reward term 'spn'.*spin"):
        task.without(rewards=["spn"])
    with pytest.raises(UnknownNameError, match=r"observed term 'critic/lat'.*critic/latency"):
        task.without(observations=["critic/lat"])
    with pytest.raises(UnknownNameError, match=r"variation 'mas'.*mass"):
        task.without(variations=["mas"])
    with pytest.raises(EmbodiedError, match="reward term 'spin' already"):
        task.with_rewards(spin=(1.0, height))
    with pytest.raises(EmbodiedError, match="observed term 'policy/up' already"):
        task.with_observations("policy", up=height)
    with pytest.raises(UnknownNameError, match="variation 'start'"):
        task_of("swarm/formation").without(variations=["start"])
    assert isinstance(task.without(rewards=["spin"]), EditedTerms)
