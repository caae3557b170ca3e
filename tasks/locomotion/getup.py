"""`locomotion/*-getup`: a fallen robot rolls over and stands up."""

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
from embodied.core.facets import Language, Operator
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import gaussian_kernel, squared_norm
from embodied.math.rotations import quat_multiply
from embodied.math.sampling import tilted
from embodied.math.symmetry import Reflection, unchanged
from embodied.storage.bounds import FRACTION
from tasks.locomotion.legged import IN_CONTACT, LeggedConfig, LeggedTask
from tasks.locomotion.robots import GO1

UPRIGHT = 0.966  # cos 15 degrees, success: the trunk leans less than this ...
HIGH = 0.8  # ... and is higher than this fraction of its height at home ...
AT_HOME = 0.5  # rad, ... with no joint further than this from home ...
STEADY = 0.5  # s, ... for this long
DROP = 0.5  # m, height of the trunk's centre at the start, from which the robot falls before it can act
LEAD = 0.8  # rad that a moved target may be ahead of its joint: 28 N m of a Go1's servos, about what its motors give
TORQUE = 1.2  # of another robot's largest torque, that a moved target may command of a joint's servo
LIMP = 0.4  # s at the start of an episode during which the motors hold the pose the robot fell in


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms per second (after MuJoCo Playground's Go1 getup)."""

    orientation: float = 2.0
    """Height of the trunk's z axis, from 0 upside down to 1; even, so that the back is no plateau."""
    height: float = 3.0
    """Rise of the trunk, in [0, 1]; counts only as far as it is upright."""
    posture: float = 5.0
    """Closeness of the joints to the home pose once the trunk is up, in [0, 1]."""
    stand_still: float = 1.0
    """Closeness of the joints to rest once the robot stands, in [0, 1]."""
    feet: float = 0.5
    """Fraction of the feet on the ground while upright."""
    joint_limits: float = -1.0
    """rad beyond 95 % of the joints' ranges."""
    torques: float = -2e-4
    """Norm plus sum of the torques, N m."""
    energy: float = -1e-3
    """Mechanical power of the motors, W."""
    action_rate: float = -0.01
    """Squared change of the action."""


@dataclasses.dataclass(frozen=True)
class GetupConfig(LeggedConfig):
    """Options of the getup tasks."""

    action_scale: float = 0.3
    """rad that an action of 1 moves a joint's target in one control step."""
    standing: Annotated[float, FRACTION] = 0.2
    """Fraction of episodes that begin on the feet, so that the robot also learns to stay there."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of one fallen robot's episode; joints in the robot's own order."""

    limp: Array
    """() s until the robot may act."""
    target: Array
    """(n,) rad, where the motors are to hold the joints."""
    encoder_bias: Array
    """(n,) rad."""
    latency: Array
    """() s that targets take to reach the motors."""
    action: Array
    """(n,) the last action."""
    action_change: Array
    """(n,) the last action minus the one before."""
    steady_steps: Array
    """() int32 control steps since the robot last did not stand."""


class Getup(LeggedTask[TaskState]):
    """A quadruped, dropped in any orientation and pose, rolls over and stands.

    Task: stand in the home pose. Randomised at every reset: orientation and joints (a fifth of the episodes begin on
    the feet), and see `variations`. Success: for the last 0.5 s of 6 s the trunk leans less than 15 degrees, is higher
    than 80 % of its height at home, and no joint is more than 0.5 rad from home. Nothing ends an episode early.

    Action: change of the joints' targets, see `moved`. The robot's parts collide with each other, but for those that
    touch in the home pose: legs cannot pass through the trunk.

    Settings were chosen for Go1. With `scaled`, the height of the drop goes with the robot's height, and targets may be
    as far ahead of the joints as the motors have torque for.
    """

    config_type = GetupConfig
    config: GetupConfig
    pushed = False
    drop: float = DROP
    """m, height of the trunk's centre from which the robot falls."""
    lead: float | np.ndarray = LEAD
    """rad, or (n,) of each joint, that a moved target may be ahead."""
    language = Language.of("Stand up.", "Get back on your feet.", "Roll over and stand in your home pose.")
    timing = Timing(physics_dt=0.004, substeps=5, episode_seconds=6.0)

    def __init__(self, config: GetupConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        if self.config.scaled:
            rows, model = self.layout.actuators, self.model
            effort, stiffness = model.actuator_forcerange[rows, 1], model.actuator_gainprm[rows, 0]
            self.drop = DROP * self.robot.height / GO1.height
            self.lead = (TORQUE * effort / stiffness).astype(np.float32)

    def further_reflections(self, joints: Reflection, feet: Reflection) -> Mapping[str, Reflection]:
        return {"target": joints, "limp": unchanged(1)}

    def build_spec(self) -> mujoco.MjSpec:
        spec = super().build_spec()
        for geom in spec.geoms:
            if geom.conaffinity and geom.parent != spec.worldbody:
                geom.contype = 1
        for first, second in touching(spec.compile()):
            spec.add_exclude(bodyname1=first, bodyname2=second)
        return spec

    def reset(self, key: Array) -> ResetState[TaskState]:
        layout, joints = self.layout, len(self.robot.joint_names)
        draw, fields = jax.random.split(key)
        sizes = np.cumsum([joints, joints, 3, 3, 1])
        pose, bias, tilt, roll, upright, latency = jnp.split(jax.random.uniform(draw, (sizes[-1] + 1,)), sizes)
        low, high = layout.limits[:, 0], layout.limits[:, 1]
        standing = upright[0] < self.config.standing
        quat = quat_multiply(tilted(tilt, np.pi), tilted(roll, np.pi))
        fallen = jnp.concatenate([jnp.array([0.0, 0.0, self.drop]), quat])
        home = jnp.concatenate([jnp.array([0.0, 0.0, self.robot.height + 0.02]), tilted(tilt, 0.2)])
        angles = jnp.where(standing, layout.home, low + (high - low) * pose)
        qpos, qvel = self.state_at(jnp.where(standing, home, fallen), angles, jnp.zeros(6))
        bias, late = self.episode_constants(bias, latency[0])
        state = TaskState(
            limp=jnp.where(standing, 0.0, LIMP),
            target=jnp.where(standing, layout.stance, angles),
            encoder_bias=bias,
            latency=late,
            action=jnp.zeros(joints),
            action_change=jnp.zeros(joints),
            steady_steps=jnp.zeros((), jnp.int32),
        )
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Joint targets (n,) in rad; see `LeggedTask.delayed` for the latency."""
        del key
        limp = state.limp > 0
        action = jnp.where(limp, 0.0, action)
        delayed = self.delayed(action, state.action, state.latency)
        moved = self.moved(state.target, delayed, world, state.encoder_bias)
        target = jnp.where(limp, state.target, moved)
        state = dataclasses.replace(state, target=target, action=action, action_change=action - state.action)
        return target, state

    def moved(self, target: Array, action: Array, world: World, encoder_bias: Array) -> Array:
        """Joint targets (n,) rad moved by an `action` (n,), within the joints' ranges and `lead` of the joints.

        Without an action the robot holds its pose, and exploring is a random walk of the legs through all poses, where
        offsets from one pose would only tremble around it, which turned over few robots that lay on their backs.
        """
        here = world.qpos[self.layout.qpos] + encoder_bias
        moved = jnp.clip(target + self.action_scale * action, here - self.lead, here + self.lead)
        return jnp.clip(moved, *self.layout.limits.T)

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action, key
        steady = jnp.where(self._stands(world), state.steady_steps + 1, 0)
        return dataclasses.replace(state, limp=state.limp - self.timing.control_dt, steady_steps=steady)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Measurements of the robot's own sensors.

        `policy`, with noise: gyro (3) rad/s, gravity's direction (3) in the body frame, joint_pos (n) rad from home,
        joint_vel (n) rad/s, last_action (n), target (n) rad from home, limp (1), s until it may act. `critic`: those;
        the first four clean; linvel (3) m/s, height (1) m, contact (k), torque (n) N m.
        """
        clean, noisy = self.sense(world, state.encoder_bias, key, linvel=False)
        policy = {
            **noisy,
            "last_action": state.action,
            "target": state.target - self.layout.home,
            "limp": jnp.maximum(state.limp, 0.0)[None],
        }
        return {"policy": policy, "critic": {**policy, **self.privileged(world, clean)}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        up, offset = self.up_b(world)[2], self.offset(world)
        speed = world.qvel[self.layout.qvel]
        turned = (1 + up) / 2
        upright = jnp.square(turned)
        risen = jnp.clip(self.height(world) / self.robot.height, 0.0, 1.0)
        is_up = (up > UPRIGHT) & (risen > HIGH)
        # Wide enough to be felt with all legs folded, 1 rad from home in eight joints.
        posture = jnp.exp(-0.25 * jnp.sum(offset**2))
        touching = self.touch(world) > IN_CONTACT
        return {
            "orientation": turned,
            "height": risen * upright,
            "posture": posture * upright**4,
            "stand_still": gaussian_kernel(squared_norm(speed), 4.0) * posture * is_up,
            "feet": jnp.mean(touching.astype(jnp.float32)) * upright**4,
            "joint_limits": self.beyond_limits(world),
            **self.effort(world, state.action_change),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success: has stood for half a second; nothing fails."""
        del world
        return Outcome(success=state.steady_steps * self.timing.control_dt >= STEADY, failure=jnp.zeros((), bool))

    metric_units: Mapping[str, str] = {"height": "m"}

    @functools.cached_property
    def operator(self) -> Operator:
        return Operator(
            first_commands={
                "limp": "s until it may act: 0 of one that stands, 1 of one that is dropped",
                "target": "rad, the targets of the servos: those of the home pose, or the measured angles if it is "
                "limp",
            }
        )

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Fraction of the time on its feet, and mean height in m."""
        del state
        return {"standing": self._stands(world).astype(jnp.float32), "height": self.height(world)}

    def _stands(self, world: World) -> Array:
        high = self.height(world) > HIGH * self.robot.height
        at_home = jnp.max(jnp.abs(self.offset(world))) < AT_HOME
        return (self.up_b(world)[2] > UPRIGHT) & high & at_home


def touching(model: mujoco.MjModel) -> list[tuple[str, str]]:
    """Pairs of bodies of the robot that are inside each other in the home pose."""
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    mujoco.mj_forward(model, data)
    pairs = {tuple(sorted(int(model.geom_bodyid[geom]) for geom in contact.geom)) for contact in data.contact}
    return [(model.body(low).name, model.body(high).name) for low, high in sorted(pairs) if low != 0]
