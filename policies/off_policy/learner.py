"""The off-policy learner: it acts, fills the replay buffer, and updates the critics and actor of its algorithm."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from embodied.env.multi_agent import of_team
from embodied.env.vec_env import ObservationSpec, PolicyFunction, Step, vector_sizes
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror
from embodied.storage.trees import same_shapes
from policies.algorithm import Algorithm, require_finite, transfer_weights
from policies.data.demonstrations import load as load_demonstrations
from policies.data.replay_buffer import Batch, Transitions, combined
from policies.imitation.advice import QFunction
from policies.networks.normalizer import Normalizer
from policies.networks.optim import distributed
from policies.networks.optim.cpu_settings import announced, keep_freed_memory, products
from policies.off_policy.config import OffPolicyConfig, Sizes
from policies.off_policy.demonstration_replay import DemonstrationReplay
from policies.policy import Policy


class OffPolicyLearner(Algorithm):
    """Acts, stores transitions, and after each control step makes as many updates as its config's ratios require."""

    def __init__(
        self,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        num_envs: int,
        config: OffPolicyConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        mirror: Callable[[], Mirror] | None = None,
        team_size: int = 1,
    ) -> None:
        """Build networks, normalisers and buffer; arguments as of `policies.registry.Build`.

        The type of `config` selects the algorithm. `team_size` agents' vectors and actions stand one after the other.
        """
        keep_freed_memory()
        self.config, self.device, self.num_envs, self.action_size = config, torch.device(device), num_envs, action_size
        self.groups = groups = config.groups(observation_spec)
        sizes = vector_sizes(groups.spec)
        weights = Generator().manual_seed(seed)
        self.actor_update, self.critic_update = config.build(
            Sizes(sizes[groups.actor], sizes[groups.critic], action_size, self.device, groups.image_shape, team_size),
            weights,
        )
        clip = config.observation_clip
        self.normalizers = {group: Normalizer(size, self.device, clip) for group, size in sizes.items()}
        self.advice = config.advice(action_size)
        advice_spec = {} if self.advice is None else self.advice.spec
        self.replay = DemonstrationReplay(
            config, num_envs, groups.spec, action_size, self.device, advice_spec,
            reward_size=team_size if config.own_rewards else None,
        )  # fmt: skip
        own_seed = seed * distributed.size() + distributed.rank()
        self.noise_generator = Generator(self.device).manual_seed(2 * own_seed)
        self.batch_generator = Generator(self.device).manual_seed(2 * own_seed + 1)
        self.updates, self._offline_updates = 0, 0
        self._learning_steps = 0  # control steps since the warm-up
        self._random_warm_up = config.random_warm_up
        self._obs: dict[str, Tensor] = {}
        self._action = torch.zeros(num_envs, action_size, device=self.device)
        self._start_iteration()

    @property
    def policy(self) -> Policy:
        return self.groups.policy(self.actor_update.actor, self.normalizers[self.groups.actor], self.config)

    @torch.no_grad()
    def start_from(self, policy: Policy) -> None:
        """Begin with another policy's network and statistics, and untrained critics."""
        transfer_weights(policy, self.policy)
        self.actor_update.update_target(1.0)
        self.critic_update.update_target(1.0)
        self._random_warm_up = False
        if self.config.normalize_observations:
            self.normalizers[self.groups.actor].adopt(policy.network.observation_mean, policy.network.observation_scale)

    def take_critic(self, state: Mapping[str, Any]) -> bool:
        """Begin with the critics of a training whose critics are built and observe as these; returns whether they are.

        Adam's moments of them and target networks come with them, and the statistics of what critics alone observe.
        """
        group = self.groups.critic
        given, statistics = state.get("critics", {}), state.get("normalizers", {}).get(group, {})
        own = self.normalizers[group]
        fits = same_shapes(given, self.critic_update.state()) and same_shapes(statistics, own.state())
        if fits:
            self.critic_update.load_state(given)
            if group != self.groups.actor:
                own.load_state(statistics)
        return fits

    def add_demonstrations(self, steps: Transitions) -> None:
        """Learn from these steps of one environment too, (T, 1, ...); their observations enter the statistics."""
        self.replay.add_demonstrations(steps)
        if self.config.normalize_observations:
            for group, normalizer in self.normalizers.items():
                normalizer.observe(steps.obs[group].flatten(0, 1))
                normalizer.commit()

    def advise(self, rule: PolicyFunction) -> None:
        if self.advice is None:
            raise EmbodiedError("advice was offered to a learner without adviser; expected a config with adviser=NAME")
        self.advice.rule = rule

    @torch.no_grad()
    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Choose exploring actions (N, A) in [-1, 1] for raw observations, group to (N, *shape); `record` gets both."""
        if self._started is None:
            self._started = time.perf_counter()
        self._prepare()
        self._obs = {group: obs[group].clone() for group in self.groups.spec}
        if self.config.normalize_observations:
            for group, normalizer in self.normalizers.items():
                normalizer.observe(self._obs[group])
                if normalizer.empty:  # The first actions are chosen by the first observations' statistics.
                    normalizer.commit()
        noise = torch.empty_like(self._action)
        if self._random_warm_up and not self.replay.ready:
            self._action = noise.uniform_(-1.0, 1.0, generator=self.noise_generator)
        else:
            noise.normal_(generator=self.noise_generator)
            self._action = self.actor_update.explore(self.groups.actor_input(self._obs, self.normalizers), noise)
        if self.advice is not None:
            self._obs |= self.advice.observe(obs, self._action)
        return self._action.clone()

    def record(self, step: Step) -> None:
        """Store the result of the last `act`, and make the updates that are due."""
        reward, final_obs = self._reward(step.reward), {group: step.final_obs[group] for group in self.groups.spec}
        steps = Transitions(self._obs, self._action, reward, step.terminated, step.truncated, final_obs)
        self.replay.extend(combined([steps], lambda tensors: tensors[0][None]))
        if not self.replay.ready:
            return
        start = time.perf_counter()
        self._learning_steps += 1
        with products(rounded=self.config.bfloat16_matmul):
            while self.updates < math.floor(self._learning_steps * self.config.critic_updates):
                self._learn()
        self._update_seconds += time.perf_counter() - start

    def _reward(self, reward: Tensor) -> Tensor:
        """Reward that is learned from: a team's mean, (N,), or the agents' own, (N, M)."""
        if self.config.own_rewards:
            return reward if reward.dim() == 2 else reward[:, None]
        return of_team(reward)

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """End an iteration: update the normalisers' statistics; metrics are means over the iteration's updates."""
        del obs, progress
        if self.config.normalize_observations:
            for normalizer in self.normalizers.values():
                normalizer.commit()
        metrics = {}
        if self._sums:
            means = torch.stack([total / self._counts[name] for name, total in self._sums.items()])
            metrics = dict(zip(self._sums, means.tolist(), strict=True))
        require_finite(metrics, "lower learning rates or reward_scale")
        now = time.perf_counter()
        whole = now - (now if self._started is None else self._started)
        took = {"collect_seconds": whole - self._update_seconds, "update_seconds": self._update_seconds}
        self._start_iteration()
        return metrics | took | {"updates": float(self.updates), "buffer": float(len(self.replay.buffer))}

    def _start_iteration(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: Counter[str] = Counter()
        self._update_seconds = 0.0
        self._started: float | None = None  # by the first action: checkpoints are written between iterations

    @torch.enable_grad()  # `act` has switched it off
    def _prepare(self) -> None:
        """Read the demonstrations, and make the offline updates.

        Raises:
            EmbodiedError: There are offline updates without demonstrations.
        """
        config = self.config
        if not self.replay.has_demonstrations and config.demonstrations is not None:
            self.add_demonstrations(
                load_demonstrations(config.demonstrations, self.groups.spec, self.action_size, self.device)
            )
        if self._offline_updates >= config.offline_updates:
            return
        if not self.replay.has_demonstrations:
            raise EmbodiedError(
                f"offline_updates={config.offline_updates} learn from demonstrations, of which there are none; "
                "expected demonstrations=FILE, as python -m policies.demonstrations writes it, or offline_updates=0"
            )
        with products(rounded=config.bfloat16_matmul):
            for _ in announced(config.offline_updates, "offline updates"):
                self._learn_offline()
        self._random_warm_up = False  # the policy is trained: uniform actions would not be its own

    def _learn(self) -> None:
        """One update of the critics, and those of policy and targets that are due with it."""
        config, self.updates = self.config, self.updates + 1
        batch = self.replay.sample(self.batch_generator)
        actor_obs, critic_obs = self._update_critics(batch)
        if self.updates % config.policy_delay == 0:
            same = actor_obs is critic_obs
            critic_obs = self.critic_update.encoded(critic_obs)
            actor_obs = critic_obs if same else self.critic_update.encoded(actor_obs)
            q_value = self._q_function(critic_obs)
            penalty = None if self.advice is None else self.advice.penalty(batch.obs, q_value)
            self._log(self.actor_update.update(actor_obs, batch.action, self._noise(), q_value, penalty))
        if self.updates % config.target_delay == 0:
            self._update_targets()

    def _learn_offline(self) -> None:
        """One update of everything by demonstrations alone."""
        self._offline_updates += 1
        batch = self.replay.sample_demonstrations(self.batch_generator)
        actor_obs, critic_obs = self._update_critics(batch)
        q_value = self._q_function(critic_obs)
        self._log(self.actor_update.update_offline(actor_obs, batch.action, self._noise(), q_value))
        self._update_targets()

    def _update_critics(self, batch: Batch) -> tuple[Any, Any]:
        """One update of the critics; returns what actor and critics are given of the first observations."""
        actor_obs, critic_obs = self.groups.inputs(batch.obs, self.normalizers)
        next_actor_obs, next_critic_obs = self.groups.inputs(batch.next_obs, self.normalizers)
        with torch.no_grad():
            next_action, bonus = self.actor_update.next_action(next_actor_obs, self._noise())
        self._log(
            self.critic_update.update(batch, critic_obs, next_critic_obs, next_action, bonus, self.batch_generator)
        )
        return actor_obs, critic_obs

    def _q_function(self, critic_obs: Any) -> QFunction:
        """Actions to their Q-values in these states."""
        return lambda action: self.critic_update.q_value(critic_obs, action)

    def _update_targets(self) -> None:
        self.critic_update.update_target(self.config.tau)
        self.actor_update.update_target(self.config.tau)

    def _noise(self) -> Tensor:
        noise = torch.empty(self.config.batch_size, self.action_size, device=self.device)
        return noise.normal_(generator=self.batch_generator)

    def _log(self, metrics: Mapping[str, Tensor]) -> None:
        """Add to the sums of this iteration.

        Kept one by one, thousands of small tensors lay between the batches that come and go, which then fit into no gap
        that another left: offline updates took a megabyte each of the process's memory.
        """
        for name, value in metrics.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros((), dtype=torch.float64, device=value.device)
            self._sums[name] += value
            self._counts[name] += 1

    def state(self) -> dict[str, Any]:
        return {
            "critics": self.critic_update.state(),
            "actor": self.actor_update.state(),
            "normalizers": {group: normalizer.state() for group, normalizer in self.normalizers.items()},
            "noise_generator": self.noise_generator.get_state(),
            "batch_generator": self.batch_generator.get_state(),
            "updates": self.updates,
            "offline_updates": self._offline_updates,
            "learning_steps": self._learning_steps,
            "random_warm_up": self._random_warm_up,
            "replay": self.replay.state(),
            **({} if self.advice is None else {"advice": self.advice.state()}),
        }

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        """Continue from what `state` returned: bit for bit where it has the buffer."""
        self.critic_update.load_state(tree["critics"])
        self.actor_update.load_state(tree.get("actor", {}))  # a tree on disk has no empty branches
        for group, normalizer in self.normalizers.items():
            normalizer.load_state(tree["normalizers"][group])
        if explore_alike:
            self.noise_generator.set_state(tree["noise_generator"].cpu())
            self.batch_generator.set_state(tree["batch_generator"].cpu())
        self.updates, self._learning_steps = int(tree["updates"]), int(tree["learning_steps"])
        self._offline_updates = int(tree["offline_updates"])
        if self.advice is not None:
            self.advice.load_state(tree["advice"])
        replay = tree.get("replay", {})
        # A trained policy refills the buffer itself: uniform actions would not be its own.
        self._random_warm_up = bool(tree["random_warm_up"]) and ("buffer" in replay or not self.updates)
        self.replay.load_state(replay)
        self._start_iteration()
