"""A vision-language-action policy as robots run and files keep it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from embodied.core.task import PROPRIO
from embodied.env.dialogue import Tell, first_words, wrong_words
from embodied.errors import EmbodiedError, listing
from embodied.rendering.cameras import PREFIX
from embodied.storage.configs import from_json, to_json
from policies.policy import require_same_shapes
from policies.vla.chunks import ChunkedRule
from policies.vla.data.batches import Lesson, Senses, difference
from policies.vla.data.statistics import Statistics
from policies.vla.model.config import VLAConfig
from policies.vla.model.network import VLANetwork
from policies.vla.model.pretrained import Folders, Parts, PretrainedImages, PretrainedReader

if TYPE_CHECKING:
    from embodied.env.env import Env

KIND = "vla"
"""What such a policy is called where it is stored."""


class VLAPolicy:
    """Network, statistics, and what it has to know of robot and tasks: all that is needed to act."""

    def __init__(
        self,
        network: VLANetwork,
        statistics: Statistics,
        senses: Senses,
        lessons: Sequence[Lesson],
        execute: int = 0,
        parts: Parts = Parts(),  # noqa: B008 - frozen
    ) -> None:
        """Wrap a network, which is shared, not copied.

        Args:
            network: On the statistics' device.
            statistics: Of what it learned from.
            senses: What it was trained with.
            lessons: What it was trained on.
            execute: Actions of a chunk that are carried out before the next look; 0: all.
            parts: What of the network is pretrained.

        Raises:
            EmbodiedError: `execute` exceeds the chunk.
        """
        self.network, self.statistics, self.senses, self.lessons = network, statistics, senses, tuple(lessons)
        self.parts, chunk = parts, network.config.chunk
        if not 0 <= execute <= chunk:
            raise EmbodiedError(f"execute={execute}; expected 1 to {chunk}, the chunk's length, or 0 for all of it")
        self.execute = execute or chunk

    @classmethod
    def untrained(
        cls,
        config: VLAConfig,
        statistics: Statistics,
        senses: Senses,
        lessons: Sequence[Lesson],
        execute: int = 0,
        folders: Folders = Folders(),  # noqa: B008 - frozen
        rank: int = 0,
    ) -> VLAPolicy:
        """One with a fresh network, on the statistics' device, and pretrained parts from `folders`.

        Raises:
            EmbodiedError: a folder's model is incomplete, or wants to run code.
        """
        parts = folders.parts(rank)
        network = _build(config, senses, parts, folders).to(statistics.action_low.device)
        return cls(network, statistics, senses, lessons, execute, parts)

    def copy(self) -> VLAPolicy:
        """The same with a network of its own."""
        network = copy.deepcopy(self.network)
        return VLAPolicy(network, self.statistics, self.senses, self.lessons, self.execute, self.parts)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.statistics.action_low.device

    @property
    def groups(self) -> tuple[str, ...]:
        """The observation groups it reads."""
        return (*(PREFIX + camera for camera in self.senses.cameras), PROPRIO)

    def features(self, obs: Mapping[str, Tensor], words: Tensor) -> Tensor:
        """(N, chunk, width) for `network.head`, from raw observation groups and (N, width) of `network.read`."""
        return self.network(self.pixels(obs), self.statistics.unit_state(obs[PROPRIO]), words)

    def pixels(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, cameras, height, width, 3) uint8, what `network` takes of raw observation groups."""
        return torch.stack([obs[PREFIX + camera].permute(0, 2, 3, 1) for camera in self.senses.cameras], 1)

    def plan(
        self,
        obs: Mapping[str, Tensor],
        words: Tensor,
        temperature: float | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Decide the next actions of every environment.

        Args:
            obs: Observation groups: `pixels/<camera>` (N, 3, height, width) uint8 and `proprio` (N, S).
            words: (N, width), what `network.read` makes of each one's instruction.
            temperature: Of sampling; 0: the most likely tokens. By default the head's own.
            generator: Of sampling.

        Returns:
            (N, chunk, A) in [-1, 1].
        """
        head = self.network.head
        unit = head.act(self.features(obs, words), head.temperature if temperature is None else temperature, generator)
        return self.statistics.action(unit).clamp(-1.0, 1.0)

    def in_env(
        self,
        env: Env,
        what: str = "the policy",
        *,
        instruction: str | None = None,
        wrong_instruction: bool = False,
        tell: Tell | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> ChunkedRule:
        """What chooses actions in `env`, which is told what to do.

        Args:
            env: Made with this policy's cameras.
            what: What errors call the policy.
            instruction: What every environment is told; by default the task's own first instruction, or the episode's.
            wrong_instruction: Tell each environment something else: what its episode calls wrong, or in turn another
                task's instruction. Whoever still succeeds does not listen.
            tell: What each episode is told when it begins, in place of all that.
            temperature: As of `plan`.
            seed: Of sampling.

        Raises:
            EmbodiedError: environment and policy do not fit, or there is nothing to say.
        """
        self.require_fit(env, what)
        if tell is None and env.task.instruction_varies and instruction is None:
            tell = wrong_words(env) if wrong_instruction else first_words(env)
        others = wrong_instruction and tell is None
        told = self._others(env, what) if others else (instruction or self._instruction(env, what),)
        instructions = [told[number % len(told)] for number in range(env.num_envs)]

        def restarted() -> Tensor:
            return torch.as_tensor(env.simulator.episode().steps.__array__() == 0).to(self.device)

        return ChunkedRule(self, instructions, restarted, tell=tell, temperature=temperature, seed=seed)

    def _taught(self, env: Env) -> list[str]:
        """The words in which the task was demonstrated."""
        return [text for lesson in self.lessons if lesson.task == env.name for text in lesson.instructions]

    def _own(self, env: Env) -> list[str]:
        """The task's instructions, then those that it was demonstrated with."""
        return [*env.task.instruction, *self._taught(env)]

    def told(self, env: Env, what: str = "the policy") -> tuple[str, ...]:
        """What it may be told in an environment: the words in which the task was demonstrated, or else the task's own.

        Raises:
            EmbodiedError: there are neither.
        """
        return tuple(dict.fromkeys(self._taught(env) or env.task.instruction)) or (self._instruction(env, what),)

    def _instruction(self, env: Env, what: str) -> str:
        """What an environment is told unless someone says otherwise."""
        if not (known := self._own(env)):
            raise EmbodiedError(f"'{env.name}' has no instruction, which {what} needs; say one")
        return known[0]

    def _others(self, env: Env, what: str) -> tuple[str, ...]:
        """An instruction of each other task it learned."""
        others = [lesson.instructions[0] for lesson in self.lessons if lesson.task != env.name]
        if not (wrong := tuple(text for text in others if text not in self._own(env))):
            tasks = listing(lesson.task for lesson in self.lessons)
            raise EmbodiedError(f"{what} knows no task but {tasks}, so there is no wrong instruction for '{env.name}'")
        return wrong

    def require_fit(self, env: Env, what: str = "the policy") -> None:
        """Compare what an environment shows with what this policy takes.

        Raises:
            EmbodiedError: They differ; names both sides.
        """
        missing = [camera for camera in self.senses.cameras if PREFIX + camera not in env.pixel_shapes]
        if missing:
            raise EmbodiedError(
                f"{what} sees through {listing(self.senses.cameras)}; '{env.name}' was made without "
                f"{listing(missing)}: embodied.make({env.name!r}, cameras={self.senses.cameras}, "
                f"resolution={self.senses.resolution})"
            )
        if PROPRIO not in env.observation_sizes:
            raise EmbodiedError(
                f"{what} reads the observation group '{PROPRIO}', but '{env.name}' has {listing(env.observation_sizes)}"
            )
        shown = env.pixel_shapes[PREFIX + self.senses.cameras[0]]
        found = Senses(
            self.senses.cameras, (shown[-1], shown[-2]), env.observation_sizes[PROPRIO], env.action_size,
            round(env.control_dt, 6),
        )  # fmt: skip
        if found != self.senses:
            raise EmbodiedError(f"{what} does not fit '{env.name}', which {difference(found, self.senses)}")

    def to_tensors(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Names and numbers that rebuild it: JSON values, and copies of its tensors."""
        meta = {
            "kind": KIND,
            "config": to_json(self.network.config),
            "lessons": to_json(self.lessons),
            "execute": self.execute,
            "parts": to_json(self.parts),
            **to_json(self.senses),
        }
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"statistics.{name}": getattr(self.statistics, name) for name in Statistics.names()}
        return meta, {name: tensor.detach().clone() for name, tensor in tensors.items()}

    @classmethod
    def from_tensors(cls, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> VLAPolicy:
        """Rebuild what `to_tensors` described, on the tensors' device.

        Raises:
            ValueError: Another kind of policy, or tensors that do not belong to it.
        """
        if meta.get("kind") != KIND:
            raise ValueError(f"this is a policy of kind {meta.get('kind')!r}, expected '{KIND}'")
        senses = from_json(Senses, {field.name: meta[field.name] for field in dataclasses.fields(Senses)})
        lessons = tuple(from_json(Lesson, lesson) for lesson in meta["lessons"])
        parts = from_json(Parts, meta["parts"])
        network = _build(from_json(VLAConfig, meta["config"]), senses, parts)
        own = {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
        require_same_shapes(network.state_dict(), own)
        network.load_state_dict(own)
        statistics = Statistics(*(tensors[f"statistics.{name}"] for name in Statistics.names()))
        return cls(network.to(statistics.action_low.device), statistics, senses, lessons, int(meta["execute"]), parts)


def _build(config: VLAConfig, senses: Senses, parts: Parts, folders: Folders = Folders()) -> VLANetwork:  # noqa: B008
    images, text = parts.images, parts.text
    return VLANetwork(
        config,
        cameras=len(senses.cameras),
        resolution=senses.resolution,
        state_size=senses.state_size,
        action_size=senses.action_size,
        vision=None if images is None else PretrainedImages(images, config.width, folders.images),
        reader=None if text is None else PretrainedReader(text, folders.text),
    )
