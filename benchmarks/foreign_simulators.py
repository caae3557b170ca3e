"""Logs of robots simulated by anything but the twin: what a calibration is tested against, beside logs of its own.

    leg      a Go1's leg in C MuJoCo: Runge-Kutta at 0.1 ms where the twin steps at 2 ms, commands lost
    bullet   the same leg in PyBullet at 0.1 ms: other dynamics, hard dry friction, servos as explicit torques
    drone    a Crazyflie in numpy: Runge-Kutta at 0.5 ms, propellers that resist turning and push back, commands lost

Each takes a twin for the names of its parameters alone, and the values that are hidden from the calibration. A lost
command leaves the one before it in force until the next arrives.
"""

import types
from typing import Any

import mujoco
import numpy as np

from benchmarks import calibration_logs as logs
from embodied.core.world import Control, ResetState
from embodied.engines.pybullet.engine import PybulletEngine
from embodied.robot.rotors import GRAVITY
from sim2real.identification.parameters import Kind
from sim2real.logs.log import WXYZ, XYZ, Channel, Log
from sim2real.twins.crazyflie import DroneTwin
from sim2real.twins.joints import JointTwin
from tasks.swarm.dynamics.multirotor import Multirotor

LOST = 0.05  # share of commands that do not arrive
LEG_STEP = 1e-4  # s
BULLET_STEP = 1e-4  # s: its integrator is of first order, so that at 1 ms its robot differs from its parameters
DRONE_STEP = 5e-4  # s
RATE = 200.0  # rows of a leg's log per second
DRONE_RATE = 100.0  # rows of a flight's log per second
COMMANDS = 250.0  # Hz to the drone


def received(command: np.ndarray, lost: float, rng: np.random.Generator) -> np.ndarray:
    """Commands (n, k) as they were in force, when a share of them is lost: each as the last one that arrived."""
    arrived = rng.random(len(command)) >= lost
    arrived[0] = True
    return command[np.maximum.accumulate(np.where(arrived, np.arange(len(command)), 0))]


def leg_log(twin: JointTwin, truth: np.ndarray, seconds: float, seed: int, lost: float = LOST) -> Log:
    """The log of a Go1's leg with values `truth` (p,), by Runge-Kutta at 0.1 ms."""
    model = twin.compile(truth)
    model.opt.timestep, model.opt.integrator = LEG_STEP, mujoco.mjtIntegrator.mjINT_RK4
    data = mujoco.MjData(model)

    def begin(angle: np.ndarray) -> None:
        data.qpos[:] = angle

    def advance(target: np.ndarray) -> None:
        data.ctrl[:] = target
        mujoco.mj_step(model, data)

    return _leg_log(twin, truth, seconds, seed, lost, LEG_STEP, (begin, advance, lambda: (data.qpos, data.qvel)))


def bullet_log(twin: JointTwin, truth: np.ndarray, seconds: float, seed: int, lost: float = 0.0) -> Log:
    """The log of a Go1's leg with values `truth` (p,) in PyBullet, at 0.1 ms."""
    task: Any = types.SimpleNamespace(model=twin.compile(truth), timing=types.SimpleNamespace(physics_dt=BULLET_STEP))
    engine = PybulletEngine(task, 1)

    def begin(angle: np.ndarray) -> None:
        start: Any = ResetState(angle[None], np.zeros((1, len(angle))), task_state=None)  # pyright: ignore[reportArgumentType] - numpy's arrays do
        engine.reset(np.arange(1), start)

    def advance(target: np.ndarray) -> None:
        held: Any = target[None]
        engine.step(Control(ctrl=held), 1)

    def state() -> tuple[np.ndarray, np.ndarray]:
        world = engine.world()
        return np.asarray(world.qpos[0], float), np.asarray(world.qvel[0], float)

    return _leg_log(twin, truth, seconds, seed, lost, BULLET_STEP, (begin, advance, state))


def _leg_log(
    twin: JointTwin, truth: np.ndarray, seconds: float, seed: int, lost: float, step: float, robot: tuple[Any, Any, Any]
) -> Log:
    """Chirps played on a robot: `begin(angle)`, `advance(target)` by one step of so many s, `state()`."""
    begin, advance, state = robot
    rng = np.random.default_rng([seed, 3])
    named = {p.name: v for p, v in zip(twin.parameters, truth, strict=True)}
    bias = np.array([named.get(f"{joint}.encoder_bias", 0.0) for joint in twin.joints])
    time = np.arange(round(seconds * logs.GO1_LEG.hz)) / logs.GO1_LEG.hz
    command = logs.chirps(logs.GO1_LEG, time, rng)
    in_force = received(command, lost, rng)
    begin(command[0] - bias)
    every, rows, times = round(1 / RATE / step), [], []
    for number in range(round(seconds / step)):
        now = number * step
        if number % every == 0:
            angle, speed = state()
            rows.append(np.concatenate([angle + bias, speed]))
            times.append(now)
        # To the middle of the step: a command that changes within it acts from the nearer end.
        row = int(np.floor((now + step / 2 - named[Kind.DELAY.value]) * logs.GO1_LEG.hz))
        advance(in_force[max(row, 0)] - bias)
    seen = dict(zip(("joint_pos", "joint_vel"), np.split(np.array(rows), 2, axis=1), strict=True))
    channels = {"command": Channel(time, command, twin.joints, "rad")}
    for name, values in seen.items():
        noise = logs.NOISE["go1"][name]
        channels[name] = Channel(np.array(times), values + rng.normal(0, noise, values.shape), twin.joints)
    return Log(channels)


def drone_log(twin: DroneTwin, truth: np.ndarray, seconds: float, seed: int, lost: float = LOST) -> Log:
    """The log of a flight of a Crazyflie with values `truth` (p,), integrated here."""
    rng = np.random.default_rng([seed, 3])
    named: dict[Kind, Any] = {p.kind: float(v) for p, v in zip(twin.parameters, truth, strict=True)}
    drone = twin.drone_of(truth)
    steps = round(seconds / DRONE_STEP)
    hold, late = round(1 / COMMANDS / DRONE_STEP), named[Kind.DELAY] / DRONE_STEP
    sway = logs._wobble(DRONE_STEP * np.arange(steps), rng)
    arrived = rng.random(steps // hold + 1) >= lost
    hover = _speed_for(drone, np.full(4, drone.mass * GRAVITY / 4))
    state = np.concatenate([np.zeros(3), [1.0, 0, 0, 0], np.zeros(6), hover])
    states = np.empty((steps, 13))
    commands, in_force = [hover], [hover]
    for number in range(steps):
        if number % hold == 0:
            commands.append(_control(drone, state, sway[number]))
            in_force.append(commands[-1] if arrived[number // hold] else in_force[-1])
        states[number] = state[:13]
        row = int(np.floor((number + 0.5 - late) / hold))
        state = _advanced(drone, named.get(Kind.PROPELLER_INERTIA, 0.0), state, in_force[max(row + 1, 0)])
    every = round(1 / DRONE_RATE / DRONE_STEP)
    when, seen = DRONE_STEP * np.arange(steps)[::every], states[::every]
    turn = rng.normal(0, logs.NOISE["crazyflie"]["orientation"], (len(when), 3))
    still = np.zeros((len(when), 3))
    moved = twin.moved(seen, np.concatenate([still, turn, still, still], 1))
    sent = np.array(commands[1:])
    channels = {"command": Channel(np.arange(len(sent)) / COMMANDS, sent, twin.actuators, "rpm")}
    channels["orientation"] = Channel(when, moved[:, 3:7], WXYZ)
    for name, first in (("position", 0), ("linvel", 7), ("gyro", 10)):
        values = seen[:, first : first + 3]
        noise = logs.NOISE["crazyflie"][name]
        channels[name] = Channel(when, values + rng.normal(0, noise, values.shape), XYZ)
    return Log(channels)


MIX = np.array([[-1.0, -1, 1, 1], [-1, 1, 1, -1], [-1, 1, -1, 1]])
"""Of rotors 1 to 4: signs of their thrust in the torque about x and y, and of their reaction about z."""
RPM = 2 * np.pi / 60  # rad/s


def _advanced(drone: Multirotor, propeller: float, state: np.ndarray, command: np.ndarray) -> np.ndarray:
    """A state (17,) of body and rotors (rpm) after one step of the classical Runge-Kutta method."""
    rate = lambda at: _derivative(drone, propeller, at, command)  # noqa: E731
    first = rate(state)
    second = rate(state + DRONE_STEP / 2 * first)
    third = rate(state + DRONE_STEP / 2 * second)
    fourth = rate(state + DRONE_STEP * third)
    after = state + DRONE_STEP / 6 * (first + 2 * second + 2 * third + fourth)
    after[3:7] /= np.linalg.norm(after[3:7])
    return after


def _derivative(drone: Multirotor, propeller: float, state: np.ndarray, command: np.ndarray) -> np.ndarray:
    """Of position, quaternion (wxyz), velocity in the world, turning rate in the body, rotor speeds.

    A propeller that speeds up pushes the body the other way, and the propellers' spin resists turning: the torque is
    minus the rate of change of their angular momentum, as seen from the world.
    """
    w, x, y, z = state[3:7]
    vel, spin, speed = state[7:10], state[10:13], state[13:]
    turn = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    assert drone.speed_up is not None
    assert drone.speed_down is not None
    up, down = drone.speed_up, drone.speed_down
    error, square = command - speed, command**2 - speed**2
    faster = np.where(error > 0, up[0] * error + up[1] * square, down[0] * error + down[1] * square)
    thrust = drone.thrust[0] * speed + drone.thrust[1] * speed**2
    reaction = drone.torque[0] * speed + drone.torque[1] * speed**2
    momentum, pushed = -propeller * RPM * (MIX[2] @ speed), -propeller * RPM * (MIX[2] @ faster)
    lever = drone.position[3, 0]
    torque = np.array([lever * (MIX[0] @ thrust), lever * (MIX[1] @ thrust), MIX[2] @ reaction])
    torque -= np.array([spin[1] * momentum, -spin[0] * momentum, pushed])
    inertia = np.asarray(drone.inertia)
    force = np.array([0.0, 0.0, thrust.sum()]) - np.asarray(drone.drag) * (turn.T @ vel)
    p, q, r = spin
    return np.concatenate([
        vel,
        0.5 * np.array([-x * p - y * q - z * r, w * p + y * r - z * q, w * q - x * r + z * p, w * r + x * q - y * p]),
        turn @ force / drone.mass - np.array([0.0, 0.0, GRAVITY]),
        (torque - np.cross(spin, inertia * spin)) / inertia,
        faster,
    ])  # fmt: skip


def _speed_for(drone: Multirotor, thrust: np.ndarray) -> np.ndarray:
    linear, square = drone.thrust
    return (-linear + np.sqrt(linear**2 + 4 * square * thrust)) / (2 * square)


def _control(drone: Multirotor, state: np.ndarray, ask: np.ndarray) -> np.ndarray:
    """(4,) rpm that bring the drone to a point `ask[:3]` m, with extra thrusts `ask[3:]` of hover's."""
    w, x, y, z = state[3:7]
    vel, spin = state[7:10], state[10:13]
    up = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
    axis = np.clip(1.5 * (ask[:3] - state[:3]) - 2.0 * vel, -4.0, 4.0) + np.array([0.0, 0.0, GRAVITY])
    tilt = np.cross(up, axis / np.linalg.norm(axis))
    lean = np.zeros(3)
    mujoco.mju_rotVecQuat(lean, tilt, np.array([w, -x, -y, -z]))
    turn = np.array([70.0 * lean[0], 70.0 * lean[1], -16.0 * (w * z + x * y)]) - np.array([14.0, 14.0, 6.0]) * spin
    weight = drone.mass * GRAVITY
    reach = np.array([*drone.position[3, :2], 0.006]) * 4  # m, torque by thrust of a rotor
    share = turn * np.asarray(drone.inertia) / reach + weight / 4 * ask[3:6]
    thrust = weight / 4 * (axis @ up / GRAVITY + ask[6]) + MIX.T @ share
    return _speed_for(drone, np.clip(thrust, 0.05 * weight, 0.6 * weight))
