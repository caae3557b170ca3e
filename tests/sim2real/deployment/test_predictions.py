"""Two views of one motion: agreeing ones never trip, and one that stands still, turns round or is another's does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from sim2real.contract.contract import Actuator, Contract, Joint, Source, Step, Term
from sim2real.deployment.safety import Cycle, Safety, SafetyConfig, State
from sim2real.robots.base import Measurement

PERIOD, FAULT, LATEST = 0.02, 4.0, 9.0  # s
NOISE = {"joint_pos": 0.01, "joint_vel": 0.3, "orientation": 0.02, "gyro": 0.1, "position": 0.002, "linvel_w": 0.05}
LEGS, JOINTS = 4, 3
Change = Callable[[Measurement, Measurement, np.random.Generator], Measurement]
"""Newest measurement, and the first one of the fault -> what is seen instead."""


def walker(stiffness: float = 30.0) -> Contract:
    """Four legs of three joints, with all sensors and their noise, and a thing that a camera sees."""
    spans = (1.0, 1.5, 2.0)
    names = [(leg, joint, f"leg{leg}_{joint}") for leg in range(LEGS) for joint in range(JOINTS)]
    actuators = tuple(
        Actuator(name, "rad", 0.0, 0.0, 0.0, -spans[k], spans[k], math.inf, stiffness, 0.5, 20.0, name)
        for _, k, name in names
    )
    joints = tuple(Joint(name, 0.0, -spans[k], spans[k], 30.0) for _, k, name in names)
    terms = tuple(Term(f"of {name}", 3, "", "", noise, name) for name, noise in NOISE.items())
    step = Step((Source("object1_pos", 3, "m", "place of a cube"),), (), (), len(actuators))
    return Contract("test/walker", "walker", 1 / PERIOD, 500.0, actuators, joints, terms, step, max_tilt=math.pi)


def trot(now: float) -> np.ndarray:
    """(12,) rad, targets: each leg with its own phase."""
    phases = 2 * np.pi * (1.5 * now + np.array([0.0, 0.5, 0.25, 0.8]))
    return np.concatenate([0.3 * np.sin(phase + np.arange(JOINTS)) for phase in phases])


def moved(now: float, load: np.ndarray, rng: np.random.Generator) -> Measurement:
    """What the sensors of a walker tell that sways, walks in a circle and carries a load."""

    def noisy(clean: np.ndarray, name: str) -> np.ndarray:
        return clean + NOISE[name] * rng.standard_normal(np.shape(clean))

    lag, tiny = 0.03, 1e-4
    angles = 0.8 * trot(now - lag) + load
    speeds = 0.8 * (trot(now - lag + tiny) - trot(now - lag - tiny)) / (2 * tiny)
    heading = 0.4 * now + 0.15 * math.sin(9 * now)
    turn = heading / 2 + NOISE["orientation"] / 2 * rng.standard_normal()
    tilt = NOISE["orientation"] / 2 * rng.standard_normal(2)
    quat = np.array([math.cos(turn), *tilt, math.sin(turn)])
    place = np.array([1.2 * math.sin(0.5 * now), 1.2 - 1.2 * math.cos(0.5 * now), 0.3 + 0.02 * math.sin(8 * now)])
    velocity = np.array([0.6 * math.cos(0.5 * now), 0.6 * math.sin(0.5 * now), 0.16 * math.cos(8 * now)])
    return Measurement(
        now,
        joint_pos=noisy(angles, "joint_pos"),
        joint_vel=noisy(speeds, "joint_vel"),
        gyro=noisy(np.array([0.0, 0.0, 0.4 + 1.35 * math.cos(9 * now)]), "gyro"),
        orientation=quat / np.linalg.norm(quat),
        position=noisy(place, "position"),
        linvel=noisy(velocity, "linvel_w"),
        readings={"object1_pos": np.array([0.5, 0.1, 0.0]) + 1e-3 * rng.standard_normal(3)},
    )


def watched(change: Change | None, seconds: float, seed: int = 0, config: SafetyConfig | None = None) -> State:
    """The chain's state after a walk, in which a fault begins at `FAULT`."""
    rng, safety, state = np.random.default_rng(seed), Safety.of(walker(), config), State()
    load, first = 0.1 * rng.standard_normal(LEGS * JOINTS), None
    for count in range(round(seconds / PERIOD)):
        now = count * PERIOD
        seen = moved(now, load, rng)
        if change is not None and now >= FAULT:
            first = first or seen
            seen = change(seen, first, rng)
        if (state := safety.watch(state, Cycle(now, seen))).reason:
            return state
        state = dataclasses.replace(state, target=trot(now), time=now)
    return state


def test_joints_that_stand_still_need_not_follow_targets_that_tremble():
    """A policy trembles by its sensors' noise; friction and loads hold the joints."""
    rng, safety, state, still = np.random.default_rng(0), Safety.of(walker()), State(), np.zeros(LEGS * JOINTS)
    for count in range(round(LATEST / PERIOD)):
        seen = moved(count * PERIOD, still, rng)
        noisy = {name: NOISE[name] * rng.standard_normal(still.shape) for name in ("joint_pos", "joint_vel")}
        state = safety.watch(state, Cycle(seen.time, dataclasses.replace(seen, **noisy)))
        assert not state.reason
        state = dataclasses.replace(state, target=0.04 * rng.standard_normal(still.shape), time=seen.time)


def stuck(*names: str) -> Change:
    """Parts stay what they were, with their noise."""

    def change(seen: Measurement, first: Measurement, rng: np.random.Generator) -> Measurement:
        parts = {}
        for name in names:
            value = np.array(getattr(first, name))
            noise = NOISE["linvel_w" if name == "linvel" else name] / (2 if name == "orientation" else 1)
            parts[name] = value + noise * rng.standard_normal(value.shape)
        if "orientation" in parts:
            parts["orientation"] /= np.linalg.norm(parts["orientation"])
        return dataclasses.replace(seen, **parts)

    return change


def changed(change: Callable[[np.ndarray], np.ndarray], *names: str) -> Change:
    return lambda seen, first, rng: dataclasses.replace(seen, **{name: change(getattr(seen, name)) for name in names})


def legs(*order: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda value: value.reshape(LEGS, JOINTS)[list(order)].reshape(-1)


def replayed(seen: Measurement, late: float) -> Measurement:
    """With the joints, angles and speeds, of an earlier time."""
    now = seen.time - late
    speeds = 0.8 * (trot(now + PERIOD / 2) - trot(now - PERIOD / 2)) / PERIOD
    return dataclasses.replace(seen, joint_pos=0.8 * trot(now), joint_vel=speeds)


def drifted(seen: Measurement, first: Measurement, rng: np.random.Generator) -> Measurement:
    """With a position that moves away."""
    assert seen.position is not None
    away = 0.15 * (seen.time - first.time) * np.array([0.0, 1.0, 0.0])
    return dataclasses.replace(seen, position=seen.position + away)


def thing(change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Change:
    """Newest and first place of the thing -> what is seen instead."""
    name = "object1_pos"
    return lambda seen, first, rng: dataclasses.replace(
        seen, readings={name: change(seen.readings[name], first.readings[name])}
    )


SIGNS = np.where(np.arange(LEGS * JOINTS) == 4, -1, 1)
FAULTS: dict[str, tuple[str, Change]] = {
    "encoders stuck": ("joint velocity", stuck("joint_pos")),
    "joint speeds stuck": ("joint velocity", stuck("joint_vel")),
    "joint speeds turned round": ("joint velocity", changed(lambda v: -v, "joint_vel")),
    "a joint's speed turned round": ("joint velocity", changed(lambda v: v * SIGNS, "joint_vel")),
    "gyro stuck": ("angular velocity", stuck("gyro")),
    "orientation stuck": ("angular velocity", stuck("orientation")),
    "position stuck": ("linear velocity", stuck("position")),
    "velocity stuck": ("linear velocity", stuck("linvel")),
    "velocity in another frame": ("linear velocity", changed(lambda v: v[[1, 0, 2]] * [-1, 1, 1], "linvel")),
    "joints replayed": ("response", lambda seen, first, rng: replayed(seen, 0.35)),
    "two legs swapped": ("limbs", changed(legs(1, 0, 2, 3), "joint_pos", "joint_vel")),
    "two other legs swapped": ("limbs", changed(legs(0, 1, 3, 2), "joint_pos", "joint_vel")),
    "a thing frozen": ("thing", thing(lambda seen, first: first)),
    "a thing that jumps": ("thing", thing(lambda seen, first: seen + np.array([0.3, 0.0, 0.0]))),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_sensors_that_tell_of_one_motion_never_trip(seed):
    state = watched(None, 15.0, seed)
    assert not state.reason


@pytest.mark.parametrize("fault", FAULTS)
def test_a_view_that_contradicts_the_other_trips_within_five_seconds(fault):
    step, change = FAULTS[fault]
    state = watched(change, LATEST)
    sooner = {"angular velocity": "rotation", "response": "joint velocity"}
    assert state.step in (step, sooner.get(step)), f"{state.step}: {state.reason}"
    assert state.time >= FAULT - PERIOD * 1.5


def test_a_slow_drift_between_two_views_trips():
    state = watched(drifted, 20.0)
    assert state.step == "linear velocity"
    assert "drift apart: y" in state.reason


def test_predictions_can_be_switched_off():
    state = watched(FAULTS["encoders stuck"][1], LATEST, config=SafetyConfig(predictions=False))
    assert not state.reason


def test_limbs_are_joints_of_equal_motors_and_ranges():
    (limbs,) = Safety.of(walker()).limits.limbs
    np.testing.assert_array_equal(limbs, np.arange(12).reshape(LEGS, JOINTS).T)
    firm = Safety.of(walker(stiffness=1000.0)).limits
    assert firm.firm.all()
    assert not firm.limbs
