"""Policy of a robot: an actor with the statistics that normalise its observations.

A policy is stored as names and numbers, from which evaluation, the viewer, export and hardware rebuild it without
any of the training code.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol, Self

import torch
from torch import Generator, Tensor, nn

from embodied.core.hooks import shown
from embodied.env.vec_env import POLICY, PolicyFunction
from embodied.errors import EmbodiedError
from embodied.storage.metrics import is_number
from policies.networks.build import STRUCTURED_ACTORS, make_actor
from policies.networks.mlp import Activation, Architecture, GaussianActor, NetworkConfig
from policies.networks.normalizer import Normalizer
from policies.networks.recurrent import HiddenState, RecurrentActor
from policies.networks.squashed import SquashedActor
from policies.networks.structured.actor import StructuredActor

KINDS = {architecture: f"gaussian-{architecture}" for architecture in Architecture}
"""Kind of a stored policy by its architecture."""
ANY_SIZE = (KINDS[Architecture.PARTS], KINDS[Architecture.ENTITIES], *STRUCTURED_ACTORS)
"""Kinds whose tensors are the same for bodies and swarms of all sizes."""
MOST_NUMBERS = 1_000_000  # of an observation
SQUASHED = "squashed-mlp"
"""Kind of a stored policy whose actions a hyperbolic tangent bounds."""


class ActingEnv(Protocol):
    """Requirements of a policy on the environments that it acts in."""

    @property
    def episode_length(self) -> Tensor:
        """(N,) control steps taken so far in the running episodes."""
        ...


class NormalizedActor(nn.Module):
    """A network from raw observations to the mean action; the part of a policy that is exported."""

    observation_mean: Tensor
    """(size,) subtracted from observations."""
    observation_scale: Tensor
    """(size,) factor on the difference."""

    def __init__(
        self,
        actor: GaussianActor | SquashedActor | StructuredActor,
        observation_mean: Tensor,
        observation_scale: Tensor,
        clip: float,
    ) -> None:
        """Put an actor behind the part of the observations' statistics that belongs to it."""
        super().__init__()
        self.actor, self.clip = actor, clip
        mean, scale = actor.statistics(observation_mean, observation_scale)
        self.register_buffer("observation_mean", mean)
        self.register_buffer("observation_scale", scale)

    @classmethod
    def of(cls, actor: GaussianActor | SquashedActor | StructuredActor, normalizer: Normalizer) -> Self:
        """A learner's actor with its statistics; both are shared, not copied."""
        return cls(actor, normalizer.mean, normalizer.scale, normalizer.clip)

    def forward(self, obs: Tensor) -> Tensor:
        """(N, size) to (N, A), unbounded unless the actor is squashed."""
        return self.actor(self.normalized(obs))

    def step(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The same of a recurrent actor, with its hidden state (N, H) before and after."""
        assert isinstance(self.actor, RecurrentActor)
        return self.actor.mean(self.normalized(obs), hidden)

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The action of standard normal `noise`, (N, A)."""
        return self.actor.sample(self.normalized(obs), noise)

    def normalized(self, obs: Tensor) -> Tensor:
        """Raw observations (N, size) as the actor reads them."""
        return ((obs - self.observation_mean) * self.observation_scale).clamp(-self.clip, self.clip)


class Policy:
    """Chooses actions from raw observations: the most likely ones, or sampled ones after `stochastic`."""

    def __init__(self, network: NormalizedActor, config: NetworkConfig, group: str = POLICY) -> None:
        """Wrap a network, which is shared, not copied; `config` is that of its actor, `group` the one it reads."""
        self.network, self.config, self.group = network, config, group
        self._generator: Generator | None = None

    @property
    def kind(self) -> str:
        """Kind under which it is stored."""
        if isinstance(self.network.actor, StructuredActor):
            return self.network.actor.kind
        return SQUASHED if self.squashed else KINDS[self.config.architecture]

    @property
    def squashed(self) -> bool:
        """Whether a hyperbolic tangent bounds its actions."""
        return isinstance(self.network.actor, SquashedActor)

    @property
    def team_size(self) -> int:
        """Agents for which it acts at once, each by a network of its own; 1 where one network serves any number."""
        actor = self.network.actor
        return actor.team_size if isinstance(actor, StructuredActor) else 1

    @property
    def observation_size(self) -> int:
        """Length of the observation it reads, of one agent's; see `fits`."""
        return self.network.actor.sizes[0]

    @property
    def action_size(self) -> int:
        """Length of the action."""
        return self.network.actor.sizes[1]

    def fits(self, observation_size: int, action_size: int) -> bool:
        """Whether it can act where observations and actions have these lengths: one pair, or those of many bodies."""
        return self.network.actor.fits(observation_size, action_size)

    @property
    def memory(self) -> int:
        """Numbers that it remembers from one control step to the next: its hidden state; 0 for most."""
        return self.config.memory

    def acting_in(self, env: ActingEnv) -> PolicyFunction:
        """The policy of one set of environments, called once per control step: itself, unless it remembers.

        A recurrent actor does not act before this call.
        """
        return RememberingPolicy(self, env) if isinstance(self.network.actor, RecurrentActor) else self

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, Tensor] | Tensor) -> Tensor:
        """Actions (N, A) or (N, agents, A), in [-1, 1].

        Observations are the environment's groups, or just the one this policy reads: (N, size) or (N, agents, size).

        Raises:
            EmbodiedError: it remembers, so it must be known which episodes begin; or it is a team's of another number.
        """
        if self.memory:
            raise EmbodiedError(
                f"a policy of kind '{self.kind}' remembers; expected Policy.acting_in(env) to be called"
            )
        if not isinstance(obs, Tensor):
            obs = obs[self.group]
        if self.config.architecture is Architecture.MLP and obs.shape[-1] != self.observation_size:
            raise ValueError(
                f"an observation of length {obs.shape[-1]} was given to a policy that reads {self.observation_size} "
                f"numbers (group '{self.group}')"
            )
        if self.team_size > 1:
            return self._of_team(obs)
        return self._chosen(obs.flatten(0, -2)).unflatten(0, obs.shape[:-1]).clamp(-1.0, 1.0)

    def _of_team(self, obs: Tensor) -> Tensor:
        """(N, agents, size) to (N, agents, A), of a policy that acts for the whole team."""
        if obs.dim() < 3 or obs.shape[-2] != self.team_size:
            given = f"{obs.shape[-2]} agents" if obs.dim() > 2 else "one robot"
            raise EmbodiedError(
                f"a policy of {self.team_size} agents, each with a network of its own, was given {given}"
            )
        return self._chosen(obs.flatten(-2)).unflatten(-1, (self.team_size, -1)).clamp(-1.0, 1.0)

    @torch.no_grad()
    def step(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Actions (N, A), not bounded, and the next hidden state (N, H), of a recurrent policy."""
        mean, following = self.network.step(obs, hidden)
        return self.explored(mean), following

    def _chosen(self, obs: Any) -> Tensor:
        """Actions (N, A), of what the network reads of N observations."""
        action = self.network(obs)
        if self._generator is None:
            return action
        noise = torch.empty_like(action).normal_(generator=self._generator)
        return self.network.sample(obs, noise)

    def explored(self, mean: Tensor) -> Tensor:
        """Actions around a recurrent actor's means (N, A), after `stochastic`; any other's are unchanged."""
        actor = self.network.actor
        if self._generator is None or not isinstance(actor, RecurrentActor):
            return mean
        noise = torch.empty_like(mean).normal_(generator=self._generator)
        return torch.addcmul(mean, noise, actor.deviation(mean.shape[-1]))

    def stochastic(self, seed: int) -> Self:
        """Return the same policy with sampled actions."""
        policy = copy.copy(self)
        policy._generator = Generator(self.network.observation_mean.device).manual_seed(seed)
        return policy

    def to_tensors(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Names and numbers that rebuild it: JSON values, and copies of its tensors."""
        meta = {
            "kind": self.kind,
            "group": self.group,
            "observation_size": self.observation_size,
            "action_size": self.action_size,
            "hidden": list(self.config.hidden),
            "activation": str(self.config.activation),
            "clip": self.network.clip,
        }
        if isinstance(self.network.actor, SquashedActor):
            meta["stochastic"] = self.network.actor.log_std is not None
        if isinstance(self.network.actor, StructuredActor):
            meta["structure"] = asdict(self.network.actor.structure)
        if self.config.architecture is not Architecture.MLP:
            meta |= {"heads": self.config.heads, "own": self.config.own, "memory": self.memory}
        return meta, {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    @classmethod
    def from_tensors(cls, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Policy:
        """Rebuild what `to_tensors` described, on the tensors' device.

        Raises:
            ValueError: Another kind of policy, or tensors that do not belong to it.
        """
        kinds = {kind: architecture for architecture, kind in KINDS.items()}
        kinds |= dict.fromkeys((SQUASHED, *STRUCTURED_ACTORS), Architecture.MLP)
        if meta.get("kind") not in kinds:
            raise ValueError(f"this is a policy of kind {meta.get('kind')!r}, expected {' or '.join(map(repr, kinds))}")
        config = NetworkConfig(
            tuple(meta["hidden"]),
            Activation(meta["activation"]),
            architecture=kinds[meta["kind"]],
            heads=meta.get("heads", NetworkConfig.heads),
            own=meta.get("own", NetworkConfig.own),
            memory=meta.get("memory", NetworkConfig.memory),
        )
        if not is_number(meta["clip"]) or not meta["clip"] > 0:
            raise ValueError(f"its clip is {meta['clip']!r}; expected a positive number")
        size, actions = meta["observation_size"], meta["action_size"]
        largest = max((side for tensor in tensors.values() for side in tensor.shape), default=0)
        _require_sizes({"hidden": meta["hidden"]}, largest)
        most = MOST_NUMBERS if meta["kind"] in ANY_SIZE else largest
        _require_sizes({"observation_size": size, "action_size": actions}, most)
        actor: GaussianActor | SquashedActor | StructuredActor
        if (structured := STRUCTURED_ACTORS.get(meta["kind"])) is not None:
            if "structure" not in meta:
                raise ValueError("an earlier version of this library wrote it; train again")
            actor = structured(size, actions, config, structured.structure_type(**meta["structure"]))
        elif meta["kind"] == SQUASHED:
            actor = SquashedActor(size, actions, config, stochastic=meta["stochastic"])
        else:
            actor = make_actor(size, actions, config)
        network = NormalizedActor(actor, torch.zeros(size), torch.ones(size), meta["clip"])
        require_same_shapes(network.state_dict(), tensors)
        network.load_state_dict(dict(tensors))
        return cls(network.to(tensors["observation_mean"].device), config, meta["group"])


def _require_sizes(sizes: Mapping[str, Any], largest: int) -> None:
    """Refuse sizes above those that tensors have, before a network of them fills the memory.

    Raises:
        ValueError: there is one; names it.
    """
    for name, value in sizes.items():
        for side in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(side, int) or isinstance(side, bool) or not 1 <= side <= largest:
                raise ValueError(f"its {name} is {shown(value)}; expected whole numbers from 1 to {largest}")


class RememberingPolicy:
    """A policy that remembers in one set of environments, with what it remembers of each; a `PolicyFunction`."""

    def __init__(self, policy: Policy, env: ActingEnv) -> None:
        """Take a policy, which may go on learning, and the environments, which show where an episode begins."""
        actor = policy.network.actor
        if not isinstance(actor, RecurrentActor):
            raise EmbodiedError(f"a policy of kind '{policy.kind}' remembers nothing; expected a recurrent one")
        self.group, self.policy, self._env = policy.group, policy, env
        self._actor, self._memory = actor, HiddenState(actor, 1)

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, A) or (N, agents, A) in [-1, 1]; called once per control step."""
        seen, policy = obs[self.group], self.policy
        begins = (self._env.episode_length == 0).to(seen.device).repeat_interleave(seen[0].numel() // seen.shape[-1])
        rows = seen.flatten(0, -2)
        if self._memory.rows != len(rows):
            self._memory = HiddenState(self._actor, len(rows))
        action = policy.explored(self._memory(policy.network.normalized(rows), begins))
        return action.unflatten(0, seen.shape[:-1]).clamp(-1.0, 1.0)


def zero_policy(action_size: int) -> PolicyFunction:
    """Policy that always acts zero."""

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        return obs[POLICY].new_zeros(*obs[POLICY].shape[:-1], action_size)

    return act


def random_policy(action_size: int, seed: int = 0) -> PolicyFunction:
    """Policy whose actions are independent and uniform in [-1, 1], whatever it observes."""
    generators: dict[torch.device, Generator] = {}

    def act(obs: Mapping[str, Tensor]) -> Tensor:
        like = obs[POLICY]
        if like.device not in generators:
            generators[like.device] = Generator(like.device).manual_seed(seed)
        return like.new_empty(*like.shape[:-1], action_size).uniform_(-1.0, 1.0, generator=generators[like.device])

    return act


def require_same_shapes(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """Compare a network's tensors with stored ones.

    Raises:
        ValueError: Names or shapes differ; lists them.
    """
    wrong = [f"{name} is missing" for name in expected if name not in found]
    wrong += [f"{name} is unknown" for name in found if name not in expected]
    wrong += [
        f"{name} has shape {tuple(found[name].shape)}, expected {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in found and found[name].shape != tensor.shape
    ]
    if wrong:
        raise ValueError(f"the policy's tensors do not fit its description: {'; '.join(wrong)}")


OTHERS = {"squashed-pixels": ("policies.pixel_policy", "PixelPolicy"), "vla": ("policies.vla.policy", "VLAPolicy")}
"""Kinds that `policies.policy.Policy` does not know -> module and class, which are imported when one is met."""


def rebuild(meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    """The policy that `to_tensors` described.

    Raises:
        ValueError: An unknown kind, or tensors that do not belong to it.
    """
    if meta.get("kind") not in OTHERS:
        return Policy.from_tensors(meta, tensors)
    module, name = OTHERS[meta["kind"]]
    return getattr(importlib.import_module(module), name).from_tensors(meta, tensors)
