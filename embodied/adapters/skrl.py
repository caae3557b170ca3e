"""`Env` as a skrl environment. Needs `skrl>=2`, which is not one of embodied's dependencies.

env = SkrlEnv(embodied.make("swarm/hover", num_envs=1024))
agent = PPO(models=..., memory=..., observation_space=env.observation_space, state_space=env.state_space, ...)
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": 10_000}).train()
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from skrl.envs.wrappers.torch import Wrapper  # pyright: ignore[reportMissingImports] - an extra
from torch import Tensor

from embodied.adapters.tensors import TensorView, ended_episodes
from embodied.env.env import Env
from embodied.env.vec_env import CRITIC, POLICY


class SkrlEnv(Wrapper):
    """The N environments of an `Env` for skrl: tensors (N, size), and (N, 1) where there is one number each.

    `state()` is the group `critic`, for a separate value model; None where the task has no such group.

    skrl's trainers act on the recorded next observation. With several environments, this is the first observation of
    the next episode where one ended, and `time_limit_bootstrap`, which should be set, bootstraps from its value: skrl
    has no place for the last observation, which is in `info["final_observation"]`. With a single environment it is the
    last observation, and the trainer calls `reset`.
    """

    def __init__(self, env: Env) -> None:
        groups = tuple(group for group in (POLICY, CRITIC) if group in env.observation_spec)
        self.view = TensorView(env, groups, "skrl")
        super().__init__(env)
        self._following: dict[str, Tensor] | None = None  # of the single environment, whose next episode has begun
        self._seen: dict[str, Tensor] = {}

    @property
    def observation_space(self) -> Box:
        """(size,) float32 without bounds: the group `policy`."""
        return self._box(POLICY)

    @property
    def state_space(self) -> Box | None:
        """(size,) float32 without bounds: the group `critic`, if there is one."""
        return self._box(CRITIC) if CRITIC in self.view.spec else None

    @property
    def action_space(self) -> Box:
        """(action_size,) float32 in [-1, 1]."""
        return Box(-1.0, 1.0, (self._env.action_size,), np.float32)

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        """Start every environment afresh, from the seed that `env` was made with.

        A single environment goes on to the episode that follows the one that ended.
        """
        following, self._following = self._following, None
        self._seen = self.view.of(self._env.reset()) if following is None else following
        return self._seen[POLICY], {}

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Advance every environment under `actions` (N, action_size), clipped to [-1, 1].

        Returns:
            Observation (N, size); reward, terminated and truncated (N, 1); and the info. After a step that ended
            episodes, it has `final_observation` (N, size), the one the step led to, and `episode`, means over those
            that ended, which trainers log.
        """
        step = self._env.step(self.view.action(actions).detach())
        info: dict[str, Any] = {}
        self._seen = self.view.of(step.obs)
        if ended := ended_episodes(step):
            final = self.view.of(step.final_obs)
            info = {
                "final_observation": final[POLICY],
                "episode": {f"Episode / {name}": values.mean() for name, values in ended.items()},
            }
            if self.num_envs == 1:
                self._following, self._seen = self._seen, final
        flags = step.terminated.unsqueeze(1), step.truncated.unsqueeze(1)
        return self._seen[POLICY], self.view.reward(step).unsqueeze(1), *flags, info

    def state(self) -> Tensor | None:
        """(N, size) what the critic may see now; None where the task has no group `critic`."""
        return self._seen.get(CRITIC)

    def render(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: skrl's trainers call this in every step. `python -m embodied.play` shows environments."""
        del args, kwargs

    def close(self) -> None:
        self._env.close()

    def _box(self, group: str) -> Box:
        return Box(-np.inf, np.inf, self.view.spec[group].shape, np.float32)
