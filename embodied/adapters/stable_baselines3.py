"""`Env` as a Stable-Baselines3 `VecEnv`. Needs `stable-baselines3`, which is not one of embodied's dependencies.

env = SB3VecEnv(embodied.make("swarm/hover", num_envs=64))
PPO("MlpPolicy", env).learn(1_000_000)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn

from embodied.adapters.gymnasium import GymnasiumVectorEnv
from embodied.core.episode import SEEDS
from embodied.env.env import Env
from embodied.errors import ActionError, EmbodiedError, whole_number


class SB3VecEnv(VecEnv):
    """The N environments of an `Env` as Stable-Baselines3 expects them.

    Observations are (N, size) float32, or a dictionary of several groups, for `MultiInputPolicy`; rewards (N,) float32,
    dones (N,) bool. The info of an environment is empty until its episode ends; then it holds

    - `terminal_observation` (size,), the observation the step led to (the one returned begins the next episode);
    - `TimeLimit.truncated`, whether the time limit ended it, so that its value is bootstrapped;
    - `episode` with `r`, `l` and `t`, as `Monitor` reports them, and `is_success`, whether it was solved at its end,
      which Stable-Baselines3 logs as `rollout/ep_rew_mean`, `ep_len_mean` and `success_rate`;
    - `success_any`, `diverged` and the task's metrics.
    """

    def __init__(self, env: Env, group: str | Sequence[str] = "policy", render_mode: str | None = None) -> None:
        self.vector = GymnasiumVectorEnv(env, group, render_mode)
        self.actions: NDArray[np.float32] | None = None  # of the step that has begun
        super().__init__(env.num_envs, self.vector.single_observation_space, self.vector.single_action_space)

    def reset(self) -> Any:
        """Start every environment afresh, from the seed last given to `seed` if there is one.

        Raises:
            EmbodiedError: options were set; none exist.
        """
        options = {name: value for each in self._options for name, value in each.items()}
        observation, _ = self.vector.reset(seed=self._seeds[0], options=options)
        self._reset_seeds()
        self._reset_options()
        return observation

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """The seed of the next reset, by default a random one; environment i takes seed + i.

        Raises:
            EmbodiedError: the seed is no whole number from 0 to 2**32 - 1.
        """
        return super().seed(None if seed is None else whole_number("seed", seed, 0, SEEDS - 1))

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """The options of the next reset, which refuses them: none exist.

        Raises:
            EmbodiedError: that is no dictionary, nor a list of them.
        """
        every = options if isinstance(options, list) else [{} if options is None else options]
        if not all(isinstance(one, dict) for one in every):
            raise EmbodiedError(f"options={options!r:.80}; expected a dictionary, or a list of them")
        super().set_options(options)

    def step_async(self, actions: NDArray[np.float32]) -> None:
        """Take note of `actions` (N, action_size)."""
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Advance every environment; see the class for what comes back.

        Raises:
            ActionError: no step has begun, or with actions of the wrong shape or type, or that are not finite.
        """
        if self.actions is None:
            raise ActionError("step_wait() before step_async(): call step_async(actions) first, or step(actions)")
        actions, self.actions = self.actions, None
        observation, reward, terminations, truncations, infos = self.vector.step(actions)
        done = terminations | truncations
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(done).tolist():
            rows[index] = _row(infos["final_info"], index)
            rows[index]["is_success"] = rows[index].pop("success")
            rows[index]["terminal_observation"] = infos["final_obs"][index]
            rows[index]["TimeLimit.truncated"] = bool(truncations[index])
        return observation, reward, done, rows

    def close(self) -> None:
        self.vector.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """One picture (height, width, 3) per environment, or None each where no render mode was chosen."""
        return self.vector.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of the vector environment or else of `env`, once per index: the environments share it."""
        holder = self.vector if hasattr(self.vector, attr_name) else self.vector.env
        return [getattr(holder, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of `env`, which its environments share.

        Raises:
            EmbodiedError: only some of the environments were meant.
        """
        self._check_all(indices, f"attribute {attr_name!r}")
        setattr(self.vector.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list:
        """Call a method of `env` once, for all of its environments; its result, once per environment.

        Raises:
            EmbodiedError: only some of the environments were meant.
        """
        self._check_all(indices, f"method {method_name!r}")
        result = getattr(self.vector.env, method_name)(*method_args, **method_kwargs)
        return [result] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """True for `Monitor`, whose work this class does, and for nothing else.

        Raises:
            EmbodiedError: `wrapper_class` is no class.
        """
        if not isinstance(wrapper_class, type):
            raise EmbodiedError(f"wrapper_class={wrapper_class!r:.80}; expected a class, such as Monitor")
        return [issubclass(wrapper_class, Monitor) for _ in self._get_indices(indices)]

    def _get_indices(self, indices: VecEnvIndices) -> Iterable[int]:
        """The environments that are meant; all of them where none are named.

        Raises:
            EmbodiedError: there is none of such a number.
        """
        chosen: Any = super()._get_indices(indices)
        every = chosen if isinstance(chosen, Iterable) else [chosen]
        return [whole_number("indices", index, 0, self.num_envs - 1) for index in every]

    def _check_all(self, indices: VecEnvIndices, what: str) -> None:
        chosen = sorted(set(self._get_indices(indices)))
        if chosen != list(range(self.num_envs)):
            raise EmbodiedError(
                f"{what} was meant for environments {chosen}; all {self.num_envs} share it: give no indices"
            )


def _row(infos: dict[str, Any], index: int) -> dict[str, Any]:
    """One environment's part of Gymnasium's batched infos, as Python numbers."""
    return {
        name: _row(value, index) if isinstance(value, dict) else value[index].item()
        for name, value in infos.items()
        if not name.startswith("_")
    }
