"""`locomotion/half-cheetah-2x3`, `ant-4x2`, `humanoid-17x1`: one body as a team, whose agents move some joints each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation
from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.parts.split_robot import AGENT, SplitRobot
from tasks.locomotion.classic.ant import Ant, AntConfig
from tasks.locomotion.classic.base import Classic
from tasks.locomotion.classic.half_cheetah import HalfCheetah, HalfCheetahConfig
from tasks.locomotion.classic.humanoid import Humanoid, HumanoidConfig


@dataclasses.dataclass(frozen=True)
class TeamOptions:
    """Observation of a classic body's agents, with multi-agent MuJoCo's name."""

    agent_obsk: int | None = None
    """Joints farther than this from all of an agent's own read 0 to it, and of the rest it observes the root's and the
    joints' position and velocity only; 0: its own joints. None: it sees the whole robot. Critics see it always."""

    def check(self) -> None:
        """Raise an EmbodiedError for a negative distance."""
        if self.agent_obsk is not None and self.agent_obsk < 0:
            raise EmbodiedError(f"agent_obsk={self.agent_obsk}; expected 0 or more joints, or None for the whole robot")


class SplitClassic(SplitRobot[Any]):
    """A classic body as a team; children name the body, and the joints of each agent."""

    body: ClassVar[type[Classic]]
    joints: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Joints of each agent; without any, every motor is an agent."""

    def __init__(self, config: Any = None) -> None:
        task = self.body(self.config_type() if config is None else config)
        task.config.check()
        model = task.model
        moved = [int(joint) for joint in model.actuator_trnid[:, 0]]
        names = [model.joint(joint).name for joint in moved]
        shares = [[names.index(joint) for joint in own] for own in self.joints or zip(names, strict=True)]
        super().__init__(task, shares)
        within = task.config.agent_obsk
        own = [[moved[number] for number in share] for share in shares]
        self._visible = None if within is None else visible(model, own, within)

    def __repr__(self) -> str:
        return type(self).__name__

    def observe(self, world: World, state: Any, key: Array) -> Observation:
        groups = super().observe(world, state, key)
        if self._visible is None:
            return groups
        policy, (places, speeds) = groups["policy"], self._visible
        position = policy["position"] * places[:, -policy["position"].shape[1] :]  # without what the policy never sees
        seen = {"position": position, "velocity": policy["velocity"] * speeds, AGENT: policy[AGENT]}
        return {**groups, "policy": seen}

    observe.__doc__ = SplitRobot.observe.__doc__


def visible(model: mujoco.MjModel, own: Sequence[Sequence[int]], within: int) -> tuple[np.ndarray, np.ndarray]:
    """1 for each entry of qpos (agents, nq) and qvel (agents, nv) that an agent sees, 0 for the others.

    Args:
        model: A body whose root has the first joints, on which no motor acts.
        own: Joints of each agent.
        within: How many joints away it sees others. Joints are next to each other where they hold the same rigid part.
    """
    hops = distances(model, sorted(joint for joints in own for joint in joints))
    places, speeds = np.ones((len(own), model.nq), np.float32), np.ones((len(own), model.nv), np.float32)
    for agent, joints in enumerate(own):
        for other, away in hops.items():
            if min(away[joint] for joint in joints) > within:
                places[agent, model.jnt_qposadr[other]] = speeds[agent, model.jnt_dofadr[other]] = 0.0
    return places, speeds


def distances(model: mujoco.MjModel, joints: Sequence[int]) -> dict[int, dict[int, int]]:
    """Joint -> joint -> how many joints lie from one to the other; to itself 0."""
    bodies = {joint: int(model.jnt_bodyid[joint]) for joint in joints}
    parts = {
        joint: {int(model.body_weldid[body]), int(model.body_weldid[model.body_parentid[body]])}
        for joint, body in bodies.items()
    }
    found: dict[int, dict[int, int]] = {}
    for joint in joints:
        away, reached, hop = {joint: 0}, set(parts[joint]), 0
        while len(away) < len(joints):
            hop += 1
            step = [other for other in joints if other not in away and parts[other] & reached]
            assert step, "motors of several robots"
            away.update(dict.fromkeys(step, hop))
            reached = reached.union(*(parts[other] for other in step))
        found[joint] = away
    return found


@dataclasses.dataclass(frozen=True)
class HalfCheetahTeamConfig(HalfCheetahConfig, TeamOptions):
    """Options of `locomotion/half-cheetah-2x3`."""


@dataclasses.dataclass(frozen=True)
class AntTeamConfig(AntConfig, TeamOptions):
    """Options of `locomotion/ant-4x2`."""


@dataclasses.dataclass(frozen=True)
class HumanoidTeamConfig(HumanoidConfig, TeamOptions):
    """Options of `locomotion/humanoid-17x1`."""


class HalfCheetah2x3(SplitClassic):
    """The half-cheetah as two agents: the hind leg, the front leg (multi-agent MuJoCo's HalfCheetah 2x3).

    Task: run along +x. Randomised: positions by U(-0.1, 0.1), velocities by 0.1 N(0, 1). Reward, time limit and success
    are those of `locomotion/half-cheetah`; both agents earn the same.

    Action: torque of thigh, shin and foot.
    """

    config_type = HalfCheetahTeamConfig
    body = HalfCheetah
    language = Language.of("Run forward as fast as you can, each moving one leg.", "Gallop ahead together.")
    joints = (("bthigh", "bshin", "bfoot"), ("fthigh", "fshin", "ffoot"))


class Ant4x2(SplitClassic):
    """The ant as four agents: its legs 1 to 4 (multi-agent MuJoCo's Ant 4x2).

    Task: run along +x. Randomised: positions by U(-0.1, 0.1), velocities by 0.1 N(0, 1). Reward, failure, time limit
    and success are those of `locomotion/ant`; all agents earn the same.

    Action: torque of hip and ankle.
    """

    config_type = AntTeamConfig
    body = Ant
    language = Language.of("Run forward, each moving one leg of the ant.", "Make the ant walk ahead together.")
    joints = tuple((f"hip_{leg}", f"ankle_{leg}") for leg in (1, 2, 3, 4))


class Humanoid17x1(SplitClassic):
    """The humanoid as seventeen agents, one for each motor (multi-agent MuJoCo's Humanoid 17x1).

    Task: walk along +x without falling. Randomised: positions and velocities by U(-0.01, 0.01). Reward, failure, time
    limit and success are those of `locomotion/humanoid`, the order of the agents is that of its motors; all agents earn
    the same.

    Action: torque of the motor.
    """

    config_type = HumanoidTeamConfig
    body = Humanoid
    language = Language.of("Walk forward without falling, each moving one joint.", "Make the humanoid walk together.")
