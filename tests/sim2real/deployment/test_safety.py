"""Whatever goes into the safety chain, what comes out is finite and within all limits, or nothing, for good."""

import dataclasses
import math
from collections.abc import Set

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real.contract.contract import Actuator, Contract, Step
from sim2real.deployment.safety import Cycle, Safety, SafetyConfig, State, soft_start
from sim2real.deployment.safety_limits import stiffness_of
from sim2real.robots.base import Measurement
from tests.kit import fakes
from tests.kit.bundles import target_of
from tests.kit.fakes import given

KP, KD, EFFORT, TOP, RATE = 30.0, 0.5, 20.0, 20.0, 40.0


def leg(**changes) -> Contract:
    """Three servos."""
    return dataclasses.replace(stiff_leg(KP), **changes)


def stiff_leg(stiffness: float) -> Contract:
    """The same with stiffer servos."""
    whole = fakes.leg()
    actuators = [dataclasses.replace(one, max_rate=RATE, stiffness=stiffness) for one in whole.actuators]
    return dataclasses.replace(whole, actuators=tuple(actuators))


def measured(time=0.0, **parts) -> Measurement:
    values = {"joint_pos": np.zeros(3), "joint_vel": np.zeros(3), "orientation": np.array([1.0, 0, 0, 0])}
    return Measurement(time, **(values | parts))


def through(safety, state, cycle, target, **policy):
    return safety.limit(safety.watch(state, cycle), cycle, np.asarray(target, float), **policy)


def test_a_good_target_passes_unchanged():
    safety = Safety.of(leg())
    state = through(safety, State(), Cycle(0.0, measured()), [0.1, -0.2, 0.3], action=np.zeros(3))
    np.testing.assert_array_equal(state.target, [0.1, -0.2, 0.3])
    assert not state.reason
    assert not state.clips


def awkward(rng, size, scale):
    """Numbers of every kind: ordinary, huge, infinite, none."""
    values = scale * rng.standard_normal(size)
    kind = rng.random(size)
    values = np.where((kind > 0.01) & (kind < 0.03), 1e3 * values, values)
    return np.where(kind < 0.01, rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0], size), values)


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 1000), (1, 1000), *(pytest.param(seed, 2500, marks=pytest.mark.slow) for seed in range(4))]
)
def test_random_input_never_gets_a_bad_target_out(seed, count):
    rng, contract = np.random.default_rng(seed), leg()
    safety = Safety.of(contract)
    limits, state, passed, latched = safety.limits, State(), 0, 0
    for step in range(count):
        last, now = state.target, 0.02 * step
        cycle = Cycle(
            now,
            measured(
                now - 0.01 * rng.random() if rng.random() > 0.002 else rng.choice([np.nan, -1.0, 1e9]),
                joint_pos=awkward(rng, 3, 0.4),
                joint_vel=awkward(rng, 3, 6.0),
                orientation=np.array([1.0, 0, 0, 0]) + awkward(rng, 4, 0.02),
            ),
            late=abs(awkward(rng, 1, 1e-3)[0]),
            missed=rng.random() < 0.05,
        )
        action = awkward(rng, 3, 0.7)
        target = target_of(contract, action) if rng.random() > 0.05 else awkward(rng, 3, 0.5)
        state = through(safety, state, cycle, target, action=action)
        if state.reason:
            latched += 1
            assert state.target is None
            again = through(safety, state, Cycle(now, measured(now)), np.zeros(3))
            assert again == state, "a latch that opens"
            state = State()
            continue
        passed += 1
        sent = state.target
        assert np.isfinite(sent).all()
        assert (sent >= limits.lower).all()
        assert (sent <= limits.upper).all()
        q, qd = cycle.measured.joint_pos, cycle.measured.joint_vel
        assert (np.abs(KP * (sent - q) - KD * qd) <= EFFORT * (1 + 1e-9)).all()
        if last is not None:
            assert (np.abs(sent - last) <= RATE * contract.period * (1 + 1e-9)).all()
    assert passed > count / 5
    assert latched > count / 25


def steps(safety, cycles, target=(0.0, 0.0, 0.0), **policy):
    """The state after many cycles, and how many it took to trip."""
    state = State()
    for count, cycle in enumerate(cycles):
        state = through(safety, state, cycle, target, **policy)
        if state.reason:
            return state, count
    return state, None


def wiggle(now, **parts):
    """A healthy measurement, its last digits moving."""
    return measured(now, **({"gyro": np.array([0.1 + 0.01 * math.sin(now), 0.0, 0.0])} | parts))


def turning(count, missed=lambda i: False):
    """Cycles of a healthy robot that turns slowly."""
    turns = [np.array([math.cos(0.001 * i), math.sin(0.001 * i), 0, 0]) for i in range(count)]
    return [Cycle(0.02 * i, wiggle(0.02 * i, orientation=turns[i]), missed=missed(i)) for i in range(count)]


TRIPS = {
    "operator": (Cycle(1.0, measured(1.0), stop="key pressed"), "key pressed"),
    "finite measurement": (Cycle(1.0, measured(1.0, gyro=np.array([0, np.nan, 0]))), "not finite: gyro"),
    "stale": (Cycle(1.0, measured(0.8)), "0.200 s old"),
    "clock": (Cycle(1.0, measured(0.92)), "jumped back by 0.060 s"),
    "deadline": (Cycle(1.0, measured(1.0), late=0.3), "0.300 s late"),
    "joint range": (Cycle(1.0, measured(1.0, joint_pos=np.array([0, 1.25, 0]))), "j1 at 1.25 rad"),
    "joint speed": (Cycle(1.0, measured(1.0, joint_vel=np.array([0, 0, -31.0]), position=np.zeros(3))), "j2 at 31"),
    "tilt": (Cycle(1.0, measured(1.0, orientation=np.array([0.6, 0.8, 0, 0]))), "tilted by 106 degrees"),
    "workspace": (Cycle(1.0, measured(1.0, position=np.array([0, -2.0, 0]))), "y at -2 m, outside the workspace"),
}


@pytest.mark.parametrize("step", TRIPS)
def test_each_check_trips_with_its_reason_and_latches(step):
    cycle, reason = TRIPS[step]
    safety = Safety.of(leg(workspace=((-1.0, 1.0),) * 3))
    healthy = Cycle(0.98, measured(0.98, position=np.zeros(3)))
    state = through(safety, State(), healthy, np.zeros(3))
    assert state.target is not None
    for _ in range(2 if step == "joint speed" else 1):
        assert not state.reason
        state = through(safety, state, cycle, np.zeros(3))
    assert (state.step, state.target) == (step, None)
    assert reason in state.reason
    later = through(safety, state, dataclasses.replace(healthy, now=1.02), np.zeros(3))
    assert later == state


@pytest.mark.parametrize(
    ("what", "step"),
    [
        ({"target": [0, np.nan, 0]}, "finite target"),
        ({"target": [0, np.inf, 0]}, "finite target"),
        ({"target": [0, 0, 0], "action": np.array([0, np.nan, 0])}, "finite action"),
        ({"target": [0, 0, 0], "observation": np.array([np.inf])}, "finite observation"),
        ({"target": [0, 1.1, 0]}, "target"),
    ],
)
def test_what_no_healthy_policy_gives_trips(what, step):
    state = through(Safety.of(leg()), State(), Cycle(0.0, measured()), **what)
    assert state.step == step
    assert state.target is None


def test_margin_rate_and_effort_clip_and_are_counted():
    safety = Safety.of(leg())
    state = through(safety, State(), Cycle(0.0, measured()), [0.99, 0, 0])
    # 20 N m at 30 N m/rad are less than the 0.8 rad of the rate and the 0.96 rad of the margin.
    np.testing.assert_allclose(given(state.target), [EFFORT / KP, 0, 0])
    assert state.clips == {"position": 1, "rate": 1, "effort": 1}
    state = through(safety, state, Cycle(0.02, measured(0.02, joint_pos=np.array([0.9, 0, 0]))), [0.99, 0, 0])
    np.testing.assert_allclose(given(state.target), [0.96, 0, 0])
    assert state.clips == {"position": 2, "rate": 1, "effort": 1}


def test_near_top_speed_a_motor_may_brake_but_not_push():
    safety = Safety.of(leg())
    fast = measured(0.0, joint_vel=np.array([TOP, -TOP, 0.0]))
    state = through(safety, State(), Cycle(0.0, fast), [0.9, 0.9, 0.0])
    effort = KP * given(state.target) - KD * given(fast.joint_vel)
    assert effort[0] == pytest.approx(0.0)
    assert effort[1] == pytest.approx(EFFORT)  # against its motion: brakes with all it has


@pytest.mark.parametrize("speed", [0.0, 0.5, 0.89, 0.95, 1.0, 1.4])
def test_stiff_servos_are_braked_near_top_speed_and_free_below(speed):
    """They give their largest effort at an error of 0.2 rad; at top speed a joint moves 0.4 rad in a period."""
    safety, kp = Safety.of(stiff_leg(100.0)), 100.0
    turning = measured(0.0, joint_vel=np.array([speed * TOP, -speed * TOP, 0.0]))
    state = through(safety, State(), Cycle(0.0, turning), [0.7, 0.7, 0.7])
    drive = kp * given(state.target) - KD * given(turning.joint_vel)
    np.testing.assert_allclose(given(state.target)[1:], 0.7)  # against its motion, and from rest: no limit but its own
    if speed < 0.9:
        assert given(state.target)[0] == pytest.approx(0.7)
    else:
        left = max(0.0, 1 - speed) / 0.1
        lead = EFFORT / kp + TOP / 50
        assert given(state.target)[0] == pytest.approx(min(0.7, KD * speed * TOP / kp + left * lead))
    assert speed < 1 or drive[0] == pytest.approx(0.0, abs=1e-9)


def test_a_servo_is_stiff_where_its_joint_moves_further_in_a_period_than_its_largest_effort_takes():
    reach, way = EFFORT / KP, TOP / 50
    for stiffness, stiff in ((KP, False), (1.01 * KP * reach / way, True), (0.99 * KP * reach / way, False)):
        assert stiffness_of(stiff_leg(stiffness))[0].all() == stiff
    unstated = tuple(dataclasses.replace(joint, max_velocity=math.inf) for joint in leg().joints)
    assert not stiffness_of(dataclasses.replace(stiff_leg(100.0), joints=unstated))[0].any()
    assert stiffness_of(dataclasses.replace(stiff_leg(1000.0), joints=unstated))[0].all()


def swaying(cycles: int, seed: int, noise: float = 0.0):
    """Times, orientations (n, 4) wxyz and gyro (n, 3) of a body that sways about all axes and turns slowly."""
    rng, dt = np.random.default_rng(seed), 0.02
    amplitude, hertz, phase = rng.uniform(0.5, 2.0, 3), rng.uniform(0.5, 3.0, 3), rng.uniform(0, 6, 3)
    quat, quats, rates = np.array([1.0, 0, 0, 0]), [], []
    for fine in range(20 * cycles):  # Euler steps of 1 ms
        rate = amplitude * np.sin(2 * np.pi * hertz * fine * dt / 20 + phase) + np.array([0, 0, 0.5])
        if fine % 20 == 0:
            quats.append(quat)
            rates.append(rate)
        half = rate * dt / 40
        w, v = quat[0], quat[1:]
        quat = np.array([w - v @ half, *(v + w * half + np.cross(v, half))], float)
        quat /= np.linalg.norm(quat)
    seen = np.array(quats) + noise * rng.standard_normal((cycles, 4)) / 2
    seen /= np.linalg.norm(seen, axis=1, keepdims=True)
    return np.arange(cycles) * dt, seen, np.array(rates) + 4 * noise * rng.standard_normal((cycles, 3))


def latched_after(orientation, gyro, time, lost: Set[int] = frozenset()):
    """Cycles until gyro and orientation are found to disagree; None: never."""
    safety, state, shown = Safety.of(leg(max_tilt=4.0)), State(), 0
    for cycle, now in enumerate(time):
        shown = shown if cycle in lost else cycle
        seen = measured(time[shown], orientation=orientation[shown], gyro=gyro[shown], joint_pos=1e-3 * gyro[shown])
        state = through(safety, state, Cycle(now, seen), np.zeros(3))
        if state.reason:
            assert state.step == "rotation"
            return cycle
    return None


def seeds(quick, count):
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count))]


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_a_gyro_that_tells_the_same_as_the_orientation_never_trips(seed):
    time, orientation, gyro = swaying(300, seed, noise=0.03)
    lost = frozenset(np.flatnonzero(np.random.default_rng(seed).random(300) < 0.1).tolist()) - {0}
    assert latched_after(orientation, gyro, time, lost) is None
    assert latched_after(-orientation, gyro, time) is None  # the same rotation


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize(
    ("fault", "cycles"),
    [
        (lambda quat, gyro: (quat, np.degrees(gyro)), 5),
        (lambda quat, gyro: (quat, -gyro), 60),
        (lambda quat, gyro: (quat, gyro[:, [1, 0, 2]]), 120),
        (lambda quat, gyro: (quat[:, [1, 2, 3, 0]], gyro), 120),
        (lambda quat, gyro: (quat * [1, -1, -1, -1], gyro), 60),
    ],
)
def test_units_signs_and_orders_of_gyro_and_orientation_are_told_from_motion(seed, fault, cycles):
    time, orientation, gyro = swaying(cycles + 5, seed, noise=0.02)
    wrong, told = fault(orientation, gyro)
    found = latched_after(wrong, told, time)
    assert found is not None
    assert found <= cycles


def test_after_a_gap_the_comparison_begins_anew():
    safety, state = Safety.of(leg(max_tilt=4.0)), State()
    turned = np.array([math.cos(0.4), 0, 0, math.sin(0.4)])
    for now, quat in ((0.0, np.array([1.0, 0, 0, 0])), (0.02, np.array([1.0, 0, 0, 0])), (0.5, turned)):
        seen = measured(now, orientation=quat, gyro=np.full(3, 1e-3 * now), joint_pos=np.full(3, 1e-3 * now))
        state = through(safety, state, Cycle(now, seen), np.zeros(3))
        assert not state.reason
    assert not state.turns


def test_limits_that_exclude_each_other_trip():
    rate = dataclasses.replace(leg().actuators[0], max_rate=0.1)
    safety = Safety.of(leg(actuators=(rate, *leg().actuators[1:])))
    state = through(safety, State(), Cycle(0.0, measured()), np.zeros(3))
    away = measured(0.02, joint_pos=np.array([-0.9, 0, 0]))  # pushed there: holding 0 needs 27 N m, 20 are allowed
    state = through(safety, state, Cycle(0.02, away), np.zeros(3))
    assert state.step == "limits"
    assert "m0" in state.reason


def swung(contract, change, seconds=1.0, name=None):
    """Joints that follow targets of one period a second; each measurement is changed. Where it trips, and when."""
    safety, state = Safety.of(contract), State()
    period = contract.period
    for count in range(round(seconds / period)):
        now = count * period
        target = 0.3 * np.sin(2 * np.pi * now) * np.ones(3)
        followed = 0.3 * np.sin(2 * np.pi * (now - 0.04)) * np.ones(3) + 1e-6 * np.cos(1e3 * now)
        cycle = Cycle(now, measured(now, joint_pos=change(followed, now), joint_vel=None, orientation=None))
        state = through(safety, state, cycle, target)
        if state.reason:
            return state.step, now, state.reason
    return "", seconds, ""


@pytest.mark.parametrize("joint", [0, 1, 2])
@pytest.mark.parametrize("begin", [0.3, 0.52, 0.75])
def test_a_single_frozen_encoder_trips_within_a_third_of_a_second_of_motion(joint, begin):
    held = {}

    def freeze(angles, now):
        if now >= begin:
            held.setdefault("angle", angles[joint])
            angles[joint] = held["angle"]
        return angles

    step, when, reason = swung(leg(), freeze, 2.0)
    assert step == "frozen encoder"
    assert f"the encoder of j{joint} has been frozen for" in reason
    assert when - begin <= 0.3 + 1e-9


def test_an_encoder_that_rests_while_nothing_is_asked_of_its_joint_is_fine():
    safety, state = Safety.of(leg()), State()
    for count in range(100):
        joints = 1e-6 * count * np.array([0, 1, 1])
        cycle = Cycle(0.02 * count, measured(0.02 * count, joint_pos=joints, joint_vel=None, orientation=None))
        state = through(safety, state, cycle, np.array([0.0, 0.1 * np.sin(count), 0.1 * np.cos(count)]))
    assert not state.reason


def test_fingers_may_be_held_by_what_they_hold():
    joints = tuple(dataclasses.replace(joint, name=f"gripper_{joint.name}") for joint in leg().joints)
    actuators = tuple(dataclasses.replace(one, joint=f"gripper_{one.joint}") for one in leg().actuators)
    gripper = dataclasses.replace(leg(), joints=joints, actuators=actuators)

    def held(angles, now):
        angles[0] = 0.0
        return angles

    assert swung(gripper, held) == ("", 1.0, "")


def test_a_frozen_sensor_trips_after_its_time():
    cycles = [Cycle(0.02 * i, measured(0.02 * i, gyro=np.ones(3))) for i in range(100)]
    state, count = steps(Safety.of(leg()), cycles)
    assert (state.step, count) == ("frozen", 11)
    assert "gyro" in state.reason or "orientation" in state.reason


def test_joints_may_rest_but_not_ignore_their_targets():
    safety = Safety.of(leg())
    state, _ = steps(safety, turning(100))
    assert not state.reason
    for i, cycle in enumerate(turning(200)[100:]):
        state = through(safety, state, cycle, [0.02 * i % 0.4, 0, 0])
        if state.reason:
            break
    assert state.step == "frozen"
    assert "joint_pos" in state.reason


def test_a_clock_that_jitters_within_a_period_is_fine():
    safety = Safety.of(leg())
    cycles = [Cycle(0.02 * i, wiggle(0.02 * i - 0.03 * (i % 2))) for i in range(9)]
    assert not steps(safety, cycles)[0].reason


def test_missed_deadlines_are_forgiven_when_they_are_rare():
    assert not steps(Safety.of(leg()), turning(200, lambda i: i % 12 == 0))[0].reason
    state, count = steps(Safety.of(leg()), turning(200, lambda i: True))
    assert (state.step, count) == ("deadline", 4)


def test_a_policy_that_is_always_beyond_its_limits_trips():
    state, count = steps(Safety.of(leg()), turning(100), action=np.array([3.0, 0, 0]))
    assert state.step == "action"
    assert count == pytest.approx(0.5 / 0.02, abs=1)
    assert state.clips["action"] == given(count) + 1


def test_rotors_have_limits_but_no_pose_and_no_margin():
    rotor = Actuator("rotor1", "N", 0.08, 0.04, 0.08, 0.0, 0.12, math.inf, max_effort=0.12)
    drone = Contract("test/drone", "drone", 50.0, 500.0, (rotor,), (), (), Step((), (), (), 1))
    state = through(Safety.of(drone), State(), Cycle(0.0, Measurement(0.0)), [0.12])
    np.testing.assert_array_equal(state.target, [0.12])
    assert through(Safety.of(drone), State(), Cycle(0.0, Measurement(0.0)), [0.13]).step == "target"


def test_soft_start_begins_and_ends_at_rest():
    begin, stance = np.array([1.0, -1.0]), np.array([0.0, 2.0])
    path = np.array([soft_start(begin, stance, f) for f in np.linspace(0, 1, 1001)])
    np.testing.assert_allclose(path[[0, -1]], [begin, stance])
    np.testing.assert_allclose(soft_start(begin, stance, 7.0), stance)
    speed = np.gradient(path, 1e-3, axis=0)
    np.testing.assert_allclose(speed[[0, -1]], 0.0, atol=1e-3)
    assert (np.diff(path[:, 1]) >= 0).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("margin", 0.6), ("effort", 0.0), ("misses", math.nan), ("brake_from", 1.0), ("max_tilt", -1.0)],
        *[("max_age", -1.0), ("max_frozen", 0.0), ("max_late", math.nan), ("tolerance", -1.0), ("forgive", math.nan)],
        *[("workspace", ((math.nan, math.nan),) * 3), ("workspace", ((0.0, 0.0),)), ("workspace", ((1.0, 0.0),) * 3)],
        *[("workspace", ()), ("frozen_motion", 0.0)],
    ],
)
def test_thresholds_without_sense_are_refused_by_name(field, value):
    with pytest.raises(EmbodiedError, match=f"safety: {field}="):
        SafetyConfig(**{field: value})
