"""A policy from images: the observation groups it reads, and how it is stored and rebuilt."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from embodied.core.hooks import PIXELS, PROPRIO
from embodied.env.env import Env
from embodied.env.vec_env import POLICY, ObservationSpec, image_shapes
from embodied.errors import EmbodiedError, listing
from policies.networks.mlp import Activation, NetworkConfig
from policies.networks.normalizer import Normalizer
from policies.networks.pixels import ImageEncoder, PixelActor, PixelObservation
from policies.off_policy.config import ObservationGroups, OffPolicyConfig
from policies.policy import NormalizedActor, Policy, require_same_shapes

KIND = "squashed-pixels"
"""Kind of a stored policy from images."""


@dataclasses.dataclass(frozen=True)
class PixelGroups(ObservationGroups):
    """One vector group and the images of cameras, which actor and critics read alike.

    A policy that reads images should not also receive where things are: its vector is the group `proprio`, where a task
    has it.
    """

    @classmethod
    def of(cls, spec: Mapping[str, ObservationSpec]) -> Self:
        """Those of an environment with all its cameras; for a team, each agent's, with the cameras that it carries.

        Raises:
            EmbodiedError: It has no such camera, or images of several sizes.
        """
        vector = PROPRIO if PROPRIO in spec else POLICY
        *agents, _ = spec[vector].shape
        carried = {group: shape for group, shape in image_shapes(spec).items() if list(shape[:-3]) == agents}
        if len({shape[-2:] for shape in carried.values()}) != 1:
            whose = "each agent's cameras" if agents else "cameras"
            raise EmbodiedError(
                f"the environment's images are {image_shapes(spec) or 'none'}; expected {whose}, of one resolution"
            )
        read = (vector, *sorted(carried))
        own = {group: ObservationSpec(spec[group].shape[len(agents) :], spec[group].dtype) for group in read}
        return cls(own, vector, vector)

    @property
    def cameras(self) -> list[str]:
        """Names of the cameras, in the order in which their images are stacked."""
        return [group.removeprefix(PIXELS) for group in image_shapes(self.spec)]

    @property
    def resolution(self) -> tuple[int, int]:
        """Width and height of each image in pixels."""
        height, width = next(iter(image_shapes(self.spec).values()))[1:]
        return width, height

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of all images stacked."""
        width, height = self.resolution
        return 3 * len(self.cameras), height, width

    @property
    def vector_size(self) -> int:
        """Length of the vector."""
        return self.spec[self.actor].shape[0]

    def stacked(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Images of all cameras, (N, channels, height, width) uint8."""
        return torch.cat([obs[group] for group in image_shapes(self.spec)], 1)

    def observation(self, obs: Mapping[str, Tensor]) -> PixelObservation:
        """Observation of the networks from groups (N, ...), whose images are uint8."""
        # Rendered images lie channels last, stored ones do not: in one layout, a convolution sums them in one order.
        return PixelObservation(obs[self.actor], self.stacked(obs).contiguous().float() / 255)

    def actor_input(self, obs: Mapping[str, Tensor], normalizers: Mapping[str, Normalizer]) -> PixelObservation:
        seen = self.observation(obs)
        return dataclasses.replace(seen, vector=normalizers[self.actor](seen.vector))

    def policy(self, actor: Any, normalizer: Normalizer, config: OffPolicyConfig) -> Policy:
        return PixelPolicy(NormalizedPixelActor.of(actor, normalizer), config.policy_network, self)

    def __str__(self) -> str:
        width, height = self.resolution
        return (
            f"{listing(self.cameras)}, {width} x {height} pixels each, and {self.vector_size} numbers of '{self.actor}'"
        )


class NormalizedPixelActor(NormalizedActor):
    """A network from a `PixelObservation` to the mean action; only the vector is normalised."""

    def normalized(self, obs: Any) -> Any:
        return dataclasses.replace(obs, vector=super().normalized(obs.vector))


class PixelPolicy(Policy):
    """Chooses actions from a vector group and the images of cameras."""

    def __init__(self, network: NormalizedActor, config: NetworkConfig, groups: PixelGroups) -> None:
        """Wrap a network, which is shared, not copied, and reads these groups."""
        super().__init__(network, config, groups.actor)
        self.groups = groups

    @property
    def kind(self) -> str:
        return KIND

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, Tensor] | Tensor) -> Tensor:
        """Observation groups (N, ...) to actions (N, A) in [-1, 1]; of teams, (N, agents, ...) to (N, agents, A)."""
        assert not isinstance(obs, Tensor)
        rows = obs[self.groups.actor].shape[:-1]
        seen = {group: obs[group].flatten(0, len(rows) - 1) for group in self.groups.spec}
        return self._chosen(self.groups.observation(seen)).clamp(-1.0, 1.0).unflatten(0, rows)

    def require_fit(self, env: Env, what: str) -> None:
        """Compare an environment with what this policy, which errors call `what`, reads and gives.

        Raises:
            EmbodiedError: The environment has other cameras, resolution or numbers.
        """
        found = PixelGroups.of(env.observation_spec)
        if (found, env.action_size) != (self.groups, self.action_size):
            raise EmbodiedError(
                f"{what} sees through {self.groups}, and gives {self.action_size} actions; "
                f"the environment has {found}, "
                f"and takes {env.action_size}"
            )

    def to_tensors(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Names and numbers that rebuild it; `cameras` and `resolution` describe an environment for it."""
        meta, tensors = super().to_tensors()
        actor = self.network.actor
        assert isinstance(actor, PixelActor)
        seen = {"cameras": self.groups.cameras, "resolution": list(self.groups.resolution)}
        return meta | seen | {"features": actor.encoder.features}, tensors

    @classmethod
    def from_tensors(cls, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> PixelPolicy:
        """Rebuild what `to_tensors` described, on the tensors' device.

        Raises:
            ValueError: One of an earlier version, or tensors that do not belong to it.
        """
        if "features" not in meta:
            raise ValueError(
                "an earlier version of this library wrote it; train again: python -m embodied.train TASK "
                "--algorithm svea --cameras CAMERA"
            )
        width, height = meta["resolution"]
        image = ObservationSpec((3, height, width), torch.uint8)
        spec = {meta["group"]: ObservationSpec((meta["observation_size"],))}
        groups = PixelGroups.of(spec | {PIXELS + camera: image for camera in meta["cameras"]})
        config = NetworkConfig(tuple(meta["hidden"]), Activation(meta["activation"]))
        encoder = ImageEncoder(groups.vector_size, groups.image_shape, meta["features"])
        actor = PixelActor(encoder, meta["action_size"], config, stochastic=meta["stochastic"])
        own = NormalizedPixelActor(actor, torch.zeros(groups.vector_size), torch.ones(groups.vector_size), meta["clip"])
        require_same_shapes(own.state_dict(), tensors)
        own.load_state_dict(dict(tensors))
        return cls(own.to(tensors["observation_mean"].device), config, groups)
