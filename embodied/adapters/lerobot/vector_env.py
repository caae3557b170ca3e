"""`Env` as the vector environment that LeRobot's rollouts step: pixels, agent position, task words, success."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Dict
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from embodied.adapters.gymnasium import View, action_space, as_array, as_tensor, metadata, one_agent
from embodied.adapters.tensors import shown_groups
from embodied.core.episode import SEEDS
from embodied.core.facets import Language
from embodied.core.hooks import PIXELS, PROPRIO
from embodied.env.env import Env
from embodied.env.wrappers.instructions import instructions_of
from embodied.errors import ActionError

FILM_HEIGHT = 240  # pixels; smaller pictures are enlarged by a whole number for films


class Success(enum.StrEnum):
    """When an episode counts as a success."""

    LAST = "last"
    """Solved at its last step."""
    ANY = "any"
    """Solved at any of its steps."""


class LeRobotVectorEnv(VectorEnv[Any, NDArray[Any], NDArray[Any]]):
    """The N environments of an `Env` as `lerobot.scripts.lerobot_eval.rollout` expects them.

    An observation is `pixels`, camera -> (N, height, width, 3) uint8, and `agent_pos` (N, size) float32, one of the
    task's observation groups. They are what a step led to, also where it ended an episode. Where one ended, the infos
    have `final_info` with `is_success` (N,) bool.

    LeRobot's rollouts read little of a vector environment, so one `Env` steps all environments at once instead of
    copies of a single one.

    LeRobot steps until the last environment's episode ended. An environment whose episode ended earlier earns nothing
    from then on, until the next reset: LeRobot's sums take in the step after the end.

    `call` and `get_attr` give what LeRobot reads of every environment: `task`, its name, `task_description`, the
    instruction of its episode, `_max_episode_steps`, and `render`.
    """

    def __init__(
        self, env: Env, state: str = PROPRIO, success: Success = Success.LAST, instruction: str | None = None
    ) -> None:
        """Take over `env`.

        Args:
            env: With cameras.
            state: The observation group that is shown as the agent's position.
            success: When an episode counts as one.
            instruction: Instruction for policies, instead of the task's own words.
        """
        self.env, self.state, self.success = env, state, success
        self.cameras = [group for group in env.observation_spec if group.startswith(PIXELS)]
        self.view = View(env, shown_groups((state, *self.cameras), env.observation_spec, env.agents, "LeRobot"))
        self.num_envs = env.num_envs
        spaces = self.view.space
        assert isinstance(spaces, Dict)
        pixels = Dict({camera.removeprefix(PIXELS): spaces[camera] for camera in self.cameras})
        self.single_observation_space = Dict({"pixels": pixels, "agent_pos": spaces[state]})
        self.single_action_space = action_space(env)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.metadata = {**metadata(env), "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = "rgb_array"
        self._instruction = instruction
        self._told = (instruction or (env.task.language or Language.of("")).instructions[0],) * env.num_envs
        self._pictures: dict[str, NDArray[np.uint8]] = {}
        self._ended = np.zeros(env.num_envs, bool)
        self._asked: dict[str, Callable[[], tuple[Any, ...]]] = {
            "task": lambda: (env.name,) * env.num_envs,
            "task_description": lambda: self._told,
            "_max_episode_steps": lambda: (env.max_episode_steps,) * env.num_envs,
            "render": self.render,
        }

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start every environment afresh.

        Args:
            seed: One for each environment: its episode does not depend on how many others there are. A single seed
                stands for itself and those that follow it; without one they are drawn.
            options: LeRobot's mark that a rollout begins; ignored.

        Raises:
            EmbodiedError: more or fewer seeds than environments, or the environment is closed.
        """
        del options
        if seed is None:
            seed = int(self.np_random.integers(SEEDS))
        seeds = range(seed, seed + self.num_envs) if isinstance(seed, int) else seed
        observation = self.env.reset([own % SEEDS for own in seeds])
        self._ended = np.zeros(self.num_envs, bool)
        if self._instruction is None:
            self._told = tuple(instruction.paraphrases[0] for instruction in instructions_of(self.env))
        return self._shown(observation), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[dict[str, Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Advance every environment under `actions` (N, action_size), clipped to [-1, 1]; see the class.

        Raises:
            ActionError: wrong shape, or not finite; or `reset` was never called.
        """
        tensor = as_tensor(actions)
        if tuple(tensor.shape) != self.action_space.shape:
            raise ActionError(f"actions have shape {tuple(tensor.shape)}; expected {self.action_space.shape}")
        step = self.env.step(self.view.action(tensor))
        running = ~self._ended
        terminated, truncated = as_array(step.terminated), as_array(step.truncated)
        done = (terminated | truncated) & running
        infos: dict[str, Any] = {}
        if done.any():
            solved = step.success if self.success is Success.LAST else step.info["success_any"]
            infos = {"final_info": {"is_success": as_array(solved) & done}, "_final_info": done.copy()}
        self._ended = self._ended | done
        reward = np.where(running, one_agent(step.reward), np.float32(0))
        return self._shown(step.final_obs), reward, terminated & running, truncated & running, infos

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """One picture (height, width, 3) per environment: what its cameras saw last, side by side, for a film."""
        seen = np.concatenate(list(self._pictures.values()), axis=2)
        factor = max(1, -(-FILM_HEIGHT // seen.shape[1]))
        return tuple(seen.repeat(factor, axis=1).repeat(factor, axis=2))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Values of `name`, one per environment, as Gymnasium's own vector environments return them; see the class.

        Raises:
            AttributeError: they have nothing of that name, which LeRobot takes for an answer.
        """
        del args, kwargs
        if name not in self._asked:
            raise AttributeError(
                f"an environment of embodied has no attribute {name!r}; it has {', '.join(self._asked)}"
            )
        return self._asked[name]()

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """As `call`."""
        return self.call(name)

    def close_extras(self, **kwargs: Any) -> None:
        del kwargs
        self.env.close()

    def _shown(self, observation: Mapping[str, Tensor]) -> dict[str, Any]:
        arrays = self.view.of(observation)
        self._pictures = {camera.removeprefix(PIXELS): arrays[camera] for camera in self.cameras}
        return {"pixels": dict(self._pictures), "agent_pos": arrays[self.state]}
