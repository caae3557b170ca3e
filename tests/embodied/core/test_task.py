"""Wrappers do what the task within does, but for what they change; terms come and go from outside."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import embodied
from embodied.core import randomization
from embodied.core.adr import AutomaticDomainRandomization
from embodied.core.hooks import TaskHooks
from embodied.core.initial_states import InitialStateBuffer, InitialStates, first_reset_states
from embodied.core.randomization import Term
from embodied.core.task import EditedTerms, Task, TaskWrapper, forwarded, has_expert
from embodied.core.world import StateT, World
from embodied.errors import EmbodiedError, UnknownNameError

TASK = "swarm/hover"
KEY = jax.random.PRNGKey(3)
HOOKS = [*dict.fromkeys([*TaskHooks.__annotations__, *vars(TaskHooks)])]


def height(world: World, state: Any, *_: Any) -> jax.Array:
    return world.qpos[2]


@pytest.fixture(scope="module")
def task() -> Task[Any]:
    return embodied.make(TASK, 1).task


@pytest.mark.parametrize("name", [name for name in HOOKS if not name.startswith("_")])
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


def trajectory(task: Task[Any], steps: int = 5) -> list[dict[str, np.ndarray]]:
    env = embodied.make(TASK, 3, "rigid", wrappers=[lambda _: task])
    env.reset(0)
    action = torch.linspace(-1, 1, env.action_size).repeat(3, 1)
    found = []
    for _ in range(steps):
        step = env.step(action)
        found.append({"reward": step.reward.numpy(), **{name: obs.numpy() for name, obs in step.obs.items()}})
    return found


def test_a_wrapped_task_is_step_by_step_the_task_within_and_wrappers_stack(task: Task[Any]) -> None:
    plain = trajectory(task)
    for wrapped in (TaskWrapper(task), TaskWrapper(TaskWrapper(task))):
        jax.tree.map(np.testing.assert_array_equal, trajectory(wrapped), plain)
        assert wrapped.unwrapped is task
        assert repr(task) in repr(wrapped)
        assert wrapped.config is task.config
        assert has_expert(wrapped) == has_expert(task)
        assert dict(wrapped.variations) == dict(task.variations)
    buffer = InitialStateBuffer(first_reset_states(task, 7, 2), np.ones(2))
    both = AutomaticDomainRandomization(InitialStates(task, buffer, 1.0).without(rewards=["spin"]))
    state = jax.jit(both.reset)(KEY).task_state
    assert state.scale == 0
    assert both.observation_terms == task.observation_terms
    assert "adr_scale" in both.metrics(World.zeros(both.model), state)
    assert repr(both) == "AutomaticDomainRandomization(EditedTerms(InitialStates(Hover)))"


def test_terms_are_added_and_removed_from_outside(task: Task[Any]) -> None:
    edited = task.with_rewards(height=(-0.5, height)).without(rewards=["spin"], observations=["critic/latency"])
    edited = edited.with_observations("policy", height=lambda world, state: world.qpos[2:3])
    edited = edited.with_observations("extra", height=lambda world, state: world.qpos[2:3])
    assert set(edited.reward_weights) == {*task.reward_weights, "height"} - {"spin"}
    world, state = World.zeros(task.model), task.reset(KEY).task_state
    world = World(world.time, world.qpos.at[2].set(3.0), world.qvel, world.sensordata, world.layout)
    assert edited.rewards(world, state, jnp.zeros(4))["height"] == 3.0
    assert edited.reward_weights["height"] == -0.5
    terms, before = edited.observation_terms, task.observation_terms
    assert list(terms["policy"]) == [*before["policy"], "height"]
    assert set(terms["critic"]) == set(before["critic"]) - {"latency"}
    assert list(terms["extra"]) == ["height"]
    env = embodied.make(TASK, 2, "rigid", wrappers=[lambda _: edited])
    env.reset(0)
    assert env.step(torch.zeros(2, 4)).obs["extra"].shape == (2, 1)
    # The task itself is as before.
    assert "spin" in task.reward_weights


def test_variations_are_added_from_outside_listed_left_out_and_scaled(task: Task[Any]) -> None:
    light = randomization.scale("lightness", "body_mass", 0.1, 0.2, [1])
    more = task.with_variations(light)
    assert list(more.variations) == [*task.variations, "lightness"]
    assert "lightness" in more.varied
    own, changed = task.reset(KEY), more.reset(KEY)
    mass = np.asarray(own.model.get("body_mass", task.model.body_mass))
    assert 0.1 * mass[1] <= changed.model["body_mass"][1] <= 0.2 * mass[1]
    for ours, theirs in zip(jax.tree.leaves(own.task_state), jax.tree.leaves(changed.task_state), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert more.restart(KEY, own.task_state).model["body_mass"][1] < 0.25 * task.model.body_mass[1]
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
    env = embodied.make(TASK, 2, "rigid", wrappers=[lambda _: more])
    env.reset(0)
    assert torch.isfinite(env.step(torch.zeros(2, 4)).reward).all()


@pytest.mark.parametrize("name", [TASK, "locomotion/go1-joystick-flat"])
def test_every_optional_variation_can_be_left_out_and_its_parameter_is_nominal(name: str) -> None:
    task = embodied.make(name, 1).task
    for term in (term for term in task.terms if term.optional):
        less = TaskWrapper(task).without(variations=[term.name])
        assert list(less.variations) == [other for other in task.variations if other != term.name]
        if term.state_field is not None:
            value = getattr(less.reset(KEY).task_state, term.state_field)
            np.testing.assert_array_equal(value, np.full_like(value, term.nominal))


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
        embodied.make("swarm/formation", 1).task.without(variations=["start"])
    assert isinstance(task.without(rewards=["spin"]), EditedTerms)
