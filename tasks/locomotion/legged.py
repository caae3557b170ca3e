"""Base of the legged robots' tasks: the model, variations between episodes, and readings of feet and trunk."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import TermDescription
from embodied.core.hooks import UNCHANGED, Changes
from embodied.core.randomization import Term
from embodied.core.scenes import compose_text
from embodied.core.task import Task
from embodied.core.world import Control, World
from embodied.errors import ModelError
from embodied.math.rewards import limit_violation, squared_norm
from embodied.math.rotations import quat_rotate_inverse
from embodied.math.symmetry import PSEUDOVECTOR, VECTOR, Mirror, Reflection, unchanged
from embodied.parts.latency import Latency, delayed
from embodied.parts.sensing import EncoderBias, ObservationNoise
from embodied.robot.option import RobotPath, keep_absolute
from embodied.robot.prepared.legged import legged_of
from embodied.storage.bounds import POSITIVE, Bounded
from tasks.locomotion.ground import FLOOR, Flat, Rough
from tasks.locomotion.robots import GO1, Layout, Size, action_reach, reflections

M = TypeVar("M")
Readings = dict[str, Array]

SENSED: Mapping[str, TermDescription] = {
    "linvel": TermDescription("m/s", "velocity of the trunk where its IMU sits, in the trunk's frame", "linvel"),
    "gyro": TermDescription("rad/s", "angular velocity of the trunk, in its frame", "gyro"),
    "gravity": TermDescription("1", "direction of gravity in the trunk's frame; (0, 0, -1) when level", "orientation"),
    "joint_pos": TermDescription("rad", "joint angles minus those of the home pose", "joint_pos"),
    "joint_vel": TermDescription("rad/s", "joint velocities", "joint_vel"),
}
"""Terms that `LeggedTask.sense` gives."""
EFFORTS = ("torques", "energy")
"""Terms of the reward that grow with the robot's weight and height."""
IN_CONTACT = 1.0  # N, smallest force that counts as a foot on the floor


@dataclasses.dataclass(frozen=True)
class Noise:
    """Half-widths of the uniform observation noise (MuJoCo Playground's Go1)."""

    joint_pos: float = 0.03
    """rad."""
    joint_vel: float = 1.5
    """rad/s."""
    gyro: float = 0.2
    """rad/s."""
    gravity: float = 0.05
    """of a unit vector."""
    linvel: float = 0.1
    """m/s."""


@dataclasses.dataclass(frozen=True)
class Variation:
    """Ranges, smallest and largest, from which every episode draws (MuJoCo Playground's Go1 where it has them)."""

    floor_friction: tuple[float, float] = (0.4, 1.0)
    """Sliding friction of the ground."""
    link_mass: tuple[float, float] = (0.9, 1.1)
    """Factor on each body's mass and inertia."""
    payload: tuple[float, float] = (-1.0, 1.0)
    """kg added to the trunk."""
    centre_of_mass: tuple[float, float] = (-0.05, 0.05)
    """m by which the trunk's centre of mass is shifted along each axis."""
    joint_friction: tuple[float, float] = (0.9, 1.1)
    """Factor on each joint's friction torque."""
    armature: tuple[float, float] = (1.0, 1.05)
    """Factor on each motor's reflected inertia."""
    motor_strength: tuple[float, float] = (0.9, 1.1)
    """Factor on each servo's stiffness and damping."""
    latency: tuple[float, float] = (0.0, 0.015)
    """s that targets take to reach the motors, at most one control step."""
    encoder_bias: tuple[float, float] = (-0.02, 0.02)
    """rad, each joint encoder's constant error."""

    def __post_init__(self) -> None:
        randomization.require_ranges("vary", dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class LeggedConfig(Bounded):
    """Options that every task of a legged robot has."""

    robot: RobotPath = "go1"
    """MJCF or URDF file of a legged robot (see docs/your_robot.md), or a name: go1, go2, g1."""
    scaled: bool = True
    """Whether settings that were chosen for another robot go with the robot's height and weight."""
    action_scale: Annotated[float, POSITIVE] = 0.5
    """rad that an action of 1 moves a joint's target; of joints with a `reach`, times that."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """Ranges that every episode draws from."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_absolute(self)


class LeggedTask(Task[M], Generic[M]):
    """A legged robot on its ground.

    With `config.scaled`, weights of torque and power go with one over the robot's weight times height.
    """

    ground: Flat | Rough = Flat()
    config: Any
    pushed: ClassVar[bool] = True
    """Whether this task pushes the robot."""
    chosen_for: ClassVar[Size] = GO1
    """The robot for which settings were chosen."""
    other: ClassVar[Mapping[bool, str]] = {}
    """Whether a robot has two feet -> the task for it, if it is not this one."""

    def __init__(self, config: LeggedConfig | None = None, changes: Changes = UNCHANGED) -> None:
        """Read the robot's file.

        Raises:
            ModelError: the file cannot be read or is not understood, its servos do not hold the robot up, or another
                task is for its number of feet.
        """
        config = config or self.config_type()
        assert config is not None
        self.robot = robot = legged_of(config.robot)
        if (fitting := self.other.get(robot.is_biped)) is not None:
            names = ", ".join(robot.source.feet)
            raise ModelError(
                f"{robot.source.file} stands on {len(robot.feet)} feet ({names}): {fitting} is for it (key feet)"
            )
        self.size = robot.height / self.chosen_for.height if config.scaled else 1.0
        self.effort_scale = self.chosen_for.effort / robot.effort if config.scaled else 1.0
        super().__init__(config, changes)
        self.layout = Layout.of(robot, self.model)
        self.action_size = len(robot.joint_names)
        self.action_scale = self.config.action_scale * action_reach(robot, self.config.action_scale)
        self.mass = float(self.model.body_subtreemass[self.layout.trunk])
        middle, half = self.layout.limits.mean(axis=1), np.diff(self.layout.limits)[:, 0] / 2
        self.soft_limits = middle - 0.95 * half, middle + 0.95 * half
        self.varied = frozenset(term.name for term in self.terms)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Term -> weight per control step; the config gives them per second."""
        weights = dataclasses.asdict(self.config.weights)
        per_step = {name: self.timing.control_dt * weight for name, weight in weights.items()}
        return per_step | {name: self.effort_scale * per_step[name] for name in EFFORTS}

    @property
    def mirror(self) -> Mirror:  # type: ignore[override]  # a declaration that is computed
        """The action and what `sense` and `privileged` observe; children add what they observe besides.

        Raises:
            EmbodiedError: a joint or a foot of the robot has no mirror image; names it.
        """
        joints, feet = reflections(self.robot, self.model)
        sensed = {
            "linvel": VECTOR, "gyro": PSEUDOVECTOR, "gravity": VECTOR, "joint_pos": joints, "joint_vel": joints,
        }  # fmt: skip
        clean = {f"clean_{name}": reflection for name, reflection in sensed.items()}
        own = {"last_action": joints, "torque": joints, "contact": feet, "height": unchanged(1)}
        return Mirror(joints, {**sensed, **clean, **own, **self.further_reflections(joints, feet)})

    def further_reflections(self, joints: Reflection, feet: Reflection) -> Mapping[str, Reflection]:
        """Observed terms of this task besides, from the reflections of joints (n) and feet (k)."""
        del joints, feet
        return {}

    def build_spec(self) -> mujoco.MjSpec:
        """The robot on its ground.

        Solver: with 4 iterations a shaken Go1's trunk stays within 4 mm of the converged solution after half a
        second (2 iterations: 14 mm) at the same speed; implicitfast with so few iterations can fall through the floor.
        """
        robot = self.robot
        written = robot.source.file.read_text(encoding="utf-8") if robot.xml is None else robot.xml
        spec = compose_text(FLOOR, written, robot.name)
        self.ground.shape(spec)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
        spec.option.iterations = 4
        spec.option.ls_iterations = 6
        return spec

    def declared_terms(self) -> tuple[Term, ...]:
        model, layout = self.model, self.layout
        vary: Variation = self.config.vary
        ground = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] == 0]
        standard = float(model.geom("floor").friction[0])
        moving, trunk, joints = list(range(1, model.nbody)), [layout.trunk], list(layout.qvel)
        friction = (vary.floor_friction[0] / standard, vary.floor_friction[1] / standard)
        drawn_by_task = (
            Latency(*vary.latency).term(),
            EncoderBias(*vary.encoder_bias, unit="rad").term(),
            *((self.config.push.term(),) if self.pushed else ()),
            ObservationNoise(
                dataclasses.asdict(self.config.noise), units={name: term.unit for name, term in SENSED.items()}
            ).term(),
        )
        return (
            randomization.scale("floor_friction", "geom_friction", *friction, ground, shared=True),
            randomization.scale_bodies("link_mass", *vary.link_mass, moving),
            randomization.offset("payload", "body_mass", *vary.payload, trunk),
            randomization.offset("centre_of_mass", "body_ipos", *vary.centre_of_mass, trunk),
            randomization.scale("joint_friction", "dof_frictionloss", *vary.joint_friction, joints),
            randomization.scale("armature", "dof_armature", *vary.armature, joints),
            randomization.scale_servos("motor_strength", *vary.motor_strength, list(layout.actuators)),
            *drawn_by_task,
        )

    def state_at(self, base: Array, joints: Array, speed: Array) -> tuple[Array, Array]:
        """qpos and qvel of the base pose (7,), the joint angles (n,) rad and the base velocity (6,)."""
        layout, model = self.layout, self.model
        qpos = jnp.zeros(model.nq).at[layout.root_qpos : layout.root_qpos + 7].set(base).at[layout.qpos].set(joints)
        return qpos, jnp.zeros(model.nv).at[layout.root_qvel : layout.root_qvel + 6].set(speed)

    def episode_constants(self, bias: Array, latency: Array) -> tuple[Array, Array]:
        """This episode's encoder bias (n,) rad and latency () s, from uniform numbers of the same shapes."""
        vary = self.config.vary
        return (
            EncoderBias(*vary.encoder_bias).drawn(bias, self.varied),
            Latency(*vary.latency).drawn(latency, self.varied),
        )

    def delayed(self, action: Array, last_action: Array, latency: Array) -> Array:
        """Mean input of the motors over a control step in which `action` (n,) arrives `latency` s late."""
        return delayed(action, last_action, latency, self.timing.control_dt)

    def targets(self, command: Array) -> Array:
        """Actuator inputs (nu,) from joint targets (n,) rad."""
        return jnp.zeros(self.model.nu).at[self.layout.actuators].set(command)

    def apply_action(self, world: World, state: M, command: Array) -> tuple[Control, M]:
        del world
        return Control(ctrl=self.targets(command)), state

    def privileged(self, world: World, clean: Readings) -> Readings:
        """Terms for a critic: `clean` readings, linvel (3) m/s, height (1) m, contact (k), torque (n) N m."""
        return {
            **{f"clean_{name}": value for name, value in clean.items()},
            "linvel": world["linvel"],
            "height": self.height(world),
            "contact": (self.touch(world) > IN_CONTACT).astype(jnp.float32),
            "torque": self.torques(world),
        }

    def effort(self, world: World, action_change: Array) -> Readings:
        """Reward terms for the motors' strain: torques N m, energy W, action_rate."""
        torque = self.torques(world)
        return {
            "torques": jnp.sqrt(jnp.sum(torque**2)) + jnp.sum(jnp.abs(torque)),
            "energy": jnp.sum(jnp.abs(torque * world.qvel[self.layout.qvel])),
            "action_rate": squared_norm(action_change),
        }

    def beyond_limits(self, world: World) -> Array:
        """() rad by which joints are beyond 95 % of their ranges, together."""
        return jnp.sum(limit_violation(world.qpos[self.layout.qpos], *self.soft_limits))

    def sense(self, world: World, encoder_bias: Array, key: Array, *, linvel: bool) -> tuple[Readings, Readings]:
        """Readings of the robot's own sensors, without and with noise: gyro, gravity, joint_pos, joint_vel.

        In the trunk's frame: linvel (3) m/s if requested, gyro (3) rad/s, gravity's direction (3), joint_pos (n) rad
        from home, joint_vel (n) rad/s.
        """
        clean = {
            **({"linvel": world["linvel"]} if linvel else {}),
            "gyro": world["gyro"],
            "gravity": -self.up_b(world),
            "joint_pos": self.offset(world),
            "joint_vel": world.qvel[self.layout.qvel],
        }
        noise = ObservationNoise(dataclasses.asdict(self.config.noise))
        noisy = noise.add(clean, key, self.varied)
        noisy["joint_pos"] = noisy["joint_pos"] + encoder_bias
        return clean, noisy

    def up_b(self, world: World) -> Array:
        """(3,) the world's z axis in the trunk's frame."""
        return quat_rotate_inverse(world["orientation"], jnp.array([0.0, 0.0, 1.0]))

    def touch(self, world: World) -> Array:
        """(k,) N on each foot."""
        return jnp.concatenate([world[f"{foot}_touch"] for foot in self.robot.feet])

    def feet(self, world: World, what: str) -> Array:
        """(k, 3) a sensor of every foot."""
        return jnp.stack([world[f"{foot}_{what}"] for foot in self.robot.feet])

    def torques(self, world: World) -> Array:
        """(n,) N m."""
        return jnp.concatenate([world[f"{joint}_torque"] for joint in self.robot.joint_names])

    def offset(self, world: World) -> Array:
        """(n,) rad of the joints from the home pose."""
        return world.qpos[self.layout.qpos] - self.layout.home

    def height(self, world: World) -> Array:
        """() m of the trunk above the ground."""
        return world["position"][2] - self.ground.height(world["position"][:2])
