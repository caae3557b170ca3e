"""Reinforcement learning of a policy that sees and is told what to do: episodes, credit, gradient steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from policies.learner import DivergedError
from policies.optim.cpu_settings import keep_freed_memory
from policies.optim.flat_parameters import VectorizedSimulator
from policies.vla.fine_tuning.stopwatch import Part, Stopwatch
from policies.vla.model.config import Head
from policies.vla.model.precision import fast_bfloat16, features, read
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.advantages import JUDGES, Credit
from policies.vla.reinforcement.config import Algorithm, ImprovementConfig
from policies.vla.reinforcement.experience import Experience
from policies.vla.reinforcement.rollout_envs import Arena
from policies.vla.reinforcement.rollouts import Sampler, roll_out, token_head
from policies.vla.reinforcement.surrogate import Surrogate, surrogate

SEEDS = 2**31
MEASURED = ("loss", "clipped", "kl", "entropy", "gradient_norm")
"""What a gradient step tells, averaged over an iteration."""


class Improvement:
    """Improves a policy by how its own episodes end. Every iteration begins afresh, so it resumes between any two."""

    def __init__(
        self,
        policy: VLAPolicy,
        arenas: Sequence[Arena],
        algorithm: Algorithm,
        config: ImprovementConfig,
        *,
        seed: int = 0,
        watch: Stopwatch | None = None,
    ) -> None:
        """Begin with `policy`, which goes on learning; what of it is frozen stays as it is.

        Args:
            policy: Its head is `tokens`.
            arenas: One for each task, of `config.episodes` environments, on the policy's device.
            algorithm: grpo, or ppo.
            config: How.
            seed: Of starts, draws, minibatches and the critic.
            watch: What counts the time.

        Raises:
            EmbodiedError: The head gives no probabilities, an arena has another number of environments, or there is
                partial credit for what a task does not tell.
        """
        require_tokens(policy)
        for arena in arenas:
            if arena.num_envs != config.episodes:
                raise EmbodiedError(
                    f"'{arena.name}' has {arena.num_envs} environments; expected {config.groups} groups of "
                    f"{config.group_size}, {config.episodes}"
                )
        if config.partial_credit and (silent := [arena.name for arena in arenas if not arena.tells_progress]):
            raise EmbodiedError(
                f"partial_credit={config.partial_credit}, but the reward of {', '.join(silent)} does not tell how far "
                "the task is done; expected 0"
            )
        keep_freed_memory()
        self.policy, self.arenas, self.config = policy, tuple(arenas), config
        self.watch = watch or Stopwatch(policy.device)
        device, knowledge = policy.device, max(arena.knowledge for arena in arenas)
        self.judge = JUDGES[algorithm](config, len(self.arenas), knowledge, device, seed)
        trained = [p for p in policy.network.parameters() if p.requires_grad]
        self.simulator = VectorizedSimulator(trained, config.learning_rate, max_grad_norm=config.max_grad_norm)
        self._order = torch.Generator().manual_seed(seed)
        bfloat16 = fast_bfloat16(device) if config.bfloat16 is None else config.bfloat16
        self.sampler = Sampler(policy, config.temperature, torch.Generator(device).manual_seed(seed), bfloat16)
        self.iterations, self.env_steps, self.gradient_steps, self._rounds = 0, 0, 0, 0

    def step(self) -> dict[str, float]:
        """Act in rounds of episodes, then learn from them.

        Returns:
            `success` of all episodes and `success/<task>`, their mean `progress`, `dropped`, the share of groups from
            which nothing was learned, `episodes`, `length`, `decisions`, `frames`; `MEASURED`, where something was;
            what the judge says.

        Raises:
            DivergedError: The loss is not finite.
        """
        experience, kept, measures = self.collect()
        self.iterations += 1
        if not bool(kept.any()):
            return measures
        with self.watch.part(Part.UPDATE):
            chosen = experience.only(kept)
            credit = self.judge.judge(chosen)
            return measures | credit.measures | (self.learn(chosen, credit) if credit.ready else {})

    def collect(self) -> tuple[Experience, Tensor, dict[str, float]]:
        """Rounds of episodes of all tasks until enough are worth something, `config.rounds` at most.

        Returns:
            The episodes, which of them are worth something (E,) bool, and measures of all.
        """
        parts: list[Experience] = []
        wanted, worthy = len(self.arenas) * self.config.episodes, 0
        for _ in range(self.config.rounds):
            for number, arena in enumerate(self.arenas):
                parts.append(self._episodes(number, arena))
                worthy += int(self.judge.worth(parts[-1]).sum())
            self._rounds += 1
            if worthy >= wanted:
                break
        experience = Experience.joined(parts)
        self.env_steps += int(experience.length.sum())
        return experience, (kept := self.judge.worth(experience)), self._measures(experience, kept)

    def learn(self, experience: Experience, credit: Credit) -> dict[str, float]:
        """Gradient steps over all decisions, `config.epochs` times."""
        count, parts = len(experience.episode), max(1, round(len(experience.episode) / self.config.minibatch))
        steps = []
        for _ in range(self.config.epochs):
            order = torch.randperm(count, generator=self._order).to(self.policy.device)
            for rows in order.chunk(parts):
                found, entropy = self.objective(experience, credit, rows)
                loss = found.loss * (count / len(rows))
                self.gradient_steps += 1
                self.simulator.learning_rate = self.config.learning_rate * min(
                    self.gradient_steps / max(self.config.rise, 1), 1.0
                )
                norm = self.simulator.descend(loss)
                steps.append(torch.stack([loss.detach(), found.clipped, found.kl, entropy, norm]))
        measures: dict[str, float] = dict(zip(MEASURED, torch.stack(steps).mean(0).tolist(), strict=True))
        if broken := [f"{name}={value}" for name, value in measures.items() if not math.isfinite(value)]:
            raise DivergedError(f"training diverged in iteration {self.iterations}: {', '.join(broken)}")
        return measures

    def objective(self, experience: Experience, credit: Credit, rows: Tensor) -> tuple[Surrogate, Tensor]:
        """The objective of the decisions `rows` (B,), and the mean entropy of an action's number, nats."""
        part = self.sampler
        given, which = experience.text[experience.episode[rows]].unique(return_inverse=True)
        words = read(part.policy, [experience.texts[number] for number in given.tolist()], bfloat16=part.bfloat16)
        pixels, state = experience.pixels[rows], experience.state[rows]
        seen = features(part.policy, pixels, state, words[which], bfloat16=part.bfloat16)
        choice = token_head(part.policy).choice(seen, part.temperature)
        acted = experience.acted[rows]
        found = surrogate(
            choice.log_prob(experience.tokens[rows].long()), experience.log_prob[rows], credit.advantage[rows],
            credit.weight[rows], acted, self.config.clip_low, self.config.clip_high,
        )  # fmt: skip
        with torch.no_grad():
            entropy = choice.entropy().mean(-1)[acted].mean()
        return found, entropy

    def state(self) -> dict[str, Any]:
        """Everything that decides how training goes on."""
        return {
            "simulator": self.simulator.state(),
            "judge": self.judge.state(),
            "order": self._order.get_state(),
            "draws": self.sampler.generator.get_state(),
            "iterations": self.iterations,
            "env_steps": self.env_steps,
            "gradient_steps": self.gradient_steps,
            "rounds": self._rounds,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.simulator.load_state(tree["simulator"])
        self.judge.load_state(tree.get("judge", {}))
        self._order.set_state(tree["order"].cpu())
        self.sampler.generator.set_state(tree["draws"].cpu())
        self.iterations, self.env_steps = int(tree["iterations"]), int(tree["env_steps"])
        self.gradient_steps, self._rounds = int(tree["gradient_steps"]), int(tree["rounds"])

    def _episodes(self, number: int, arena: Arena) -> Experience:
        """One in every environment of an arena; each group is told one of the instructions, in turn."""
        config, told = self.config, arena.told
        first = self._rounds * config.groups
        texts = [told[(first + place // config.group_size) % len(told)] for place in range(arena.num_envs)]
        seed = int(torch.randint(SEEDS, (), generator=self._order))
        return roll_out(arena, self.sampler, texts, number, alike=self.judge.alike, seed=seed, watch=self.watch)

    def _measures(self, experience: Experience, kept: Tensor) -> dict[str, float]:
        success = experience.success.float()
        each = {
            f"success/{arena.name}": success[experience.task == number].mean().item()
            for number, arena in enumerate(self.arenas)
        }
        decisions = len(experience.episode)
        return {
            "success": success.mean().item(),
            "progress": experience.progress.mean().item(),
            **each,
            "dropped": 1.0 - kept.float().mean().item(),
            "episodes": float(len(experience)),
            "length": experience.length.float().mean().item(),
            "decisions": float(decisions),
            "frames": float(decisions * experience.pixels.shape[1]),
        }


def require_tokens(policy: VLAPolicy, what: str = "the policy") -> None:
    """Check that a policy's actions have probabilities.

    Raises:
        EmbodiedError: they have none; says how to train one whose have.
    """
    if (head := policy.network.config.head) is not Head.TOKENS:
        raise EmbodiedError(
            f"{what} has the head '{head}', whose actions have no probability that reinforcement learning could raise; "
            "expected 'tokens': python -m policies.vla.train DATASET --head tokens"
        )
