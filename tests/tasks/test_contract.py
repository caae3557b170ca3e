"""The contract of a task, `embodied.check`, as a matrix: every check of every registered task, on its default engine.

A default run asks `REPRESENTATIVES`, one task for each family, mechanism and engine; the slow ones ask all. Every task
on every engine takes hours of MJX's and Brax's compilation; `-m sweep` runs it, and the slow ones step the other
engines of representatives only. A task's environment is built once for all its checks, and pytest runs
these together.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
import torch

from embodied.check.contract import CHECKS, Check, run_check
from embodied.check.words import (
    options_are_documented,
    options_survive_the_way_to_a_file_and_back,
    the_task_is_said_in_words,
)
from embodied.core.hooks import TaskHooks
from embodied.core.task import Task
from embodied.engines import ENGINES
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.errors import ActionError
from embodied.storage.configs import from_json, to_json
from policies.registry import ALGORITHMS, TrainConfig, default_config
from policies.training.settings import default_settings
from tests.kit.worlds import NUM_ENVS, every_engine, task_of, world

REGISTRY = join_content()
NAMES = list(REGISTRY)

REPRESENTATIVES = {
    "grasping/leap-lift": "a free hand, starts from planned grasps; all engines but rigid are built",
    "grasping/leap-rotate-z": "a hand that stands, an object in it; commands in a sequence",
    "grasping/leap-catch-team": "two hands as agents that earn together",
    "grasping/leap-pour": "many free objects",
    "locomotion/go1-joystick-flat": "a velocity command, a mirror, pushes, latency; all engines but rigid are built",
    "locomotion/go1-joystick-rough": "a height field; a level that follows how an episode ended",
    "locomotion/g1-joystick-flat": "two feet, a phase of the gait",
    "locomotion/go1-getup": "starts that fell",
    "locomotion/half-cheetah": "Gymnasium's bodies: user sensors, no success",
    "locomotion/ant-4x2": "a body as a team: observations of neighbours",
    "locomotion/reach-walker-7-full": "bodies of many forms: observations of joints and links as rows",
    "locomotion/sumo": "a game that is won: two sides, episodes that end when solved",
    "manipulation/drawer-open": "a fixture that stands elsewhere in each episode; all engines but rigid are built",
    "manipulation/pick-place": "a free object between fingers",
    "manipulation/pick-among": "an instruction that differs between episodes",
    "manipulation/track-pose": "a pose as command, no table",
    "swarm/hover": "one drone; engine rigid, setpoints; all engines are built",
    "swarm/visual-hover": "what a camera sees beside states",
    "swarm/formation": "a team that attends to rows of others and obstacles",
    "swarm/gate-race": "a plan told once, cameras of drones",
    "swarm/pursuit": "two sides, one of them scripted",
    "swarm/mean-field-flock": "two hundred bodies, one decision for all",
    "swarm/path-finding": "a maze, and times of its own",
    "swarm/tag": "two sides that both learn",
}  # fmt: skip
"""Task -> what it stands for."""
TRACED = ("grasping/leap-pour", "locomotion/g1-joystick-flat", "locomotion/go1-getup", "manipulation/pick-among",
          "manipulation/track-pose", "swarm/gate-race", "swarm/pursuit", "swarm/mean-field-flock")  # fmt: skip
"""Representatives whose hooks are traced by default and which only the slow tests simulate, where others of the same
simulator, agents and observations are simulated."""
ALL_ENGINES = ("grasping/leap-lift", "locomotion/go1-joystick-flat", "manipulation/drawer-open", "swarm/hover")
"""One of each family, for which a default run builds every engine that is said to run it."""
COMPILES_AGAIN = ("a batch is so many single environments", "other engines step too")

CAMERAS = {"manipulation": {"view", "wrist"}, "grasping": {"view", "wrist"}, "swarm": {"front", "track"}}
"""Family -> names that the cameras of all its tasks have, so that a policy's observations mean the same everywhere."""
CROWDS = {"swarm/mean-field-flock": {"view"}}
"""Tasks of so many robots that none has cameras of its own -> names of those that see all."""

pytestmark = pytest.mark.timeout(280)


def is_slow(name: str, check: Check) -> bool:
    if check.name == "every listed engine builds":
        return name not in ALL_ENGINES
    return name not in REPRESENTATIVES or check.name in COMPILES_AGAIN or (check.simulated and name in TRACED)


def case(name: str, check: Check) -> Any:
    """A cell of the matrix; its name begins with the task's, by which tests are distributed (`kit/schedule.py`)."""
    marks = [pytest.mark.slow] if is_slow(name, check) else []
    if check.slow:
        marks += [pytest.mark.timeout(900), *([] if name in REPRESENTATIVES else [pytest.mark.sweep])]
    return pytest.param(name, check, marks=marks, id=f"{name}: {check.name}")


@pytest.mark.parametrize(("name", "check"), [case(name, check) for name in NAMES for check in CHECKS])
def test_it_holds(name: str, check: Check) -> None:
    if check.name == "every listed engine builds":
        every_engine()
    subject = world(name) if check.simulated else task_of(name)
    assert [str(finding) for finding in run_check(check, subject)] == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in REPRESENTATIVES else [pytest.mark.slow], id=f"{name}: cameras")
        for name in NAMES
    ],
)
def test_cameras_bear_the_names_of_their_family(name: str) -> None:
    task = task_of(name)
    carried = task.pictures.agent_cameras if task.pictures else {}
    cameras = {task.visual_model.camera(i).name for i in range(task.visual_model.ncam)}
    assert cameras >= set(itertools.chain.from_iterable(carried.values()))
    expected = CROWDS.get(name) or CAMERAS.get(name.split("/")[0], {"track"})
    assert cameras | set(carried) >= expected


def test_representatives_have_every_mechanism() -> None:
    """Every hook that a task has of its own, every flag, and every engine."""

    def mechanisms(name: str) -> set[str]:
        kind = REGISTRY[name].load()
        own = {hook for hook in dir(TaskHooks) if getattr(kind, hook, None) is not getattr(Task, hook, None)}
        return own | {f"on {engine}" for engine in REGISTRY[name].engines}

    assert set.union(*map(mechanisms, NAMES)) == set.union(*map(mechanisms, REPRESENTATIVES))
    assert {name.split("/")[0] for name in NAMES} == {name.split("/")[0] for name in ALL_ENGINES}


@pytest.mark.parametrize(
    "check",
    [the_task_is_said_in_words, options_are_documented, options_survive_the_way_to_a_file_and_back],
    ids=lambda check: check.__name__,
)
def test_every_task_is_described(check: Any) -> None:
    assert {name: found for name in NAMES if (found := [str(finding) for finding in check(task_of(name))])} == {}


def test_commands_of_every_task_have_names_of_their_own() -> None:
    ranges = {name: operator.ranges for name in NAMES if (operator := task_of(name).operator)}
    assert [name for name, found in ranges.items() if len({one.name for one in found}) < len(found)] == []


def test_every_task_has_a_summary_and_engines_that_exist() -> None:
    assert [name for name in NAMES if not REGISTRY[name].summary.endswith(".")] == []
    assert {engine for name in NAMES for engine in REGISTRY[name].engines} <= set(ENGINES)


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


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros((NUM_ENVS, 4)), r"action is a ndarray; expected a torch tensor \(8, 4\)"),
        (torch.zeros(NUM_ENVS, 3), r"action has shape \(8, 3\); expected \(num_envs, action_size\) = \(8, 4\)"),
        (torch.zeros(4), r"action has shape \(4,\)"),
        (
            torch.zeros(NUM_ENVS, 4, dtype=torch.int64),
            r"action has dtype torch.int64; expected a floating-point tensor",
        ),
        (torch.full((NUM_ENVS, 4), float("nan")), r"action of environment 0 is not finite: \[nan, nan, nan, nan\]"),
        (
            torch.zeros(NUM_ENVS, 4).index_fill(0, torch.tensor(5), float("inf")),
            r"action of environment 5 is not finite: \[inf",
        ),
    ],
    ids=["numpy", "size", "unbatched", "integers", "nan", "inf"],
)
def test_a_wrong_action_is_refused_in_plain_words(action: Any, message: str) -> None:
    hover = world("swarm/hover", "rigid")
    hover.reset()
    with pytest.raises(ActionError, match=message):
        hover.step(action)


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ActionError, match=r"step\(\) before reset\(\)"):
        make("swarm/hover", num_envs=1, engine="mujoco").step(torch.zeros(1, 4))
