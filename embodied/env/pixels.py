"""Environments whose cameras are part of what the policy observes, as `policies.networks.image_encoder` lays it out.

A policy that sees should not also be told where things are: beside the images it reads what the robot knows of itself,
the group `proprio`, where a task has it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from embodied.core.task import PROPRIO
from embodied.env.vec_env import CRITIC, POLICY, Step, StepData, VecEnv
from embodied.errors import EmbodiedError, listing

if TYPE_CHECKING:
    from policies.policy import Policy


class SeeingEnv(VecEnv, Protocol):
    """An environment with observation groups of images beside flat ones."""

    @property
    def pixel_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Group to (3, height, width) of its uint8 images."""
        ...


@dataclasses.dataclass(frozen=True)
class Sight:
    """What a policy that sees reads of an environment, in its order."""

    beside: str
    """Observation group of the numbers before the images."""
    groups: tuple[str, ...]
    """Observation groups of images."""
    image_shape: tuple[int, int, int]
    """Channels, height and width of all images together."""

    @classmethod
    def of(cls, env: SeeingEnv) -> Sight:
        """Of all the cameras that an environment has.

        Raises:
            EmbodiedError: It has none, many agents, or pictures of several sizes.
        """
        shapes = dict(getattr(env, "pixel_shapes", {}))
        if len({shape[1:] for shape in shapes.values()}) != 1 or any(len(shape) != 3 for shape in shapes.values()):
            raise EmbodiedError(
                f"the environment's images are {shapes or 'none'}; expected cameras, of one resolution and one robot"
            )
        height, width = next(iter(shapes.values()))[1:]
        beside = PROPRIO if PROPRIO in env.observation_sizes else POLICY
        return cls(beside, tuple(sorted(shapes)), (3 * len(shapes), height, width))

    def observation(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, size): numbers, then images as floats in [0, 1]."""
        return torch.cat([obs[self.beside], *(obs[group].flatten(1).float() / 255 for group in self.groups)], -1)

    def described(self) -> dict[str, Any]:
        """What a checkpoint says, so that an environment can be made that shows the same."""
        height, width = self.image_shape[1:]
        cameras = [group.partition("/")[2] for group in self.groups]
        return {"cameras": cameras, "resolution": [width, height], "beside": self.beside}


class SeeingRule:
    """A policy that sees, in an environment with its cameras."""

    def __init__(self, policy: Policy, sight: Sight) -> None:
        """Show it what it was trained to see."""
        self.policy, self.sight = policy, sight

    @classmethod
    def in_env(cls, policy: Policy, env: SeeingEnv, cameras: Sequence[str], what: str) -> SeeingRule:
        """The policy, whom errors call `what`, in an environment.

        Raises:
            EmbodiedError: The environment has other cameras, resolution or numbers.
        """
        sight = Sight.of(env)
        found = sight.described()["cameras"]
        height, width = sight.image_shape[1:]
        size = env.observation_sizes[sight.beside] + 3 * len(found) * height * width
        if found != list(cameras) or not policy.fits(size, env.action_size):
            raise EmbodiedError(
                f"{what} sees through {listing(cameras)}, reads {policy.observation_size} numbers and gives "
                f"{policy.action_size} actions; the environment has {listing(found)}, {size} numbers with images of "
                f"{width} x {height} pixels, and takes {env.action_size}"
            )
        return cls(policy, sight)

    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, A) in [-1, 1]."""
        return self.policy({POLICY: self.sight.observation(obs)})


class PixelEnv:
    """Its group `policy` is what `Sight.observation` makes; the group `critic` is left out."""

    def __init__(self, env: SeeingEnv) -> None:
        """Wrap an environment.

        Raises:
            EmbodiedError: As of `Sight.of`.
        """
        self.env, self.sight = env, Sight.of(env)

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
        sizes = dict(self.env.observation_sizes)
        seen = {POLICY: sizes[self.sight.beside] + math.prod(self.sight.image_shape)}
        return {group: size for group, size in sizes.items() if group != CRITIC} | seen

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
        flat = {group: obs[group] for group in self.observation_sizes if group != POLICY}
        return flat | {POLICY: self.sight.observation(obs)}
