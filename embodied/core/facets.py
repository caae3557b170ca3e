"""Facets of a task: optional parts of its contract, each for one kind of reader; a task without one has None.

    language = Language.of("Open the drawer.", "Pull the drawer out.")

    @functools.cached_property
    def pictures(self) -> Pictures:
        return dataclasses.replace(super().pictures, markers=lambda world, state: {"goal": state.goal})

Functions of a facet are hooks: pure functions of one environment. A task makes a facet once, so that programs compiled
from its functions are found again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Self

import jax.numpy as jnp
from jax import Array

from embodied.core.instruction import Instruction
from embodied.core.world import World
from embodied.errors import EmbodiedError


@dataclasses.dataclass(frozen=True)
class Facet:
    """Values and functions of a task."""

    def of_wrapper(self, inner: Callable[[Any], Any], outer: Callable[[Any, Any], Any]) -> Self:
        """The same facet for the states of a wrapper, see `inner_state` and `outer_state` of `TaskWrapper`.

        Here, the state is the last argument of every function, and none returns it.
        """
        del outer

        def through(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given: function(*given[:-1], inner(given[-1]))

        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **{name: through(one) for name, one in own.items() if callable(one)})


@dataclasses.dataclass(frozen=True)
class CommandRange:
    """One number of a command that a person may set while the task runs, and between which values."""

    name: str
    """Meaning of the number, in the frame that the field has."""
    unit: str
    """Its unit."""
    low: float
    high: float
    field: str
    """Field of the task's state that holds it: path, with dots."""
    index: tuple[int, ...] = ()
    """Its index in the field; with a row for each agent, its index in a row, and the number is the agents' mean."""
    default: float = 0.0
    """Its value where the field is None, because the task then chooses one."""
    rotation: bool = False
    """Whether the field is a quaternion wxyz; the number then is the component `index` of its rotation vector, and all
    three components are numbers of the command, in their order."""
    derivatives: tuple[str, ...] = ()
    """Fields with time derivatives of that one, which are zero while a person sets it."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"{self.name} from {self.low} to {self.high}: expected the smaller value first")


@dataclasses.dataclass(frozen=True)
class TermDescription:
    """Unit and meaning of an observed term."""

    unit: str
    meaning: str
    """Meaning of the numbers, the frame they are in, and their values before the first action."""
    sensor: str = ""
    """Sensor of the model, `joint_pos` or `joint_vel`, whose errors the term's observation noise stands for."""


@dataclasses.dataclass(frozen=True)
class Deployment:
    """Facts of the robot for a deployment, beside what follows from the task's own functions and its model."""

    terms: Mapping[str, TermDescription] = dataclasses.field(default_factory=dict)
    """Terms of the observation group `policy`, as far as they are described."""
    workspace: tuple[tuple[float, float], ...] = ()
    """m, x, y and z between which the body may be; empty: anywhere."""
    max_tilt: float = math.inf
    """rad between the body's z axis and up, beyond which the robot has fallen."""
    stands: bool = False
    """Whether its servos alone hold the robot in its home pose, so that it is moved there before the policy runs."""


@dataclasses.dataclass(frozen=True)
class Operator(Facet):
    """Commands that a robot is given, and what it is sent itself: for steering, the viewer's panel and deployments."""

    commands: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Fields of the task's state that a robot receives and does not measure, such as a velocity command, a goal or a
    plan: path, with dots, -> meaning of its numbers, with units and frame. In a deployment an operator sets them."""
    first_commands: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The same for fields that are set once, before the first step, and that every step then changes."""
    ranges: tuple[CommandRange, ...] = ()
    """Numbers of the command that a person may set while the task runs (`embodied.env.wrappers.steering`).

    In the order of the keys and sticks that set them: forward and back, left and right, turning (or up and down).
    """
    measured: Callable[[World, Any], Array] | None = None
    """World and the task's state to (k,) what the robot does now, in the numbers of `ranges`; None: unknown."""
    setpoints: tuple[str, ...] = ()
    """Names and units of the results of `process_action` (for one agent), where a robot receives those and runs its own
    controllers; otherwise it receives `Control.ctrl`."""
    deployment: Deployment = Deployment()
    """Facts of the robot for a deployment."""

    def measured_command(self, world: World, state: Any) -> Array:
        """(k,) what the robot does now, in the numbers of `ranges`; NaN where unknown."""
        return jnp.full(len(self.ranges), jnp.nan) if self.measured is None else self.measured(world, state)


@dataclasses.dataclass(frozen=True)
class Language(Facet):
    """The task in language, for policies that follow instructions and suites whose tasks are encoded by words."""

    instructions: tuple[str, ...]
    """The instruction, then paraphrases."""
    of_episode: Callable[[Any], Instruction] | None = None
    """An episode's instruction from its state, as numpy arrays (it is not traced); None: every episode has the same."""

    @property
    def varies(self) -> bool:
        """Whether the instruction depends on the episode."""
        return self.of_episode is not None

    def instruction(self, state: Any) -> Instruction:
        """The instruction of an episode, from its state as numpy arrays."""
        return Instruction(self.instructions) if self.of_episode is None else self.of_episode(state)

    @classmethod
    def of(cls, *instructions: str) -> Self:
        """The same instruction in every episode, and paraphrases."""
        return cls(instructions)


def refuse_exchange(world: World, state: Any, agent: Array) -> tuple[World, Any]:
    """Default of `Team.seen_by`.

    Raises:
        EmbodiedError: always.
    """
    raise EmbodiedError("agents of this task cannot change places: no `seen_by` says what each of them sees")


@dataclasses.dataclass(frozen=True)
class Team(Facet):
    """Several agents that each observe, act and earn; they begin and end together, so outcomes stay ().

    Actions are (agents, action_size), every observed term (agents, ...), and every reward term and metric () or
    (agents,). A task without a team has one robot, and no axis of agents anywhere.
    """

    agents: int
    """Their number."""
    sides: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """Sides of a game: name -> its agents, of which every one is on one side. Empty: all agents are on one side.

    Sides earn opposed rewards, so returns are reported of each of them, too. Success is that of the side named first:
    it wins an episode in which success holds at any step, and otherwise the other side does.
    """
    seen_by: Callable[[World, Any, Array], tuple[World, Any]] = refuse_exchange
    """World, state and agent, () int, to the world and state with that agent and the first one exchanged.

    A policy exported as the first agent's drives any agent by it. In the state, the commands are to be exchanged.
    """

    def of_wrapper(self, inner: Callable[[Any], Any], outer: Callable[[Any, Any], Any]) -> Self:
        def seen_by(world: World, state: Any, agent: Array) -> tuple[World, Any]:
            world, within = self.seen_by(world, inner(state), agent)
            return world, outer(within, state)

        return dataclasses.replace(self, seen_by=seen_by)


def draw_nothing(*given: Any) -> Mapping[str, Array]:
    """Default of functions of `Pictures`."""
    del given
    return {}


def keep_places(state: Any) -> Array | None:
    """Default of `Pictures.mocap_positions`."""
    del state
    return None


@dataclasses.dataclass(frozen=True)
class Pictures(Facet):
    """Cameras, marks and looks, for viewers, renderers and datasets; physics and rewards depend on none of them.

    Functions take the world and the task's state, or the state alone.
    """

    agent_cameras: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Name -> the cameras of the model that agents carry under it, in their order, for what each of them sees."""
    markers: Callable[[World, Any], Mapping[str, Array]] = draw_nothing
    """Named points to draw beside the robot, such as a target: (3,) or (k, 3) m, world frame. For people only."""
    goals: Callable[[World, Any], Mapping[str, Array]] = draw_nothing
    """Bodies to draw a second time at their goal poses, such as a cube to be turned. For people only.

    Name of a body -> (7,): position m and quaternion wxyz, world frame.
    """
    keypoints: Callable[[World, Any], Mapping[str, Array]] = draw_nothing
    """Points that the instruction is about, such as an object and its goal: name -> (3,) m, world frame.

    Datasets record where cameras see them, and a policy that sees learns to point at them.
    """
    mocap_positions: Callable[[Any], Array | None] = keep_places
    """Positions (nmocap, 3) m of the mocap bodies, where the task places them and an engine may not keep them.

    Engines read `Control.mocap_pos`. None: pictures show what the engine keeps.
    """
    geom_appearance: Callable[[Any], Mapping[str, Array]] = draw_nothing
    """Shapes that differ between episodes: name of a geom -> (14,) size (3) and position (3) m, quaternion wxyz (4) in
    its body's frame, colour (4). Engines read `ResetState.model`.
    """


FACETS: Mapping[str, type[Facet]] = {"operator": Operator, "language": Language, "pictures": Pictures, "team": Team}
"""Name of every facet among the hooks -> its type."""
