"""Controllers in the loop: what steps are given, by whom, and what is missing."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import embodied
from benchmarks.export_every_task import untrained
from embodied.errors import EmbodiedError
from policies.networks.mlp import Architecture, NetworkConfig
from sim2real import export
from sim2real.bundles.bundle import Bundle
from sim2real.contract.planner import PLANNED
from sim2real.deployment.controllers import Controller
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.graphs.golden import advance, begin
from sim2real.graphs.tracing.sources import Sources
from sim2real.robots.base import Measurement, RobotError
from sim2real.robots.estimated import EstimatedRobot, load_estimator
from sim2real.robots.lerobot import LeRobot
from sim2real.robots.registry import connect
from sim2real.robots.simulation.simulated import SimulatedOptions
from tasks.manipulation.track_pose import TrackPose, TrackPoseConfig
from tasks.swarm.single.hover import Hover, HoverConfig
from tests.kit.bundles import described
from tests.kit.fakes import Device
from tests.kit.noiseless import measured, noiseless

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.timeout(240)
REACH = "manipulation/reach"
ARM = Path(embodied.__file__).parent / "new" / "templates" / "arm.xml"


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """An untrained policy that tracks poses with an arm of somebody's own."""
    folder = tmp_path_factory.mktemp("tracking")
    shutil.copy(ARM, folder / "arm.xml")
    task = TrackPose(TrackPoseConfig(robot=str(folder / "arm.xml")))
    return export.write(folder / "bundle", untrained(task, NetworkConfig((8,))), task, "manipulation/track-pose")


@pytest.mark.slow
def test_a_policy_that_remembers_goes_on_where_it_was_and_begins_anew_after_a_reset(tmp_path: Path) -> None:
    """Its hidden state is part of the step's state."""
    config = NetworkConfig((8,), architecture=Architecture.GRU, memory=5, output_gain=1.0)
    task, name = Hover(HoverConfig(noise=False)), "swarm/hover"
    policy = untrained(task, config)
    bundle = export.write(tmp_path / "bundle", policy, task, name)
    step = bundle.contract.step
    assert ("deployment.memory", 5) in [(one.name, one.size) for one in step.remembered]
    env = embodied.make(name, device="cpu", noise=False)
    acting, controller, sources = policy.acting_in(env), Controller(bundle), Sources(task.model, [])
    for seed in (0, 1):
        obs = env.reset(seed=seed)
        controller.reset()
        for _ in range(4):
            expected = acting(obs)
            world = env.world()
            readings = sources.values(*(np.asarray(part[0]) for part in (world.qpos, world.qvel, world.sensordata)))
            _, action, _ = controller.decide(Measurement(0.0, readings=readings), np.asarray(task.target))
            np.testing.assert_allclose(action, expected[0], atol=1e-4)
            obs = env.step(expected).obs


class Resting:
    """A task's control step under a policy whose actions are zero."""

    def __init__(self, task: str) -> None:
        whole = described(task)
        self.contract, self._graph = whole.contract, whole.graph
        self._planned = {PLANNED: np.zeros(whole.task.action_size, np.float32)}

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return self._graph.run(**inputs, **self._planned)


WALK = "locomotion/g1-joystick-flat"  # which has every term of the quadrupeds, and a clock
OTHERS = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("locomotion/go1-joystick-flat", "locomotion/go2-joystick-flat")
]


@pytest.mark.parametrize("name", [WALK, "swarm/hover", *OTHERS])
def test_a_robot_observes_what_the_task_does(name: str) -> None:
    """From the parts of a measurement that any driver fills, number for number."""
    env, contract = noiseless(name)
    policy = Resting(name)
    controller = Controller(policy)
    task: Any = env.task
    seen = env.reset(3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        state: Any = env.task_state
        command = np.asarray(task.target if name == "swarm/hover" else state.command[0], float)
        policy._planned[PLANNED] = rng.uniform(-1, 1, contract.action_size).astype(np.float32)
        observation, action, _ = controller.decide(measured(env, contract), command)
        np.testing.assert_allclose(observation, seen["policy"][0].numpy(), atol=2e-5)
        seen = env.step(torch.as_tensor(action[None], dtype=torch.float32)).obs


@pytest.fixture
def reaching() -> Resting:
    return Resting(REACH)


def test_a_lerobot_arm_is_driven_by_a_bundle_of_its_own(tracking: Bundle) -> None:
    """Joints and a commanded point are all it takes; the loop sends what the bundle says."""
    joints = [joint.name for joint in tracking.contract.joints]
    device = Device(tuple(joints))
    robot = LeRobot(tracking.contract, device)
    goal = np.array(tracking.contract.step.commands[0].example)
    seen: list[Measurement] = []
    watch = lambda progress: seen.append(progress.measured)  # noqa: E731
    times = LoopSettings(seconds=0.3, damp=0.05, soft_start=0.2)
    report = Loop(robot, tracking, goal, times, watch=watch).run()
    assert not report.reason, report.reason
    step = tracking.contract.step
    given = {"joint_pos": seen[-3].joint_pos, "joint_vel": seen[-3].joint_vel, "command.goal": goal}
    first = {name: np.asarray(value, np.float32) for name, value in given.items()}
    expected = tracking.step({**first, **begin(step, first)})["target"]
    assert np.abs(expected).max() <= np.abs(tracking.contract.row("upper")).max()
    sent = np.radians([[action[f"{name}.pos"] for name in joints] for action in device.sent])
    assert np.abs(np.diff(sent, axis=0)).max() < 0.5  # it moves on, without jumps


def test_a_step_remembers_from_one_decision_to_the_next(tracking: Bundle) -> None:
    step = tracking.contract.step
    controller = Controller(tracking)
    size = len(tracking.contract.joints)
    command = np.array(step.commands[0].example)
    state: dict[str, np.ndarray] = {}
    for k in range(4):
        measured = Measurement(0.02 * k, joint_pos=np.full(size, 0.1 * k), joint_vel=np.zeros(size))
        _, action, target = controller.decide(measured, command)
        given = {"joint_pos": measured.joint_pos, "joint_vel": measured.joint_vel, "command.goal": command}
        inputs = {name: np.asarray(value, np.float32) for name, value in given.items()}
        state = state or begin(step, inputs)
        outputs = tracking.step({**inputs, **state})
        state = advance(step, outputs)
        np.testing.assert_allclose(target, outputs["target"])
        np.testing.assert_allclose(action, outputs["action"])
    controller.reset()
    again = controller.decide(Measurement(0.0, joint_pos=np.zeros(size), joint_vel=np.zeros(size)), command)[2]
    assert np.isfinite(again).all()


def test_a_missing_source_or_command_is_named(reaching: Resting) -> None:
    controller = Controller(reaching)
    joints = Measurement(0.0, joint_pos=np.zeros(9))
    with pytest.raises(RobotError, match=r"needs 'object1_pos' \(position of .*, which this robot does not measure"):
        controller.decide(joints, np.zeros(3))
    seen = dataclasses.replace(joints, readings={"object1_pos": np.zeros(3), "object1_quat": np.array([1.0, 0, 0, 0])})
    with pytest.raises(RobotError, match=r"'command.goal' is missing: x, y and z m of where .*; give it by --command"):
        controller.decide(seen, np.zeros(0))
    assert np.isfinite(controller.decide(seen, np.array([0.0, 0.6, 0.2]))[2]).all()


def test_an_example_never_stands_in_for_what_has_to_be_told_first() -> None:
    """Getting up begins with the servos' targets: somebody has to say them."""
    policy = Resting("locomotion/go1-getup")
    still, level = np.zeros(12), np.array([1.0, 0.0, 0.0, 0.0])
    measured = Measurement(0.0, joint_pos=still, joint_vel=still, gyro=np.zeros(3), orientation=level)
    with pytest.raises(RobotError, match=r"'state.*' is missing before the first step: .*; give it by --readings"):
        Controller(policy).decide(measured, np.zeros(0))
    known = dataclasses.replace(measured, readings={"state.limp": np.zeros(1), "state.target": np.zeros(12)})
    assert np.isfinite(Controller(policy).decide(known, np.zeros(0))[2]).all()


def test_an_estimator_says_what_the_robot_does_not(reaching: Resting) -> None:
    """The simulated robot is kept from saying where the object is; the estimator says it instead."""
    robot = connect("mujoco", reaching.contract, SimulatedOptions(realtime=False))
    whole = robot.read().readings

    def estimator(measured: Measurement) -> dict[str, object]:
        return {"object1_pos": whole["object1_pos"] + 1.0}

    told = EstimatedRobot(robot, estimator).read().readings
    np.testing.assert_allclose(told["object1_pos"], whole["object1_pos"] + 1.0)
    np.testing.assert_allclose(told["object1_quat"], whole["object1_quat"])
    with pytest.raises(RobotError, match="the estimator gave float; expected a mapping"):
        EstimatedRobot(robot, lambda measured: 1.0).read()  # type: ignore[arg-type, return-value]
    robot.close()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing_there:estimate", "cannot be imported: No module named 'nothing_there'"),
        ("numpy:no_such_thing", "cannot be imported: module 'numpy' has no attribute"),
        ("numpy", "expected module:callable, such as my_camera:objects"),
    ],
)
def test_estimators_that_are_none_are_refused(name: str, said: str) -> None:
    with pytest.raises(EmbodiedError, match=said):
        load_estimator(name)
