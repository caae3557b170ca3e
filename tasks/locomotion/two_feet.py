"""`locomotion/*-handstand` and `*-footstand`: a quadruped balances on its front or its hind feet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import Language
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.world import Outcome, ResetState, World
from embodied.errors import ModelError
from embodied.math.rewards import squared_norm
from embodied.math.rotations import quat_from_yaw, quat_multiply, quat_rotate, quat_rotate_inverse
from embodied.robot.prepared.roles import Role
from embodied.storage.bounds import FRACTION, BoundError
from tasks.locomotion.legged import IN_CONTACT, LeggedConfig, LeggedTask

VERTICAL = 0.94  # cos 20 degrees, success: the trunk's x axis leans less than this from the vertical ...
STEADY = 1.0  # s, ... for this long, with the other two feet in the air
DOWN = 0.5  # sin 30 degrees, the pitch below which a robot that has balanced has fallen: it would rise again and again
RISEN = 1.8  # of the height at home: the trunk's centre when it stands upright on two feet
KNEELING = 1.5  # of the height at home: higher than the trunk's centre on upright shanks, or on its own end
OFF = 0.15  # m from the middle between the standing feet at which the capture point earns 1/e
CLEARANCE = 0.02  # m under the feet at the start
PHASES = np.linspace(0.0, 1.0, 11)  # of the way up, for which the trunk's height is measured
RAISED = 0.866  # sin 60 degrees, the pitch from which on actions move the joints around the pose of balance
GROUNDED = 0.02  # m of air under the trunk or the head, with less of which it lies, or sits, on the ground


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms per second (after MuJoCo Playground's Go1 handstand)."""

    height: float = 3.0
    """Rise of the trunk over its height at home, squared, in [0, 1]: lying or kneeling earns little, and every second
    in balance is worth the fall after it."""
    orientation: float = 1.5
    """The same times the squared cosine between the trunk's x axis and the vertical."""
    lift: float = 0.5
    """The same as `height`, times how high the lower of the other two feet is."""
    balance: float = 3.0
    """While vertical, and high on two feet with the other two in the air."""
    support: float = 3.0
    """As `height`, times how near the capture point is to the middle between the standing feet: a step is worth its
    while long before the fall that it prevents. A robot that leans too far is lost a second before it falls; rewards
    for height and balance alone taught stiff legs that fell as slowly as they could."""
    stillness: float = 0.5
    """Closeness of the trunk's angular velocity to zero while vertical, in [0, 1]. More of it keeps the robot from
    learning the steps that it needs to stay up."""
    other_feet: float = -0.2
    """Other feet on the ground."""
    fall: float = -50.0
    """Once, for a failure: per second, so one control step of it."""
    joint_limits: float = -1.0
    """rad beyond 95 % of the joints' ranges."""
    torques: float = -1e-4
    """Norm plus sum of the torques, N m."""
    energy: float = -5e-4
    """Mechanical power of the motors, W."""
    action_rate: float = -0.01
    """Squared change of the action."""


@dataclasses.dataclass(frozen=True)
class TwoFeetConfig(LeggedConfig):
    """Options of handstand and footstand."""

    action_scale: float = 0.6
    """rad that an action of 1 moves a joint's target from `Handstand.pose`."""
    upright_starts: Annotated[float, FRACTION] = 0.8
    """Share of the episodes that begin in balance, on two feet: what is to be reached is seen from the beginning."""
    rising_starts: Annotated[float, FRACTION] = 0.15
    """Share of those that begin somewhere on the way up, trunk at rest at any pitch. All others begin standing: with
    more of these from the beginning, robots that rise and fall again crowd out what could be learned of balance."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        upright, rising = self.upright_starts, self.rising_starts
        if upright + rising > 1:
            raise BoundError(f"upright_starts={upright} and rising_starts={rising} must be at most 1 together")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of one balancing robot's episode; joints in the robot's own order."""

    encoder_bias: Array
    """(n,) rad."""
    latency: Array
    """() s that targets take to reach the motors."""
    action: Array
    """(n,) the last action."""
    action_change: Array
    """(n,) the last action minus the one before."""
    steady_steps: Array
    """() int32 control steps since the robot last did not balance."""
    up: Array
    """() bool, whether it has balanced already."""


class Handstand(LeggedTask[TaskState]):
    """A quadruped rises from standing onto its front feet and stays there.

    Task: trunk vertical, nose down, hind feet in the air. Randomised at every reset: joints, heading, and see
    `variations`; episodes begin standing, in balance, or on the way up. Success: for the last second of 10 s the trunk
    leans less than 20 degrees from the vertical, half as high again as at home or higher, with the hind feet in the
    air. Failure: trunk or head touch the ground, or once in balance the trunk comes down to a pitch of 30 degrees.

    Action: offset of the joints' targets from `pose`.
    """

    nose: ClassVar[float] = -1.0
    """Height of the unit vector along the trunk's x axis when balanced."""
    pitch: ClassVar[float] = np.radians(80.0)
    """rad of the trunk from level in balance. Not 90: a Go1's front thighs end where they point straight to the nose;
    upright on them it could step to one side only."""
    sweep: ClassVar[float] = 0.2
    """rad by which the standing legs then lean towards the belly, so that the feet are under the centre of mass."""
    raised: ClassVar[float] = -1.0
    """Sign of x, in the home pose, of the feet that are to leave the ground: the hind ones."""
    config_type = TwoFeetConfig
    config: TwoFeetConfig
    pushed = False
    language = Language.of("Do a handstand.", "Balance on your front feet.", "Stand on your front legs, nose down.")
    timing = Timing(physics_dt=0.004, substeps=5, episode_seconds=10.0)

    def __init__(self, config: TwoFeetConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        if len(self.robot.feet) != 4:
            raise ModelError(f"{self.robot.source.file} stands on {len(self.robot.feet)} feet; expected 4")
        # How far its shapes reach along the axes of the trunk, and against them: the box, and the head before it.
        shapes = np.flatnonzero((self.model.geom_bodyid == self.layout.trunk) & (self.model.geom_conaffinity > 0))
        centre, reach = self.model.geom_pos[shapes], self.model.geom_aabb[shapes, 3:]
        self.front, self.back = (reach + centre).max(0), (reach - centre).max(0)
        ahead = self._feet_at(self.layout.home)[:, 0]
        self.others, self.standing = np.flatnonzero(self.raised * ahead > 0), np.flatnonzero(self.raised * ahead < 0)
        self.upright_pose = self._upright_pose()
        self.rise = np.array([self._height(phase) for phase in PHASES])

    def _upright_pose(self) -> np.ndarray:
        """Joints (n,) rad in balance.

        The trunk is turned by `pitch`, and the standing legs' thighs against it, so that these legs stay as they were,
        but for `sweep`.
        """
        legs = [joint for foot in self.standing for joint in self.robot.leg(int(foot))]
        thighs = [joint for joint in legs if self.robot.roles[joint] is Role.HIP]
        pose = self.layout.home.copy()
        pose[thighs] = np.clip(pose[thighs] + self.nose * self.pitch + self.sweep, *self.layout.limits[thighs].T)
        return pose

    def _feet_at(self, joints: np.ndarray, pitch: float = 0.0) -> np.ndarray:
        """(4, 3) m, world frame, of the feet, with the trunk at the origin and nose down by `pitch` rad."""
        data, layout = mujoco.MjData(self.model), self.layout
        data.qpos[layout.root_qpos : layout.root_qpos + 7] = [0, 0, 0, np.cos(pitch / 2), 0, np.sin(pitch / 2), 0]
        data.qpos[layout.qpos] = joints
        mujoco.mj_forward(self.model, data)
        return np.array([data.sensor(f"{foot}_pos").data for foot in self.robot.feet])

    def _height(self, phase: float) -> float:
        """m of the trunk with the standing feet on the ground, on the way up from standing, 0, to balancing, 1."""
        joints = self.layout.home + phase * (self.upright_pose - self.layout.home)
        feet = self._feet_at(joints, -self.nose * phase * self.pitch)
        return float(self.robot.foot_radius - feet[self.standing, 2].min())

    def reset(self, key: Array) -> ResetState[TaskState]:
        """Standing near the home pose, balanced already, or between, at a random heading."""
        joints, config = len(self.robot.joint_names), self.config
        draw, fields = jax.random.split(key)
        sizes = np.cumsum([joints, joints, 1, 1])
        pose, bias, heading, latency, chance = jnp.split(jax.random.uniform(draw, (sizes[-1] + 1,)), sizes)
        between = (chance[0] - config.upright_starts) / max(config.rising_starts, 1e-9)
        phase = jnp.where(between < 0, 1.0, jnp.where(between < 1, between, 0.0))
        half = -self.nose * phase * self.pitch / 2
        lean = jnp.stack([jnp.cos(half), jnp.zeros(()), jnp.sin(half), jnp.zeros(())])
        quat = quat_multiply(quat_from_yaw(2 * jnp.pi * heading[0]), lean)
        height = jnp.interp(phase, PHASES, self.rise) + CLEARANCE
        noise = (1 - 0.5 * phase) * jnp.asarray(self.layout.home) * (0.4 * pose - 0.2)
        rest = self.layout.home + phase * (self.upright_pose - self.layout.home)
        base = jnp.concatenate([jnp.stack([jnp.zeros(()), jnp.zeros(()), height]), quat])
        qpos, qvel = self.state_at(base, jnp.asarray(rest) + noise, jnp.zeros(6))
        bias, late = self.episode_constants(bias, latency[0])
        state = TaskState(
            encoder_bias=bias,
            latency=late,
            action=jnp.zeros(joints),
            action_change=jnp.zeros(joints),
            steady_steps=jnp.zeros((), jnp.int32),
            up=jnp.zeros((), bool),
        )
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def pose(self, world: World) -> Array:
        """(n,) rad, around which actions move the joints: the standing legs turn under the trunk as it rises.

        They are ahead of it, so that a robot that has left the ground a little is helped up, and stay as they are in
        balance from a pitch of 60 degrees on, so that it is held there. Exploration trembles around the balance, where
        changes of the targets would add up to a random walk that leaves it at once.
        """
        phase = jnp.arcsin(jnp.clip(self._alignment(world), 0.0, RAISED)) / np.arcsin(RAISED)
        return self.layout.stance + phase * (self.upright_pose - self.layout.stance)

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Joint targets (n,) in rad; see `LeggedTask.delayed` for the latency."""
        del key
        target = self.pose(world) + self.action_scale * self.delayed(action, state.action, state.latency)
        state = dataclasses.replace(state, action=action, action_change=action - state.action)
        return jnp.clip(target, *self.layout.limits.T), state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action, key
        balances = self._balances(world)
        steady_steps = jnp.where(balances, state.steady_steps + 1, 0)
        return dataclasses.replace(state, steady_steps=steady_steps, up=state.up | balances)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Measurements of the robot's own sensors.

        `policy`, with noise: gyro (3) rad/s, gravity's direction (3) in the body frame, joint_pos (n) rad from home,
        joint_vel (n) rad/s, last_action (n). `critic`: those; the first four clean; linvel (3) m/s, height (1) m,
        contact (k), torque (n) N m.
        """
        clean, noisy = self.sense(world, state.encoder_bias, key, linvel=False)
        policy = {**noisy, "last_action": state.action}
        return {"policy": policy, "critic": {**policy, **self.privileged(world, clean)}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        alignment = self._alignment(world)
        home = self.robot.height
        risen = jnp.square(jnp.clip((self.height(world) / home - 1.0) / (RISEN - 1.0), 0.0, 1.0))
        vertical = jnp.square(jnp.maximum(alignment, 0.0))
        lower = jnp.min(self.feet(world, "pos")[self.others, 2]) - self.robot.foot_radius
        return {
            "height": risen,
            "orientation": risen * vertical,
            "lift": risen * jnp.clip(lower / (RISEN * home), 0.0, 1.0),
            "balance": self._balances(world).astype(jnp.float32),
            "support": risen * jnp.exp(-squared_norm(self._capture_offset(world) / OFF)),
            "stillness": jnp.exp(-squared_norm(world["gyro"])) * vertical**2,
            "other_feet": jnp.sum(self._others_touch(world).astype(jnp.float32)),
            "fall": self._fallen(world, state).astype(jnp.float32),
            "joint_limits": self.beyond_limits(world),
            **self.effort(world, state.action_change),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success: has balanced for a second; failure: trunk or head on the ground, or down again."""
        success = state.steady_steps * self.timing.control_dt >= STEADY
        return Outcome(success=success, failure=self._fallen(world, state))

    metric_units: Mapping[str, str] = {"height": "m"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Fraction of the time balanced, and mean height in m."""
        del state
        return {"balanced": self._balances(world).astype(jnp.float32), "height": self.height(world)}

    def _alignment(self, world: World) -> Array:
        """() cosine of the angle between the trunk's x axis and where it should point."""
        return self.nose * quat_rotate(world["orientation"], jnp.array([1.0, 0.0, 0.0]))[2]

    def _capture_offset(self, world: World) -> Array:
        """(2,) m along the ground from the middle between the standing feet to the capture point.

        The point on which a linear inverted pendulum comes to rest, x + v sqrt(z / g) (Pratt et al. 2006, "Capture
        point", eq. 4), of the trunk, which has most of the mass.
        """
        swing = jnp.sqrt(jnp.maximum(self.height(world), 0.0) / -self.model.opt.gravity[2])
        middle = jnp.mean(self.feet(world, "pos")[self.standing, :2], axis=0)
        return world["position"][:2] + world["linvel_w"][:2] * swing - middle

    def _others_touch(self, world: World) -> Array:
        return self.touch(world)[self.others] > IN_CONTACT

    def _balances(self, world: World) -> Array:
        high = self.height(world) > KNEELING * self.robot.height
        return (self._alignment(world) > VERTICAL) & high & ~jnp.any(self._others_touch(world))

    def _fallen(self, world: World, state: TaskState) -> Array:
        return self._lies(world) | (state.up & (self._alignment(world) < DOWN))

    def _lies(self, world: World) -> Array:
        """() bool, whether the lowest corner of the box around trunk and head is at the ground."""
        down = -quat_rotate_inverse(world["orientation"], jnp.array([0.0, 0.0, 1.0]))
        lowest = jnp.sum(jnp.where(down > 0, down * self.front, -down * self.back))
        return self.height(world) - lowest < GROUNDED


class Footstand(Handstand):
    """A quadruped rises from standing onto its hind feet and stays there.

    Task: trunk vertical, nose up, front feet in the air. Otherwise as the handstand.
    """

    nose = 1.0
    pitch = np.radians(90.0)
    sweep = 0.0
    raised = 1.0
    language = Language.of("Stand on your hind feet.", "Rear up and balance.", "Balance on your hind legs, nose up.")
