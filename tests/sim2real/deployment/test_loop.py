"""One loop: its clock does not drift, its phases follow each other, and every fault ends damped for good."""

import dataclasses
import math

import numpy as np
import pytest

from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.robots.base import Phase
from tests.kit.fakes import LOWER, UPPER, FakeRobot, Sink, Sway, leg

SHORT = LoopSettings(seconds=3.0, soft_start=1.0)
BEGIN = 3 / 50 + 1.0  # s, when the policy begins
FAULT = BEGIN + 1.0  # s, when faults do


def deploy(robot=None, policy=None, settings=SHORT, **options):
    robot = robot or FakeRobot()
    policy = policy or Sway(robot.contract)
    loop = Loop(robot, policy, np.zeros(1), settings, **options)
    return loop.run(), robot, policy


def all_safe(robot):
    """Every target that the robot was sent is finite, within its limits, and no jump from the one before."""
    targets = np.array([target for _, target in robot.sent])
    assert np.isfinite(targets).all()
    assert ((targets >= LOWER) & (targets <= UPPER)).all()
    assert (np.abs(np.diff(targets, axis=0)) <= 50.0 * 0.02 + 1e-9).all()


def test_a_whole_run_goes_through_its_phases_and_ends_damped():
    phases, sink = [], Sink()
    report, robot, policy = deploy(watch=lambda progress: phases.append(progress.phase), sink=sink)
    assert report.whole
    assert (report.phase, report.step, report.clips) == (Phase.RUN, "", {})
    assert report.seconds == pytest.approx(3.0)
    assert list(dict.fromkeys(phases)) == [Phase.CHECK, Phase.SOFT_START, Phase.RUN, Phase.DAMP]
    assert robot.target is None
    assert len(robot.damped) >= 50, "one message that gets lost would leave it stiff"
    assert policy.steps == 3 + 150
    all_safe(robot)
    channels = {"joint_pos", "gyro", "observation", "action", "command", "phase", "timing", "safety"}
    assert channels <= set(sink.rows)
    sent = np.array([row[1] for row in sink.rows["command"]])
    np.testing.assert_array_equal(sent, [target for _, target in robot.sent])
    assert sink.rows["command"][0][2:] == (("m0", "m1", "m2"), "rad")


def test_nothing_is_sent_while_checking_and_the_soft_start_begins_where_the_robot_is():
    robot = FakeRobot()
    robot.q = np.array([-0.7, 0.4, 0.0])
    deploy(robot)
    assert robot.sent[0][0] == pytest.approx(3 / 50)
    np.testing.assert_allclose(robot.sent[0][1], [-0.7, 0.4, 0.0])
    stance = next(target for time, target in robot.sent if time >= BEGIN - 0.021)
    np.testing.assert_allclose(stance, 0.2, atol=2e-3)


def test_the_policy_sees_its_last_action_and_begins_without_one():
    _, robot, policy = deploy()
    first = 3  # the checks came before
    np.testing.assert_array_equal(policy.seen[first][6:9], 0.0)
    action = 0.8 * math.sin(2 * math.pi * first * robot.contract.period)
    np.testing.assert_allclose(policy.seen[first + 1][6:9], action, rtol=1e-6)


def test_deadlines_are_absolute():
    robot = FakeRobot()
    rng = np.random.default_rng(0)
    robot.delay = lambda time: 0.004 * rng.random()
    report, *_ = deploy(robot)
    times = np.array([time for time, _ in robot.sent])
    late = times - (times[0] - times[0] % 0.02) - 0.02 * np.arange(len(times))
    assert (late < 0.0041).all(), "waiting drifts"
    assert (late > -1e-9).all()
    timing = report.timing.summary()
    assert 0.0015 < timing["late"]["p50"] < 0.0025
    assert 0.0035 < timing["late"]["p99"] <= timing["late"]["max"] < 0.004
    assert timing["missed"] == timing["skipped"] == 0
    assert sum(timing["histogram"]["cycles"]) == timing["cycles"] == 3 + 50 + 150


def test_missed_deadlines_are_skipped_not_made_up_for():
    robot = FakeRobot()
    robot.delay = lambda time: 0.05 if abs(time - FAULT) < 1e-6 else 0.0
    report, *_ = deploy(robot)
    assert report.whole
    assert report.timing.skipped == 2
    times = [time for time, _ in robot.sent]
    assert min(np.diff(times)) > 0.009, "a burst"
    assert report.timing.summary()["late"]["max"] == pytest.approx(0.05)
    assert times[-1] == pytest.approx(BEGIN + 2.98)


def test_the_rest_pose_comes_before_damping():
    rest = np.array([-0.5, -0.5, -0.5])
    robot = FakeRobot()
    robot.rest_pose = rest
    report, *_ = deploy(robot)
    assert report.phase is Phase.REST
    np.testing.assert_allclose(robot.sent[-1][1], rest, atol=1e-3)
    all_safe(robot)


def test_a_way_that_is_too_long_for_its_time_takes_longer():
    contract = leg()
    slow = tuple(dataclasses.replace(actuator, max_rate=0.5) for actuator in contract.actuators)
    robot = FakeRobot(dataclasses.replace(contract, actuators=slow))
    robot.q = np.full(3, -0.7)  # 0.9 rad from the stance: 1 s would need a rate of 1.7 rad/s
    phases = []
    still = Sway(robot.contract, lambda time, action, target: (action * 0, np.full(3, 0.2)))
    report, *_ = deploy(robot, still, watch=lambda progress: phases.append(progress.phase))
    assert report.whole, report.reason
    assert not report.clips
    assert phases.count(Phase.SOFT_START) == pytest.approx(50 * 0.9 * 1.875 / 0.4, abs=1)


# --- faults: what is done to a robot, a policy or the operator from `FAULT` on, and which step must catch it ---------


def from_fault(change):
    """A measurement's change that begins with the fault."""
    return lambda measured: change(measured) if measured.time >= FAULT else measured


def spoiled(action=None, target=None):
    """A policy's output with one number replaced, from the fault on."""

    def change(time, gave, aims):
        gave, aims = gave.copy(), aims.copy()
        if time >= 1.0 + 3 / 50:
            gave[1] = gave[1] if action is None else action
            aims[1] = aims[1] if target is None else target
        return gave, aims

    return change


def frozen(robot, *parts):
    """Parts that no longer change."""
    kept = {}

    def change(measured):
        for part in parts:
            kept.setdefault(part, getattr(measured, part))
        return dataclasses.replace(measured, **kept)

    robot.change = from_fault(change)


def dropped(robot):
    """No packet arrives any more."""
    last = []

    def change(measured):
        if measured.time < FAULT or not last:
            last[:] = [measured]
        return last[0]

    robot.change = change


def raising(time, action, target):
    """A policy that fails."""
    if time > 1.0:
        raise FloatingPointError("overflow")
    return action, target


def robot_fault(change):
    def build():
        robot = FakeRobot()
        change(robot)
        return {"robot": robot}

    return build


def measured_as(**parts):
    def change(robot):
        robot.change = from_fault(lambda measured: dataclasses.replace(measured, **parts))

    return robot_fault(change)


def policy_fault(change):
    return lambda: {"policy": Sway(leg(), change)}


def late_cycles(robot):
    robot.delay = lambda time: 0.021 if time >= FAULT else 0.0


def one_long_pause(robot):
    robot.delay = lambda time: 0.5 if abs(time - FAULT) < 0.011 else 0.0


def cut(robot):
    def read():
        if robot.time >= FAULT:
            raise ConnectionResetError("the connection was reset")
        return FakeRobot.read(robot)

    robot.read = read


def stopped():
    robot = FakeRobot()
    return {"robot": robot, "stop": lambda: "key pressed" if robot.time >= FAULT else ""}


FAULTS = {
    "policy gives NaN actions and targets": (policy_fault(spoiled(np.nan, np.nan)), "finite action"),
    "policy gives an infinite target": (policy_fault(spoiled(target=np.inf)), "finite target"),
    "policy gives a target outside the limits": (policy_fault(spoiled(target=1.5)), "target"),
    "policy gives a huge target": (policy_fault(spoiled(target=-1e300)), "target"),
    "policy gives actions outside [-1, 1]": (policy_fault(spoiled(action=40.0)), "action"),
    "policy jumps from end to end": (
        policy_fault(lambda t, a, g: (a, g if t < 1.06 else np.full(3, 0.99 * (-1) ** round(50 * t)))),
        "rate",
    ),
    "policy fails": (policy_fault(raising), "error"),
    "sensor gives NaN": (measured_as(gyro=np.array([0.0, np.nan, 0.0])), "finite measurement"),
    "sensor gives an infinity": (measured_as(joint_vel=np.array([0.0, np.inf, 0.0])), "finite measurement"),
    "gyro frozen": (robot_fault(lambda robot: frozen(robot, "gyro")), "frozen"),
    "encoders frozen": (robot_fault(lambda robot: frozen(robot, "joint_pos", "joint_vel")), "frozen"),
    "all sensors frozen": (
        robot_fault(lambda robot: frozen(robot, "gyro", "orientation", "joint_pos", "joint_vel")),
        "frozen",
    ),
    "sensor missing": (measured_as(gyro=None), "error"),
    "packets dropped": (robot_fault(dropped), "stale"),
    "clock of the sensors wrong": (measured_as(time=1e6), "stale"),
    "late cycles": (robot_fault(late_cycles), "deadline"),
    "one long pause": (robot_fault(one_long_pause), "deadline"),
    "connection cut": (robot_fault(cut), "error"),
    "fallen": (measured_as(orientation=np.array([0.0, 1.0, 0.0, 0.0])), "tilt"),
    "encoder jumps": (measured_as(joint_pos=np.array([0.0, 3.0, 0.0])), "joint range"),
    "joint races": (measured_as(joint_vel=np.array([0.0, 0.0, 40.0])), "joint speed"),
    "operator's stop": (stopped, "operator"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_never_gets_a_bad_target_through_and_ends_latched(fault):
    build, step = FAULTS[fault]
    phases, stiff, parts = [], [], build()
    robot = parts.setdefault("robot", FakeRobot())

    def watch(progress):
        phases.append(progress.phase)
        if progress.phase is Phase.LATCHED:
            stiff.append(robot.target is not None)

    report, robot, _ = deploy(**parts, watch=watch)
    assert not any(stiff), "told of it, or logged, before the robot was damped"
    all_safe(robot)
    assert report.step == step, report.reason
    assert report.reason
    assert report.phase is Phase.RUN
    # Caught within the time that its threshold gives it, nothing sent afterwards, damped to the end.
    assert FAULT - 0.05 <= robot.damped[1] <= FAULT + 0.65
    assert robot.sent[-1][0] <= robot.damped[1]
    assert robot.target is None
    assert phases[-1] is Phase.LATCHED


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda robot: setattr(robot, "change", lambda m: dataclasses.replace(m, time=-9.0)), "stale"),
        (lambda robot: setattr(robot, "change", lambda m: dataclasses.replace(m, gyro=np.full(3, np.nan))), "finite"),
        (lambda robot: setattr(robot, "q", np.full(3, 2.0)), "joint range"),
    ],
)
def test_a_robot_that_is_not_well_is_never_sent_anything(change, step):
    robot = FakeRobot()
    change(robot)
    report, *_ = deploy(robot)
    assert report.step.startswith(step)
    assert report.phase is Phase.CHECK
    assert not robot.sent


def test_a_policy_that_is_not_well_is_found_before_anything_is_sent():
    report, robot, _ = deploy(policy=Sway(leg(), lambda t, a, g: (a * np.nan, g)))
    assert (report.step, report.phase, robot.sent) == ("finite action", Phase.CHECK, [])
    report, robot, _ = deploy(policy=Sway(leg(), lambda t, a, g: (a[:2], g)))
    assert (report.step, robot.sent) == ("error", [])
    assert "(2,) actions" in report.reason
