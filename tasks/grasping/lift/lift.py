"""`grasping/*-lift`: an arm with a hand takes an object from a table, from planned grasps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import Language, Operator, Pictures
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.randomization import Range, Term
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.errors import EmbodiedError
from embodied.math.rewards import squared_norm
from embodied.math.rotations import (
    matrix_from_quat,
    quat_conjugate,
    quat_error,
    quat_from_rotation_vector,
    quat_from_yaw,
    quat_multiply,
    quat_normalize,
    quat_rotate,
    quat_rotate_inverse,
)
from embodied.storage.bounds import NOT_NEGATIVE, Bounded
from tasks.grasping.hands.arm import add_palm_sensors, arm_scene, follow
from tasks.grasping.hands.hand import MOUNTED, PHYSICS_DT, Hand, poses
from tasks.grasping.objects.variable_object import add_variable_object, object_fields
from tasks.grasping.planner import grasp_trajectory
from tasks.grasping.planner.grasp_library import names_of, object_named, plans_for
from tasks.manipulation.common import panda

RAISED = 0.1  # m, by which an object must be raised
HELD = 1.0  # s, for which it must stay there
SPARE = 0.03  # m, above which nothing more is earned by rising


@dataclasses.dataclass(frozen=True)
class Noise:
    """Observation noise, our choice."""

    joint_pos: float = 0.02
    """rad, half-width, uniform."""
    object_pos: float = 0.005
    """m, half-width, uniform: of the position that the camera tracks."""


@dataclasses.dataclass(frozen=True)
class Variation(Bounded):
    """Ranges of an episode's variations, besides an object and one of its planned grasps; our choice."""

    place: Annotated[float, NOT_NEGATIVE] = 0.005
    """m, half-width: how far the object stands from where it was seen, along x and along y."""
    yaw: Annotated[float, NOT_NEGATIVE] = 0.05
    """rad, half-width: how far it is turned about the vertical from how it was seen."""
    friction: tuple[float, float] = (0.8, 1.2)
    """Factor on the object's friction; on fingertips theirs counts, which is 1."""
    mass: tuple[float, float] = (0.8, 1.2)
    """Factor on its mass and inertia."""
    joint_friction: tuple[float, float] = (0.5, 2.0)
    """Factor on each finger joint's friction torque."""
    motor_strength: tuple[float, float] = (0.9, 1.1)
    """Factor on each finger servo's stiffness and damping."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("friction", "mass", "joint_friction", "motor_strength")
        randomization.require_ranges("vary", {name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms: the proportions of G-PAYN's, a tenth of its scale."""

    touching: float = 0.1
    """Fingers that begin to touch something, less those that cease."""
    lifting: float = 100.0
    """m by which the object rises, times the share of fingers that touch, from two on; and by which it falls."""
    approach: float = 10.0
    """m by which the palm comes nearer to where the object's centre was seen, until the first touch."""
    raised: float = 0.5
    """In every step in which the object is held above 10 cm, by half of the fingers or more."""
    action: float = -0.001
    """Squared action."""
    lost: float = -1.0
    """Once, when the object is pushed away."""


@dataclasses.dataclass(frozen=True)
class LiftConfig:
    """Options of the lifting tasks."""

    objects: str = "train"
    """train, held-out, household or all; or the name of one object."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """Ranges that every episode draws from."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode beside the world."""

    item: Array
    """() int32, which of the task's objects."""
    palm: Array
    """(7,) where the palm shall be by the plan, in the world: m, wxyz."""
    pinch: Array
    """() bool, whether the plan is to take it between the fingertips."""
    shape: Array
    """(12,) the superquadric that the object was taken for: position m, quaternion wxyz, half axes m, exponents."""
    start: Array
    """(3,) m, where the object stood."""
    rest: Array
    """(7,) rad, the arm at the pre-grasp."""
    pos: Array
    """(3,) m, the palm's target."""
    quat: Array
    """(4,) wxyz, of it."""
    joints: Array
    """(7,) rad, targets of the arm's servos."""
    targets: Array
    """(m,) rad, targets of the fingers' servos."""
    action: Array
    """(6 + m,) the last action."""
    step: Array
    """() control steps since the episode began."""
    touched: Array
    """() bool, whether a finger has touched anything yet."""
    touching: Array
    """() fingers that touch something."""
    firm: Array
    """() bool, whether something was ever held between thumb and a finger; see `grasp_trajectory.FIRM`."""
    height: Array
    """() m, by which the object is raised."""
    distance: Array
    """() m, from the palm to where the object's centre was seen."""
    change: Array
    """(3,) by how much touching, height and distance changed in the last step."""
    held: Array
    """() s, for how long the object has been raised by 10 cm."""


CONTROL_HZ = 20
STEP = 0.01  # m, by which an action of 1 moves the palm's target: 20 cm/s (G-PAYN: 2 mm at most)
TURN = 0.05  # rad, by which it turns it (G-PAYN: .01)
BEND = 0.1  # rad, by which it moves a finger servo's target (G-PAYN: .2)
LEAD = 0.05  # m, that the palm's target may be ahead of the palm: the arm lags by 50 ms
AWAY = 0.3  # m on the table, or below it, beyond which an object is lost
FELT = 0.05  # N, from which a pad counts as touching


class Lift(Task[TaskState]):
    """An object on a table, to be raised by 10 cm and held there for 1 s by an arm with a hand.

    Episodes begin with the hand opened, 8 cm from a grasp that a planner chose from what a depth camera saw; the rest
    is up to the policy. Randomised: the object, see `config.objects`, its place, and `variations`. Failure: the object
    is pushed 30 cm away.

    Action (6 + m): the palm's target moves along its x, y, z by 1 cm each, and turns about them by 0.05 rad; the
    fingers' servos move by 0.1 rad.
    """

    hand: ClassVar[Hand]
    config_type = LiftConfig
    config: LiftConfig
    language = Language.of(
        "Pick up the object.",
        "Grasp the object and lift it off the table.",
        "Take the thing on the table and hold it up.",
    )
    timing = Timing(PHYSICS_DT, round(1 / CONTROL_HZ / PHYSICS_DT), episode_seconds=6.0)

    def __init__(self, config: LiftConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        plans = plans_for(self.hand)
        self.names = names_of(self.config.objects, plans.objects)
        self.plans = plans.of(self.names)
        if not len(self.plans.item):
            raise EmbodiedError(f"no grasp of {', '.join(self.names)} is planned for the hand {self.hand.name!r}")
        used = sorted(set(self.plans.item.tolist()))
        self.object_specs = [object_named(plans.objects[number]) for number in used]
        found = object_fields(self.model, self.object_specs)
        self.fields = {name: jnp.asarray(values) for name, values in found.fields.items()}
        self.rows = np.searchsorted(used, self.plans.item)
        self.layout = self.hand.layout(self.model, MOUNTED)
        self.action_size = 6 + len(self.hand.actuator_names)
        self.arm_qpos = np.array([self.model.joint(name).qposadr[0] for name in panda.ARM_JOINTS])
        self.arm_motors = np.array([self.model.actuator(name).id for name in panda.ARM_JOINTS])
        self.object_qpos = int(self.model.joint("object").qposadr[0])
        shapes = poses(self.hand)
        self.opened, self.preshape = shapes.opened, shapes.pinch
        self.varied = frozenset(term.name for term in self.terms)

    def declared_terms(self) -> tuple[Term, ...]:
        model, vary, noise, layout = self.model, self.config.vary, self.config.noise, self.layout
        body = model.body("object")
        geoms = list(range(int(body.geomadr[0]), int(body.geomadr[0] + body.geomnum[0])))
        return (
            randomization.scale("friction", "geom_friction", *vary.friction, geoms, shared=True),
            randomization.scale_bodies("mass", *vary.mass, [body.id]),
            randomization.scale("joint_friction", "dof_frictionloss", *vary.joint_friction, list(layout.qvel)),
            randomization.scale_servos("motor_strength", *vary.motor_strength, list(layout.actuators)),
            Term(
                "place", "the object, from where it was seen",
                ranges=(
                    Range.spread("shift along x and along y", vary.place, "m"),
                    Range.spread("turn about the vertical", vary.yaw, "rad"),
                ),
            ),
            Term(
                "observation_noise", "noise on readings, new at every step",
                ranges=(
                    Range.spread("joint_pos", noise.joint_pos, "rad"),
                    Range.spread("object_pos", noise.object_pos, "m"),
                ),
            ),
        )  # fmt: skip

    def build_spec(self) -> mujoco.MjSpec:
        spec = arm_scene(self.hand)
        add_variable_object(spec)
        add_palm_sensors(spec)
        return spec

    def reset(self, key: Array) -> ResetState[TaskState]:
        """The hand at the pre-grasp of a plan, the object a little off where it was seen."""
        which, shift, yaw, fields = jax.random.split(key, 4)
        plan = jax.random.randint(which, (), 0, len(self.plans.item))
        place, palm, shape, joints, pinch = (
            jnp.asarray(getattr(self.plans, name))[plan] for name in ("place", "palm", "shape", "joints", "pinch")
        )
        fingers = jnp.where(pinch, self.preshape.joints, self.opened.joints)
        vary = self.config.vary
        on = "place" in self.varied
        off = on * vary.place * jax.random.uniform(shift, (2,), minval=-1.0)
        turn = quat_from_yaw(on * vary.yaw * jax.random.uniform(yaw, (), minval=-1.0))
        start = place[:3].at[:2].add(off)
        qpos = jnp.zeros(self.model.nq).at[self.arm_qpos].set(joints).at[self.layout.qpos].set(fingers)
        pose = jnp.concatenate([start, quat_multiply(turn, place[3:])])
        qpos = qpos.at[self.object_qpos : self.object_qpos + 7].set(pose)
        row = jnp.asarray(self.rows)[plan]
        item = Term("object", "", lambda _, __: {name: values[row] for name, values in self.fields.items()})
        drawn = randomization.draw(self.model, (item, *self.terms), fields)
        state = self._initial_state(row, palm, pinch, shape, start, joints)
        return ResetState(qpos, jnp.zeros(self.model.nv), state, drawn)

    def _initial_state(
        self, item: Array, palm: Array, pinch: Array, shape: Array, start: Array, joints: Array
    ) -> TaskState:
        nothing = jnp.zeros(())
        pos = palm[:3] - grasp_trajectory.BACK * grasp_trajectory.approach_direction(palm)
        return TaskState(
            item=item.astype(jnp.int32), palm=palm, pinch=pinch, shape=shape, start=start, rest=joints,
            pos=pos, quat=palm[3:], joints=joints,
            targets=jnp.where(pinch, self.preshape.targets, self.opened.targets),
            action=jnp.zeros(self.action_size), step=nothing,
            touched=jnp.zeros((), bool), firm=jnp.zeros((), bool), touching=nothing, height=nothing,
            distance=jnp.linalg.norm(shape[:3] - pos), change=jnp.zeros(3), held=nothing,
        )  # fmt: skip

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Servo targets of arm (7) and fingers (m), rad."""
        del key
        ahead = state.pos + quat_rotate(state.quat, STEP * action[:3]) - world["palm_pos"]
        ahead = ahead * jnp.minimum(1.0, LEAD / jnp.maximum(jnp.linalg.norm(ahead), 1e-6))
        pos = world["palm_pos"] + ahead
        quat = quat_normalize(quat_multiply(state.quat, quat_from_rotation_vector(TURN * action[3:6])))
        joints = follow(self.hand, state.joints, pos, quat, state.rest, self.timing.control_dt)
        low, high = self.layout.targets.T
        targets = jnp.clip(state.targets + BEND * action[6:], low, high)
        state = dataclasses.replace(state, pos=pos, quat=quat, joints=joints, targets=targets, action=action)
        return jnp.concatenate([joints, targets]), state

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world
        motors = np.concatenate([self.arm_motors, self.layout.actuators])
        return Control(ctrl=jnp.zeros(self.model.nu).at[motors].set(command)), state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action, key
        tips = self._touch(world)[: len(self.hand.fingers)]
        touching = jnp.sum(tips > FELT).astype(jnp.float32)
        height = world["object_pos"][2] - state.start[2]
        distance = jnp.linalg.norm(state.shape[:3] - world["palm_pos"])
        change = jnp.stack([touching - state.touching, height - state.height, distance - state.distance])
        return dataclasses.replace(
            state,
            step=state.step + 1,
            touched=state.touched | (touching > 0),
            touching=touching,
            firm=state.firm | grasp_trajectory.is_firm(tips),
            height=height,
            distance=distance,
            change=change,
            held=jnp.where(height > RAISED, state.held + self.timing.control_dt, 0.0),
        )

    def _touch(self, world: World) -> Array:
        """(fingers + pads,) N, what each pad feels, fingertips first."""
        names = (*self.hand.fingers, *self.hand.pads)
        return jnp.concatenate([world[f"{MOUNTED}{name}_touch"] for name in names])

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Measurements of hand, arm and camera; positions and directions in the palm's frame.

        `policy`, with noise: joint_pos (n) rad and targets (m) rad of the fingers, from the opened hand; touch (fingers
        and pads) log of 1 + N; up (3) the vertical; to_grasp (3) m and grasp_turn (3) rad, to the planned grasp;
        object_pos (3) m, tracked by the camera, and raised () m; centre (3) m, axes_turn (6), size (5) the
        superquadric seen at the start: its centre, two of its axes, half axes in m and exponents; pinch (1); the last
        action (6 + m). `critic`: those; clean_joint_pos, joint_vel (n) rad/s, tips (3 of each finger) m,
        clean_object_pos (3) m, object_turn (6), object_linvel (3) m/s and object_angvel (3) rad/s; held () s.
        """
        joints, place = jax.random.split(key)
        noise, on = self.config.noise, "observation_noise" in self.varied
        pos, quat = world["palm_pos"], world["palm_quat"]
        inwards = lambda vector: quat_rotate_inverse(quat, vector)  # noqa: E731
        bent = world.qpos[self.layout.qpos] - self.opened.joints
        body = world["object_pos"] - pos
        seen = body + on * noise.object_pos * jax.random.uniform(place, (3,), minval=-1.0)
        policy = {
            "joint_pos": bent + on * noise.joint_pos * jax.random.uniform(joints, bent.shape, minval=-1.0),
            "targets": state.targets - self.opened.targets,
            "touch": jnp.log1p(self._touch(world)),
            "up": inwards(jnp.array([0.0, 0.0, 1.0])),
            "to_grasp": inwards(state.palm[:3] - pos),
            "grasp_turn": quat_error(quat, state.palm[3:]),
            "object_pos": inwards(seen),
            "raised": seen[2:] + pos[2:] - state.start[2:],
            "centre": inwards(state.shape[:3] - pos),
            "axes_turn": _turn(quat, state.shape[3:7]),
            "size": state.shape[7:],
            "pinch": state.pinch[None].astype(jnp.float32),
            "action": state.action,
        }
        hidden = {
            "clean_joint_pos": bent,
            "joint_vel": world.qvel[self.layout.qvel],
            "tips": jnp.concatenate([inwards(world[f"{MOUNTED}{name}_tip_pos"] - pos) for name in self.hand.fingers]),
            "clean_object_pos": inwards(body),
            "object_turn": _turn(quat, world["object_quat"]),
            "object_linvel": inwards(world["object_linvel"]),
            "object_angvel": inwards(world["object_angvel"]),
            "held": state.held[None],
        }
        return {"policy": policy, "critic": {**policy, **hidden}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        touching, height, distance = state.change[0], state.change[1], state.change[2]
        fingers = len(self.hand.fingers)
        # Things knocked into the air are not lifted: rising counts by the share of fingers that touch, falling in full.
        grasped = jnp.where(state.touching >= 2, state.touching / fingers, 0.0)
        rising = jnp.minimum(state.height, RAISED + SPARE) - jnp.minimum(state.height - height, RAISED + SPARE)
        return {
            "touching": touching,
            "lifting": jnp.where(rising > 0, grasped, 1.0) * rising,
            "approach": jnp.where(state.touched, 0.0, -distance),
            "raised": (state.held > 0) * jnp.minimum(grasped * 2, 1.0),
            "action": squared_norm(action),
            "lost": self._lost(world, state).astype(jnp.float32),
        }

    def _lost(self, world: World, state: TaskState) -> Array:
        return jnp.linalg.norm(world["object_pos"][:2] - state.start[:2]) > AWAY

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success once the object was held up for a second; failure when it is pushed away."""
        lost = self._lost(world, state)
        return Outcome(success=~lost & (state.held >= HELD), failure=lost)

    metric_units: Mapping[str, str] = {"height": "m"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Height of the object, m, and number of fingers that touch something."""
        del world
        return {"height": state.height, "touching": state.touching}

    @functools.cached_property
    def operator(self) -> Operator:
        return Operator(
            commands={
                "palm": "the planned grasp: position m and quaternion wxyz of the palm, world frame",
                "pinch": "1 where the plan takes it between the fingertips, else 0",
                "shape": "superquadric fitted to what was seen: position m, quaternion wxyz, half axes m, two "
                "exponents",
                "start": "position m of the object when it was seen, world frame",
                "rest": "rad, the arm's joints at the pre-grasp",
            },
            first_commands={
                "pos": "m, where the palm is led: the pre-grasp's, world frame",
                "quat": "its orientation there, quaternion wxyz",
                "targets": "rad, of the fingers' servos at the pre-grasp",
            },
        )

    @functools.cached_property
    def pictures(self) -> Pictures:
        return Pictures(geom_appearance=self._geom_appearance)

    def _geom_appearance(self, state: TaskState) -> Mapping[str, Array]:
        body = self.model.body("object")
        first = int(body.geomadr[0])
        fields = [self.fields[name][state.item] for name in ("geom_size", "geom_pos", "geom_quat")]
        colour = jnp.asarray([item.rgba for item in self.object_specs])[state.item]
        return {
            self.model.geom(geom).name: jnp.concatenate([*(field[geom] for field in fields), colour])
            for geom in range(first, first + int(body.geomnum[0]))
        }

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """The planner's script: straight to the grasp, close, lift."""
        del observation
        setpoint = grasp_trajectory.setpoint(self.hand, state.palm, state.pinch, state.step)
        move = quat_rotate_inverse(state.quat, setpoint.pos - state.pos) / STEP
        turn = quat_error(state.quat, state.palm[3:]) / TURN
        bend = jnp.where(state.pinch & state.firm, 0.0, (setpoint.targets - state.targets) / BEND)
        return jnp.clip(jnp.concatenate([move, turn, bend]), -1.0, 1.0)


def _turn(quat: Array, other: Array) -> Array:
    """(6,) two columns of the rotation from a frame `other` to the frame `quat`: smooth where angles are not."""
    return matrix_from_quat(quat_multiply(quat_conjugate(quat), other)).T.reshape(-1)[:6]
