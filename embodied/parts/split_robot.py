"""A robot as a team: a task of one robot becomes one of many agents, each of which moves some of its actuators."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.facets import Team
from embodied.core.hooks import Observation, TaskHooks
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import StateT, World

AGENT = "agent"  # the observed term that tells agents apart


class SplitRobot(TaskWrapper[StateT]):
    """A task of one robot whose actuators are shared out among agents, which earn alike.

    Multi-agent MuJoCo (Peng et al., "FACMAC: Factored multi-agent centralised policy gradients", NeurIPS 2021,
    arXiv:2003.06709) in the setting of HARL (Zhong et al., JMLR 2024): every agent observes the whole robot, and which
    agent it is. The task within runs on the agents' joined actions, to the bit: episodes, rewards and outcomes are its
    own.
    """

    action_size: int = 0
    expert = TaskHooks.expert  # of the whole robot, where the task within has one
    mirror = None

    def __init__(self, task: Task[Any], joints: Sequence[Sequence[int]]) -> None:
        """Take a task of one robot and, for each agent, its entries of that task's action.

        Raises:
            ValueError: the task has agents already, or an entry belongs to none or to several, or agents have more or
                fewer than others.
        """
        super().__init__(task)
        numbers = [number for own in joints for number in own]
        if task.team is not None or sorted(numbers) != list(range(task.action_size)):
            raise ValueError(f"joints {joints}: expected each of the {task.action_size} of one robot once")
        if len({len(own) for own in joints}) != 1:
            raise ValueError(f"joints {joints}: expected as many for each agent")
        self.count, self.action_size = len(joints), len(joints[0])
        self._place = np.argsort(numbers)  # of each entry of the robot's action among the agents' entries

    @functools.cached_property
    def team(self) -> Team:
        """Agents that cannot change places, as their joints differ."""
        return Team(self.count)

    @property
    def unwrapped(self) -> Task[Any]:
        """This task: policies for the robot within do not fit it."""
        return self

    def joined(self, action: Array) -> Array:
        """The robot's action, from (agents, action_size)."""
        return action.reshape(-1)[self._place]

    def process_action(self, world: World, state: StateT, action: Array, key: Array) -> tuple[Any, StateT]:
        return super().process_action(world, state, self.joined(action), key)

    def post_step(self, world: World, state: StateT, action: Array, key: Array) -> StateT:
        return super().post_step(world, state, self.joined(action), key)

    def rewards(self, world: World, state: StateT, action: Array) -> Any:
        """The robot's, which all agents earn."""
        return super().rewards(world, state, self.joined(action))

    def observe(self, world: World, state: StateT, key: Array) -> Observation:
        """`policy`: what the robot observes, and `agent` (agents,), 1 at the agent's place. `critic`: what a critic of
        the robot alone reads, the same for all agents.

        Terms are those of the single task: position and velocity; of the ant contact forces; of the humanoid inertia,
        body velocity, actuator torques and contact forces.
        """
        groups = super().observe(world, state, key)
        groups = {**groups, "critic": groups.get("critic", groups["policy"])}
        seen = {
            group: {name: jnp.broadcast_to(term, (self.count, *term.shape)) for name, term in terms.items()}
            for group, terms in groups.items()
        }
        return {**seen, "policy": {**seen["policy"], AGENT: jnp.eye(self.count)}}
