"""Camera images beside a vector group, as one flat observation for learners whose networks take a single vector.

`policies.off_policy.svea.network.ImageLayout` lays the vector out. A policy that reads images should not also be told
where things are: beside the images it reads the group `proprio`, where a task has it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from embodied.core.hooks import PIXELS, PROPRIO
from embodied.env.vec_env import CRITIC, POLICY, ObservationSpec, Step, StepData, VecEnv, image_shapes, vector_sizes
from embodied.errors import EmbodiedError, listing


@dataclasses.dataclass(frozen=True)
class ImageObservation:
    """Which observation groups a pixel policy reads, in its order."""

    vector_group: str
    """Observation group of the numbers before the images."""
    image_groups: tuple[str, ...]
    image_shape: tuple[int, int, int]
    """Channels, height and width of all images together."""

    @classmethod
    def of(cls, env: VecEnv) -> ImageObservation:
        """All cameras that an environment has.

        Raises:
            EmbodiedError: It has none, many agents, or images of several sizes.
        """
        shapes = image_shapes(env.observation_spec)
        if len({shape[1:] for shape in shapes.values()}) != 1 or any(len(shape) != 3 for shape in shapes.values()):
            raise EmbodiedError(
                f"the environment's images are {shapes or 'none'}; expected cameras, of one resolution and one robot"
            )
        height, width = next(iter(shapes.values()))[1:]
        vector_group = PROPRIO if PROPRIO in env.observation_spec else POLICY
        return cls(vector_group, tuple(sorted(shapes)), (3 * len(shapes), height, width))

    @property
    def cameras(self) -> list[str]:
        """Names of the cameras."""
        return [group.removeprefix(PIXELS) for group in self.image_groups]

    def flatten(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, size): the vector group, then images as floats in [0, 1]."""
        images = (obs[group].flatten(1).float() / 255 for group in self.image_groups)
        return torch.cat([obs[self.vector_group], *images], -1)

    def metadata(self) -> dict[str, Any]:
        """What a checkpoint says, so that an environment with the same cameras can be made."""
        height, width = self.image_shape[1:]
        return {"cameras": self.cameras, "resolution": [width, height], "vector_group": self.vector_group}


class FlatPolicy(Protocol):
    """A policy that reads one vector of a fixed size."""

    def __call__(self, obs: Mapping[str, Tensor], /) -> Tensor: ...

    @property
    def observation_size(self) -> int: ...

    @property
    def action_size(self) -> int: ...

    def fits(self, observation_size: int, action_size: int) -> bool:
        """Whether it reads vectors and gives actions of these sizes."""
        ...


class PixelPolicy:
    """A policy over flattened images, in an environment that gives image groups."""

    def __init__(self, policy: FlatPolicy, observation: ImageObservation) -> None:
        self.policy, self.observation = policy, observation

    @classmethod
    def in_env(cls, policy: FlatPolicy, env: VecEnv, cameras: Sequence[str], what: str) -> PixelPolicy:
        """The policy, which errors call `what`, in an environment.

        Raises:
            EmbodiedError: The environment has other cameras, resolution or numbers.
        """
        observation = ImageObservation.of(env)
        found = observation.cameras
        height, width = observation.image_shape[1:]
        size = vector_sizes(env.observation_spec)[observation.vector_group] + 3 * len(found) * height * width
        if found != list(cameras) or not policy.fits(size, env.action_size):
            raise EmbodiedError(
                f"{what} sees through {listing(cameras)}, reads {policy.observation_size} numbers and gives "
                f"{policy.action_size} actions; the environment has {listing(found)}, {size} numbers with images of "
                f"{width} x {height} pixels, and takes {env.action_size}"
            )
        return cls(policy, observation)

    def __call__(self, obs: Mapping[str, Tensor], /) -> Tensor:
        """(N, A) in [-1, 1]."""
        return self.policy({POLICY: self.observation.flatten(obs)})


class PixelEnv:
    """A `VecEnv` whose group `policy` is `ImageObservation.flatten` of another's; the group `critic` is left out."""

    def __init__(self, env: VecEnv) -> None:
        """Wrap an environment with cameras.

        Raises:
            EmbodiedError: As of `ImageObservation.of`.
        """
        self.env, self.observation = env, ImageObservation.of(env)
        self.num_envs, self.device, self.action_size = env.num_envs, env.device, env.action_size
        self.max_episode_steps = env.max_episode_steps

    @functools.cached_property
    def observation_spec(self) -> dict[str, ObservationSpec]:
        """The vector groups, `policy` with the images."""
        sizes = vector_sizes(self.env.observation_spec)
        sizes.pop(CRITIC, None)
        sizes[POLICY] = sizes[self.observation.vector_group] + math.prod(self.observation.image_shape)
        return {group: ObservationSpec((size,)) for group, size in sizes.items()}

    def reset(self) -> dict[str, Tensor]:
        return self._flattened(self.env.reset())

    def spread_episode_lengths(self) -> None:
        self.env.spread_episode_lengths()

    def step(self, action: Tensor, /) -> Step:
        step = self.env.step(action)
        obs, final_obs = self._flattened(step.obs), self._flattened(step.final_obs)
        return StepData(obs, step.reward, step.terminated, step.truncated, step.success, final_obs)

    def statistics(self) -> dict[str, float]:
        return self.env.statistics()

    def state(self) -> dict[str, Any]:
        return self.env.state()

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self.env.load_state(state)

    def close(self) -> None:
        self.env.close()

    def _flattened(self, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        vectors = {group: obs[group] for group in self.observation_spec if group != POLICY}
        return vectors | {POLICY: self.observation.flatten(obs)}
