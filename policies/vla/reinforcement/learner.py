"""RL fine-tuning of a policy with action tokens: rollouts, advantages, and PPO's clipped loss on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from embodied.errors import EmbodiedError
from policies.algorithm import require_finite
from policies.networks.optim.cpu_settings import keep_freed_memory
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.vla.model.config import Head
from policies.vla.model.network import supports_bfloat16
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement import rollouts
from policies.vla.reinforcement.advantages import AdvantageEstimator, Advantages
from policies.vla.reinforcement.grpo import GRPOEstimator
from policies.vla.reinforcement.ppo import PPOEstimator
from policies.vla.reinforcement.rollouts import RolloutBatch, RolloutTask, StochasticPolicy
from policies.vla.reinforcement.settings import RLAlgorithm, RLConfig
from policies.vla.reinforcement.timing import Phase, PhaseTimer

SEEDS = 2**31
UPDATE_METRICS = ("loss", "clipped", "kl", "entropy", "gradient_norm")
"""Metrics of a gradient step, averaged over an iteration."""


class PolicyLoss(NamedTuple):
    """The clipped loss of B decisions, and how far the policy has moved."""

    loss: Tensor
    """()."""
    clipped: Tensor
    """() share of the actions' numbers whose gradient is clipped away."""
    kl: Tensor
    """() nats of an action's number, E[r - 1 - log r] of the rollout's policy from the current one (Schulman 2020)."""


def clipped_policy_loss(
    log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, weight: Tensor, executed: Tensor, low: float, high: float
) -> PolicyLoss:
    """Sum over the decisions of weight times the sum over their tokens of max(-A r, -A clip(r)), r = pi / pi_old.

    Each number of each action has a ratio of its own (SimpleVLA-RL, eq. 6; PPO, Schulman et al. 2017, eq. 7).

    Args:
        log_prob: (B, chunk, A) of the tokens now, nats.
        old_log_prob: (B, chunk, A) when they were sampled.
        advantage: (B,).
        weight: (B,) of one number of an action.
        executed: (B, chunk) bool; what was not executed does not count.
        low: Share by which a probability may fall before its gradient is clipped away.
        high: By which it may rise: farther, so that what is rare may become likely (DAPO, Yu et al. 2025).
    """
    counts = executed[..., None].expand_as(log_prob)
    change = (log_prob - old_log_prob).masked_fill(~counts, 0.0)
    ratio = change.exp()
    gain = ratio * advantage[:, None, None]
    bound = ratio.clamp(1 - low, 1 + high) * advantage[:, None, None]
    worst = torch.minimum(gain, bound).masked_fill(~counts, 0.0)
    loss = -(worst.sum((1, 2)) * weight).sum()
    with torch.no_grad():
        total = counts.sum().clamp(min=1)
        clipped = ((bound < gain) & counts).sum() / total
        kl = ((ratio - 1 - change) * counts).sum() / total
    return PolicyLoss(loss, clipped, kl)


class RLFineTuning:
    """Iterations of rollouts and updates. Every iteration begins new episodes, so it resumes between any two.

    A checkpoint therefore holds no environment, and a resume is bit-exact on every engine whose resets are.
    """

    def __init__(
        self,
        policy: VLAPolicy,
        tasks: Sequence[RolloutTask],
        algorithm: RLAlgorithm,
        config: RLConfig,
        *,
        seed: int = 0,
        timer: PhaseTimer | None = None,
    ) -> None:
        """Begin with `policy`, which goes on learning; what of it is frozen stays as it is.

        Its head is `tokens`; each task has `config.episodes` environments, on the policy's device. `seed` is that of
        initial states, sampled actions, minibatches and the critic.

        Raises:
            EmbodiedError: the head has no probabilities, a task has another number of environments, or there is
                partial credit for a task without progress.
        """
        require_tokens(policy)
        for task in tasks:
            if task.env.num_envs != config.episodes:
                raise EmbodiedError(
                    f"'{task.name}' has {task.env.num_envs} environments; expected {config.groups} groups of "
                    f"{config.group_size}, {config.episodes}"
                )
        if config.partial_credit and (silent := [task.name for task in tasks if task.max_reward is None]):
            raise EmbodiedError(
                f"partial_credit={config.partial_credit}, but the reward of {', '.join(silent)} does not tell how far "
                "the task is done; expected 0"
            )
        keep_freed_memory()
        self.policy, self.tasks, self.config = policy, tuple(tasks), config
        self.timer, device = timer or PhaseTimer(policy.device), policy.device
        self.estimator = make_estimator(algorithm, config, self.tasks, device, seed)
        trained = [p for p in policy.network.parameters() if p.requires_grad]
        self.optimizer = FlatAdamW(trained, config.learning_rate, max_grad_norm=config.max_grad_norm)
        self._order = Generator().manual_seed(seed)
        bfloat16 = supports_bfloat16(device) if config.bfloat16 is None else config.bfloat16
        generator = Generator(device).manual_seed(seed)
        self.sampler = StochasticPolicy(policy, config.temperature, generator, bfloat16)
        self.iterations, self.env_steps, self.gradient_steps, self._rounds = 0, 0, 0, 0

    def step(self) -> dict[str, float]:
        """One iteration: rounds of episodes, then updates on them.

        Returns:
            `success` of all episodes and `success/<task>`, their mean `progress`, `dropped`, the share of episodes of
            dropped groups, `episodes`, `length`, `decisions`, `frames`; `UPDATE_METRICS`, if there was an update; the
            estimator's metrics.

        Raises:
            DivergedError: the loss is not finite.
        """
        batch, keep, metrics = self.collect()
        self.iterations += 1
        if not bool(keep.any()):
            return metrics
        with self.timer.phase(Phase.UPDATE):
            kept = batch.select(keep)
            advantages = self.estimator.estimate(kept)
            return metrics | advantages.metrics | (self.update(kept, advantages) if advantages.ready else {})

    def collect(self) -> tuple[RolloutBatch, Tensor, dict[str, float]]:
        """Rounds of episodes of all tasks until enough can be learned from, `config.rounds` at most.

        Returns:
            The episodes, which of them are kept (E,) bool, and metrics of all.
        """
        parts: list[RolloutBatch] = []
        wanted, kept = len(self.tasks) * self.config.episodes, 0
        for _ in range(self.config.rounds):
            for number, task in enumerate(self.tasks):
                parts.append(self._episodes(number, task))
                kept += int(self.estimator.keep_mask(parts[-1]).sum())
            self._rounds += 1
            if kept >= wanted:
                break
        batch = RolloutBatch.concatenate(parts)
        self.env_steps += int(batch.length.sum())
        return batch, (keep := self.estimator.keep_mask(batch)), self._metrics(batch, keep)

    def update(self, batch: RolloutBatch, advantages: Advantages) -> dict[str, float]:
        """`config.epochs` epochs of gradient steps over all decisions."""
        count, parts = len(batch.episode), max(1, round(len(batch.episode) / self.config.minibatch))
        steps = []
        for _ in range(self.config.epochs):
            order = torch.randperm(count, generator=self._order).to(self.policy.device)
            for rows in order.chunk(parts):
                found, entropy = self.loss(batch, advantages, rows)
                loss = found.loss * (count / len(rows))
                self.gradient_steps += 1
                self.optimizer.learning_rate = self.config.learning_rate * min(
                    self.gradient_steps / max(self.config.warmup, 1), 1.0
                )
                norm = self.optimizer.descend(loss)
                steps.append(torch.stack([loss.detach(), found.clipped, found.kl, entropy, norm]))
        metrics: dict[str, float] = dict(zip(UPDATE_METRICS, torch.stack(steps).mean(0).tolist(), strict=True))
        require_finite(metrics, when=f"in iteration {self.iterations}")
        return metrics

    def loss(self, batch: RolloutBatch, advantages: Advantages, rows: Tensor) -> tuple[PolicyLoss, Tensor]:
        """The loss of the decisions `rows` (B,), and the mean entropy of an action's number, nats."""
        policy, bfloat16 = self.policy, self.sampler.bfloat16
        distinct, which = batch.instruction[batch.episode[rows]].unique(return_inverse=True)
        instructions = [batch.instructions[index] for index in distinct.tolist()]
        text = policy.encode_instructions(instructions, bfloat16=bfloat16)
        features = policy.features(batch.pixels[rows], batch.state[rows], text[which], bfloat16=bfloat16)
        distribution = rollouts.token_head(policy).distribution(features, self.sampler.temperature)
        executed = batch.executed[rows]
        found = clipped_policy_loss(
            distribution.log_prob(batch.tokens[rows].long()), batch.log_prob[rows], advantages.advantage[rows],
            advantages.weight[rows], executed, self.config.clip_low, self.config.clip_high,
        )  # fmt: skip
        with torch.no_grad():
            entropy = distribution.entropy().mean(-1)[executed].mean()
        return found, entropy

    def state(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.state(),
            "estimator": self.estimator.state(),
            "order": self._order.get_state(),
            "sampling": self.sampler.generator.get_state(),
            "iterations": self.iterations,
            "env_steps": self.env_steps,
            "gradient_steps": self.gradient_steps,
            "rounds": self._rounds,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.optimizer.load_state(tree["optimizer"])
        self.estimator.load_state(tree.get("estimator", {}))
        self._order.set_state(tree["order"].cpu())
        self.sampler.generator.set_state(tree["sampling"].cpu())
        self.iterations, self.env_steps = int(tree["iterations"]), int(tree["env_steps"])
        self.gradient_steps, self._rounds = int(tree["gradient_steps"]), int(tree["rounds"])

    def _episodes(self, number: int, task: RolloutTask) -> RolloutBatch:
        """One in every environment; the groups take the task's instructions in turn."""
        config, known = self.config, task.instructions
        first = self._rounds * config.groups
        texts = [known[(first + place // config.group_size) % len(known)] for place in range(task.env.num_envs)]
        seed, group_size = int(torch.randint(SEEDS, (), generator=self._order)), self.estimator.group_size
        return rollouts.collect_rollouts(
            task, self.sampler, texts, number, group_size=group_size, seed=seed, timer=self.timer
        )

    def _metrics(self, batch: RolloutBatch, keep: Tensor) -> dict[str, float]:
        success = batch.success.float()
        each = {
            f"success/{task.name}": success[batch.task == number].mean().item()
            for number, task in enumerate(self.tasks)
        }
        decisions = len(batch.episode)
        return {
            "success": success.mean().item(),
            "progress": batch.progress.mean().item(),
            **each,
            "dropped": 1.0 - keep.float().mean().item(),
            "episodes": float(len(batch)),
            "length": batch.length.float().mean().item(),
            "decisions": float(decisions),
            "frames": float(decisions * batch.pixels.shape[1]),
        }


def make_estimator(
    algorithm: RLAlgorithm, config: RLConfig, tasks: Sequence[RolloutTask], device: torch.device, seed: int
) -> AdvantageEstimator:
    if algorithm is RLAlgorithm.GRPO:
        return GRPOEstimator(config)
    return PPOEstimator(config, len(tasks), max(task.privileged_size for task in tasks), device, seed)


def require_tokens(policy: VLAPolicy, what: str = "the policy") -> None:
    """Check that a policy's actions have probabilities.

    Raises:
        EmbodiedError: they have none; with advice on training one that has them.
    """
    if (head := policy.network.config.head) is not Head.TOKENS:
        raise EmbodiedError(
            f"{what} has the head '{head}', whose actions have no probability that reinforcement learning could raise; "
            "expected 'tokens': python -m policies.vla.train DATASET --head tokens"
        )
