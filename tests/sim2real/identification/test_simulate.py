"""Windows, delayed commands and residuals: a twin with the truth follows its robot to rounding."""

import dataclasses
from typing import Any

import embodied  # isort: skip # noqa: F401  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from benchmarks import calibration_logs as logs
from benchmarks import foreign_simulators as foreign
from embodied.errors import UnknownNameError
from embodied.storage.paths import asset
from sim2real.identification import simulate as sm
from sim2real.identification.parameters import CalibrationError, Kind
from sim2real.identification.simulate import value_and_slope
from sim2real.logs.log import Channel, Log
from sim2real.twins import crazyflie, panda
from sim2real.twins.named import make_twin
from tasks.swarm.dynamics import multirotor
from tests.kit import twins as toys
from tests.kit.twins import drone

LEG = ("FR_hip", "FR_thigh", "FR_calf")


@pytest.fixture(scope="module")
def silent():
    """Sensors without noise."""
    quiet = {robot: dict.fromkeys(noise, 0.0) for robot, noise in logs.NOISE.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "NOISE", quiet)
        yield


@pytest.fixture(scope="module")
def flight(silent):
    """A drone's twin, its truth and its log."""
    twin = drone()
    truth = logs.draw(twin.parameters, np.random.default_rng(1))
    return twin, truth, logs.drone_log(twin, truth, 2.6, 1)


@pytest.fixture(scope="module")
def flight_elsewhere(silent):
    """The same of a drone in another simulator."""
    twin = drone()
    truth = np.array([p.nominal for p in twin.parameters])
    truth[twin.row(Kind.DELAY)] = 0.01
    return twin, truth, foreign.drone_log(twin, truth, 2.6, 0, lost=0.0)


def exact_starts(log, names, windows):
    rows = np.searchsorted(log["joint_pos"].time, windows.begin - 1e-9)
    return np.concatenate([log[name].values[rows] for name in names], 1)


@pytest.mark.parametrize(("robot", "torque"), [("go1", False), ("panda", True)])
def test_the_truth_follows_a_robot_of_joints_to_rounding(silent, robot, torque):
    channels = ("joint_pos", "joint_vel", *(["joint_torque"] if torque else []))
    joints, motion = {"go1": (LEG, logs.GO1_LEG), "panda": (panda.JOINTS, logs.PANDA_ARM)}[robot]
    twin: Any = make_twin(robot, logs.empty(channels, joints))
    truth = logs.draw(twin.parameters, np.random.default_rng(0))
    log = logs.joint_log(twin, truth, motion, 1.5, 0)
    windows = sm.cut(log, twin, 0.5, 0.5)
    starts = exact_starts(log, ("joint_pos", "joint_vel"), windows)
    assert np.abs(sm.residuals(twin, truth[None], starts[None], windows)).max() < 1e-4
    nominal = np.array([p.nominal for p in twin.parameters])
    assert np.abs(sm.residuals(twin, nominal[None], starts[None], windows)).max() > 1.0


@pytest.mark.parametrize("unit", ["rpm", "N"])
def test_the_truth_follows_a_drone_to_rounding(flight, unit):
    own, truth, log = flight
    twin: sm.Twin = own
    rows = {name: log[name] for name in ("position", "orientation", "linvel", "gyro")}
    if unit == "N":
        command = log["command"]
        linear, square = own.drone.thrust
        thrust = linear * command.values + square * command.values**2
        log = dataclasses.replace(
            log, channels={**log.channels, "command": dataclasses.replace(command, values=thrust, unit="N")}
        )
        twin = make_twin("crazyflie", log)
    windows = sm.cut(log, twin, 0.5, 0.5)
    at = np.searchsorted(log["position"].time, windows.begin - 1e-9)
    starts = np.concatenate([rows[name].values[at] for name in ("position", "orientation", "linvel", "gyro")], 1)
    seen = np.abs(sm.residuals(twin, truth[None], starts[None], windows))
    assert seen.max() < 0.02  # of the sensors' noise: what remains of how the rotors began, a second ago
    # The drone's own start is estimated from noisy samples; the estimate of clean ones is near.
    np.testing.assert_allclose(twin.starts(log, windows.begin), starts, atol=0.15)


def test_a_batch_is_its_singles():
    twin: Any = make_twin("go1", logs.empty(("joint_pos", "joint_vel"), LEG))
    rng = np.random.default_rng(2)
    values = np.stack([logs.draw(twin.parameters, rng) for _ in range(3)])
    log = logs.joint_log(twin, values[0], logs.GO1_LEG, 1.5, 2)
    windows = sm.cut(log, twin, 0.3, 0.4)
    starts = np.broadcast_to(one := twin.starts(log, windows.begin), (3, *one.shape))
    together = sm.residuals(twin, values, starts, windows)
    for row in range(3):
        np.testing.assert_array_equal(together[row], sm.residuals(twin, values[row : row + 1], starts[:1], windows)[0])
    part = sm.residuals(twin, values, starts[:, [1]], windows.part([1]))
    np.testing.assert_array_equal(part[:, 0], together[:, 1])


def windows_of(command, steps=50):
    return sm.Windows(np.array([0.1]), steps, 0.002, (), command)


def test_a_delay_on_the_grid_shifts_the_command():
    rng = np.random.default_rng(3)
    time = np.arange(200) * 0.002
    command = Channel(time, rng.normal(size=(200, 2)), ("a", "b"))
    held = sm.commands(windows_of(command), np.array([0.0, 0.01]))[:, 0]
    np.testing.assert_allclose(held[0], command.values[50:100], atol=1e-9)
    np.testing.assert_allclose(held[1], command.values[45:95], atol=1e-9)


def test_between_grid_points_a_delay_acts_in_proportion():
    command = Channel(np.arange(100) * 0.01, np.random.default_rng(4).normal(size=(100, 1)), ("a",))
    delays = 0.004 + np.array([0.0, 0.0005, 0.001])
    low, middle, high = sm.commands(windows_of(command), delays)[:, 0]
    np.testing.assert_allclose(middle, (low + high) / 2, atol=1e-9)
    assert np.abs(high - low).max() > 0.1
    # Nothing is lost: the mean over the whole window is that of what was commanded.
    np.testing.assert_allclose(low.mean(), np.mean(command.values[9:20].repeat(5)[3:53]), atol=1e-9)


def test_rotations_are_compared_the_short_way():
    angle = 0.3
    turn = np.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)])
    unit = np.array([1.0, 0, 0, 0])
    np.testing.assert_allclose(sm.rotation_between(unit, turn), [0, 0, angle])
    np.testing.assert_allclose(sm.rotation_between(unit, -turn), [0, 0, angle])
    np.testing.assert_allclose(sm.rotation_between(turn, unit), [0, 0, -angle])
    np.testing.assert_allclose(sm.rotation_between(turn, turn), 0, atol=1e-12)


def test_a_state_is_found_among_noisy_measurements():
    rng = np.random.default_rng(5)
    time = np.arange(0, 1, 0.005)
    position = np.sin(6 * time)[:, None] + rng.normal(0, 1e-3, (len(time), 1))
    speed = 6 * np.cos(6 * time)[:, None] + rng.normal(0, 0.05, (len(time), 1))
    value, slope = value_and_slope(Channel(time, position, ("a",)), Channel(time, speed, ("a",)), ("a",), 0.5)
    assert value[0] == pytest.approx(np.sin(3), abs=2e-3)
    assert slope[0] == pytest.approx(6 * np.cos(3), abs=0.1)
    _, rough = value_and_slope(Channel(time, position, ("a",)), None, ("a",), 0.5)
    assert rough[0] == pytest.approx(6 * np.cos(3), abs=0.6)


def test_a_log_that_cannot_be_used_says_why():
    twin, log = toys.Toy(), toys.log_of(0, seconds=2)
    with pytest.raises(CalibrationError, match=r"lasts 1.* s; a window needs 5 s"):
        sm.cut(log, twin, 5.0, 5.0)
    with pytest.raises(UnknownNameError, match="unknown channel 'command'"):
        sm.cut(Log({"joint_pos": log["joint_pos"]}), twin, 0.5, 0.5)
    with pytest.raises(CalibrationError, match="fewer than two rows"):
        sm.cut(log, twin, 0.008, 0.5)
    channels = {name: dataclasses.replace(c, time=c.time + 1e9 * (c.time > 1)) for name, c in log.channels.items()}
    with pytest.raises(CalibrationError, match=r"lasts 1e\+09 s, 2e\+09 windows of 0.5 s, and has \d+ rows"):
        sm.cut(Log(channels), twin, 0.5, 0.5)
    with pytest.raises(CalibrationError, match="in 'rad'; expected N, rpm"):
        make_twin("crazyflie", log)


def test_torque_sensors_behind_the_gear_feel_the_link_alone():
    twin = panda.twin(logs.empty(("joint_pos", "joint_torque"), panda.JOINTS))
    model = twin.compile(np.array([0.5 if p.kind == "friction" else p.nominal for p in twin.parameters]))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(6)
    data.qpos[:] = logs.PANDA_ARM.middle
    data.qvel[:], data.ctrl[:] = rng.normal(size=7), data.qpos + 0.01 * rng.normal(size=7)
    mujoco.mj_forward(model, data)
    bare = model.__copy__()
    bare.dof_armature[:] = bare.dof_damping[:] = bare.dof_frictionloss[:] = 0
    other = mujoco.MjData(bare)
    other.qpos[:], other.qvel[:], other.qacc[:] = data.qpos, data.qvel, data.qacc
    bare.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    mujoco.mj_inverse(bare, other)
    # The inverse dynamics of the links alone, with the gravity that the motors bear.
    np.testing.assert_allclose(twin.torques(data.sensordata), other.qfrc_inverse, rtol=1e-6, atol=1e-6)


def test_a_drones_step_is_mujocos():
    twin = drone()
    model = mujoco.MjModel.from_xml_path(str(asset("robots/crazyflie/crazyflie.xml")))
    model.opt.timestep = twin.timestep
    data = mujoco.MjData(model)
    rng = np.random.default_rng(8)
    quat = np.array([0.9, 0.2, -0.3, 0.1])
    state = np.concatenate(
        [rng.normal(size=3), quat / np.linalg.norm(quat), rng.normal(size=3), 8 * rng.normal(size=3)]
    )
    speed = rng.uniform(15e3, 22e3, 4)
    data.qpos[:], data.qvel[:] = state[:7], state[7:]
    with jax.enable_x64(True):
        at, rpm = jnp.asarray(state), jnp.asarray(speed)
        thrust, torque = twin.drone.wrench(rpm)
        force = thrust + multirotor.body_drag(twin.drone, at[3:7], at[7:10])
        data.xfrc_applied[1] = multirotor.world_wrench(at[3:7], force, torque)
        ours = np.asarray(crazyflie.advanced(twin.drone, at, rpm, twin.timestep))
    mujoco.mj_step(model, data)
    np.testing.assert_allclose(ours, [*data.qpos, *data.qvel], rtol=1e-6, atol=1e-7)


def test_a_calibrated_drone_has_the_values():
    values = {crazyflie.Kind.THRUST: 1.1, crazyflie.Kind.DRONE_INERTIA: 0.9, crazyflie.Kind.DRONE_MASS: 0.035}
    nominal = drone().drone
    changed = crazyflie.changed(nominal, values)
    assert changed.mass == 0.035
    np.testing.assert_allclose(changed.thrust, 1.1 * np.array(nominal.thrust))
    np.testing.assert_allclose(changed.inertia, 0.9 * np.array(nominal.inertia))
    assert changed.drag == nominal.drag
    # Another shape of the curve leaves the thrust at hover as it was.
    bent = crazyflie.changed(nominal, {crazyflie.Kind.THRUST_SHAPE: 2.0})
    weight = nominal.mass * 9.81 / 4
    linear, square = nominal.thrust
    hover = (-linear + np.sqrt(linear**2 + 4 * square * weight)) / (2 * square)
    assert bent.thrust[0] * hover + bent.thrust[1] * hover**2 == pytest.approx(weight)
    assert bent.thrust[0] != linear


def test_lost_commands_are_late_on_the_average():
    """Of a ramp, each command that is lost with probability p is p / (1 - p) periods late in the end."""
    ramp = np.arange(200.0)[:, None]
    np.testing.assert_array_equal(sm.expected(ramp, 0.0), ramp)
    late = ramp - sm.expected(ramp, 0.2)
    np.testing.assert_allclose(late[100:], 0.25, rtol=1e-9)
    drawn = [foreign.received(ramp, 0.2, np.random.default_rng(seed)) for seed in range(2000)]
    np.testing.assert_allclose(np.mean(drawn, 0)[50:], sm.expected(ramp, 0.2)[50:], atol=0.06)


def test_a_drone_simulated_elsewhere_flies_as_the_twin_does(flight_elsewhere):
    """The twin at the truth, against another integrator of the same physics, propellers included."""
    twin, truth, log = flight_elsewhere
    windows = sm.cut(log, twin, 0.5, 0.5)
    starts = twin.starts(log, windows.begin)
    rows = np.searchsorted(log["position"].time, windows.begin)
    for name, first, last in (("position", 0, 3), ("orientation", 3, 7), ("linvel", 7, 10), ("gyro", 10, 13)):
        starts[:, first:last] = log[name].values[rows]
    residual = sm.residuals(twin, truth[None], starts[None], windows)
    for output, (part, _, _) in zip(twin.outputs, sm.slices(twin, windows), strict=True):
        assert np.abs(residual[..., part]).max() * output.accuracy < 2e-3, output.channel
    without = truth.copy()
    without[twin.row(Kind.PROPELLER_INERTIA)] = 0.0
    assert np.abs(sm.residuals(twin, without[None], starts[None], windows)).max() > 5 * np.abs(residual).max()


def test_rotors_follow_commands_in_closed_form():
    drone = crazyflie.CRAZYFLIES[crazyflie.PRESET]
    with jax.enable_x64(True):
        speed, command = jnp.array([14e3, 18e3, 0.0, 16e3]), jnp.array([18e3, 14e3, 16e3, 0.0])
        fine = speed
        lag = jax.jit(lambda speed: multirotor.rotor_lag(drone, speed, command, 1e-5))
        for _ in range(2000):
            fine = lag(fine)
        np.testing.assert_allclose(crazyflie.exact_lag(drone, speed, command, 0.02), fine, rtol=1e-4)
