"""A task's control step as a graph is the task's own functions, for every task; what it asks for can be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import embodied  # noqa: F401
from embodied.core.task import Task
from embodied.new.__main__ import main as new
from embodied.registry import join_content
from sim2real.contract.describe_step import describe_step
from sim2real.contract.planner import PLANNED
from sim2real.graphs.control import ControlGraph
from sim2real.graphs.graph import GraphError
from sim2real.graphs.reference import Reference
from tasks.locomotion.joystick import Joystick

pytestmark = pytest.mark.timeout(240)
QUICK = (
    "grasping/leap-catch", "grasping/leap-lift", "grasping/leap-reorient", "grasping/shadow-rotate-z", "locomotion/ant",
    "locomotion/go1-getup", "locomotion/reach-hopper-3-shin", "manipulation/hammer", "manipulation/reach",
    "manipulation/track-pose", "swarm/coverage", "swarm/formation", "swarm/trajectory",
)  # fmt: skip
"""One of each kind; the others are slow only because there are so many."""
NAMES = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in join_content()]


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_what_the_tasks_own_functions_compute(name: str) -> None:
    same_as_reference(name, join_content()[name].load()())


def same_as_reference(name: str, task: Any) -> None:
    described = describe_step(task, name)
    contract = described.contract
    assert contract.step is not None
    reference = Reference(task, contract.step, [joint.name for joint in contract.joints], described.graph)
    steps = reference.steps(5)
    observation, state = reference.observe(steps)
    action = np.random.default_rng(2).uniform(-1, 1, (5, task.action_size)).astype(np.float32)
    target = np.clip(reference.act(steps, state, action), contract.row("lower"), contract.row("upper"))
    for row in range(5):
        given = {one: value[row] for one, value in steps.given.items()}
        found = described.graph.run(**given, **{PLANNED: action[row]})
        np.testing.assert_allclose(found["observation"], observation[row], atol=2e-5, rtol=2e-5)
        np.testing.assert_allclose(found["target"], target[row], atol=2e-5, rtol=2e-5)


def test_a_robot_is_asked_for_what_it_measures_and_no_more() -> None:
    """The hand's place follows from the joints; of a team a drone needs its own point and sees the others."""
    step = describe_step(join_content()["manipulation/reach"].load()(), "manipulation/reach").contract.step
    assert step is not None
    assert [source.name for source in step.sources] == ["joint_pos", "object1_pos", "object1_quat"]
    assert [(one.name, one.size) for one in step.told] == [("goal", 3)]
    assert step.base_body == "link0"
    team = describe_step(join_content()["swarm/formation"].load()(), "swarm/formation").contract.step
    assert team is not None
    assert {one.name: (one.size, one.places) for one in team.told}["goal.point"] == (3, (0, 1, 2))
    assert {"cf0_cf.quat", "cf0_cf.pos", "cf7_cf.pos"} <= {source.name for source in team.sources}
    assert "cf7_cf.quat" not in {source.name for source in team.sources}


@pytest.mark.parametrize("kind", ["arm", "legged", "multirotor"])
def test_a_task_of_ones_own_has_a_step_as_it_is_written(kind: str, tmp_path: Path) -> None:
    new(["task", "mine", "--kind", kind, "--folder", str(tmp_path)])
    name = str(tmp_path / "mine.py")
    same_as_reference(name, join_content()[name].load()())


def changed(**own: Any) -> Task[Any]:
    """A walking task with other declarations."""
    return type("Changed", (join_content()["locomotion/go1-joystick-flat"].load(),), own)()


def test_what_episodes_draw_and_nobody_tells_is_an_error() -> None:
    with pytest.raises(GraphError, match=r"'command' of its state begins otherwise in every .*, and is neither told"):
        ControlGraph.of(changed(commands={}))


def test_a_command_that_is_no_field_of_the_state_is_named() -> None:
    with pytest.raises(GraphError, match=r"commands names comand; its state has .*command"):
        ControlGraph.of(changed(commands={"comand": "forward"}))


def test_the_general_description_agrees_with_the_one_in_words() -> None:
    """Velocity tasks have both: joints, limits, gains and rates are the same."""
    from sim2real.contract.describe import describe

    name = "locomotion/go1-joystick-flat"
    task = join_content()[name].load()()
    assert isinstance(task, Joystick)
    words, whole = describe(task, name), describe_step(task, name).contract
    assert [joint.name for joint in words.joints] == [joint.name for joint in whole.joints]
    for field in ("lower", "upper", "stiffness", "damping", "max_effort"):
        np.testing.assert_allclose(words.row(field), whole.row(field))
    assert (words.control_hz, words.physics_hz) == (whole.control_hz, whole.physics_hz)
