"""What the adapters of torch libraries share: observation groups as tensors, of tasks with one agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from embodied.env.env import Env
from embodied.env.step import Step
from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError, UnknownNameError


class TensorView:
    """What an adapter shows of an environment: some observation groups, actions and rewards without an agents' axis.

    Vectors are (N, size) float32, images (N, 3, height, width) uint8; tensors stay on the environment's device.
    """

    def __init__(self, env: Env, groups: Sequence[str] | None, library: str) -> None:
        """Choose `groups` of `env`; by default all.

        Raises:
            EmbodiedError: the task has more than one agent.
            UnknownNameError: the task has no such group.
        """
        if (env.agents or 1) > 1:
            raise EmbodiedError(
                f"this task has {env.agents} agents, and the adapter for {library} takes one; "
                "use embodied.env.adapters.pettingzoo.parallel_env"
            )
        self._has_agents = env.agents is not None
        for name in groups or ():
            if name not in env.observation_spec:
                raise UnknownNameError("observation group", name, env.observation_spec)
        self.spec = {
            name: ObservationSpec(of.shape[1:] if self._has_agents else of.shape, of.dtype)
            for name, of in env.observation_spec.items()
            if groups is None or name in groups
        }
        """Group -> shape and type behind the axis of environments."""

    def of(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Group -> (N, ...); only these are read, so only these cameras draw."""
        return {name: self._without_agents(observation[name]) for name in self.spec}

    def reward(self, step: Step) -> Tensor:
        """(N,) copied, since learners add to it in place."""
        return self._without_agents(step.reward).clone()

    def action(self, action: Tensor) -> Tensor:
        """(N, action_size) as the environment takes it."""
        return action.unsqueeze(1) if self._has_agents else action

    def _without_agents(self, tensor: Tensor) -> Tensor:
        return tensor[:, 0] if self._has_agents else tensor


def ended_episodes(step: Step) -> dict[str, Tensor]:
    """(k,) each, of the k episodes that this step ended: `success` (at the last step), `success_any`, `return`,
    `length`, `diverged` and the mean of each of the task's own metrics; empty where none ended."""
    done = step.done
    if not bool(done.any()):
        return {}
    values = {"success": step.success, **step.info}
    return {name: value.reshape(len(done), -1)[done][:, 0].to(torch.float32) for name, value in values.items()}
