"""Simulated robots: they walk and fly, spoil what they are told to spoil, and are a function of their seed."""

import dataclasses
import time

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.robots import registry
from sim2real.robots.base import PARTS, Phase
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.simulated import SimulatedOptions, SimulatedRobot
from tests.kit.bundles import shipped_policy
from tests.kit.fakes import given

GO1, HOVER = "locomotion/go1-joystick-flat", "swarm/hover"
policy = shipped_policy


def robot(task=GO1, engine="mujoco", **options) -> SimulatedRobot:
    built = registry.connect(engine, policy(task).contract, SimulatedOptions(realtime=False, **options))
    assert isinstance(built, SimulatedRobot)
    return built


def walked(built, seconds=0.5, **settings):
    """Trunk poses (n, 3) over a deployment."""
    seen = []
    times = dataclasses.replace(LoopSettings(seconds, soft_start=0.2, damp=0.1), **settings)
    command = np.array([0.5, 0.0, 0.0]) if built.contract.task == GO1 else np.array([0.0, 0.0, 2.0])
    loop = Loop(built, policy(built.contract.task), command, times, watch=lambda p: seen.append(p.measured.position))
    return loop.run(), np.array(seen)


@pytest.mark.parametrize(
    ("task", "engine"),
    [
        (GO1, "mujoco"),
        (HOVER, "pybullet"),
        pytest.param(GO1, "pybullet", marks=pytest.mark.slow),
        pytest.param(HOVER, "mujoco", marks=pytest.mark.slow),
    ],
)
def test_a_policy_runs_on_every_simulated_robot(task, engine):
    report, seen = walked(robot(task, engine, noise=0.0))
    assert report.whole, report.reason
    assert np.isfinite(seen).all()
    assert np.ptp(seen, axis=0).max() > 0.02


def test_on_two_feet_a_policy_begins_where_the_robot_is():
    name = "locomotion/g1-joystick-flat"
    biped = robot(name, seed=1)
    command = np.array([0.4, 0.0, 0.0])
    biped.prepare(command)
    report = Loop(biped, policy(name), command, LoopSettings(1.0, damp=0.1)).run()
    assert report.whole, report.reason
    result = biped.task_result()
    assert result is not None
    assert not result.failed


def test_a_run_is_a_function_of_its_seed():
    runs = [walked(robot(seed=seed, mismatch=0.5, loss=0.1, latency=0.01))[1] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_it_is_held_until_the_first_command():
    built = robot(noise=0.0)
    before = built.read()
    built.sleep_until(1.0)
    after = built.read()
    assert after.time == pytest.approx(1.0)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(after, part), getattr(before, part))
    built.write(policy(GO1).contract.row("offset"))
    built.sleep_until(1.02)
    assert not np.array_equal(given(built.read().joint_pos), given(after.joint_pos))


def test_commands_arrive_after_the_latency():
    for latency, moved in ((0.0, 1), (0.012, 4)):
        built = robot(noise=0.0, latency=latency)
        still = given(built.read().joint_pos)
        built.write(still + 0.3)
        steps = 0
        while np.array_equal(given(built.read().joint_pos), still):
            steps += 1
            built.sleep_until(0.004 * steps)
        assert steps == moved


def test_measurements_arrive_after_the_latency():
    built = robot(noise=0.0, sensor_latency=0.02)
    built.write(given(built.read().joint_pos) + 0.3)
    built.sleep_until(0.1)
    assert built.read().time == pytest.approx(0.08)
    late = built.read()
    now = robot(noise=0.0)
    now.write(given(now.read().joint_pos) + 0.3)
    now.sleep_until(0.08)
    np.testing.assert_allclose(given(late.joint_pos), given(now.read().joint_pos), atol=1e-6)


def test_lost_packets_leave_the_last():
    built = robot(loss=1.0)
    before = built.read()
    built.write(given(before.joint_pos) + 0.3)
    built.sleep_until(0.1)
    assert built.read() is before
    built = robot(loss=0.3, noise=0.0)
    times = []
    for step in range(300):
        built.sleep_until(0.02 * step)
        times.append(built.read().time)
    lost = np.mean(np.diff(times) == 0)
    assert lost == pytest.approx(0.3, abs=0.08)


def test_noise_is_the_contracts():
    built = robot(noise=1.0)
    measured = []
    for step in range(1, 400):
        built.sleep_until(0.02 * step)
        measured.append(built.read())
    terms = {term.source: term.noise for term in policy(GO1).contract.terms}
    for part in ("joint_pos", "joint_vel", "gyro", "linvel"):
        values = np.array([getattr(each, part) for each in measured])
        assert values.std(axis=0).mean() == pytest.approx(terms[part], rel=0.06)
    quats = np.array([each.orientation for each in measured])
    np.testing.assert_allclose(np.linalg.norm(quats, axis=1), 1.0)
    angles = 2 * np.arccos(np.clip(np.abs(quats @ quats[0]), 0, 1))
    assert angles.std() > 0.01


def test_damped_joints_come_to_rest_and_rotors_stop():
    built = robot(noise=0.0)
    built.write(policy(GO1).contract.row("offset"))
    built.sleep_until(0.5)
    built.damp()
    built.sleep_until(3.0)
    lying = built.read()
    assert np.abs(given(lying.joint_vel)).max() < 0.2
    assert given(lying.position)[2] < 0.2, "still standing"
    drone = robot(HOVER, noise=0.0)
    drone.write(policy(HOVER).contract.row("offset"))
    drone.sleep_until(0.1)
    drone.damp()
    drone.sleep_until(0.5)
    np.testing.assert_allclose(given(drone.read().accelerometer), 0.0, atol=2.0)  # falls


def test_wrong_parameters_reach_the_physics():
    nominal, heavy = (robot(noise=0.0, mass=mass) for mass in (1.0, 1.2))
    for built in (nominal, heavy):
        built.write(policy(GO1).contract.row("offset"))
        built.sleep_until(2.0)
    load = [np.abs(given(built.read().joint_torque)).sum() for built in (nominal, heavy)]
    assert load[1] / load[0] > 1.15  # more than the mass: a heavier robot sags and stands on bent legs
    assert given(heavy.read().position)[2] < given(nominal.read().position)[2] - 0.001
    weak = robot(HOVER, noise=0.0, motor_strength=0.5)
    weak.write(policy(HOVER).contract.row("upper"))
    weak.sleep_until(1.0)
    assert given(weak.read().accelerometer)[2] < 9.0


def test_a_model_mismatch_is_drawn_within_their_spread():
    drawn = [ModelMismatch.draw(1.0, 12, seed) for seed in range(200)]
    mass = np.array([hidden.mass for hidden in drawn])
    assert 0.9 <= mass.min() < 0.91
    assert 1.09 < mass.max() <= 1.1
    assert max(max(map(abs, hidden.encoder_bias)) for hidden in drawn) <= 0.02
    assert ModelMismatch.draw(0.0, 12, 3) == ModelMismatch(encoder_bias=(0.0,) * 12)
    assert ModelMismatch.draw(1.0, 12, 3) == drawn[3]
    assert ModelMismatch().text() == "nothing"
    assert "mass x 1.500" in ModelMismatch(mass=1.5).text()


def test_it_knows_how_the_task_went():
    """What it says of an error is what its sensors, which have no noise, have seen."""
    built, seen = robot(HOVER, noise=0.0), []
    command = np.array([0.0, 0.0, 2.0])
    assert built.task_result() is None
    built.prepare(command)

    def watch(progress):
        if progress.phase is Phase.RUN:
            seen.append(progress.measured.position)

    Loop(built, policy(HOVER), command, LoopSettings(seconds=2.0, damp=0.1), watch=watch).run()
    result = given(built.task_result())
    assert not result.failed
    assert result.seconds == pytest.approx(2.0)
    away = np.linalg.norm(np.array(seen) - command, axis=1).mean()
    assert result.metrics["position_error"] == pytest.approx(away, rel=0.05)


@pytest.mark.slow
def test_a_drone_hovers_in_the_end():
    built = robot(HOVER)
    command = np.array([0.0, 0.0, 2.0])
    built.prepare(command)
    Loop(built, policy(HOVER), command, LoopSettings(seconds=8.0, damp=0.1)).run()
    result = given(built.task_result())
    assert result.success
    assert result.seconds == pytest.approx(8.0)
    assert 0 < result.metrics["position_error"] < 0.3
    np.testing.assert_allclose(given(built.read().position), command, atol=0.1)


def test_real_time_follows_the_clock():
    built = registry.connect("mujoco", policy(GO1).contract, SimulatedOptions(noise=0.0))
    begin, then = time.monotonic(), built.now()
    built.sleep_until(then + 0.2)
    assert 0.19 < time.monotonic() - begin < 2.0
    assert built.now() - built.read().time < 1.0


@pytest.mark.parametrize("options", [{"latency": -1.0}, {"loss": 1.5}, {"noise": -1.0}, {"sensor_latency": 2.0}])
def test_options_outside_their_range_are_refused_by_name(options):
    with pytest.raises(EmbodiedError, match=next(iter(options))):
        SimulatedOptions(**options)
