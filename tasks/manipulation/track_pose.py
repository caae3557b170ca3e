"""`manipulation/track-pose`: the tip of any arm, from its model file, follows poses."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import CommandRange, Language, Operator, Pictures
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.randomization import Term
from embodied.core.scenes import compose_text
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.math.rewards import squared_norm
from embodied.math.rotations import matrix_from_quat, quat_from_matrix, rotation_vector_from_quat
from embodied.math.sampling import between
from embodied.parts.latency import Latency
from embodied.parts.sensing import EncoderBias, ObservationNoise
from embodied.robot.option import RobotPath, keep_absolute
from embodied.robot.prepared.arm import ArmModel, arm_of
from embodied.storage.bounds import POSITIVE, Bounded, BoundError
from tasks.manipulation.common.arm import Arm
from tasks.manipulation.common.poses import Poses, reachable
from tasks.manipulation.common.rewards import distance

PANDA = "panda"  # the default robot
FLOOR = "scenes/floor.xml"
GOALS = 4096  # poses that goals are drawn from
INSIDE = 0.7  # of the range of actions: goals lie no further
TRAVEL = 0.85  # s in which a joint can move as far as by an action of 1: from one goal to another, 1.4 times as far,
# within 1.2 s
TURNS_OR_SLIDES = "rad, of a slide a tenth in m"
NEAR, CLOSE, FINE = 0.3, 0.06, 0.015  # m of error at which the three terms of the reward's nearness are 1/e
PER_RADIAN = 0.1  # m: what a radian of error counts in them, where the turn counts
GAIN = 0.5  # of the script: share of the error that it takes back in one step
DAMPING = 0.03  # m, of the script's least squares
PULL = 0.02  # of the way home that the script takes in one step, as far as the pose leaves the joints free


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms per second."""

    near: float = 1.0
    """Closeness of the tip to its goal within 30 cm, in [0, 1]."""
    close: float = 2.0
    """The same within 6 cm."""
    fine: float = 3.0
    """The same within 15 mm."""
    action_rate: float = -0.05
    """Squared change of the action."""
    joint_vel: float = -0.02
    """Squared speed of the joints, rad^2/s^2."""
    effort: float = -0.02
    """Squared torques, each as a share of the largest."""


@dataclasses.dataclass(frozen=True)
class Noise:
    """Half-widths of the uniform observation noise."""

    joint_pos: float = 0.002
    """rad (m: a tenth); 12 bits of a turn are 0.0015."""
    joint_vel: float = 0.05
    """rad/s, likewise."""


@dataclasses.dataclass(frozen=True)
class Variation:
    """Ranges, smallest and largest, from which every episode draws."""

    link_mass: tuple[float, float] = (0.9, 1.1)
    """Factor on each body's mass and inertia."""
    gravity_compensation: tuple[float, float] = (0.95, 1.05)
    """Share of the weight that the arm's controller believes in."""
    joint_friction: tuple[float, float] = (0.5, 1.5)
    """Factor on each joint's friction torque."""
    armature: tuple[float, float] = (0.8, 1.2)
    """Factor on each motor's reflected inertia."""
    motor_strength: tuple[float, float] = (0.8, 1.2)
    """Factor on each servo's stiffness and damping."""
    latency: tuple[float, float] = (0.0, 0.02)
    """s that targets take to reach the motors, at most one control step."""
    encoder_bias: tuple[float, float] = (-0.003, 0.003)
    """rad (m: a tenth), each joint encoder's constant error."""

    def __post_init__(self) -> None:
        randomization.require_ranges("vary", dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class TrackPoseConfig(Bounded):
    """Options of `manipulation/track-pose`."""

    robot: RobotPath = ""
    """Name, or MJCF or URDF file, of an arm (see docs/your_robot.md); by default panda."""
    orientation: bool = False
    """Whether the tip's turn counts, too."""
    goal_seconds: float = 2.0
    """s until the goal jumps to another pose."""
    action_scale: Annotated[float, POSITIVE] = 1.2
    """rad (m of a slide: a tenth) that an action of 1 moves a joint's target from home; less of slow joints."""
    within: Annotated[float, POSITIVE] = 0.02
    """m of the tip from its goal that count as solved."""
    turned: Annotated[float, POSITIVE] = 0.2
    """rad of the tip's turn from its goal's that count as solved, where it counts."""
    vary: Variation = dataclasses.field(default_factory=Variation)
    """Ranges that every episode draws from."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them. python -m embodied.list TASK names them."""
    noise: Noise = dataclasses.field(default_factory=Noise)
    """Observation noise."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.goal_seconds < TrackPose.timing.control_dt:
            raise BoundError(f"goal_seconds={self.goal_seconds} must be at least {TrackPose.timing.control_dt}")
        keep_absolute(self, PANDA)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode; n joints in the order of actions."""

    goal: Array
    """(3,) m, where the tip shall be, in the base's frame."""
    goal_turn: Array
    """(3, 3) its rotation there, columns are its axes in the base's frame."""
    age: Array
    """() int32, control steps since it became so."""
    action: Array
    """(n,) the last action."""
    action_change: Array
    """(n,) the last action minus the one before."""
    target: Array
    """(n,) rad or m, the last target."""
    encoder_bias: Array
    """(n,) rad or m."""
    latency: Array
    """() s that targets take to reach the motors."""


class TrackPose(Task[TaskState]):
    """An arm brings its tip to poses in the air ahead of it.

    Task: follow a goal that jumps every 2 s to another pose, of those that the arm reaches without touching itself or
    the ground. The tip is the middle between the fingertips where the arm has two fingers (which stay open), else the
    body or site that `robot.toml` or the reader names. Randomised at every reset: see `variations`. Success: the tip
    within 2 cm of its goal and, where `orientation` counts, within 0.2 rad of its turn, at the end of 6 s. No failure.

    Action: a target for each joint on the way to the tip, home + scale x action; see `process_action`. Parts of the arm
    meet the ground and not each other.
    """

    config_type = TrackPoseConfig
    config: TrackPoseConfig
    timing = Timing(physics_dt=0.005, substeps=4, episode_seconds=6.0)
    language = Language.of(
        "Bring the tip of the arm to the target pose.",
        "Move the arm's tip to the marked point and follow it when it jumps.",
        "Track the target pose with the end effector.",
    )

    def __init__(self, config: TrackPoseConfig | None = None, changes: Changes = UNCHANGED) -> None:
        """Read the robot's file.

        Raises:
            ModelError: the file cannot be read or is not understood, or it is no arm that can hold itself.
        """
        super().__init__(config, changes)
        self.robot = robot = arm_of(self.config.robot or PANDA)
        self.joint_names, self.action_size = robot.joint_names, len(robot.joints)
        self.unit, self.home, self.limits = robot.unit, robot.home, robot.limits
        self.effort = np.array([joint.servo.effort for joint in robot.joints])
        self.scale = np.minimum(self.config.action_scale * self.unit, TRAVEL * robot.speeds)
        self.max_step = robot.speeds * self.timing.control_dt
        low = np.maximum(self.home - INSIDE * self.scale, self.limits[:, 0])
        high = np.minimum(self.home + INSIDE * self.scale, self.limits[:, 1])
        self.poses = poses_of(robot, tuple(low.tolist()), tuple(high.tolist()))
        model = self.model
        self.arm = Arm.of(robot)
        self.qpos = np.array([int(model.joint(name).qposadr[0]) for name in self.joint_names])
        self.qvel = np.array([int(model.joint(name).dofadr[0]) for name in self.joint_names])
        self.actuators = np.array([int(model.actuator(name).id) for name in self.joint_names])
        self.home_qpos, self.home_ctrl = model.key("home").qpos.copy(), model.key("home").ctrl.copy()
        self.goal_pos = ((self.poses.pos - self.arm.base_pos) @ self.arm.base_rot).astype(np.float32)
        self.goal_rot = np.einsum("ji,kjl->kil", self.arm.base_rot, self.poses.rot).astype(np.float32)
        self.goal_steps = round(self.config.goal_seconds / self.timing.control_dt)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Term -> weight per control step; the config gives them per second."""
        weights = dataclasses.asdict(self.config.weights)
        return {name: self.timing.control_dt * weight for name, weight in weights.items()}

    def build_spec(self) -> mujoco.MjSpec:
        spec = compose_text(FLOOR, self.robot.xml)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.iterations = 4
        spec.option.ls_iterations = 6
        reach = float(np.abs(self.poses.pos).max())
        eye = reach * np.array([1.3, -1.4, 1.0])
        target = np.array([0.3 * reach, 0.0, 0.4 * reach])
        spec.stat.center, spec.stat.extent = target, 0.8 * reach  # what the free camera shows
        spec.worldbody.add_camera(name="view", pos=eye, quat=looking(eye, target), fovy=45)
        return spec

    def declared_terms(self) -> tuple[Term, ...]:
        model, vary = self.model, self.config.vary
        moving = [body for body in range(1, model.nbody) if model.body_weldid[body]]
        joints = self.qvel.tolist()
        return (
            randomization.scale_bodies("link_mass", *vary.link_mass, moving),
            randomization.scale(
                "gravity_compensation", "body_gravcomp", *vary.gravity_compensation, moving, shared=True
            ),
            randomization.scale("joint_friction", "dof_frictionloss", *vary.joint_friction, joints),
            randomization.scale("armature", "dof_armature", *vary.armature, joints),
            randomization.scale_servos("motor_strength", *vary.motor_strength, self.actuators.tolist()),
            Latency(*vary.latency).term(),
            EncoderBias(*vary.encoder_bias, unit=TURNS_OR_SLIDES).term(),
            ObservationNoise(
                dataclasses.asdict(self.config.noise),
                units={"joint_pos": TURNS_OR_SLIDES, "joint_vel": "rad/s, of a slide a tenth in m/s"},
            ).term(),
        )

    def reset(self, key: Array) -> ResetState[TaskState]:
        """Near a pose that the arm reaches freely, at rest; any goal."""
        draw, fields, goal, begin = jax.random.split(key, 4)
        n, vary = self.action_size, self.config.vary
        bias, latency = jnp.split(jax.random.uniform(draw, (n + 1,)), [n])
        joints = jnp.asarray(self.poses.joints, jnp.float32)[jax.random.randint(begin, (), 0, GOALS)]
        qpos = jnp.asarray(self.home_qpos, jnp.float32).at[self.qpos].set(joints)
        state = TaskState(
            **self._goal(goal),
            age=jnp.zeros((), jnp.int32),
            action=(joints - self.home) / self.scale,
            action_change=jnp.zeros(n),
            target=joints,
            encoder_bias=between(vary.encoder_bias, bias) * self.unit * ("encoder_bias" in self.varied),
            latency=between(vary.latency, latency[0]) * ("latency" in self.varied),
        )
        return ResetState(qpos, jnp.zeros(self.model.nv), state, randomization.draw(self.model, self.terms, fields))

    def _goal(self, key: Array) -> dict[str, Array]:
        """One of the poses, as fields of the state."""
        number = jax.random.randint(key, (), 0, GOALS)
        return {"goal": jnp.asarray(self.goal_pos)[number], "goal_turn": jnp.asarray(self.goal_rot)[number]}

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Joint targets (n,) rad or m: home + scale x action, within the limits, no faster than the joints may turn.

        A target that arrives late leaves the motors the last one for part of the step; they get the mean of the two.
        """
        del world, key
        wanted = jnp.clip(self.home + self.scale * action, self.limits[:, 0], self.limits[:, 1])
        target = state.target + jnp.clip(wanted - state.target, -self.max_step, self.max_step)
        late = target + state.latency / self.timing.control_dt * (state.target - target)
        return late, dataclasses.replace(state, action=action, action_change=action - state.action, target=target)

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world
        return Control(ctrl=jnp.asarray(self.home_ctrl, jnp.float32).at[self.actuators].set(command)), state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        """The goal jumps at the beginning of a step, so that an episode's last step still has the one before."""
        del world, action
        over = state.age >= self.goal_steps
        goal = {name: jnp.where(over, new, getattr(state, name)) for name, new in self._goal(key).items()}
        return dataclasses.replace(state, **goal, age=jnp.where(over, 0, state.age) + 1)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Frame: the robot's base.

        `policy`: joint_pos (n) rad from home and joint_vel (n) rad/s, with noise; last_action (n); tip (3) m, by
        kinematics from the measured joints; to_goal (3) m, from there; goal (3) m; where the turn counts also tip_axes
        (6) and goal_axes (6), the x and y axes of the tip and of its goal. `critic`: those; clean_joint_pos and
        clean_joint_vel; clean_to_goal (3) m; tip_vel (3) m/s, world frame; torque (n), shares of the largest; lag (n)
        rad, from joints to their targets; age () of the goal, share of its time.
        """
        angles, speeds = world.qpos[self.qpos], world.qvel[self.qvel]
        noise, on = self.config.noise, "observation_noise" in self.varied
        drawn = (2 * jax.random.uniform(key, (2, self.action_size)) - 1) * self.unit * on
        measured = angles + state.encoder_bias + noise.joint_pos * drawn[0]
        tip, axes = self.arm.tip(measured)
        goal, goal_axes = state.goal, state.goal_turn
        policy = {
            "joint_pos": measured - self.home,
            "joint_vel": speeds + noise.joint_vel * drawn[1],
            "last_action": state.action,
            "tip": tip,
            "to_goal": goal - tip,
            "goal": goal,
        }
        if self.config.orientation:
            policy |= {"tip_axes": axes[:, :2].T.reshape(-1), "goal_axes": goal_axes[:, :2].T.reshape(-1)}
        hidden = {
            "clean_joint_pos": angles - self.home,
            "clean_joint_vel": speeds,
            "clean_to_goal": goal - self.tip(world)[0],
            "tip_vel": world["tcp_linvel_w"],
            "torque": self.torques(world) / self.effort,
            "lag": state.target - angles,
            "age": (state.age / self.goal_steps)[None],
        }
        return {"policy": policy, "critic": {**policy, **hidden}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        off, turned = self.errors(world, state)
        error = off + PER_RADIAN * turned if self.config.orientation else off
        return {
            "near": jnp.exp(-error / NEAR),
            "close": jnp.exp(-error / CLOSE),
            "fine": jnp.exp(-error / FINE),
            "action_rate": squared_norm(state.action_change),
            "joint_vel": squared_norm(world.qvel[self.qvel] / self.unit),
            "effort": squared_norm(self.torques(world) / self.effort),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success: the tip is at its goal now."""
        off, turned = self.errors(world, state)
        there = off < self.config.within
        if self.config.orientation:
            there &= turned < self.config.turned
        return Outcome(success=there, failure=jnp.zeros((), bool))

    metric_units: Mapping[str, str] = {"position_error": "m", "orientation_error": "rad"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Mean distance of the tip from its goal, m; where it counts, its mean turn from it, rad."""
        off, turned = self.errors(world, state)
        return {"position_error": off, **({"orientation_error": turned} if self.config.orientation else {})}

    @functools.cached_property
    def operator(self) -> Operator:
        """The goal's position, as far as goals are drawn; its turn stays."""
        low, high = self.goal_pos.min(0).tolist(), self.goal_pos.max(0).tolist()
        spans = enumerate(zip("xyz", low, high, strict=True))
        return Operator(
            commands={
                "goal": "x, y and z m of where the tip shall be, in the frame of the robot's base",
                "goal_turn": "the tip's rotation matrix there, row by row, in the same frame",
            },
            ranges=tuple(
                CommandRange(axis, "m", start, end, "goal", (i,)) for i, (axis, start, end) in spans if start < end
            ),  # an arm in a plane has two
            measured=lambda world, state: self.tip(world)[0],
        )

    @functools.cached_property
    def pictures(self) -> Pictures:
        place, axes = (jnp.asarray(part, jnp.float32) for part in (self.arm.base_pos, self.arm.base_rot))
        return Pictures(markers=lambda world, state: {"goal": place + axes @ state.goal})

    def tip(self, world: World) -> tuple[Array, Array]:
        """Position (3,) m and rotation (3, 3) of the tip in the base's frame."""
        base = jnp.asarray(self.arm.base_rot, jnp.float32)
        away = world["tcp_pos"] - jnp.asarray(self.arm.base_pos, jnp.float32)
        return base.T @ away, base.T @ matrix_from_quat(world["tcp_orientation"])

    def errors(self, world: World, state: TaskState) -> tuple[Array, Array]:
        """() m and () rad of the tip from its goal."""
        pos, rot = self.tip(world)
        off = distance(pos, state.goal)
        cosine = (jnp.sum(rot * state.goal_turn) - 1) / 2
        return off, jnp.arccos(jnp.clip(cosine, -1 + 1e-6, 1 - 1e-6))

    def torques(self, world: World) -> Array:
        """(n,) N m or N."""
        return jnp.concatenate([world[f"{name}_torque"] for name in self.joint_names])

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """Damped least squares from the last targets, not the joints, which lag behind them; joints that the goal
        leaves free move home. Source: Wampler, IEEE Transactions on Systems, Man, and Cybernetics 16 (1986)."""
        del state
        last, n = observation["policy"][2 * self.action_size :], self.action_size
        last, goal = last[:n], last[n + 6 :]
        joints = jnp.asarray(self.home + self.scale * last)
        pos, rot = self.arm.tip(joints)
        error, jacobian = goal[:3] - pos, self.arm.jacobian(joints)[: 6 if self.config.orientation else 3]
        if self.config.orientation:
            x, y = goal[9:12], goal[12:15]
            wanted = jnp.stack([x, y, jnp.cross(x, y)], axis=1)
            turn = rotation_vector_from_quat(quat_from_matrix(wanted @ rot.T))
            error = jnp.concatenate([error, PER_RADIAN * turn])
            jacobian = jacobian * jnp.array([1.0] * 3 + [PER_RADIAN] * 3)[:, None]
        gram = jacobian @ jacobian.T + DAMPING**2 * jnp.eye(len(error))
        pull = -PULL * self.scale * last
        step = pull + jacobian.T @ jnp.linalg.solve(gram, GAIN * error - jacobian @ pull)
        step = step / jnp.maximum(1.0, jnp.max(jnp.abs(step) / self.max_step))
        return jnp.clip(last + step / self.scale, -1.0, 1.0)


def looking(eye: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(4,) wxyz of a camera at `eye` that looks at `target` (3,) m, upright."""
    back = (eye - target) / np.linalg.norm(eye - target)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(back, right), back], axis=1).ravel())
    return quat


@functools.lru_cache(maxsize=8)
def poses_of(robot: ArmModel, low: tuple[float, ...], high: tuple[float, ...]) -> Poses:
    """`reachable`, cached."""
    return reachable(robot, np.array(low), np.array(high), GOALS)
