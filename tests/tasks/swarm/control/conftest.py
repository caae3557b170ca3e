"""A few drones in free flight, for tests that close the loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from embodied.math.rotations import quat_integrate
from embodied.robot.rotors import GRAVITY
from tasks.swarm.dynamics import multirotor
from tasks.swarm.dynamics.multirotor import Multirotor

Controller = Callable[[Any, "Body", float], tuple[Array, Any]]
"""State, motion, s since the last time -> thrusts (A, 4) N, next state."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Body:
    """The motion of A drones; meets `tasks.swarm.control.Motion`."""

    pos: Array
    quat: Array
    vel: Array
    angvel: Array
    rotor_speed: Array


def fly(drone: Multirotor, control: Controller, state: Any, body: Body, seconds: float, rate: float) -> Body:
    """The path, with a leading axis of time, under drag and rotor lag; semi-implicit Euler as on engine `rigid`."""
    dt = 1 / rate
    inertia = np.asarray(drone.inertia, np.float32)

    def step(carry: tuple[Any, Body], _: None) -> tuple[tuple[Any, Body], Body]:
        state, body = carry
        thrusts, state = control(state, body, dt)
        speed = multirotor.rotor_lag(drone, body.rotor_speed, multirotor.speed_for_thrust(drone, thrusts), dt)
        thrust, torque = drone.wrench(speed)
        force_b = multirotor.body_drag(drone, body.quat, body.vel) + thrust
        force = multirotor.rotate(body.quat, force_b)
        vel = body.vel + dt * (force / drone.mass - jnp.array([0.0, 0.0, GRAVITY]))
        gyroscopic = jnp.cross(body.angvel, inertia * body.angvel)
        angvel = body.angvel + dt * (torque - gyroscopic) / inertia
        quat = jax.vmap(quat_integrate, (0, 0, None))(body.quat, angvel, dt)
        body = Body(body.pos + dt * vel, quat, vel, angvel, speed)
        return (state, body), body

    return jax.jit(lambda c: jax.lax.scan(step, c, None, length=round(seconds * rate))[1])((state, body))


def resting(drone: Multirotor, count: int) -> Body:
    """`count` upright drones at the origin, rotors at hover."""
    zero = jnp.zeros((count, 3))
    hover = multirotor.speed_for_thrust(drone, jnp.full((count, 4), drone.mass * GRAVITY / 4))
    return Body(zero, jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (count, 1)), zero, zero, hover)


@pytest.fixture(name="fly")
def _fly() -> Callable[..., Body]:
    return fly


@pytest.fixture(name="resting")
def _resting() -> Callable[[Multirotor, int], Body]:
    return resting
