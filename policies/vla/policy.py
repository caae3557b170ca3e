"""The vision-language-action policy: a network, its normalisation and robot spec; stored, loaded, bound to envs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from embodied.core.hooks import PIXELS, PROPRIO
from embodied.env.env import Env
from embodied.env.vec_env import image_shapes, vector_sizes
from embodied.env.wrappers.instructions import InstructionSource, default_instructions, wrong_instructions
from embodied.errors import EmbodiedError, listing
from embodied.storage.configs import from_json, to_json
from policies.policy import require_same_shapes
from policies.vla.action_chunks import ChunkedPolicy
from policies.vla.data.normalization import Normalization
from policies.vla.data.robot_spec import RobotSpec, TrainingTask
from policies.vla.model.config import VLAConfig
from policies.vla.model.network import VLANetwork
from policies.vla.model.pretrained import (
    PretrainedFolders,
    PretrainedImageEncoder,
    PretrainedParts,
    PretrainedTextEncoder,
)

KIND = "vla"
"""Kind of such a policy where it is stored."""


class VLAPolicy:
    """A network with the normalisation, robot spec and training tasks that it needs to act."""

    def __init__(
        self,
        network: VLANetwork,
        normalization: Normalization,
        spec: RobotSpec,
        training_tasks: Sequence[TrainingTask],
        execute: int = 0,
        parts: PretrainedParts = PretrainedParts(),  # noqa: B008 - frozen
    ) -> None:
        """Wrap a network, which is shared, not copied, and on the device of the normalisation.

        `execute` actions of a chunk are executed before the next inference; 0: all.

        Raises:
            EmbodiedError: `execute` exceeds the chunk.
        """
        self.network, self.normalization, self.spec = network, normalization, spec
        self.training_tasks, self.parts = tuple(training_tasks), parts
        if not 0 <= execute <= self.chunk:
            raise EmbodiedError(
                f"execute={execute}; expected 1 to {self.chunk}, the chunk's length, or 0 for all of it"
            )
        self.execute = execute or self.chunk

    @classmethod
    def untrained(
        cls,
        config: VLAConfig,
        normalization: Normalization,
        spec: RobotSpec,
        training_tasks: Sequence[TrainingTask],
        execute: int = 0,
        folders: PretrainedFolders = PretrainedFolders(),  # noqa: B008 - frozen
    ) -> VLAPolicy:
        """A policy with random weights, on the device of the normalisation, and pretrained encoders from `folders`.

        Raises:
            EmbodiedError: a folder's model is incomplete, or wants to run code.
        """
        parts = folders.parts()
        network = _build(config, spec, parts, folders).to(normalization.action_low.device)
        return cls(network, normalization, spec, training_tasks, execute, parts)

    def copy(self) -> VLAPolicy:
        """The same policy with a network of its own."""
        network = copy.deepcopy(self.network)
        return VLAPolicy(network, self.normalization, self.spec, self.training_tasks, self.execute, self.parts)

    @property
    def device(self) -> torch.device:
        return self.normalization.action_low.device

    @property
    def groups(self) -> tuple[str, ...]:
        """Observation groups that it reads."""
        return (*(PIXELS + camera for camera in self.spec.cameras), PROPRIO)

    @property
    def chunk(self) -> int:
        """Actions of a chunk."""
        return self.network.config.chunk

    @property
    def action_size(self) -> int:
        return self.spec.action_size

    def encode_instructions(self, instructions: Sequence[str], *, bfloat16: bool = False) -> Tensor:
        """(k, width) of k instructions."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16):
            return self.network.encode_instructions(instructions)

    def pixels(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, cameras, height, width, 3) uint8, the network's input, from observation groups."""
        return torch.stack([obs[PIXELS + camera].permute(0, 2, 3, 1) for camera in self.spec.cameras], 1)

    def point(self, pixels: Tensor, text: Tensor, *, bfloat16: bool = False) -> Tensor | None:
        """Heat maps of where things are in images; see `VLANetwork.point` and `features`."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16):
            return self.network.point(pixels.to(self.device, non_blocking=True), text)

    def features(
        self, pixels: Tensor, state: Tensor, text: Tensor, heat_maps: Tensor | None = None, *, bfloat16: bool = False
    ) -> Tensor:
        """(B, chunk, width) float32, for the head: see `VLANetwork.forward`; images and states may be on any device.

        States are in the task's units. With `bfloat16` weights stay float32, as do probabilities and velocities.
        """
        device = self.device
        normalized = self.normalization.normalize_state(state.to(device))
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            found = self.network(pixels.to(device, non_blocking=True), normalized, text, heat_maps)
        return found.float()

    def plan(
        self,
        obs: Mapping[str, Tensor],
        text: Tensor,
        temperature: float | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Predict the next action chunk of every environment.

        Args:
            obs: Observation groups: `pixels/<camera>` (N, 3, height, width) uint8 and `proprio` (N, S).
            text: (N, width) of `encode_instructions`.
            temperature: Of sampling; 0: the median. By default the head's own.
            generator: Of sampling.

        Returns:
            (N, chunk, A) in [-1, 1].
        """
        head = self.network.head
        features = self.features(self.pixels(obs), obs[PROPRIO], text)
        normalized = head.sample(features, head.temperature if temperature is None else temperature, generator)
        return self.normalization.denormalize_action(normalized).clamp(-1.0, 1.0)

    def bind(
        self,
        env: Env,
        what: str = "the policy",
        *,
        instruction: str | None = None,
        wrong_instruction: bool = False,
        source: InstructionSource | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> ChunkedPolicy:
        """The policy of one set of environments, which gives it its instructions and keeps its action chunks.

        Args:
            env: Made with this policy's cameras.
            what: What errors call the policy.
            instruction: Of every environment; by default the task's own first instruction, or the episode's.
            wrong_instruction: Give each environment an instruction for something else: what its episode calls wrong,
                or in turn another task's. A policy that follows instructions fails.
            source: Gives each episode's instruction when it begins, in place of all that.
            temperature: As of `plan`.
            seed: Of sampling.

        Raises:
            EmbodiedError: environment and policy do not fit, or there is no instruction.
        """
        self.require_fit(env, what)
        language = env.task.language
        if source is None and language and language.varies and instruction is None:
            source = wrong_instructions(env) if wrong_instruction else default_instructions(env)
        others = wrong_instruction and source is None
        texts = self._wrong_instructions(env, what) if others else (instruction or self._instruction(env, what),)
        instructions = [texts[number % len(texts)] for number in range(env.num_envs)]

        def restarted() -> Tensor:
            return (env.episode_length == 0).to(self.device)

        return ChunkedPolicy(self, instructions, restarted, source=source, temperature=temperature, seed=seed)

    def instructions(self, env: Env, what: str = "the policy") -> tuple[str, ...]:
        """Instructions for an environment's task: those of its demonstrations, or else the task's own.

        Raises:
            EmbodiedError: there are neither.
        """
        found = self._demonstrated_instructions(env) or self._own_instructions(env)
        return tuple(dict.fromkeys(found)) or (self._instruction(env, what),)

    def _demonstrated_instructions(self, env: Env) -> list[str]:
        return [text for trained in self.training_tasks if trained.task == env.name for text in trained.instructions]

    def _own_instructions(self, env: Env) -> list[str]:
        """The task's instructions, then those of its demonstrations."""
        own = env.task.language.instructions if env.task.language else ()
        return [*own, *self._demonstrated_instructions(env)]

    def _instruction(self, env: Env, what: str) -> str:
        if not (known := self._own_instructions(env)):
            raise EmbodiedError(f"'{env.name}' has no instruction, which {what} needs; say one")
        return known[0]

    def _wrong_instructions(self, env: Env, what: str) -> tuple[str, ...]:
        """An instruction of each other training task."""
        others = [trained.instructions[0] for trained in self.training_tasks if trained.task != env.name]
        if not (wrong := tuple(text for text in others if text not in self._own_instructions(env))):
            tasks = listing(trained.task for trained in self.training_tasks)
            raise EmbodiedError(f"{what} knows no task but {tasks}, so there is no wrong instruction for '{env.name}'")
        return wrong

    def require_fit(self, env: Env, what: str = "the policy") -> None:
        """Compare an environment with the robot spec of this policy.

        Raises:
            EmbodiedError: they differ; names both sides.
        """
        sizes, images = vector_sizes(env.observation_spec), image_shapes(env.observation_spec)
        missing = [camera for camera in self.spec.cameras if PIXELS + camera not in images]
        if missing:
            raise EmbodiedError(
                f"{what} sees through {listing(self.spec.cameras)}; '{env.name}' was made without "
                f"{listing(missing)}: embodied.make({env.name!r}, cameras={self.spec.cameras}, "
                f"resolution={self.spec.resolution})"
            )
        if PROPRIO not in sizes:
            raise EmbodiedError(
                f"{what} reads the observation group '{PROPRIO}', but '{env.name}' has {listing(sizes)}"
            )
        shape = images[PIXELS + self.spec.cameras[0]]
        found = RobotSpec(
            self.spec.cameras, (shape[-1], shape[-2]), sizes[PROPRIO], env.action_size, round(env.control_dt, 6)
        )
        if found != self.spec:
            raise EmbodiedError(f"{what} does not fit '{env.name}', which {found.difference(self.spec)}")

    def to_tensors(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """JSON values and copies of tensors from which `from_tensors` rebuilds the policy."""
        meta = {
            "kind": KIND,
            "config": to_json(self.network.config),
            "training_tasks": to_json(self.training_tasks),
            "execute": self.execute,
            "parts": to_json(self.parts),
            **to_json(self.spec),
        }
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"normalization.{name}": getattr(self.normalization, name) for name in Normalization.names()}
        return meta, {name: tensor.detach().clone() for name, tensor in tensors.items()}

    @classmethod
    def from_tensors(cls, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> VLAPolicy:
        """Rebuild what `to_tensors` described, on the tensors' device.

        Raises:
            ValueError: another kind of policy, one of an earlier version, or tensors that do not belong to it.
        """
        if meta.get("kind") != KIND:
            raise ValueError(f"this is a policy of kind {meta.get('kind')!r}, expected '{KIND}'")
        if "training_tasks" not in meta:
            raise ValueError(
                "an earlier version of this library wrote it; train again: python -m policies.vla.train DATASET"
            )
        spec = from_json(RobotSpec, {field.name: meta[field.name] for field in dataclasses.fields(RobotSpec)})
        training_tasks = tuple(from_json(TrainingTask, task) for task in meta["training_tasks"])
        parts = from_json(PretrainedParts, meta["parts"])
        network = _build(from_json(VLAConfig, meta["config"]), spec, parts, PretrainedFolders())
        own = {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
        require_same_shapes(network.state_dict(), own)
        network.load_state_dict(own)
        normalization = Normalization(*(tensors[f"normalization.{name}"] for name in Normalization.names()))
        network = network.to(normalization.action_low.device)
        return cls(network, normalization, spec, training_tasks, int(meta["execute"]), parts)


def _build(config: VLAConfig, spec: RobotSpec, parts: PretrainedParts, folders: PretrainedFolders) -> VLANetwork:
    images, text = parts.images, parts.text
    return VLANetwork(
        config,
        cameras=len(spec.cameras),
        resolution=spec.resolution,
        state_size=spec.state_size,
        action_size=spec.action_size,
        image_encoder=None if images is None else PretrainedImageEncoder(images, config.width, folders.images),
        text_encoder=None if text is None else PretrainedTextEncoder(text, folders.text),
    )
