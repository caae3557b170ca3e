"""`Tabletop`: base of all fifty tasks: the scene, control of the hand, observations, the scale of rewards.

A task is a subclass that defines the things on the table, where they are drawn, when it is solved, its stages, and its
script: see `pucks.py`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.episode import first_keys
from embodied.core.facets import Operator, Pictures
from embodied.core.hooks import PROPRIO, Observation, Timing
from embodied.core.randomization import Term
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.errors import EmbodiedError
from embodied.robot import NAME
from embodied.robot.option import RobotPath, keep_absolute
from embodied.storage.bounds import Bounded, at_least
from tasks.manipulation.common import panda
from tasks.manipulation.common.draws import Box, Ranges
from tasks.manipulation.common.objects import TOP
from tasks.manipulation.common.rewards import FULL, distance
from tasks.manipulation.common.robots import PANDA, TableRobot, table_robot
from tasks.manipulation.common.skills import STEP, Aim, Seen, steer

SCENE = "scenes/table.xml"
LEAD = 0.05  # m the target may be ahead of the hand: what it trails at 0.8 m/s, one STEP per control step; and a
# hand that is held up presses no harder than the servos do over this distance, and turns back without delay
WORKSPACE = Box((-0.5, 0.4, 0.001), (0.5, 0.955, 0.455))
"""m, where the tcp may be led; Meta-World's box for the hand, 45 mm lower, but above the table: its z >= .05 leaves the
hand at .046."""
FLOORLESS = Box((*WORKSPACE.low[:2], -LEAD), WORKSPACE.high)
"""m, the same where Meta-World's box ends below the table: only what lies there stops the hand."""

MIDDLE = (0.0, 0.5909433, 0.0, -2.3774723, 0.0, 2.9684043, -0.7853982)
"""rad, arm joints with the tcp at (0, .6, .15): where most of Meta-World's tasks begin, its hand at z = .195."""
BACK = (0.0, 0.4698332, 0.0, -2.9460125, 0.0, 3.4157388, -0.7853982)
"""rad, the tcp at (0, .4, .15)."""
LEFT = (0.7929212, 0.9746841, 0.0146418, -1.5203042, -0.0199121, 2.4949968, 0.0315627)
"""rad, the tcp at (-.5, .6, .15)."""

GENTLE = 0.5  # share of Meta-World's speed within an arm's limits, .4 m/s: faster, scripts can no longer brake in time
BRAKES = 3.0  # m/s^2 at which the hand is taken to brake; joint 2 alone gives it 3.4 at half a metre from its axis
REACHED_LOW = 0.03  # m, tcp: lower than this no hand need reach for what an episode draws
SEEN = 18  # numbers of one step: hand, opening, two objects


@dataclasses.dataclass(frozen=True)
class TabletopConfig(Bounded):
    """Options of every manipulation task."""

    hide_goal: bool = False
    """Observe zeros in place of the goal, as the meta-learning benchmarks (ML1, ML10, ML45) do; the critic sees it.
    Cameras see no mark at the goal then."""
    goals: Annotated[int | None, at_least(1)] = None
    """Number of starts and goals, as in the benchmarks: each environment meets all before any twice. None: all new."""
    goal_seed: int = 0
    """Which ones: those with which `Env.reset(goal_seed)` begins in environments 0, 1, 2 ..."""
    arm_limits: bool = False
    """Whether the joints keep to their limits of acceleration (in robot.toml), too: the hand then moves half as fast as
    Meta-World's, 5 mm a step at most, and later."""
    robot: RobotPath = ""
    """Name, or MJCF or URDF file, of an arm with a two-finger gripper (see docs/your_robot.md); by default panda."""

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_absolute(self, PANDA)


@dataclasses.dataclass(frozen=True)
class Placement:
    """Places of everything at an episode's start."""

    goal: Array
    """(3) m."""
    joints: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    """Joint -> position: (7) of a free one (m, wxyz) or its first (3), () rad or m of any other."""
    fixtures: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    """Body made by `objects.fixture` -> (3) m."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode."""

    goal: Array
    """(3) m, world frame."""
    fixtures: Array
    """(nmocap, 3) m, where the fixtures stand that every episode places anew."""
    joints: Array
    """(n) rad, the last targets of the arm's servos; the Panda has 7."""
    speeds: Array
    """(n) rad/s, how fast these move, where `TabletopConfig.arm_limits` holds; else zeros."""
    target: Array
    """(3) m, where the hand is led: of the tcp, world frame."""
    previous: Array
    """(18) what the step before observed."""
    begun: Array
    """() bool, whether there was a step before."""
    number: Array
    """() int32, of the start among `TabletopConfig.goals`; 0 without."""


class Tabletop(Task[TaskState], abc.ABC):
    """A Panda with a slim gripper at a table.

    The contract is Meta-World's: 80 Hz, 500 steps, no failure; see `process_action` and `observe`. Differences: the
    hand is an arm's, which follows by inverse kinematics and servos; quaternions are wxyz everywhere; the first
    observation shows the world as it is; `reset` honours its seed; rewards reach 10 exactly where the task is solved.

    Fixtures stand elsewhere in every episode as mocap bodies, with joints below them: nothing derives from where a
    mocap body stands, so no constant of the model goes stale, the engines need no model of each episode's own, and
    pictures show them. `ResetState.mocap_pos` places them for the first observation, `Control.mocap_pos` ever after.
    They are only shifted: a fixture that faces another way is built turned.
    """

    config_type = TabletopConfig
    config: Any  # a TabletopConfig, or a subclass
    # Two implicit steps of 6.25 ms take the place of five of 2.5 ms in Meta-World: nothing here is stiffer than that.
    timing = Timing(physics_dt=panda.CONTROL_DT / 2, substeps=2, episode_seconds=500 * panda.CONTROL_DT)
    action_size = 4
    max_reward = FULL
    ranges: ClassVar[Ranges]
    """Ranges of start and goal."""
    stages: ClassVar[Mapping[str, float]]
    """Reward of each stage that `progress` returns; success is worth the rest to `FULL`."""
    hand_start: ClassVar[tuple[float, ...]] = MIDDLE
    """rad, the Panda's joints at the start: `MIDDLE`, `BACK` or `LEFT`. Another arm's hand begins at the same place."""
    reached: ClassVar[float]
    """m, the largest `error` that counts as solved; Meta-World."""
    along: ClassVar[int | None] = None
    """World axis along which `error` is measured; None: in space."""
    workspace: ClassVar[Box] = WORKSPACE
    """m, where the tcp may be led."""

    # Definition of a task.

    @abc.abstractmethod
    def furnish(self, spec: mujoco.MjSpec) -> None:
        """Put things on the table, by the functions of `objects`; `watch` at least one of them."""

    @abc.abstractmethod
    def place(self, start: Array, goal: Array) -> Placement:
        """Places of everything, from a draw of `ranges`: two positions (3) m."""

    def solved(self, world: World, state: TaskState) -> Array:
        """() bool, Meta-World's success; by default that the `error` is within `reached`."""
        return self.error(world, state) <= self.reached

    @abc.abstractmethod
    def progress(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Progress of each of the `stages`, () in [0, 1]; see `tasks.manipulation.common.rewards`."""

    @abc.abstractmethod
    def script(self, seen: Seen) -> Aim:
        """Aim of the task's script now; see `tasks.manipulation.common.skills`."""

    def error(self, world: World, state: TaskState) -> Array:
        """() m left to do; by default from the first object to the goal, `along` an axis. Metric `position_error`."""
        pos = world["object1_pos"]
        return distance(pos, state.goal) if self.along is None else jnp.abs(pos[self.along] - state.goal[self.along])

    # Derived from it.

    @functools.cached_property
    def robot(self) -> TableRobot:
        """The arm, in its place, where its hand reaches what an episode draws."""
        corners = np.concatenate([box.corners for box in self.drawn_boxes])
        robot = table_robot(self.config.robot, np.maximum(corners, [-np.inf, -np.inf, REACHED_LOW]))
        if self.config.arm_limits and not np.isfinite(robot.model.accelerations).all():
            raise EmbodiedError(f"arm_limits: {self.config.robot} states no accelerations; say acceleration in {NAME}")
        return robot

    @property
    def drawn_boxes(self) -> tuple[Box, ...]:
        """Boxes in which an episode draws starts and goals."""
        return tuple(box for box in (self.ranges.start, self.ranges.goal) if box is not None)

    def build_spec(self) -> mujoco.MjSpec:
        spec = self.robot.compose(SCENE)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.impratio = 10  # friction stiffer than the contact's normal: what is held does not creep away
        for name, value in TOP.items():
            setattr(spec.geom("table"), name, value)
        self.furnish(spec)
        return spec

    def declared_terms(self) -> tuple[Term, ...]:
        drawn = self.ranges
        ranges = (*drawn.start.ranges("start"), *(drawn.goal.ranges("goal") if drawn.goal else ()))
        described = "where things begin and are to go"
        described += f", at least {drawn.apart:g} m apart along the table" if drawn.apart else ""
        if (goals := self.config.goals) is not None:
            described += f"; one of {goals} draws of these, which config.goal_seed decides"
        return (Term("start", described, optional=False, ranges=ranges, no_range="always the same"),)

    def reset(self, key: Array) -> ResetState[TaskState]:
        """An episode that begins as drawn by `ranges`, or at one of the starts that the config numbers."""
        if (goals := self.config.goals) is None:
            return self.draw(key)
        return self._numbered(jax.random.randint(key, (), 0, goals), goals)

    def draw(self, key: Array) -> ResetState[TaskState]:
        return self.begin(self.place(*self.ranges.draw(key)))

    def restart(self, key: Array, state: TaskState) -> ResetState[TaskState]:
        """As `reset`; of numbered starts, the one that follows."""
        if (goals := self.config.goals) is None:
            return self.reset(key)
        return self._numbered((state.number + 1) % goals, goals)

    def _numbered(self, number: Array, goals: int) -> ResetState[TaskState]:
        """Start `number` of `goals`."""
        keys = first_keys(self.config.goal_seed, goals)
        start = self.draw(keys[number])
        return dataclasses.replace(
            start, task_state=dataclasses.replace(start.task_state, number=number.astype(jnp.int32))
        )

    @functools.cached_property
    def start_joints(self) -> np.ndarray:
        """(n,) rad, the arm's joints at the start."""
        return self.robot.start(self.hand_start)

    def begin(self, placement: Placement) -> ResetState[TaskState]:
        """An episode that begins with everything in its place, the hand open and at rest."""
        model = self.model
        qpos = jnp.asarray(model.qpos0, jnp.float32)
        robot, gripper = self.robot, self.robot.gripper
        arm = jnp.asarray(self.start_joints, jnp.float32)
        hand = dict(zip((*robot.model.joint_names, *gripper.joints), (*arm, *gripper.open), strict=True))
        for name, value in {**hand, **placement.joints}.items():
            first, value = model.joint(name).qposadr[0], jnp.atleast_1d(jnp.asarray(value, jnp.float32))
            qpos = qpos.at[first : first + len(value)].set(value)
        fixtures = jnp.zeros((model.nmocap, 3))
        for name, pos in placement.fixtures.items():
            fixtures = fixtures.at[model.body(name).mocapid[0]].set(pos)
        state = TaskState(
            goal=placement.goal,
            fixtures=fixtures,
            joints=arm,
            speeds=jnp.zeros_like(arm),
            target=robot.tcp(arm),
            previous=jnp.zeros(SEEN),
            begun=jnp.zeros((), bool),
            number=jnp.zeros((), jnp.int32),
        )
        return ResetState(qpos, jnp.zeros(model.nv), state, mocap_pos=fixtures if model.nmocap else None)

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Lead the hand: the first three numbers move its target, by 1 cm each at most, x, y and z of the world.

        The fourth is the gripper's effort: fingers close at .34 m/s times it, and press with 400 N times it, 70 N at
        most; -1 opens. The target stays in the workspace and within 5 cm of the hand; the arm follows by inverse
        kinematics (`panda.follow`), its hand pointing down. With `arm_limits` the target moves by 5 mm at most, the
        joints keep to their limits of acceleration (`TableRobot.eased`), and the hand brakes before it is at the end of
        the workspace.
        """
        del key
        tcp = world["tcp_pos"]
        low, high = jnp.asarray(self.workspace.low), jnp.asarray(self.workspace.high)
        step = STEP * action[:3]
        if self.config.arm_limits:
            step = jnp.clip(GENTLE * step, -braking(state.target - low), braking(high - state.target))
        ahead = state.target + step - tcp
        ahead = ahead * jnp.minimum(1.0, LEAD / jnp.maximum(distance(ahead, 0.0), 1e-6))
        target = jnp.clip(tcp + ahead, low, high)
        if self.config.arm_limits:
            joints, speeds = self.robot.eased(state.joints, state.speeds, self.robot.follow(state.joints, target))
            target = self.robot.tcp(joints)
        else:
            joints, speeds = self.robot.follow(state.joints, target), state.speeds
        state = dataclasses.replace(
            state, joints=joints, speeds=speeds, target=target, previous=self.seen(world), begun=jnp.ones((), bool)
        )
        return jnp.concatenate([joints, action[3:]]), state

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world
        return Control(ctrl=self.robot.controls(command), mocap_pos=self._mocap_positions(state)), state

    def _mocap_positions(self, state: TaskState) -> Array | None:
        return state.fixtures if self.model.nmocap else None

    def seen(self, world: World) -> Array:
        """(18) what one step shows, see `observe`."""
        robot = self.robot
        opening = robot.opening(jnp.stack([world.qpos[place] for place in self._places(robot.gripper.joints)]))
        known = "object2_pos" in world.layout.names
        second = (world["object2_pos"], world["object2_quat"]) if known else (jnp.zeros(7),)
        return jnp.concatenate([world["hand_pos"], opening, world["object1_pos"], world["object1_quat"], *second])

    def _places(self, joints: Sequence[str]) -> list[int]:
        """Places of some joints in qpos."""
        return [int(self.model.joint(name).qposadr[0]) for name in joints]

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Meta-World's 39 numbers, m, world frame, quaternions wxyz.

        `policy`: hand (3), 45 mm above the tcp; opening (1) of the gripper, .99 open, .29 closed, which is 18 mm apart;
        objects (14), position and quaternion of the first and of the second, zeros where there is none; previous (18),
        the same of the step before, of this one at the start; goal (3), zeros where hidden. `critic`: those, with the
        goal, and joint_pos (n) m or rad, joint_vel (n) of robot, objects and fixtures. `proprio`, what the robot knows
        of itself: hand, opening and joint_pos (n) rad of the arm, 7 of the Panda.
        """
        del key
        seen = self.seen(world)
        shown = {
            "hand": seen[:3],
            "opening": seen[3:4],
            "objects": seen[4:],
            "previous": jnp.where(state.begun, state.previous, seen),
        }
        hidden = {"joint_pos": world.qpos, "joint_vel": world.qvel}
        goal = jnp.zeros(3) if self.config.hide_goal else state.goal
        arm = jnp.stack([world.qpos[place] for place in self._places(self.robot.model.joint_names)])
        return {
            "policy": {**shown, "goal": goal},
            "critic": {**shown, "goal": state.goal, **hidden},
            PROPRIO: {"hand": seen[:3], "opening": seen[3:4], "joint_pos": arm},
        }

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """The stages and the success, `FULL` together: the scale is part of the benchmark, so no option."""
        return {**self.stages, "success": FULL - sum(self.stages.values())}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        """The task's stages, and success; where it is solved, every stage counts as done, however that was."""
        del action
        solved = self.solved(world, state).astype(jnp.float32)
        stages = {name: jnp.maximum(value, solved) for name, value in self.progress(world, state).items()}
        return {**stages, "success": solved}

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success at this instant; an episode lasts its 500 steps in any case."""
        return Outcome(success=self.solved(world, state), failure=jnp.zeros((), bool))

    metric_units: Mapping[str, str] = {"position_error": "m"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        return {"position_error": self.error(world, state)}

    @functools.cached_property
    def operator(self) -> Operator:
        return Operator(commands={"goal": "x, y and z m of where the object (or the hand) shall be, world frame"})

    @functools.cached_property
    def pictures(self) -> Pictures:
        return Pictures(
            markers=lambda world, state: {"goal": state.goal},
            keypoints=lambda world, state: {"object": world["object1_pos"], "goal": state.goal},
            mocap_positions=self._mocap_positions,
        )

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """The task's script. It sees the group `policy`, and the goal also where it is hidden from policies."""
        seen = Seen.of(observation["policy"])
        if self.config.hide_goal:
            seen = dataclasses.replace(seen, goal=state.goal)
        return steer(seen, self.script(seen))


def braking(room: Array) -> Array:
    """The most, m, that a hand may move in a control step to be at rest within so many m."""
    return jnp.sqrt(2 * BRAKES * jnp.maximum(room, 0.0)) * panda.CONTROL_DT
