"""Flight physics of the drones of one world, at every physics step: controllers, rotors, battery, air."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.errors import UnknownNameError
from tasks.swarm.control.levels import LevelSpec
from tasks.swarm.dynamics import aerodynamics
from tasks.swarm.dynamics.aerodynamics import Battery, Effect, Wind
from tasks.swarm.dynamics.drones import Drones
from tasks.swarm.dynamics.multirotor import Multirotor, rotor_lag, speed_for_thrust, world_wrench
from tasks.swarm.dynamics.neighbours import columns

BLOWERS = 8  # drones above one that are looked at, those that blow hardest
DENSE = 64  # drones up to which every pair is tried for downwash; with more, lists of those in a column are cheaper


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Flight:
    """State of flight between physics steps."""

    rotor_speed: Array
    """(A, rotors) in the drone's `speed_unit`."""
    control: Any
    """The controllers' state."""
    strength: Array
    """(A,) factor on each drone's thrust in this episode."""
    gust: Array
    """(A, 3) m/s, the air's motion beyond the mean wind; no entries without the effect `wind`."""
    used: Array
    """(A,) A s drawn from each battery; no entries without the effect `battery`."""
    above: Array
    """(A, k) int32 drones that may blow on each; A where there is none. No entries where all pairs are tried."""


@dataclasses.dataclass(frozen=True)
class Physics:
    """Flight physics of the drones of one world."""

    drone: Multirotor
    level: LevelSpec
    """Command level of setpoints."""
    effects: frozenset[Effect]
    agents: int
    dt: float
    """s per physics step."""
    control_dt: float
    """s per control step."""
    wind: Wind = dataclasses.field(default_factory=Wind)
    battery: Battery = dataclasses.field(default_factory=Battery)

    @property
    def lists(self) -> bool:
        """Whether downwash is found by lists of neighbours."""
        return Effect.DOWNWASH in self.effects and self.agents > DENSE

    def start(self, drones: Drones, key: Array, strength: Array | float = 1.0) -> Flight:
        """Rotors at hover, controllers at rest, batteries full, the air as found at a random time.

        Args:
            drones: Their starts.
            key: For the air.
            strength: (A,) factor on each drone's thrust in this episode.
        """
        hover = jnp.full((self.agents, self.drone.count), self.drone.hover_thrust)
        gusts = Effect.WIND in self.effects
        return Flight(
            rotor_speed=speed_for_thrust(self.drone, hover),
            control=self.level.start(drones),
            strength=jnp.broadcast_to(jnp.asarray(strength, jnp.float32), (self.agents,)),
            gust=aerodynamics.gust_start(self.wind, key, drones.pos[:, 2]) if gusts else jnp.zeros((0, 3)),
            used=jnp.zeros(self.agents if Effect.BATTERY in self.effects else 0),
            above=self._above(drones),
        )

    def prepare(self, drones: Drones, flight: Flight, key: Array) -> Flight:
        """Renew, once per control step, what changes slowly: gusts, and the drones that may blow on each other."""
        if len(flight.gust):
            gust = aerodynamics.gust(self.wind, flight.gust, key, drones.pos[:, 2], self.control_dt)
            flight = dataclasses.replace(flight, gust=gust)
        return dataclasses.replace(flight, above=self._above(drones))

    def _above(self, drones: Drones) -> Array:
        if not self.lists:
            return jnp.zeros((self.agents, 0), jnp.int32)
        return columns(drones.pos, BLOWERS).index

    def wrench(self, drones: Drones, flight: Flight, setpoint: Any) -> tuple[Array, Flight]:
        """Force and torque (1 + A, 6) on the world and every drone, world frame, N and N m."""
        drone = self.drone
        wanted, control = self.level.control(flight.control, setpoint, drones, drone, self.dt)
        command = speed_for_thrust(drone, wanted)
        speed = rotor_lag(drone, flight.rotor_speed, command, self.dt)
        flight = dataclasses.replace(flight, rotor_speed=speed, control=control)
        strength, flight = self._strength(drones, flight)
        force_b, torque_b = drone.wrench(speed, strength)
        if Effect.DRAG in self.effects:
            air = jnp.asarray(self.wind.velocity) + flight.gust if len(flight.gust) else jnp.zeros(3)
            force_b += aerodynamics.drag(drone, drones.quat, drones.vel - air, speed)
        wrench = world_wrench(drones.quat, force_b, torque_b)
        if Effect.DOWNWASH in self.effects:
            wrench = wrench.at[:, 2].add(-self._wash(drones, flight))
        return jnp.concatenate([jnp.zeros((1, 6)), wrench]), flight

    def _strength(self, drones: Drones, flight: Flight) -> tuple[Array, Flight]:
        """(A,) factor on the rotors' thrust: near the floor, and as the battery sags."""
        strength = flight.strength
        if Effect.GROUND in self.effects:
            strength += aerodynamics.ground_effect(strength[:, None], drones.pos[:, 2], drones.up[:, 2])[:, 0]
        if Effect.BATTERY in self.effects:
            curve = self.drone.thrust
            drawn = jnp.sum(curve[0] * flight.rotor_speed + curve[1] * flight.rotor_speed**2, -1)
            used = aerodynamics.battery_update(self.battery, flight.used, drawn, self.dt)
            strength *= aerodynamics.battery_strength(self.battery, self.drone, used, drawn)
            flight = dataclasses.replace(flight, used=used)
        return strength, flight

    def _wash(self, drones: Drones, flight: Flight) -> Array:
        """(A,) N, downward."""
        if not self.lists:
            return aerodynamics.downwash(drones.pos)
        return aerodynamics.downwash_from(drones.pos, flight.above, flight.above < self.agents)


def known_effects(effects: Iterable[str]) -> frozenset[Effect]:
    names = set(effects)
    if unknown := names - set(Effect):
        raise UnknownNameError("effect", sorted(unknown)[0], list(Effect))
    return frozenset(map(Effect, names))
