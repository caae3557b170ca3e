"""`Env` as an rsl_rl `VecEnv`. Needs `rsl-rl-lib>=4`, which is not one of embodied's dependencies.

env = RslRlVecEnv(embodied.make("swarm/hover", num_envs=1024))
OnPolicyRunner(env, config, log_dir="runs/rsl_rl", device=str(env.device)).learn(100, init_at_random_ep_len=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from rsl_rl.env import VecEnv  # pyright: ignore[reportMissingImports] - an extra
from tensordict import TensorDict  # pyright: ignore[reportMissingImports]
from torch import Tensor

from embodied.adapters.tensors import TensorView, ended_episodes
from embodied.env.env import Env


class RslRlVecEnv(VecEnv):
    """The N environments of an `Env` as rsl_rl expects them.

    Observations are a TensorDict of the task's groups. rsl_rl's actor takes `policy`, its critic takes `critic` where
    the task has such a group, unless `obs_groups` of the configuration selects others. Where an episode ended, they
    are already the first of the next one; rsl_rl bootstraps from the value before the step where
    `extras["time_outs"]` marks that only time ended it. `extras["log"]` has success, metrics and divergence of the
    episodes that ended.
    """

    def __init__(self, env: Env, groups: Sequence[str] | None = None) -> None:
        self.env, self.view = env, TensorView(env, groups, "rsl_rl")
        self.num_envs, self.num_actions, self.device = env.num_envs, env.action_size, env.device
        self.max_episode_length = env.max_episode_steps
        self.cfg = {"task": env.name, "engine": env.engine_name, "seed": env.seed}
        self._observation = self._shown(env.reset())  # rsl_rl reads it before it steps, and never resets

    @property
    def episode_length_buf(self) -> Tensor:
        """(N,) int32 control steps taken so far in the running episodes; a copy, which can be assigned."""
        return self.env.episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Tensor) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.env.episode_length = steps

    def get_observations(self) -> TensorDict:
        """Present observations of the environments: group -> (N, size)."""
        return self._observation

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Advance every environment under `actions` (N, action_size), clipped to [-1, 1].

        Returns:
            Observations; rewards (N,); dones (N,) int64; and extras, see the class.
        """
        step = self.env.step(self.view.action(actions))
        self._observation = self._shown(step.obs)
        extras: dict[str, Any] = {"time_outs": step.truncated}
        if ended := ended_episodes(step):
            extras["log"] = {f"Episode/{name}": values for name, values in ended.items()}
        return self._observation, self.view.reward(step), step.done.to(torch.int64), extras

    def close(self) -> None:
        self.env.close()

    def _shown(self, observation: Any) -> TensorDict:
        return TensorDict(self.view.of(observation), batch_size=[self.num_envs], device=self.device)
