"""From home to the stance, a second of zero actions, damped: no robot leaves the bound of motion of its contract."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.world import ResetState
from embodied.env.registry import join_content
from embodied.storage.trees import with_leaves
from sim2real.contract.contract import STATE, Contract
from sim2real.contract.planner import PLANNED
from sim2real.deployment.loop import Loop, LoopSettings, Progress
from sim2real.deployment.safety import Safety, SafetyConfig
from sim2real.deployment.team import run_together
from sim2real.graphs.control import first_draw
from sim2real.graphs.describe import Described
from sim2real.graphs.graph import GraphError
from sim2real.robots.base import Measurement, Phase
from sim2real.robots.simulation.robot_model import RobotModel
from sim2real.robots.simulation.simulated import SimulatedOptions, Simulation
from tests.kit.bundles import described
from tests.kit.fakes import given

CHEAPEST = ("locomotion/go1-joystick-flat", "manipulation/reach", "grasping/leap-rotate-z", "swarm/hover")
"""Of each family."""
EVERY = [*CHEAPEST, *(pytest.param(name, marks=pytest.mark.slow) for name in join_content() if name not in CHEAPEST)]
ROTORS = ("rotor_speed", "command", "last_command")
LEVEL = (1.0, 0.0, 0.0, 0.0)
STOP = 0.01  # rad by which a simulated joint's stop gives way
PATIENT = SafetyConfig(max_frozen=60.0)


class Resting:
    """A policy whose actions are zero."""

    def __init__(self, made: Described) -> None:
        self.contract, self._graph = made.contract, made.graph

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return self._graph.run(**{**inputs, PLANNED: np.zeros(self.contract.action_size, np.float32)})


def at_home(model: RobotModel, contract: Contract) -> ResetState[Any]:
    """The start of an episode with the robot at home: joints as the contract says; a drone level, rotors turning."""
    start, mujoco_model = first_draw(model.task), model.task.model
    qpos = np.array(start.qpos)
    for joint in contract.joints:
        qpos[mujoco_model.joint(joint.name).qposadr[0]] = joint.default
    state = jax.tree.map(jnp.asarray, start.task_state)
    if contract.rotors:
        qpos[3:7] = LEVEL
        speed = contract.row("offset")
        state = with_leaves(state, {name: lambda leaf: jnp.asarray(speed, leaf.dtype) for name in ROTORS})
    model._state = state
    return dataclasses.replace(start, qpos=qpos, qvel=np.zeros_like(start.qvel), task_state=state)


def estimated(measured: Measurement, contract: Contract) -> Measurement:
    """With the contract's examples of what has to be given before the first step."""
    own = {f"{STATE}{one.name}": np.array(one.begin) for one in contract.step.remembered if one.given}
    return dataclasses.replace(measured, readings={**measured.readings, **own})


def rested(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Contract, list[Progress]]:
    """What a robot does from home; of a team, the first one."""
    try:
        made = described(name)
    except GraphError as error:
        pytest.skip(str(error))
    contract, seen = made.contract, list[Progress]()
    monkeypatch.setattr(RobotModel, "start", lambda self, seed: at_home(self, contract))
    robots = Simulation(contract, "mujoco", SimulatedOptions(realtime=False)).robots
    for robot in robots:
        monkeypatch.setattr(robot, "read", functools.partial(lambda read: estimated(read(), contract), robot.read))
    command = np.concatenate([np.zeros(0), *(one.example for one in contract.step.commands)])
    # A simulated drone at rest is at rest to the last bit of those sensors that training had no noise for.
    deploy = functools.partial(Loop, settings=LoopSettings(seconds=1.0), safety=Safety.of(contract, PATIENT))
    others = [deploy(robot, Resting(made), command) for robot in robots[1:]]
    report = run_together([deploy(robots[0], Resting(made), command, watch=seen.append), *others])[0]
    assert report.whole or not holds(contract), report.reason
    return contract, seen


def holds(contract: Contract) -> bool:
    """Whether a robot with actions of zero holds its pose: with servos, or as a drone; not with motors of no torque."""
    return not contract.joints or any(one.stiffness for one in contract.actuators)


@pytest.mark.parametrize("name", EVERY)
def test_from_home_nothing_leaves_the_bound_of_motion_that_the_contract_states(name, monkeypatch):
    contract, seen = rested(name, monkeypatch)
    lower, upper = contract.rest_range
    low, high = contract.joint_row("lower"), contract.joint_row("upper")
    held, slack = np.isfinite(lower), SafetyConfig().overrun
    noise = STOP + next((6 * term.noise for term in contract.terms if term.source == "joint_pos"), 0.0)
    for now in seen if contract.joints else ():
        angles = given(now.measured.joint_pos)
        if now.phase in (Phase.SOFT_START, Phase.RUN):
            assert (angles >= lower - noise).all(), contract.joints[int((angles - lower).argmin())].name
            assert (angles <= upper + noise).all(), contract.joints[int((upper - angles).argmin())].name
        assert (angles >= low - slack)[held].all()
        assert (angles <= high + slack)[held].all()
    if described(name).task.operator and given(described(name).task.operator).deployment.stands:
        heights = [given(now.measured.position)[2] for now in seen if now.phase in (Phase.SOFT_START, Phase.RUN)]
        assert min(heights) > heights[0] / 2, "it lies"


def test_a_bound_of_motion_lies_within_the_joints_limits():
    for name in CHEAPEST:
        contract = described(name).contract
        lower, upper = contract.rest_range
        home = contract.joint_row("default")
        assert (lower <= home).all()
        assert (home <= upper).all()
        assert (lower >= np.where(np.isfinite(lower), contract.joint_row("lower"), lower)).all()
        assert (upper <= np.where(np.isfinite(upper), contract.joint_row("upper"), upper)).all()
