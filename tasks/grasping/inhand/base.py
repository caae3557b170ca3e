"""Base of the tasks with a cube in a hand: the scene, its variations, readings, loss of the cube.

The set-up is that of MuJoCo Playground's LEAP tasks (20 Hz control, a hollow plastic cube of 7 cm), for any hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.hooks import UNCHANGED, Changes
from embodied.core.randomization import Distribution, Range, Term
from embodied.core.task import Task
from embodied.core.world import Control, World
from embodied.math.rotations import quat_normalize
from embodied.storage.bounds import POSITIVE, Bounded
from tasks.grasping.hands.hand import Hand, poses, set_physics, spec_of
from tasks.grasping.objects.model import add_frame_sensors

M = TypeVar("M")
Readings = dict[str, Array]

EDGE = 0.07  # m, Playground's cube
MASS = 0.068  # kg, the same: hollow, of thin plastic
HEIGHT = 0.3  # m, of the palm above the floor
ABOVE = 0.055  # m, of the cube's centre above the palm at the start: it falls 1 to 2 cm, whichever way it is turned
LOOSE = 0.1  # rad, standard deviation of the fingers' start (Playground)
SPREAD = 0.01  # m, by which the cube's start varies along each axis
VIEW_RADIUS = 0.25  # m, what pictures show around the cube
LOST = -0.05  # m, height of the cube's centre over the palm below which it was dropped
CONTROL_HZ = 20
PHYSICS_DT = 0.01
"""s per physics step (Playground): half as many as where something is held fast, at 2.5 times the speed."""
FACES = (
    (0.85, 0.33, 0.22),
    (0.95, 0.6, 0.2),
    (0.3, 0.65, 0.45),
    (0.95, 0.9, 0.85),
    (0.25, 0.45, 0.8),
    (0.95, 0.82, 0.25),
)
"""Colours of the cube's faces, towards +x, -x, +y, -y, +z, -z."""


@dataclasses.dataclass(frozen=True)
class Noise:
    """Observation noise (Playground's LEAP hand)."""

    joint_pos: float = 0.05
    """rad, half-width, uniform."""
    cube_pos: float = 0.02
    """m, half-width, uniform."""
    cube_quat: float = 0.1
    """Standard deviation of each part of the cube's quaternion."""


@dataclasses.dataclass(frozen=True)
class Variation:
    """Ranges, smallest and largest, from which every episode draws (Playground's LEAP hand)."""

    friction: tuple[float, float] = (0.5, 1.0)
    """Sliding friction of the cube on the fingers."""
    cube_mass: tuple[float, float] = (0.8, 1.2)
    """Factor on the cube's mass and inertia."""
    cube_centre: tuple[float, float] = (-0.005, 0.005)
    """m by which the cube's centre of mass is shifted along each axis."""
    link_mass: tuple[float, float] = (0.9, 1.1)
    """Factor on the mass and inertia of each of the hand's links."""
    joint_friction: tuple[float, float] = (0.5, 2.0)
    """Factor on each joint's friction torque."""
    armature: tuple[float, float] = (1.0, 1.05)
    """Factor on each motor's reflected inertia."""
    motor_strength: tuple[float, float] = (0.8, 1.2)
    """Factor on each servo's stiffness and damping."""

    def __post_init__(self) -> None:
        randomization.require_ranges("vary", dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class InHandConfig(Bounded):
    """Options that all such tasks have."""

    action_scale: Annotated[float, POSITIVE]
    """rad that an action of 1 stands for."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """Ranges that every episode draws from."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""


class InHand(Task[M], Generic[M]):
    """A hand whose palm points up, and a cube in it."""

    hand: ClassVar[Hand]
    palm: ClassVar[np.ndarray] = np.array([0.0, 0.0, HEIGHT], np.float32)
    """(3,) m, world frame."""
    once: ClassVar[tuple[str, ...]] = ()
    """Reward terms that are not paid by the second."""
    config: Any

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        self.layout = self.hand.layout(self.model)
        self.action_size = len(self.hand.actuator_names)
        self.home = poses(self.hand).home
        joint = self.model.body("cube").jntadr[0]
        self.cube_qpos = int(self.model.jnt_qposadr[joint])
        self.varied = frozenset(term.name for term in self.terms)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Term -> weight per control step; the config gives all but `once` per second."""
        weights = dataclasses.asdict(self.config.weights)
        return {name: w if name in self.once else self.timing.control_dt * w for name, w in weights.items()}

    def build_spec(self) -> mujoco.MjSpec:
        spec = spec_of(self.hand, self.palm, scene="scenes/floor.xml")
        set_physics(spec, PHYSICS_DT)
        add_cube(spec, (0.0, 0.0, HEIGHT + ABOVE))
        spec.worldbody.add_camera(
            name="view", pos=(0.3, -0.25, HEIGHT + 0.3), fovy=35,
            mode=mujoco.mjtCamLight.mjCAMLIGHT_TARGETBODY, targetbody="cube",
        )  # fmt: skip
        # If no camera is requested, pictures look at the cube from the side on which no finger hides it.
        spec.stat.center, spec.stat.extent = (*self.palm[:2], HEIGHT + ABOVE), VIEW_RADIUS
        spec.visual.global_.azimuth, spec.visual.global_.elevation = 105, -42  # degrees
        add_frame_sensors(spec, "cube", mujoco.mjtObj.mjOBJ_XBODY)
        for joint in self.hand.joint_names:
            spec.add_sensor(name=f"{joint}_torque", type=mujoco.mjtSensor.mjSENS_JOINTACTFRC,
                            objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=joint)  # fmt: skip
        return spec

    def declared_terms(self) -> tuple[Term, ...]:
        model, layout = self.model, self.layout
        vary: Variation = self.config.vary
        noise: Noise = self.config.noise
        cube, geom = model.body("cube").id, model.geom("cube").id
        links = [body for body in range(1, model.nbody) if body != cube and model.body_mass[body] > 0]
        standard = float(model.geom_friction[geom, 0])
        friction = (vary.friction[0] / standard, vary.friction[1] / standard)
        joints = list(layout.qvel)
        return (
            randomization.scale("friction", "geom_friction", *friction, [geom], shared=True),
            randomization.scale_bodies("cube_mass", *vary.cube_mass, [cube]),
            randomization.offset("cube_centre", "body_ipos", *vary.cube_centre, [cube]),
            randomization.scale_bodies("link_mass", *vary.link_mass, links),
            randomization.scale("joint_friction", "dof_frictionloss", *vary.joint_friction, joints),
            randomization.scale("armature", "dof_armature", *vary.armature, joints),
            randomization.scale_servos("motor_strength", *vary.motor_strength, list(layout.actuators)),
            Term(
                "start", "the fingers' joints about home, within their limits, and the cube about its place",
                ranges=(
                    Range.spread("joint", LOOSE, "rad", Distribution.NORMAL),
                    Range.spread("shift of the cube along each axis", SPREAD, "m"),
                ),
            ),
            Term(
                "observation_noise", "noise on readings, new at every step",
                ranges=(
                    Range.spread("joint_pos", noise.joint_pos, "rad"),
                    Range.spread("cube_pos", noise.cube_pos, "m"),
                    Range.spread("cube_quat", noise.cube_quat, "1", Distribution.NORMAL),
                ),
            ),
        )  # fmt: skip

    def initial_joint_state(self, key: Array, quat: Array) -> tuple[Array, Array]:
        """qpos (nq,) and qvel (nv,): fingers about home, the cube turned by `quat` (4,) wxyz over the palm."""
        fingers, place = jax.random.split(key)
        varied = "start" in self.varied
        joints = self.home.joints + LOOSE * varied * jax.random.normal(fingers, self.home.joints.shape)
        joints = jnp.clip(joints, self.layout.limits[:, 0], self.layout.limits[:, 1])
        shift = varied * jax.random.uniform(place, (3,), minval=-SPREAD, maxval=SPREAD)
        pos = self.palm + jnp.array([0.0, 0.0, ABOVE]) + shift
        qpos = jnp.zeros(self.model.nq).at[self.layout.qpos].set(joints)
        qpos = qpos.at[self.cube_qpos : self.cube_qpos + 7].set(jnp.concatenate([pos, quat]))
        return qpos, jnp.zeros(self.model.nv)

    def apply_action(self, world: World, state: M, command: Array) -> tuple[Control, M]:
        """Servo targets (m,) rad, kept in their ranges."""
        del world
        low, high = self.layout.targets.T
        ctrl = jnp.zeros(self.model.nu).at[self.layout.actuators].set(jnp.clip(command, low, high))
        return Control(ctrl=ctrl), state

    def sense(self, world: World, key: Array) -> tuple[Readings, Readings]:
        """Joints (n) rad, the cube's place (3) m from the palm and its quaternion (4) wxyz, without and with noise."""
        clean = {
            "joint_pos": world.qpos[self.layout.qpos],
            "cube_pos": world["cube_pos"] - self.palm,
            "cube_quat": world["cube_quat"],
        }
        noise, on = self.config.noise, "observation_noise" in self.varied
        joints, place, turn = jax.random.split(key, 3)
        drawn = {
            "joint_pos": noise.joint_pos * jax.random.uniform(joints, clean["joint_pos"].shape, minval=-1.0),
            "cube_pos": noise.cube_pos * jax.random.uniform(place, (3,), minval=-1.0),
            "cube_quat": noise.cube_quat * jax.random.normal(turn, (4,)),
        }
        noisy = {name: value + on * drawn[name] for name, value in clean.items()}
        return clean, {**noisy, "cube_quat": quat_normalize(noisy["cube_quat"])}

    def privileged(self, world: World, clean: Readings) -> Readings:
        """Readings that only the critic sees, without noise.

        Joints (n) rad and rad/s, fingertips (3 each) m from the palm, touch (1 each) log of 1 + N, the cube's place (3)
        m from the palm, velocity (3) m/s and turning (3) rad/s in the world.
        """
        fingers = self.hand.fingers
        return {
            "clean_joint_pos": clean["joint_pos"],
            "joint_vel": world.qvel[self.layout.qvel],
            "tips": jnp.concatenate([world[f"{finger}_tip_pos"] - self.palm for finger in fingers]),
            "touch": jnp.log1p(jnp.concatenate([world[f"{finger}_touch"] for finger in fingers])),
            "clean_cube_pos": clean["cube_pos"],
            "cube_linvel": world["cube_linvel"],
            "cube_angvel": world["cube_angvel"],
        }

    def power(self, world: World) -> Array:
        """() W, of the motors together, without regard to sign."""
        torque = jnp.concatenate([world[f"{joint}_torque"] for joint in self.hand.joint_names])
        return jnp.sum(jnp.abs(torque * world.qvel[self.layout.qvel]))

    def lost(self, world: World) -> Array:
        return world["cube_pos"][2] - HEIGHT < LOST


def add_cube(spec: mujoco.MjSpec, pos: tuple[float, float, float]) -> None:
    """The body `cube`, free, with six faces of six colours."""
    cube = spec.worldbody.add_body(name="cube", pos=pos)
    cube.add_freejoint(name="cube")
    # All mass of a hollow cube lies in its walls: I = 5/18 m a^2.
    cube.mass, cube.inertia, cube.ipos = MASS, [5 / 18 * MASS * EDGE**2] * 3, np.zeros(3)
    cube.explicitinertial = True
    # Its centre of mass will be shifted, which a body that is compiled as simple does not bear.
    cube.simple = False
    # Its friction decides over the fingers' (priority), so that randomising it has its full effect.
    cube.add_geom(
        name="cube", type=mujoco.mjtGeom.mjGEOM_BOX, size=[EDGE / 2] * 3, friction=[0.7, 0.005, 1e-4], priority=2,
        rgba=[0.2, 0.2, 0.22, 1.0],
    )  # fmt: skip
    for face, colour in enumerate(FACES):
        axis, side = face // 2, 1 - 2 * (face % 2)
        size, place = np.full(3, 0.43 * EDGE), np.zeros(3)
        size[axis], place[axis] = 0.01 * EDGE, side * 0.495 * EDGE
        cube.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX, size=size, pos=place, rgba=(*colour, 1.0), contype=0, conaffinity=0,
            group=2, mass=0,
        )  # fmt: skip
