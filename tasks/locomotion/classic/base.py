"""Base of the five classic bodies: Gymnasium v5's step as a task.

Each of them drives a body along +x. Facts and constants are those of Gymnasium 1.x's `...-v5` environments (Farama
Foundation, MIT); a test steps those environments beside these and compares observations, rewards and terminations.

Three things differ on purpose. Actions are in [-1, 1] here and are scaled to the motors' range (in Gymnasium the
action is the control: the same but for Humanoid, whose controls go to 0.4). Worlds are float32, so a speed, the
difference of two positions over a control step, is known to about 1e-7 |x| / dt. And success, which Gymnasium does not
know, is defined.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.hooks import UNCHANGED, Changes, Timing
from embodied.core.randomization import Distribution, Range, Term
from embodied.core.scenes import compose
from embodied.core.task import Task
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import squared_norm
from embodied.storage.bounds import NOT_NEGATIVE, Bounded, at_least

EPISODE_STEPS = 1000  # control steps until Gymnasium's time limit truncates
ARENA = 4 * 2**20  # bytes for the contacts and constraints of one environment, of which MuJoCo would reserve 15 MB
VIEW_CENTRE, VIEW_RADIUS = (0.0, 0.0, 0.7), 1.1  # m, what a camera that stands still looks at


@dataclasses.dataclass(frozen=True)
class Floor:
    """The floor's part in a contact; MuJoCo joins it with the body's (largest friction, sum of margins ...)."""

    friction: tuple[float, float, float] = (1.0, 0.005, 0.0001)
    """Sliding (no unit), torsional and rolling (m)."""
    margin: float = 0.0
    """m, distance at which a contact begins."""
    solimp: tuple[float, float, float, float, float] = (0.9, 0.95, 0.001, 0.5, 2.0)
    """Impedance of a contact, as MuJoCo's `solimp`."""


@dataclasses.dataclass(frozen=True)
class ClassicConfig(Bounded):
    """Options that every classic body has."""

    frame_skip: Annotated[int, at_least(1)] = 5
    """Physics steps per control step."""
    reset_noise_scale: Annotated[float, NOT_NEGATIVE] = 0.1
    """Size of the noise on positions and velocities at the start."""
    exclude_current_positions_from_observation: bool = True
    """Whether the policy is kept from seeing where on the floor it is."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of one classic episode."""

    origin: Array
    """() m, x of the root at the start."""
    before: Array
    """(k,) m, x of the points whose speed counts, before the physics of this control step."""


class Classic(Task[TaskState], abc.ABC):
    """A body that is to move along +x as fast as it can."""

    config: Any
    asset: ClassVar[str]
    """MJCF file below `assets/`."""
    floor: ClassVar[Floor]
    """Floor that it stands on."""
    physics_dt: ClassVar[float]
    """s."""
    integrator: ClassVar[mujoco.mjtIntegrator] = mujoco.mjtIntegrator.mjINT_RK4
    planar: ClassVar[bool] = False
    """Whether it lives in the plane of x and z: then one root position is hidden from the policy, else two."""
    gaussian_velocity: ClassVar[bool] = False
    """Whether the noise on starting velocities is normal; else it is uniform, as that on positions always is."""
    fast: ClassVar[float]
    """m/s, mean forward speed above which an episode to the end counts as solved."""

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        step = self.config.frame_skip * self.physics_dt
        self.timing = Timing(self.physics_dt, self.config.frame_skip, EPISODE_STEPS * step)
        self.strength = np.asarray(self.model.actuator_ctrlrange[:, 1], np.float32)
        self.points = self.followed(self.model)

    def build_spec(self) -> mujoco.MjSpec:
        """The body on its floor, with user sensors for the fields of MjData it is observed by."""
        spec = compose("scenes/floor.xml", self.asset)
        spec.option.integrator = self.integrator
        spec.memory = ARENA
        spec.stat.center, spec.stat.extent = VIEW_CENTRE, VIEW_RADIUS
        ground = spec.geom("floor")
        ground.priority = 0
        ground.friction, ground.margin, ground.solimp = self.floor.friction, self.floor.margin, self.floor.solimp
        for field, size in self.fields(len(spec.bodies)).items():
            spec.add_sensor(name=field, type=mujoco.mjtSensor.mjSENS_USER, dim=size)
        return spec

    def fields(self, bodies: int) -> Mapping[str, int]:
        """MjData field -> its size, for a model of that many bodies: read as sensors, see `embodied.engines.base`."""
        del bodies
        return {}

    def followed(self, model: mujoco.MjModel) -> np.ndarray:
        """(k,) shares, summing to one, of the points whose mean speed counts as the body's."""
        del model
        return np.ones(1, np.float32)

    def place(self, world: World) -> Array:
        """(k,) m, x of those points; here of the root."""
        return world.qpos[:1]

    def declared_terms(self) -> tuple[Term, ...]:
        scale = self.config.reset_noise_scale
        drawn = Distribution.NORMAL if self.gaussian_velocity else Distribution.UNIFORM
        ranges = (
            Range.spread("each number of qpos, from the reference pose", scale, "m or rad"),
            Range.spread("each number of qvel", scale, "m/s or rad/s", drawn),
        )
        return (Term("start", "pose and velocity at the start", optional=False, ranges=ranges),)

    def reset(self, key: Array) -> ResetState[TaskState]:
        """The reference pose with noise; quaternions are left as long as the noise makes them, as in Gymnasium."""
        model, scale = self.model, self.config.reset_noise_scale
        position, velocity = jax.random.split(key)
        draw = jax.random.normal if self.gaussian_velocity else uniform
        qpos = jnp.asarray(model.qpos0, jnp.float32) + scale * uniform(position, (model.nq,))
        state = TaskState(origin=qpos[0], before=jnp.zeros(len(self.points)))
        return ResetState(qpos, scale * draw(velocity, (model.nv,)), state)

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Controls (nu,): the action in the motors' range. Notes where the body is before it moves."""
        del key
        return jnp.asarray(self.strength) * action, dataclasses.replace(state, before=self.place(world))

    def forward_speed(self, world: World, state: TaskState) -> Array:
        """() m/s along +x over the last control step."""
        # Subtracted before it is averaged: far from the origin float32 keeps more digits so.
        return jnp.sum(self.points * (self.place(world) - state.before)) / self.timing.control_dt

    def distance(self, world: World, state: TaskState) -> Array:
        return world.qpos[0] - state.origin

    @abc.abstractmethod
    def healthy(self, world: World) -> Array:
        """() bool, whether the body is in a state worth going on from."""

    def common_rewards(self, world: World, state: TaskState, action: Array) -> dict[str, Array]:
        """`forward`: m/s; `ctrl`: squared controls."""
        return {"forward": self.forward_speed(world, state), "ctrl": squared_norm(jnp.asarray(self.strength) * action)}

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success: healthy, and so far faster than `fast` on average. Failure: unhealthy, where that ends it."""
        healthy = self.healthy(world)
        mean_speed = self.distance(world, state) / jnp.maximum(world.time, self.timing.control_dt)
        ends = getattr(self.config, "terminate_when_unhealthy", False)
        return Outcome(success=healthy & (mean_speed > self.fast), failure=~healthy & ends)

    metric_units: Mapping[str, str] = {"forward_speed": "m/s", "distance": "m"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Speed along +x in m/s, and the distance from the start in m."""
        return {"forward_speed": self.forward_speed(world, state), "distance": self.distance(world, state)}

    def positions(self, world: World) -> Array:
        """The part of qpos that the policy sees: m, rad, the root's quaternion wxyz."""
        hidden = (1 if self.planar else 2) if self.config.exclude_current_positions_from_observation else 0
        return world.qpos[hidden:]


def uniform(key: Array, shape: tuple[int, ...]) -> Array:
    """Uniform in [-1, 1)."""
    return jax.random.uniform(key, shape, minval=-1.0)


def within(value: Array, bounds: tuple[float, float]) -> Array:
    """() bool, whether every entry lies strictly between the bounds."""
    return jnp.all((bounds[0] < value) & (value < bounds[1]))
