"""Rotors of any number and direction: in equilibrium at hover, allocated, refused where they cannot fly."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.errors import ModelError
from embodied.robot import Airframe, Rotor
from embodied.robot.rotors import GRAVITY
from tasks.swarm.control.allocation import Allocation
from tasks.swarm.control.levels import LEVELS, REFERENCE, Level
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, Preset
from tasks.swarm.dynamics.multirotor import Multirotor, speed_for_thrust

FILE = Path("drone.urdf")
each_drone = pytest.mark.parametrize("drone", [CRAZYFLIES[preset] for preset in Preset], ids=list(Preset))


def by_rotor(drone: Multirotor) -> Multirotor:
    """The same with a number for each rotor, and a fifth without thrust that pushes sideways."""
    each = lambda numbers: tuple(number * np.array([1, 1, 1, 1, 0]) for number in numbers)  # noqa: E731
    return dataclasses.replace(
        drone,
        position=np.concatenate([drone.position, [[0.0, 0.0, 0.01]]]),
        axis=np.concatenate([drone.axis, [[1.0, 0.0, 0.0]]]),
        spin=np.array([*drone.spin, 1.0]),
        thrust=each(drone.thrust),
        torque=each(drone.torque),
    )


def ring(count: int, tilt: float = 0.0, **changes: float) -> Airframe:
    """Rotors in a ring of 0.2 m, tilted about their arms by `tilt` rad to one side and the other in turns."""
    rotors = []
    for number in range(count):
        angle = 2 * math.pi * (number + 0.5) / count
        side = tilt * (-1) ** number
        axis = (-math.sin(side) * math.sin(angle), math.sin(side) * math.cos(angle), math.cos(side))
        place = (0.2 * math.cos(angle), 0.2 * math.sin(angle), 0.02)
        rotors.append(Rotor("", place, axis, (-1) ** number, 20.0 / count, 0.015, 0.03))
    frame = Airframe(1.0, (0.0, 0.0, 0.0), (0.01, 0.012, 0.02), tuple(rotors), (0.3, 0.3, 0.3))
    return dataclasses.replace(frame, **changes)


def changed(frame: Airframe, number: int, **changes: object) -> Airframe:
    rotors = list(frame.rotors)
    rotors[number] = dataclasses.replace(rotors[number], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(frame, rotors=tuple(rotors))


@each_drone
def test_rotors_alike_push_and_turn_as_those_with_a_number_each(drone: Multirotor) -> None:
    speed = 1000 * jax.random.uniform(jax.random.key(0), (64, 5), minval=10.0, maxval=25.0)
    strength = jax.random.uniform(jax.random.key(1), (64,), minval=0.9, maxval=1.1)
    alike, each = drone.wrench(speed[:, :4], strength), by_rotor(drone).wrench(speed, strength)
    for one, other in zip(alike, each, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("count", "tilt"), [(4, 0.0), (6, 0.0), (8, 0.0), (6, 0.3), (8, -0.2), (4, 0.2)])
def test_at_hover_rotors_carry_the_weight_and_nothing_turns(count: int, tilt: float) -> None:
    drone = Multirotor.of(ring(count, tilt), FILE)
    speed = speed_for_thrust(drone, jnp.asarray(drone.hover_thrust))
    force, torque = drone.wrench(speed)
    np.testing.assert_allclose(force, [0, 0, GRAVITY], atol=1e-4)
    np.testing.assert_allclose(torque, 0.0, atol=1e-5)
    np.testing.assert_allclose(drone.hover_fraction, drone.hover_fraction[0], rtol=1e-3)


def test_uneven_rotors_share_the_weight_unevenly() -> None:
    """Twice as strong in front as behind, and the centre of mass nearer to the front."""
    frame = ring(4)
    rotors = tuple(
        dataclasses.replace(
            rotor,
            position=(rotor.position[0] - 0.04, *rotor.position[1:]),
            max_thrust=8.0 if rotor.position[0] > 0 else 4.0,
        )
        for rotor in frame.rotors
    )
    drone = Multirotor.of(dataclasses.replace(frame, rotors=rotors), FILE)
    force, torque = drone.wrench(speed_for_thrust(drone, jnp.asarray(drone.hover_thrust)))
    np.testing.assert_allclose([*force, *torque], [0, 0, GRAVITY, 0, 0, 0], atol=1e-4)
    front = np.array([rotor.max_thrust > 5 for rotor in rotors])
    assert drone.hover_thrust[front].min() > 1.5 * drone.hover_thrust[~front].max()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (ring(3), "its 3 rotors cannot hold it level in the air without yawing"),
        (changed(ring(4), 1, spin=1), "its 4 rotors cannot hold it level in the air without"),
        (changed(ring(4), 0, position=(0.0, -0.2, 0.0)), "its 4 rotors cannot hold it level in the air without"),
        (ring(4, mass=2.0), r"its rotors push with 20 N upwards at most and it weighs 19.6 N"),
        (
            dataclasses.replace(
                ring(4),
                rotors=tuple(
                    dataclasses.replace(r, position=(0.0, r.position[1], 0.0), torque_per_thrust=0.0)
                    for r in ring(4).rotors
                ),
            ),
            "its 4 rotors cannot roll and pitch it",
        ),
    ],
)
def test_what_cannot_hover_is_refused_in_one_line(frame: Airframe, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        Multirotor.of(frame, FILE)
    assert "drone.urdf" in str(caught.value)
    assert "robot.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_allocated_to_the_reference_thrusts_stay_what_they_are() -> None:
    wanted = jax.random.uniform(jax.random.key(2), (64, 4), minval=0.05, maxval=0.1)
    np.testing.assert_allclose(Allocation.of(REFERENCE, REFERENCE).thrusts(wanted), wanted, atol=1e-3 * 0.12)


@pytest.mark.parametrize(("count", "tilt"), [(4, 0.0), (6, 0.0), (6, 0.3), (8, 0.0)])
def test_shared_out_thrusts_accelerate_alike(count: int, tilt: float) -> None:
    drone = Multirotor.of(ring(count, tilt), FILE)
    hover = REFERENCE.hover_thrust
    wanted = hover * (1 + 0.02 * jax.random.normal(jax.random.key(3), (32, 4)))
    thrusts = Allocation.of(drone, REFERENCE).thrusts(wanted)
    force, torque = drone.wrench(speed_for_thrust(drone, thrusts))
    lift, turn = REFERENCE.wrench(speed_for_thrust(REFERENCE, wanted))
    np.testing.assert_allclose(force[:, 2] / drone.mass, lift[:, 2] / REFERENCE.mass, rtol=1e-3)
    np.testing.assert_allclose(
        torque / np.array(drone.inertia), turn / np.array(REFERENCE.inertia), rtol=5e-3, atol=0.05
    )
    if tilt and count >= 6:  # which can choose not to push sideways
        np.testing.assert_allclose(force[:, :2], 0.0, atol=1e-3)


def test_what_one_rotor_lacks_is_taken_from_all() -> None:
    drone = Multirotor.of(ring(6), FILE)
    thrusts = Allocation.of(drone, REFERENCE).thrusts(jnp.array([0.12, 0.12, 0.06, 0.06]))
    assert float(thrusts.max()) <= float(drone.max_thrust.max()) + 1e-5
    assert float(thrusts.min()) >= 0.0
    _, torque = drone.wrench(speed_for_thrust(drone, thrusts))
    assert float(torque[0]) < -0.1


def test_the_level_of_rotors_has_a_number_for_each() -> None:
    drone = Multirotor.of(ring(6), FILE)
    level = LEVELS[Level.ROTORS].of(drone)
    assert level.size == 6
    thrusts, _ = level.control(None, jnp.array([-1.0, 0, 1, 0, 0, 0]), None, drone, 0.01)  # type: ignore[arg-type]
    np.testing.assert_allclose(thrusts[:3], [0, GRAVITY / 6, 20 / 6], rtol=1e-4)
    assert LEVELS[Level.RATES].of(drone) is LEVELS[Level.RATES]
