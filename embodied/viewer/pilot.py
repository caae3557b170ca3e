"""A person who acts for one agent of a team, by keyboard or gamepad, while a policy acts for the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError

KEYS = ("W S", "A D", "Q E")


class Pilot:
    """Holds the values of keys and sticks, and gives them to an agent as its action.

    They are the first numbers of the action, as far as they are moved; the others, and all of them while nothing is
    touched, are zero: a drone with velocity commands then hovers.
    """

    def __init__(self, agent: int) -> None:
        self.agent = agent
        self.deflection = np.zeros(3)

    def require_fit(self, env: Env) -> None:
        """Check that the task has this agent.

        Raises:
            EmbodiedError: It has one robot, or fewer agents.
        """
        if env.agents is None or self.agent >= env.agents:
            has = "one robot" if env.agents is None else f"agents 0 to {env.agents - 1}"
            raise EmbodiedError(f"--pilot {self.agent}: {env.name} has {has}; expected a task with that agent")

    def among(self, policy: PolicyFunction) -> PolicyFunction:
        """The policy (worlds, agents, A) of a whole team in which the person takes the agent's place."""

        def act(obs: Mapping[str, Tensor]) -> Tensor:
            action = policy(obs).clone()
            own = torch.as_tensor(self.deflection, dtype=action.dtype, device=action.device)
            action[:, self.agent] = 0.0
            moved = min(len(own), action.shape[-1])
            action[:, self.agent, :moved] = own[:moved]
            return action

        return act

    def hint(self, env: Env) -> str:
        """Functions of the keys, for the panel."""
        operator = env.task.operator
        names = (operator and operator.setpoints) or tuple(f"action {number}" for number in range(env.action_size))
        keys = ", ".join(f"{key}: {name}" for key, name in zip(KEYS, names, strict=False))
        return f"you act for agent {self.agent} ({keys})"
