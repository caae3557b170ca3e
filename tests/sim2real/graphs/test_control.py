"""A task's control step as a graph is the task's own functions, for every task; what it asks for can be given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from embodied.core.facets import Operator
from embodied.core.task import Task
from embodied.env.registry import join_content
from embodied.new.__main__ import main as new
from sim2real.contract.planner import PLANNED
from sim2real.graphs.control import ControlGraph, FirstTrace
from sim2real.graphs.describe import Described, describe
from sim2real.graphs.graph import GraphError
from sim2real.graphs.reference import Reference
from tasks.locomotion.joystick import Joystick
from tests.kit.bundles import contract_of, described
from tests.kit.worlds import task_of

pytestmark = pytest.mark.timeout(240)
QUICK = (
    "grasping/shadow-rotate-z", "locomotion/ant", "locomotion/go1-getup", "locomotion/reach-hopper-3-shin",
    "manipulation/reach", "swarm/formation",
)  # fmt: skip
"""One of each kind; the others are slow only because there are so many."""
REFUSED = (
    "grasping/leap-catch-team", "grasping/leap-hand-over-team", "locomotion/ant-4x2", "locomotion/half-cheetah-2x3",
    "locomotion/humanoid-17x1", "locomotion/sumo", "swarm/mean-field-flock",
)  # fmt: skip
"""Teams that no robot can be alone in."""
NAMES = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in join_content()
    if name not in REFUSED
]


@pytest.mark.parametrize("name", REFUSED)
def test_a_team_whose_robots_are_sent_no_setpoints_is_refused_before_anything_is_traced(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirstTrace, "of", lambda *_: pytest.fail("it traced the task"))
    with pytest.raises(GraphError, match=rf"^'{name}' cannot be deployed: its .* names no `setpoints`") as caught:
        describe(task_of(name), name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_what_the_tasks_own_functions_compute(name: str) -> None:
    same_as_reference(described(name))


KINDS = [pytest.param("arm", marks=pytest.mark.slow), pytest.param("legged", marks=pytest.mark.slow), "multirotor"]


@pytest.fixture(scope="module", params=KINDS)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Described:
    """The control step of a new task of one's own, as it is written."""
    folder = tmp_path_factory.mktemp(request.param)
    new(["task", "mine", "--kind", request.param, "--folder", str(folder)])
    name = str(folder / "mine.py")
    return describe(join_content()[name].load()(), name)


def test_a_task_of_ones_own_has_a_step_as_it_is_written(own: Described) -> None:
    same_as_reference(own)


def same_as_reference(described: Described) -> None:
    contract, task = described.contract, described.task
    reference = Reference(task, contract.step, [joint.name for joint in contract.joints], described.graph)
    steps = reference.steps(5)
    observation, state = reference.observe(steps)
    action = np.random.default_rng(2).uniform(-1, 1, (5, task.action_size)).astype(np.float32)
    target = np.clip(reference.act(steps, state, action), contract.row("lower"), contract.row("upper"))
    for row in range(5):
        inputs = {one: value[row] for one, value in steps.given.items()}
        found = described.graph.run(**inputs, **{PLANNED: action[row]})
        np.testing.assert_allclose(found["observation"], observation[row], atol=2e-5, rtol=2e-5)
        np.testing.assert_allclose(found["target"], target[row], atol=2e-5, rtol=2e-5)


def test_a_robot_is_asked_for_what_it_measures_and_no_more() -> None:
    """The hand's place follows from the joints; of a team a drone needs its own point and sees the others."""
    step = described("manipulation/reach").contract.step
    assert [source.name for source in step.sources] == ["joint_pos", "object1_pos", "object1_quat"]
    assert [(one.name, one.size) for one in step.commands] == [("goal", 3)]
    assert step.base_body == "link0"
    team = described("swarm/formation").contract.step
    assert {one.name: (one.size, one.places) for one in team.commands}["goal.point"] == (3, (0, 1, 2))
    assert {"cf0_cf.quat", "cf0_cf.pos", "cf7_cf.pos"} <= {source.name for source in team.sources}
    assert "cf7_cf.quat" not in {source.name for source in team.sources}


def commanded(commands: Mapping[str, str]) -> Task[Any]:
    """A walking task with other commands."""
    kind = join_content()["locomotion/go1-joystick-flat"].load()
    return type("Commanded", (kind,), {"operator": Operator(commands)})()


def test_what_episodes_draw_and_no_command_gives_is_an_error() -> None:
    with pytest.raises(GraphError, match=r"'command' of its state begins otherwise in every .*, and is neither"):
        ControlGraph.of(commanded({}))


def test_a_command_that_is_no_field_of_the_state_is_named() -> None:
    with pytest.raises(GraphError, match=r"operator commands comand; its state has .*command"):
        ControlGraph.of(commanded({"comand": "forward"}))


def test_actuators_joints_and_facts_are_those_of_the_robot() -> None:
    """Targets follow from the actions by the rule that the contract states, around the stance that holds the robot."""
    name = "locomotion/go1-joystick-flat"
    task, contract = task_of(name), contract_of(name)
    assert isinstance(task, Joystick)
    assert [joint.name for joint in contract.joints] == list(task.robot.joint_names)
    np.testing.assert_allclose(contract.row("offset"), task.layout.stance, atol=1e-6)
    np.testing.assert_allclose(contract.row("up"), task.action_scale)
    np.testing.assert_allclose(contract.row("down"), task.action_scale)
    np.testing.assert_allclose(contract.row("max_rate"), 2 * task.action_scale / task.timing.control_dt)
    np.testing.assert_allclose(contract.joint_row("default"), task.layout.home, atol=1e-6)
    noise = {term.name: term.noise for term in contract.terms}
    assert noise["gyro"] == pytest.approx(task.config.noise.gyro / math.sqrt(3))
    assert contract.latency == task.config.vary.latency
    assert all(term.unit and term.meaning for term in contract.terms)


def test_targets_that_follow_from_more_than_the_action_have_no_rule() -> None:
    contract = contract_of("manipulation/reach")
    assert not contract.row("up").any()
    assert np.isinf(contract.row("max_rate")).all()
