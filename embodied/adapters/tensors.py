"""Shared parts of adapters: the observation groups they show, as tensors, of tasks with one agent at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from embodied.env.env import Env
from embodied.env.step import Step
from embodied.env.vec_env import ObservationSpec
from embodied.errors import ActionError, EmbodiedError, UnknownNameError


def shown_groups(
    groups: str | Sequence[str] | None, known: Iterable[str], agents: int | None, library: str
) -> tuple[str, ...]:
    """The observation groups that an adapter for `library` shows; all that are known where none are named.

    Raises:
        EmbodiedError: the task has more than one agent.
        UnknownNameError: the task has no such group.
    """
    if (agents or 1) > 1:
        raise EmbodiedError(
            f"this task has {agents} agents, and {library} takes one; "
            "use embodied.adapters.pettingzoo.parallel_env, or embodied.functional"
        )
    known = tuple(known)
    if not isinstance(groups, str | Iterable | None):
        raise EmbodiedError(f"group={groups!r:.80}; expected a name, or several, of {', '.join(known)}")
    chosen = (groups,) if isinstance(groups, str) else known if groups is None else tuple(groups)
    if not chosen:
        raise EmbodiedError(f"group={groups!r:.80}; expected one or several of {', '.join(known)}")
    for name in chosen:
        if name not in known:
            raise UnknownNameError("observation group", name, known)
    return chosen


def require_env(env: Any) -> None:
    """Refuse to adapt what is no environment of ours.

    Raises:
        EmbodiedError: it is none.
    """
    if not isinstance(env, Env):
        raise EmbodiedError(f"env is {env!r:.80}; expected an environment that embodied.make built")


class TensorView:
    """An environment as an adapter shows it: some observation groups, actions and rewards without an agents' axis.

    Vectors are (N, size) float32, images (N, 3, height, width) uint8; tensors stay on the environment's device.
    """

    def __init__(self, env: Env, groups: str | Sequence[str] | None, library: str) -> None:
        """Choose `groups` of `env`, and refuse what `shown_groups` does."""
        require_env(env)
        chosen = shown_groups(groups, env.observation_spec, env.agents, library)
        self._has_agents, self._action_shape = env.agents is not None, (env.num_envs, env.action_size)
        skipped = int(self._has_agents)
        every = env.observation_spec
        self.spec = {name: ObservationSpec(every[name].shape[skipped:], every[name].dtype) for name in chosen}
        """Group -> shape and type behind the axis of environments."""

    def of(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Group -> (N, ...); only these are read, so only these cameras draw."""
        return {name: self._without_agents(observation[name]) for name in self.spec}

    def reward(self, step: Step) -> Tensor:
        """(N,) copied, since learners add to it in place."""
        return self._without_agents(step.reward).clone()

    def action(self, action: Tensor) -> Tensor:
        """(N, action_size) as the environment takes it.

        Raises:
            ActionError: it is no tensor, or has another shape.
        """
        if not isinstance(action, Tensor):
            raise ActionError(f"action is a {type(action).__name__}; expected a torch tensor {self._action_shape}")
        if tuple(action.shape) != self._action_shape:
            expected = f"(num_envs, action_size) = {self._action_shape}"
            raise ActionError(f"action has shape {tuple(action.shape)}; expected {expected}")
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
