"""Evolution strategies, as a learner that a third party adds.

    python examples/evolution_strategies.py swarm/hover --algorithm es --es.step 0.2
    python examples/evolution_strategies.py --resume runs/swarm/hover/20261121-103000

It takes the words of `python -m embodied.train`. An installed package registers the entry in the function that
registers its tasks, and `embodied.train` knows it.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from embodied.env.vec_env import POLICY, ObservationSpec, Step, VecEnv, vector_sizes
from embodied.math.symmetry import Mirror
from embodied.storage.bounds import POSITIVE, Bounded, at_least
from embodied.train import main as train
from policies.algorithm import Algorithm, require_finite, require_policy_group, transfer_weights
from policies.networks.config import NetworkConfig
from policies.networks.squashed import SquashedActor
from policies.policy import NormalizedActor, Policy
from policies.registry import AlgorithmEntry, register

LINEAR = NetworkConfig(hidden=())


@dataclass(frozen=True)
class ESConfig(Bounded):
    """Evolution strategies over linear policies (Salimans et al. 2017, arXiv:1703.03864)."""

    unroll: Annotated[int, at_least(1)] = 32
    """Control steps of every environment per iteration; their reward is the score of its weights."""
    step: Annotated[float, POSITIVE] = 0.1
    """Step size: distance that one weight moves if its noise decides the score alone."""
    noise: Annotated[float, POSITIVE] = 0.1
    """Standard deviation of the noise on each weight."""


class ES(Algorithm):
    """Every environment tries other weights of a linear policy, and the weights move towards those that score."""

    def __init__(
        self,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        num_envs: int,
        config: ESConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        mirror: Callable[[], Mirror] | None = None,
    ) -> None:
        require_policy_group(observation_spec)
        size = vector_sizes(observation_spec)[POLICY]
        actor = SquashedActor(size, action_size, LINEAR, stochastic=False).to(device)
        mean, scale = torch.zeros(size, device=device), torch.ones(size, device=device)
        self.config, self.network = config, NormalizedActor(actor, mean, scale, clip=10.0)
        self.weight = actor.mean.linears[0].weight.detach().zero_()  # (A, size), shared with the policy
        self.generator = torch.Generator(device).manual_seed(seed)
        self.noise = self.weight.new_zeros(num_envs, action_size, size)
        self.score = self.weight.new_zeros(num_envs)

    @property
    def policy(self) -> Policy:
        return Policy(self.network, LINEAR)

    def start_from(self, policy: Policy) -> None:
        transfer_weights(policy, self.policy)

    def collect(self, env: VecEnv, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.noise.normal_(generator=self.generator)
        self.score.zero_()
        return super().collect(env, obs)

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        weight = self.weight + self.config.noise * self.noise
        return torch.einsum("nas,ns->na", weight, self.network.normalized(obs[POLICY])).tanh()

    def record(self, step: Step) -> None:
        self.score += step.reward

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        metrics = {"score": self.score.mean().item()}
        require_finite(metrics)
        advantage = (self.score - self.score.mean()) / (self.score.std(correction=0) + 1e-8)
        self.weight += self.config.step * torch.einsum("n,nas->as", advantage, self.noise) / len(advantage)
        return metrics

    def state(self) -> dict[str, Any]:
        return {"weight": self.weight.clone(), "generator": self.generator.get_state()}

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        self.weight.copy_(tree["weight"])
        if explore_alike:
            self.generator.set_state(tree["generator"].cpu())


ENTRY = AlgorithmEntry("es", f"{__name__}:ESConfig", f"{__name__}:ES", "evolution strategies, linear policies")

if __name__ == "__main__":
    register(ENTRY)
    sys.exit(train())
