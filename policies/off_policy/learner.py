"""Learning from replayed transitions: one learner for actor-critics and for policies that are read off a critic."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from embodied.env.vec_env import POLICY, PolicyFunction, Step
from embodied.errors import EmbodiedError
from policies.algorithm import Algorithm, DivergedError
from policies.imitation.demonstrations import load as load_demonstrations
from policies.imitation.weight_transfer import adopt
from policies.networks.normalizer import Normalizer
from policies.off_policy.advice import Advice
from policies.off_policy.algorithms import make_parts
from policies.off_policy.config import MemoryConfig
from policies.off_policy.replay_buffer import Batch, Transitions
from policies.off_policy.replay_memory import Memory
from policies.off_policy.sizes import Extent
from policies.off_policy.update_rules import Values
from policies.optim import distributed
from policies.optim.cpu_settings import announced, keep_freed_memory, products
from policies.policy import NormalizedActor, Policy


class OffPolicy(Algorithm):
    """Acts, remembers, and after each control step makes as many updates as its config's ratios ask for.

    The three parts that parallel Q-learning (Li et al. 2023) gives a process each are `act`, `values` and `rule`.
    """

    def __init__(
        self,
        observation_sizes: Mapping[str, int],
        action_size: int,
        num_envs: int,
        config: MemoryConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        """Build networks, normalisers and buffer.

        Args:
            observation_sizes: Group to flat size; "policy" must be among them.
            action_size: Length of an action.
            num_envs: N.
            config: Settings, whose type says which algorithm.
            device: Where everything lies.
            seed: Fixes the initial weights and, together with the rank, all random draws.
        """
        keep_freed_memory()
        sizes = dict(observation_sizes)
        if POLICY not in sizes:
            raise ValueError(f"the environment lacks the observation group '{POLICY}'; it has {', '.join(sizes)}")
        self.config, self.device, self.num_envs, self.action_size = config, torch.device(device), num_envs, action_size
        self.critic_group = config.value_group if config.value_group in sizes else POLICY
        self.sizes = {group: sizes[group] for group in (POLICY, self.critic_group)}
        weights = torch.Generator().manual_seed(seed)
        extent = Extent(sizes[POLICY], self.sizes[self.critic_group], action_size, num_envs, self.device)
        self.rule, self.values = make_parts(config, extent, weights)
        clip = config.observation_clip
        self.normalizers = {group: Normalizer(size, self.device, clip) for group, size in self.sizes.items()}
        self.advice = Advice(config, action_size)
        self.memory = Memory(config, num_envs, self.sizes, action_size, self.device, self.advice.notes)
        own_seed = seed * distributed.size() + distributed.rank()
        self.noise_generator = torch.Generator(self.device).manual_seed(2 * own_seed)
        self.batch_generator = torch.Generator(self.device).manual_seed(2 * own_seed + 1)
        self.updates, self._offline_updates = 0, 0
        self._learning_steps = 0  # control steps since the warm-up
        self._random_warm_up = config.random_warm_up
        self._obs: dict[str, Tensor] = {}
        self._action = torch.zeros(num_envs, action_size, device=self.device)
        self._start_iteration()

    @property
    def unroll(self) -> int:
        """Control steps of every environment per iteration."""
        return self.config.unroll

    @property
    def policy(self) -> Policy:
        """The present policy; it shares this learner's weights and goes on learning with it."""
        actor, statistics = self.rule.actor, self.normalizers[POLICY]
        mean, scale = actor.statistics(statistics.mean, statistics.scale)
        return Policy(NormalizedActor(actor, mean, scale, self.config.observation_clip), self.config.policy_network)

    @torch.no_grad()
    def start_from(self, policy: Policy) -> None:
        """Begin with another policy's network and statistics; the critics begin untaught.

        Raises:
            MismatchError: Its network is not of this learner's kind and shape.
        """
        adopt(self.policy, policy)
        self.rule.track(1.0)
        self.values.track(1.0)  # where the policy is read off its critic, that is what was copied
        self._random_warm_up = False
        if self.config.normalize_observations:
            self.normalizers[POLICY].adopt(policy.network.observation_mean, policy.network.observation_scale)

    def demonstrate(self, steps: Transitions) -> None:
        """Learn from these steps of one environment too, (T, 1, ...); their observations count as observed."""
        self.memory.demonstrate(steps)
        if self.config.normalize_observations:
            for group, normalizer in self.normalizers.items():
                normalizer.observe(steps.obs[group].flatten(0, 1))
                normalizer.commit()

    def advise(self, rule: PolicyFunction) -> None:
        """Ask this policy for advice, as the config's `adviser` announced.

        Raises:
            EmbodiedError: It announced none.
        """
        self.advice.give(rule)

    @torch.no_grad()
    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Choose exploring actions for the present observations and remember both.

        Args:
            obs: Group to (N, size) raw observations.

        Returns:
            (N, A) actions in [-1, 1].
        """
        if self._started is None:
            self._started = time.perf_counter()
        self._prepare()
        self._obs = {group: obs[group].clone() for group in self.sizes}
        if self.config.normalize_observations:
            for group, normalizer in self.normalizers.items():
                normalizer.observe(self._obs[group])
                if normalizer.empty:  # The first actions are chosen by the first observations' statistics.
                    normalizer.commit()
        noise = torch.empty_like(self._action)
        if self._random_warm_up and not self.memory.warm:
            self._action = noise.uniform_(-1.0, 1.0, generator=self.noise_generator)
        else:
            noise.normal_(generator=self.noise_generator)
            self._action = self.rule.explore(self.normalizers[POLICY](self._obs[POLICY]), noise)
        self._obs |= self.advice.note(obs, self._action)
        return self._action.clone()

    def record(self, step: Step) -> None:
        """Remember what the actions of the last `act` brought, and make the updates that are due."""
        steps = Transitions(
            {group: values[None] for group, values in self._obs.items()},
            self._action[None],
            step.reward[None],
            step.terminated[None],
            step.truncated[None],
            {group: step.final_obs[group][None] for group in self.sizes},
        )
        self.memory.extend(steps)
        if not self.memory.warm:
            return
        start = time.perf_counter()
        self._learning_steps += 1
        with products(rounded=self.config.rounded_products):
            while self.updates < math.floor(self._learning_steps * self.config.critic_updates):
                self._learn()
        self._update_seconds += time.perf_counter() - start

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """End an iteration: let its observations into the normalisers and fetch its measures.

        Returns:
            Means of losses and other measures over the iteration's updates, and the time that updates took.

        Raises:
            DivergedError: They are not finite.
        """
        del obs, progress
        if self.config.normalize_observations:
            for normalizer in self.normalizers.values():
                normalizer.commit()
        metrics = {}
        if self._measures:
            means = torch.stack([torch.stack(values).mean() for values in self._measures.values()])
            metrics = dict(zip(self._measures, means.tolist(), strict=True))
        if broken := [f"{name}={value}" for name, value in metrics.items() if not math.isfinite(value)]:
            raise DivergedError(
                f"training diverged: {', '.join(broken)}; lower learning rates or reward_scale may help"
            )
        now = time.perf_counter()
        whole = now - (now if self._started is None else self._started)
        took = {"collect_seconds": whole - self._update_seconds, "update_seconds": self._update_seconds}
        self._start_iteration()
        return metrics | took | {"updates": float(self.updates), "buffer": float(len(self.memory.buffer))}

    def _start_iteration(self) -> None:
        self._measures: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._update_seconds = 0.0
        self._started: float | None = None  # by the first action: checkpoints are written between iterations

    @torch.enable_grad()  # `act` has switched it off
    def _prepare(self) -> None:
        """Read the demonstrations, and learn from them alone as long as the config asks for.

        Raises:
            EmbodiedError: It does so without naming any.
        """
        config = self.config
        if not self.memory.shown and config.demonstrations is not None:
            self.demonstrate(load_demonstrations(config.demonstrations, self.sizes, self.action_size, self.device))
        if self._offline_updates >= config.offline_updates:
            return
        if not self.memory.shown:
            raise EmbodiedError(
                f"offline_updates={config.offline_updates} learn from demonstrations, of which there are none; "
                "expected demonstrations=FILE, as python -m policies.demonstrations writes it, or offline_updates=0"
            )
        with products(rounded=config.rounded_products):
            for _ in announced(config.offline_updates, "offline updates"):
                self._learn_offline()
        self._random_warm_up = False  # uniform actions would throw away what the policy knows

    def _learn(self) -> None:
        """One update of the critics, and those of policy and targets that are due with it."""
        config, self.updates = self.config, self.updates + 1
        batch = self.memory.sample(self.batch_generator)
        obs = self._learn_values(batch)
        if self.updates % config.policy_delay == 0:
            values = self._climbed(obs)
            penalty = self.advice.penalty(batch, values)
            self._note(self.rule.improve(obs[POLICY], batch.action, self._noise(), values, penalty))
        if self.updates % config.target_delay == 0:
            self._track()

    def _learn_offline(self) -> None:
        """One update of everything by demonstrations alone."""
        self._offline_updates += 1
        batch = self.memory.sample_shown(self.batch_generator)
        obs = self._learn_values(batch)
        self._note(self.rule.learn_offline(obs[POLICY], batch.action, self._noise(), self._climbed(obs)))
        self._track()

    def _learn_values(self, batch: Batch) -> dict[str, Tensor]:
        """One update of the critics; returns the batch's normalised observations."""
        obs = {group: normalizer(batch.obs[group]) for group, normalizer in self.normalizers.items()}
        next_obs = {group: self.normalizers[group](values) for group, values in batch.next_obs.items()}
        with torch.no_grad():
            following, bonus = self.rule.next_action(next_obs[POLICY], self._noise())
        group, generator = self.critic_group, self.batch_generator
        self._note(self.values.learn(batch, obs[group], next_obs[group], following, bonus, generator))
        return obs

    def _climbed(self, obs: Mapping[str, Tensor]) -> Values:
        """From actions to what the policy climbs in these states."""
        return lambda action: self.values.climbed(obs[self.critic_group], action)

    def _track(self) -> None:
        self.values.track(self.config.tau)
        self.rule.track(self.config.tau)

    def _noise(self) -> Tensor:
        noise = torch.empty(self.config.batch_size, self.action_size, device=self.device)
        return noise.normal_(generator=self.batch_generator)

    def _note(self, measures: Mapping[str, Tensor]) -> None:
        for name, value in measures.items():
            self._measures[name].append(value)

    def state(self) -> dict[str, Any]:
        """Everything that decides how training goes on, as tensors and numbers; the buffer only where configured so."""
        return {
            "values": self.values.state(),
            "rule": self.rule.state(),
            "normalizers": {group: normalizer.state() for group, normalizer in self.normalizers.items()},
            "noise_generator": self.noise_generator.get_state(),
            "batch_generator": self.batch_generator.get_state(),
            "updates": self.updates,
            "offline_updates": self._offline_updates,
            "learning_steps": self._learning_steps,
            "random_warm_up": self._random_warm_up,
            "advice": self.advice.state(),
            "replay": self.memory.state(),
        }

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        """Continue from what `state` returned: bit for bit where it has the buffer.

        Args:
            tree: The state.
            explore_alike: Continue the random numbers too; False where the state is another rank's.
        """
        self.values.load_state(tree["values"])
        self.rule.load_state(tree.get("rule", {}))  # a tree on disk has no empty branches
        for group, normalizer in self.normalizers.items():
            normalizer.load_state(tree["normalizers"][group])
        if explore_alike:
            self.noise_generator.set_state(tree["noise_generator"].cpu())
            self.batch_generator.set_state(tree["batch_generator"].cpu())
        self.updates, self._learning_steps = int(tree["updates"]), int(tree["learning_steps"])
        self._offline_updates = int(tree.get("offline_updates", 0))  # runs from before there were any lack it
        self.advice.load_state(tree.get("advice", {}))
        replay = tree.get("replay", {})
        # A policy that has learned refills its buffer by itself; uniform actions would throw away what it knows.
        self._random_warm_up = bool(tree["random_warm_up"]) and ("buffer" in replay or not self.updates)
        self.memory.load_state(replay)
        self._start_iteration()
