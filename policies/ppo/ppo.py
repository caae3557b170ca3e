"""Proximal policy optimisation: act, record, update."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from embodied.env.vec_env import POLICY, ObservationSpec, Step, VecEnv, vector_sizes
from embodied.math.symmetry import Mirror
from embodied.storage.trees import same_shapes
from policies.algorithm import Algorithm, require_finite, require_policy_group, transfer_weights
from policies.networks import gaussian
from policies.networks.mlp import Architecture
from policies.networks.normalizer import Normalizer
from policies.networks.optim import distributed
from policies.networks.optim.cpu_settings import keep_freed_memory
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.optim.parallel import one_thread
from policies.networks.recurrent import outputs
from policies.policy import NormalizedActor, Policy
from policies.ppo.actor_critic import ActorCritic
from policies.ppo.addition import Addition
from policies.ppo.collector import Collector
from policies.ppo.config import PPOConfig
from policies.ppo.curiosity import Curiosity
from policies.ppo.gae import gae, standardize_
from policies.ppo.learning_rate import LearningRate
from policies.ppo.losses import policy_loss, value_loss
from policies.ppo.rollout_buffer import rollout_of
from policies.ppo.symmetry import SymmetricParameters, TorchReflection, symmetric

MEASURES = ("policy_loss", "value_loss", "kl", "clip_fraction")
"""Means over a minibatch that are measured along with its gradient."""
CURIOSITY, SYMMETRY = "curiosity", "symmetric"
"""Names of additions in a checkpoint."""
REPORTED = (*MEASURES, "gradient_norm", "std", "entropy", "explained_variance", "learning_rate")
"""Metrics of `update`: means over the update, and from "std" on values after it."""


class PPO(Algorithm):
    """Learns from rollouts of N environments: `act` and `record` for each step, then `update`."""

    def __init__(
        self,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        num_envs: int,
        config: PPOConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        mirror: Callable[[], Mirror] | None = None,
    ) -> None:
        """Build networks, normalisers and buffers; arguments as of `policies.registry.Build`.

        Raises:
            EmbodiedError: the settings do not fit the environments, or use a symmetry that these do not have.
        """
        require_policy_group(observation_spec)
        sizes = vector_sizes(observation_spec)
        keep_freed_memory()
        self.config, self.device = config, torch.device(device)
        self.critic_group = config.critic_group if config.critic_group in sizes else POLICY
        self.learning_rate = LearningRate(config, self.device)
        self._build_networks(sizes, action_size, seed)
        self.actor, self.critic = self.networks.actor, self.networks.critic
        reflections = self._add(config, sizes[POLICY], seed, mirror)
        self.normalizers = {
            group: Normalizer(sizes[group], self.device, config.observation_clip, reflections.get(group))
            for group in (POLICY, self.critic_group)
        }
        self.rollout = rollout_of(config, num_envs, sizes, action_size, self.critic_group, self.device)
        own_seed = seed * distributed.size() + distributed.rank()
        self.noise_generator = Generator(self.device).manual_seed(2 * own_seed)
        self.order_generator = Generator(self.device).manual_seed(2 * own_seed + 1)
        self.collector = Collector(
            self.networks, self.normalizers, self.rollout, self.critic_group, config, self.noise_generator
        )
        self._updates = 0
        self._policy_loss = torch.compile(policy_loss) if config.compile else policy_loss
        self._value_loss = torch.compile(value_loss) if config.compile else value_loss

    def _build_networks(self, sizes: Mapping[str, int], action_size: int, seed: int) -> None:
        observed = sizes[POLICY], sizes[self.critic_group]
        self.networks = ActorCritic.of(self.config, observed, action_size, self.device, seed)
        parameters = [*self.networks.actor.parameters(), *self.networks.critic.parameters()]
        self.optimizer = FlatAdamW(parameters, self.learning_rate.value, max_grad_norm=self.config.max_grad_norm)
        self._actor_numbers = sum(parameter.numel() for parameter in self.networks.actor.parameters())

    def _add(
        self, config: PPOConfig, size: int, seed: int, mirror: Callable[[], Mirror] | None
    ) -> dict[str, TorchReflection]:
        """Make what the settings add; returns the reflections of the observation groups, where symmetry is used."""
        self.additions: dict[str, Addition] = {}
        if config.curiosity.weight:
            self.additions[CURIOSITY] = Curiosity(size, config.curiosity, config.minibatches, self.device, seed)
        if not config.symmetry.network:
            return {}
        groups = POLICY, self.critic_group
        self.additions[SYMMETRY], reflections = symmetric(self.networks, mirror, groups, self.optimizer.vector)
        return reflections

    def _forget_symmetry(self) -> None:
        del self.additions[SYMMETRY]
        for normalizer in self.normalizers.values():
            normalizer.reflect = None

    @property
    def policy(self) -> Policy:
        return Policy(NormalizedActor.of(self.actor, self.normalizers[POLICY]), self.config.actor)

    @torch.no_grad()
    def start_from(self, policy: Policy) -> None:
        """Begin with another policy's network, noise and statistics; the critic begins untrained.

        From a policy that is not symmetric, one goes on without `symmetry.network`.
        """
        transfer_weights(policy, self.policy)
        own = self.additions.get(SYMMETRY)
        if isinstance(own, SymmetricParameters) and not own.holds(self.optimizer.vector):
            self._forget_symmetry()
        self._keep_exploring()
        self.collector.log_std.copy_(self.actor.log_std)
        if self.config.normalize_observations:
            self.normalizers[POLICY].adopt(policy.network.observation_mean, policy.network.observation_scale)

    @torch.no_grad()
    def take_critic(self, state: Mapping[str, Any]) -> bool:
        """Begin with the critic of a training by PPO, and its statistics; returns whether it fits.

        It does where actor and critic together have as many parameters, and observe as much, as here.
        """
        group, own = self.critic_group, self.normalizers[self.critic_group]
        given, statistics = state.get("optimizer", {}), state.get("normalizers", {}).get(group, {})
        fits = same_shapes(given, self.optimizer.state()) and same_shapes(statistics, own.state())
        if fits:
            critic = slice(self._actor_numbers, None)
            self.optimizer.vector[critic] = given["parameters"][critic].to(self.device)
            if group != POLICY:  # those of `policy` are the policy's
                own.load_state(statistics)
        return fits

    def collect(self, env: VecEnv, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take `unroll` steps: in one program, where the environment offers one and the actor is a perceptron."""
        roll_out = env.roll_out
        if roll_out is None or self.config.actor.architecture is not Architecture.MLP:
            return super().collect(env, obs)
        return self.collector.in_one(roll_out, obs)

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, A) actions, unbounded: the environment clips them, the learner reasons about them as sampled."""
        return self.collector.act(obs)

    def record(self, step: Step) -> None:
        """Remember the results of the last `act`."""
        self.collector.record(step)

    @one_thread()
    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """Improve the policy by the recorded rollout, which is then forgotten; see `Algorithm.update`.

        A linear schedule reads `progress`. Losses and other measures are means over the update.
        """
        if self.collector.time < self.config.unroll:
            raise RuntimeError(f"the rollout holds {self.collector.time} of {self.config.unroll} steps")
        added = self._reward(obs[POLICY])
        self._estimate(obs)
        self.learning_rate.start(progress)
        measures = torch.stack(self._learn()).mean(0)
        if not self._holds_actor:  # an actor that stands still is no reason to speed up
            self.learning_rate.adapt(measures[MEASURES.index("kl")])
        return self._finish(measures) | {name: value.item() for name, value in added.items()}

    @property
    def _holds_actor(self) -> bool:
        """Whether only the critic learns yet."""
        return self._updates < self.config.critic_warm_up

    def _reward(self, last_obs: Tensor) -> dict[str, Tensor]:
        """Let additions change the rewards; returns their measures."""
        seen, own = self.normalizers[POLICY](last_obs), self.additions.values()
        measures = (addition.reward(self.rollout, seen, self.order_generator) for addition in own)
        return {name: value for one in measures for name, value in one.items()}

    @torch.no_grad()
    def _estimate(self, obs: Mapping[str, Tensor]) -> None:
        """Values, advantages and log probabilities of the whole rollout, once for all epochs."""
        rollout, config, log_std = self.rollout, self.config, self.collector.log_std
        normalizer = self.normalizers[self.critic_group]
        final_value, last_value = self.networks.values(rollout, normalizer, obs[self.critic_group])
        given = rollout.reward, rollout.value, last_value, final_value, rollout.terminated, rollout.truncated
        advantage, returns = gae(*given, gamma=config.gamma, lam=config.lam)
        if config.normalize_advantage:
            standardize_(advantage)
        rollout.advantage.copy_(advantage)
        rollout.returns.copy_(returns)
        z = gaussian.standardize(rollout.action, rollout.mean, log_std)
        rollout.log_prob.copy_(gaussian.log_density(z, log_std))

    def _learn(self) -> list[Tensor]:
        """The gradient steps on a rollout; returns the measures of each, as of `_minibatch`."""
        return [self._minibatch(index) for index in self._minibatches()]

    def _minibatches(self) -> Iterator[Tensor]:
        """Indices of all minibatches of all epochs."""
        for _ in range(self.config.epochs):
            yield from self.rollout.minibatches(self.config.minibatches, self.order_generator)

    def _minibatch(self, index: Tensor) -> Tensor:
        """Take one gradient step; returns the measures of the minibatch and the gradient's norm."""
        total = distributed.mean_(self._gradient(index))
        gradient, measures = total[: -len(MEASURES)], total[-len(MEASURES) :]
        for addition in self.additions.values():
            addition.gradient(gradient)
        norm = self.optimizer.step(gradient, held=self._actor_numbers if self._holds_actor else 0)
        self._keep_exploring()
        return torch.cat([measures, norm[None]])

    def _gradient(self, index: Tensor) -> Tensor:
        """(P + 4,) gradient of the loss of a minibatch, by the rollout's `index`, followed by `MEASURES`."""
        rollout, size, old_log_std = self.rollout, self.rollout.size(index), self.collector.log_std

        def differentiate(rows: Tensor) -> Tensor:
            actor, critic = rollout.actor_batch(rows), rollout.critic_batch(rows)
            with torch.enable_grad():  # the setting belongs to a thread
                mean = outputs(self.actor.mean, actor.obs, actor.sequences)
                policy = self._policy_loss(mean, self.actor.log_std, old_log_std, actor, size, self.config)
                found = outputs(self.critic.value, critic.obs, critic.sequences).squeeze(-1)
                value = self._value_loss(found, critic, size, self.config)
                gradient = self.optimizer.gradient(policy.total + value.total)
            return torch.cat([gradient, torch.stack([policy.surrogate, value.error, policy.kl, policy.clipped])])

        # Chunks are summed in their order, so that the bits do not depend on the number of workers.
        workers = self.networks.workers
        chunks = workers.split(index, rollout.steps if rollout.whole else 1)
        return torch.stack(workers.map(differentiate, chunks)).sum(0)

    @torch.no_grad()
    def _keep_exploring(self) -> None:
        """Hold the actions' deviation above its bound."""
        if self.config.min_std:
            self.actor.log_std.clamp_(min=math.log(self.config.min_std))

    @torch.no_grad()
    def _finish(self, measures: Tensor) -> dict[str, float]:
        """Forget the rollout and fetch the measures."""
        rollout, log_std = self.rollout, self.actor.log_std
        explained = 1 - (rollout.returns - rollout.value).var() / rollout.returns.var().clamp(min=1e-12)
        extra = (log_std.exp().mean(), gaussian.entropy(log_std), explained, self.learning_rate.value)
        fetched = torch.cat([measures, torch.stack(extra)]).tolist()
        if self.networks.critic_memory is not None:
            rollout.critic_memory.copy_(self.networks.critic_memory)
        self.collector.begin()
        self._updates += 1
        metrics: dict[str, float] = dict(zip(REPORTED, fetched, strict=True))
        require_finite(metrics, "a lower learning_rate or reward_scale")
        return metrics

    def state(self) -> dict[str, Any]:
        if self.collector.time:
            raise RuntimeError(f"state() was called {self.collector.time} steps into a rollout; call it after update()")
        memory = {"actor": self.collector.hidden.clone(), "critic": self.rollout.critic_memory.clone()}
        return {
            "optimizer": self.optimizer.state(),
            "learning_rate": self.learning_rate.value.clone(),
            "normalizers": {group: normalizer.state() for group, normalizer in self.normalizers.items()},
            "noise_generator": self.noise_generator.get_state(),
            "order_generator": self.order_generator.get_state(),
            "updates": self._updates,
            **({CURIOSITY: self.additions[CURIOSITY].state()} if CURIOSITY in self.additions else {}),
            **({"memory": memory} if self.rollout.whole else {}),
            **({SYMMETRY: SYMMETRY in self.additions} if self.config.symmetry.network else {}),
        }

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        """Continue from what `state` returned, bit for bit.

        Without `explore_alike` random numbers do not continue: the state is another rank's, whose rollouts this one
        must not repeat.
        """
        self.optimizer.load_state(tree["optimizer"])
        self.learning_rate.value.copy_(tree["learning_rate"])
        for group, normalizer in self.normalizers.items():
            normalizer.load_state(tree["normalizers"][group])
        if CURIOSITY in self.additions:
            self.additions[CURIOSITY].load_state(tree[CURIOSITY])
        if explore_alike:
            self.noise_generator.set_state(tree["noise_generator"].cpu())
            self.order_generator.set_state(tree["order_generator"].cpu())
        if self.rollout.whole:
            for name, hidden in (("actor", self.collector.hidden), ("critic", self.rollout.critic_memory)):
                hidden.copy_(tree["memory"][name]) if explore_alike else hidden.zero_()
        self.collector.log_std.copy_(self.actor.log_std.detach())
        if SYMMETRY in self.additions and not tree[SYMMETRY]:
            self._forget_symmetry()
        self.collector.time, self._updates = 0, int(tree["updates"])
