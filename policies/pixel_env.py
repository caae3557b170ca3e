"""Environments whose cameras are part of what the policy observes, as `policies.encoder` lays it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from policies.vec_env import CRITIC, POLICY, Step, StepData, VecEnv


class SeeingEnv(VecEnv, Protocol):
    """An environment with observation groups of images beside flat ones."""

    @property
    def pixel_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Group to (3, height, width) of its uint8 images."""
        ...


class PixelEnv:
    """Appends all images, as floats in [0, 1], to the group `policy`; the group `critic` is left out."""

    def __init__(self, env: SeeingEnv) -> None:
        """Wrap an environment.

        Raises:
            EmbodiedError: It has no cameras, or pictures of several sizes.
        """
        shapes = dict(env.pixel_shapes)
        if len({shape[1:] for shape in shapes.values()}) != 1:
            raise EmbodiedError(f"the environment's images are {shapes or 'none'}; expected cameras, of one resolution")
        self.env, self._groups = env, sorted(shapes)
        height, width = next(iter(shapes.values()))[1:]
        self.image_shape = (3 * len(shapes), height, width)
        """Channels, height and width of all cameras' images together."""

    @property
    def num_envs(self) -> int:
        """N, the number of environments."""
        return self.env.num_envs

    @property
    def device(self) -> torch.device:
        """Where observations come from and actions go to."""
        return self.env.device

    @property
    def observation_sizes(self) -> Mapping[str, int]:
        """Group to flat size; "policy" with the images."""
        channels, height, width = self.image_shape
        seen = {POLICY: self.env.observation_sizes[POLICY] + channels * height * width}
        return {group: size for group, size in self.env.observation_sizes.items() if group != CRITIC} | seen

    @property
    def action_size(self) -> int:
        """Length of one environment's action."""
        return self.env.action_size

    @property
    def max_episode_steps(self) -> int:
        """Control steps after which an episode is truncated."""
        return self.env.max_episode_steps

    def reset(self) -> dict[str, Tensor]:
        """Begin a fresh episode everywhere and return its first observation."""
        return self._seen(self.env.reset())

    def stagger(self) -> None:
        """Spread the ends of the running episodes evenly over the time limit."""
        self.env.stagger()

    def step(self, action: Tensor) -> Step:
        """Apply (N, action_size) actions."""
        step = self.env.step(action)
        obs, final_obs = self._seen(step.obs), self._seen(step.final_obs)
        return StepData(obs, step.reward, step.terminated, step.truncated, step.success, final_obs)

    def statistics(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call."""
        return self.env.statistics()

    def state(self) -> dict[str, Any]:
        """Everything a resume needs."""
        return self.env.state()

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.env.load_state(tree)

    def _seen(self, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        images = [obs[group].flatten(1).float() / 255 for group in self._groups]
        seen = {POLICY: torch.cat([obs[POLICY], *images], -1)}
        return {group: obs[group] for group in self.observation_sizes if group != POLICY} | seen
