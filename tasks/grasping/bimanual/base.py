"""Tasks of hands on floating bases: the scene, actions, observations and variations that they share."""

from __future__ import annotations

import abc
import dataclasses
import functools
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
from embodied.core.scenes import load_spec
from embodied.core.task import Task
from embodied.core.world import Control, World
from embodied.math.rotations import quat_from_axis_angle, quat_multiply, quat_normalize, quat_rotate
from embodied.storage.bounds import POSITIVE, Bounded
from tasks.grasping.bimanual.initial_grasps import FRICTION, InitialGrasp, add_manipulated_object
from tasks.grasping.hands.floating_hand import AXES, LIMITS, FloatingBase, Mount, add_floating_hand, track_reference
from tasks.grasping.hands.hand import Hand, add_wrist_camera, poses, set_physics
from tasks.grasping.objects.object_spec import ObjectSpec


@dataclasses.dataclass(frozen=True)
class Noise:
    """Observation noise: encoders, touch sensors and a good tracker of objects; our choice."""

    joint_pos: float = 0.02
    """rad, half-width, uniform."""
    object_pos: float = 0.003
    """m, half-width, uniform."""
    object_quat: float = 0.02
    """Standard deviation of each part of the object's quaternion."""
    object_linvel: float = 0.05
    """m/s, half-width, uniform."""


@dataclasses.dataclass(frozen=True)
class Variation:
    """Ranges, smallest and largest, from which every episode draws."""

    friction: tuple[float, float] = (0.6, 1.0)
    """Sliding friction of the object on everything."""
    object_mass: tuple[float, float] = (0.8, 1.2)
    """Factor on the object's mass and inertia."""
    object_centre: tuple[float, float] = (-0.003, 0.003)
    """m by which the object's centre of mass is shifted along each axis."""
    joint_friction: tuple[float, float] = (0.5, 2.0)
    """Factor on the friction torque of each of the hands' joints."""
    motor_strength: tuple[float, float] = (0.8, 1.2)
    """Factor on stiffness and damping of each of the hands' servos."""

    def __post_init__(self) -> None:
        randomization.require_ranges("vary", dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class FloatingHandsConfig(Bounded):
    """Options of the tasks with hands on floating bases."""

    finger_speed: Annotated[float, POSITIVE] = 8.0
    """rad/s at which an action of 1 moves a finger servo's target."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """Ranges that every episode draws from."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""


M = TypeVar("M", bound=Any)
"""A task's state: a dataclass with a field `hands`."""
Readings = dict[str, Array]

BELOW = 0.12  # m that an object is under the lowest palm once it is dropped


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HandsState:
    """Control state of the k hands of such a task."""

    reference: Array
    """(k, 6) m and rad, where the bases should be."""
    targets: Array
    """(k, m) rad, of the finger servos."""
    action: Array
    """(k (6 + m),) the last action."""
    change: Array
    """(k (6 + m),) the last action minus the one before."""


class FloatingHandsTask(Task[M], Generic[M]):
    """Hands on floating bases over a floor, and one object `object`.

    Action: of each hand, six shares of its base's greatest speeds along `floating_hand.AXES`, then how fast each finger
    servo's target moves, 1 for `config.finger_speed`.
    """

    hand: ClassVar[Hand]
    mounts: ClassVar[tuple[Mount, ...]]
    item: ClassVar[ObjectSpec]
    view: ClassVar[tuple[tuple[float, float, float], tuple[float, float, float]]]
    """m, world frame: where the camera stands, and what it looks at."""
    config_type = FloatingHandsConfig
    config: Any

    def __init__(self, config: Any = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        self.layouts = [self.hand.layout(self.model, mount.prefix) for mount in self.mounts]
        self.bases = [FloatingBase.of(self.model, mount) for mount in self.mounts]
        self.shapes = poses(self.hand)
        self.servos = len(self.hand.actuator_names)
        self.action_size = len(self.mounts) * (len(AXES) + self.servos)
        self.ranges = np.stack([base.ranges for base in self.bases])
        self.joint_qpos = np.stack([layout.qpos for layout in self.layouts])
        self.base_qpos = np.stack([base.qpos for base in self.bases])
        self.object_qpos = int(self.model.joint("object").qposadr[0])
        self.varied = frozenset(term.name for term in self.terms)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Term -> weight per control step; the config gives them per second."""
        return {name: self.timing.control_dt * w for name, w in dataclasses.asdict(self.config.weights).items()}

    def build_spec(self) -> mujoco.MjSpec:
        spec = load_spec("scenes/floor.xml")
        set_physics(spec)
        for mount in self.mounts:
            add_floating_hand(spec, self.hand, mount)
            # `wrist` is the hand that ends with the object; what the other one sees bears its name.
            add_wrist_camera(spec, mount.prefix, "" if mount is self.mounts[-1] else mount.prefix)
        add_manipulated_object(spec, self.item)
        eye, aim = self.view
        target = spec.worldbody.add_body(name="view", pos=aim)
        spec.worldbody.add_camera(
            name="view", pos=eye, fovy=26, mode=mujoco.mjtCamLight.mjCAMLIGHT_TARGETBODY, targetbody=target.name
        )
        # The viewer's own camera frames what this one does.
        spec.stat.center, spec.stat.extent = aim, 0.4 * float(np.linalg.norm(np.subtract(eye, aim)))
        return spec

    def declared_terms(self) -> tuple[Term, ...]:
        model = self.model
        vary: Variation = self.config.vary
        noise: Noise = self.config.noise
        item = model.body("object").id
        geoms = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] == item]
        friction = (vary.friction[0] / FRICTION, vary.friction[1] / FRICTION)
        joints = [int(address) for layout in self.layouts for address in layout.qvel]
        servos = [int(number) for layout in self.layouts for number in layout.actuators]
        return (
            randomization.scale("friction", "geom_friction", *friction, geoms, shared=True),
            randomization.scale_bodies("object_mass", *vary.object_mass, [item]),
            randomization.offset("object_centre", "body_ipos", *vary.object_centre, [item]),
            randomization.scale("joint_friction", "dof_frictionloss", *vary.joint_friction, joints),
            randomization.scale_servos("motor_strength", *vary.motor_strength, servos),
            Term("start", "where things are at the start", ranges=self.start_ranges()),
            Term(
                "observation_noise", "noise on readings, new at every step",
                ranges=(
                    Range.spread("joint_pos", noise.joint_pos, "rad"),
                    Range.spread("object_pos", noise.object_pos, "m"),
                    Range.spread("object_quat", noise.object_quat, "1", Distribution.NORMAL),
                    Range.spread("object_linvel", noise.object_linvel, "m/s"),
                ),
            ),
        )  # fmt: skip

    @abc.abstractmethod
    def start_ranges(self) -> tuple[Range, ...]:
        """Ranges that the variation `start` draws from."""

    def initial_hands(self, bases: Array, targets: Array) -> HandsState:
        """Hands at rest: base_pos (k, 6) m and rad, servo targets (k, m) rad."""
        nothing = jnp.zeros(self.action_size)
        return HandsState(bases, targets, nothing, nothing)

    def initial_joint_state(self, bases: Array, joints: Array, pos: Array, quat: Array) -> tuple[Array, Array]:
        """qpos (nq,) and qvel (nv,): base_pos (k, 6) m and rad, joints (k, n) rad, the object (3,) m and (4,) wxyz."""
        qpos = jnp.zeros(self.model.nq).at[self.base_qpos].set(bases).at[self.joint_qpos].set(joints)
        qpos = qpos.at[self.object_qpos : self.object_qpos + 7].set(jnp.concatenate([pos, quat]))
        return qpos, jnp.zeros(self.model.nv)

    def initial_joints(self, found: InitialGrasp) -> tuple[Array, Array]:
        """Joints (k, n) and servo targets (k, m), rad, of hands of which the first holds something; others are open."""
        shapes = [found, *[self.shapes.opened] * (len(self.mounts) - 1)]
        return jnp.stack([jnp.asarray(s.joints) for s in shapes]), jnp.stack([jnp.asarray(s.targets) for s in shapes])

    def object_pose(self, number: int, base: Array, found: InitialGrasp) -> tuple[Array, Array]:
        """The object in the world, (3,) m and (4,) wxyz, in a hand whose base (6,) has only slid and rolled."""
        mount = self.mounts[number]
        turn = quat_multiply(jnp.asarray(mount.quat), quat_from_axis_angle(jnp.array([1.0, 0.0, 0.0]), base[3]))
        pos = jnp.asarray(mount.pos) + base[:3] + quat_rotate(turn, jnp.asarray(found.pos))
        return pos, quat_multiply(turn, jnp.asarray(found.quat))

    def move(self, world: World, state: HandsState, action: Array) -> tuple[Array, HandsState]:
        """Controls (nu,) that follow an action, and the next state."""
        rows = action.reshape(len(self.mounts), -1)
        dt = self.timing.control_dt
        at = world.qpos[self.base_qpos]
        velocities, references = jax.vmap(functools.partial(track_reference, dt=dt))(
            state.reference, at, rows[:, : len(AXES)], jnp.asarray(self.ranges)
        )
        low, high = self.layouts[0].targets.T
        targets = jnp.clip(state.targets + dt * self.config.finger_speed * rows[:, len(AXES) :], low, high)
        ctrl = jnp.zeros(self.model.nu)
        ctrl = ctrl.at[np.stack([base.actuators for base in self.bases])].set(velocities)
        ctrl = ctrl.at[np.stack([layout.actuators for layout in self.layouts])].set(targets)
        return ctrl, HandsState(references, targets, action, action - state.action)

    def process_action(self, world: World, state: M, action: Array, key: Array) -> tuple[Array, M]:
        """Controls (nu,) of the hands, which the state's `hands` holds."""
        del key
        ctrl, hands = self.move(world, state.hands, action)
        return ctrl, dataclasses.replace(state, hands=hands)

    def apply_action(self, world: World, state: M, command: Array) -> tuple[Control, M]:
        del world
        return Control(ctrl=command), state

    def palms(self, world: World) -> Array:
        """(k, 3) m, world frame."""
        return jnp.stack([world[f"{mount.prefix}palm_pos"] for mount in self.mounts])

    def tips(self, world: World) -> Array:
        """(k, fingers, 3) m from the object, along the world's axes."""
        names = [[f"{mount.prefix}{finger}_tip_pos" for finger in self.hand.fingers] for mount in self.mounts]
        return jnp.stack([jnp.stack([world[name] for name in row]) for row in names]) - world["object_pos"]

    def touch(self, world: World) -> Array:
        """(k, fingers and pads) N, normal forces on every pad of every hand."""
        pads = (*self.hand.fingers, *self.hand.pads)
        return jnp.stack(
            [jnp.concatenate([world[f"{mount.prefix}{pad}_touch"] for pad in pads]) for mount in self.mounts]
        )

    def sense(self, world: World, key: Array) -> tuple[Readings, Readings]:
        """Readings of hands and object, without and with noise.

        joint_pos (k n) rad, base_pos (6 k) m and rad, touch (1 of each fingertip) log of 1 + N; along the world's axes
        object_pos (3 k) m from each palm, object_linvel (3) m/s; and object_quat (4) wxyz.
        """
        clean = {
            "joint_pos": world.qpos[self.joint_qpos].ravel(),
            "base_pos": world.qpos[self.base_qpos].ravel(),
            "touch": jnp.log1p(self.touch(world)[:, : len(self.hand.fingers)]).ravel(),
            "object_pos": (world["object_pos"] - self.palms(world)).ravel(),
            "object_linvel": world["object_linvel"],
            "object_quat": world["object_quat"],
        }
        noise, on = self.config.noise, "observation_noise" in self.varied
        joints, place, speed, turn = jax.random.split(key, 4)
        # The palms are known: of one object there is one error.
        error = noise.object_pos * jax.random.uniform(place, (3,), minval=-1.0)
        drawn = {
            "joint_pos": noise.joint_pos * jax.random.uniform(joints, clean["joint_pos"].shape, minval=-1.0),
            "object_pos": jnp.tile(error, len(self.mounts)),
            "object_linvel": noise.object_linvel * jax.random.uniform(speed, (3,), minval=-1.0),
            "object_quat": noise.object_quat * jax.random.normal(turn, (4,)),
        }
        noisy = {name: value + on * drawn.get(name, 0.0) for name, value in clean.items()}
        return clean, {**noisy, "object_quat": quat_normalize(noisy["object_quat"])}

    def split_terms(self, group: Array, terms: tuple[str, ...]) -> Readings:
        """The first terms of an observation group that begins with `terms`, for scripts."""
        k = len(self.mounts)
        sizes = {
            "joint_pos": self.joint_qpos.size,
            "base_pos": self.base_qpos.size,
            "touch": k * len(self.hand.fingers),
            "object_pos": 3 * k,
        }
        ends = np.cumsum([sizes.get(term, 3) for term in terms])
        return dict(zip(terms, jnp.split(group[: ends[-1]], ends[:-1]), strict=True))

    def privileged(self, world: World, clean: Readings) -> Readings:
        """Readings that only the critic sees, without noise.

        clean_joint_pos (k n) rad, joint_vel (k n) rad/s, base_vel (6 k) m/s and rad/s, tips (3 of each finger) m
        from the object, touch_pads (1 of each) log of 1 + N, clean_object_pos (3 k) m from the palms,
        clean_object_linvel (3) m/s and object_angvel (3) rad/s.
        """
        joints = np.concatenate([layout.qvel for layout in self.layouts])
        bases = np.concatenate([base.qvel for base in self.bases])
        return {
            "clean_joint_pos": clean["joint_pos"],
            "joint_vel": world.qvel[joints],
            "base_vel": world.qvel[bases],
            "tips": self.tips(world).ravel(),
            "touch_pads": jnp.log1p(self.touch(world)).ravel(),
            "clean_object_pos": clean["object_pos"],
            "clean_object_linvel": world["object_linvel"],
            "object_angvel": world["object_angvel"],
        }

    def dropped(self, world: World) -> Array:
        """() bool, whether the object is below every hand."""
        return world["object_pos"][2] < jnp.min(self.palms(world)[:, 2]) - BELOW

    def towards(self, state: HandsState, velocity: Array, targets: Array) -> Array:
        """The action of a script: base velocities (k, 6) m/s and rad/s, finger targets (k, m) rad."""
        step = self.timing.control_dt * self.config.finger_speed
        rows = jnp.concatenate([velocity / LIMITS, (targets - state.targets) / step], axis=1)
        return jnp.clip(rows, -1.0, 1.0).ravel()
