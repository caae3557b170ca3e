"""Several drones of one world: where they are, where they may begin, and their bodies."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.scenes import compose
from embodied.core.world import World
from embodied.math.rotations import quat_rotate_inverse
from tasks.swarm.dynamics.robots import BODY, DroneRobot

MEMORY, MEMORY_PER_DRONE = 2**22, 2**14  # bytes that MuJoCo works in where nothing is ever in contact
DETAILED = 48  # drones with all their looks; of more, each is drawn as a disc, or pictures take minutes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Drones:
    """The motion of A drones."""

    pos: Array
    """(A, 3) m, world frame."""
    quat: Array
    """(A, 4) wxyz, body -> world."""
    vel: Array
    """(A, 3) m/s, world frame."""
    angvel: Array
    """(A, 3) rad/s, body frame."""

    @classmethod
    def of(cls, world: World) -> Drones:
        """The drones of a world in which nothing else has joints.

        They are read from the joints and not from sensors, of which a thousand drones would have thousands: position
        and orientation of a free joint are the body's, and velocities are in the frames given above.
        """
        joints, speeds = world.qpos.reshape(-1, 7), world.qvel.reshape(-1, 6)
        return cls(joints[:, :3], joints[:, 3:], speeds[:, :3], speeds[:, 3:])

    @property
    def qpos(self) -> Array:
        """(7 A,) as the engine takes it."""
        return jnp.concatenate([self.pos, self.quat], 1).reshape(-1)

    @property
    def qvel(self) -> Array:
        """(6 A,) as the engine takes it."""
        return jnp.concatenate([self.vel, self.angvel], 1).reshape(-1)

    @property
    def up(self) -> Array:
        """(A, 3) body z axes, world frame."""
        w, x, y, z = jnp.moveaxis(self.quat, -1, 0)
        return jnp.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x**2 + y**2)], -1)

    def in_body(self, vector_w: Array) -> Array:
        """(A, 3) world vectors, one for each drone, in the drones' frames."""
        return jax.vmap(quat_rotate_inverse)(self.quat, vector_w)


def still(pos: Array, heading: Array | None = None) -> Drones:
    """Upright drones at rest at (A, 3) m, with (A,) headings in rad."""
    count = len(pos)
    half = jnp.zeros(count) if heading is None else heading / 2
    zero = jnp.zeros(count)
    quat = jnp.stack([jnp.cos(half), zero, zero, jnp.sin(half)], -1)
    return Drones(pos, quat, jnp.zeros((count, 3)), jnp.zeros((count, 3)))


@dataclasses.dataclass(frozen=True)
class Box:
    """A box in the air."""

    low: tuple[float, float, float]
    """m."""
    high: tuple[float, float, float]
    """m."""

    def __post_init__(self) -> None:
        if not all(low <= high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"box from {self.low} to {self.high} m: expected low <= high")

    def contains(self, pos: Array) -> Array:
        """(...) bool, whether (..., 3) m lies inside."""
        return jnp.all((pos >= jnp.asarray(self.low)) & (pos <= jnp.asarray(self.high)), -1)


def places(box: Box, count: int, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Centres (cells, 3) m and free play (3,) m of the cells of a grid in a box, at least `count` of them.

    Points in different cells, each at most the free play from its cell's centre, are at least `spacing` apart.

    Raises:
        ValueError: the box has no room for so many.
    """
    size = np.subtract(box.high, box.low)
    most = np.floor(size / spacing).astype(int) + 1
    if math.prod(most) < count:
        raise ValueError(
            f"{count} drones at least {spacing:g} m apart do not fit between {box.low} and {box.high} m: at most "
            f"{math.prod(most)} do"
        )
    counts = np.ones(3, int)
    while math.prod(counts) < count:
        # Cut where cells are longest, of the axes that can still be cut.
        counts[np.argmax(np.where(counts < most, (size + spacing) / counts, -1.0))] += 1
    # Cells of pitch p leave spacing between them if points stray (p - spacing) / 2 from the centres; the outermost
    # centres lie as far from the box's faces: (n - 1) p + (p - spacing) = size.
    pitch = (size + spacing) / counts
    play = (pitch - spacing) / 2
    axes = [box.low[i] + play[i] + pitch[i] * np.arange(counts[i]) for i in range(3)]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    return centres.astype(np.float32), play.astype(np.float32)


def scatter(key: Array, grid: tuple[np.ndarray, np.ndarray], count: int) -> Array:
    """(count, 3) m random places, far enough apart; `grid` is what `places` gave."""
    centres, play = grid
    choose, shift = jax.random.split(key)
    cells = jax.random.permutation(choose, len(centres))[:count]
    return jnp.asarray(centres)[cells] + jnp.asarray(play) * jax.random.uniform(shift, (count, 3), minval=-1.0)


def drones_spec(robot: DroneRobot, count: int, contacts: bool) -> mujoco.MjSpec:
    """`count` drones over a floor, as bodies `cf0_cf`, `cf1_cf` ..., without sensors.

    Args:
        robot: What each of them is.
        count: Number of drones.
        contacts: Whether they push each other and the floor on engines that know contact.
    """
    spec = compose("scenes/floor.xml")
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    if not contacts:
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        # MuJoCo would reserve room for contacts between all pairs: 6 GB for 2,000 drones.
        spec.memory = MEMORY + MEMORY_PER_DRONE * count
    part = _part(robot)
    for number in range(count):
        if count <= DETAILED:
            body = spec.worldbody.add_frame().attach_body(part.copy().body(BODY), f"cf{number}_", "")
        else:
            body = _plain(spec, number, robot.radius)
        body.mass, body.inertia, body.explicitinertial = robot.drone.mass, robot.drone.inertia, True
        # A sphere meets a sphere at one point; the boxes of the model would meet at eight.
        body.add_geom(
            name=f"cf{number}_reach", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[robot.radius, 0, 0], mass=0.0, group=3,
            contype=2, conaffinity=3, condim=1,
        )  # fmt: skip
    return spec


def _part(robot: DroneRobot) -> mujoco.MjSpec:
    """The robot without its sensors, and without shapes that collide."""
    part = mujoco.MjSpec.from_string(robot.xml)
    for unused in (*part.sensors, *(geom for geom in part.geoms if geom.contype or geom.conaffinity)):
        part.delete(unused)
    return part


def _plain(spec: mujoco.MjSpec, number: int, radius: float) -> mujoco.MjsBody:
    """A disc as wide as the drone."""
    body = spec.worldbody.add_body(name=f"cf{number}_cf")
    body.add_freejoint(name=f"cf{number}_root")
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_ELLIPSOID, size=[radius, radius, 0.015], rgba=[0.15, 0.3, 0.7, 1], mass=0.0,
        group=2, contype=0, conaffinity=0,
    )  # fmt: skip
    return body


def length(vector: Array) -> Array:
    """(...) Euclidean length of (..., 3); its derivative at zero is finite."""
    return jnp.sqrt(jnp.sum(vector**2, -1) + 1e-12)
