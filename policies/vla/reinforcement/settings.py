"""Settings of RL fine-tuning: of the command, and of rollouts and updates."""

from __future__ import annotations

import dataclasses
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import tyro

from embodied.errors import EmbodiedError
from embodied.storage.bounds import FRACTION, NOT_NEGATIVE, POSITIVE, Bounded, at_least
from policies.vla.settings import ClosedLoopSettings

LIMITS = ("iterations", "steps", "minutes")
"""Settings that end a training."""


class RLAlgorithm(StrEnum):
    """Estimator of advantages."""

    GRPO = "grpo"
    """Relative to other episodes from the same initial state (SimpleVLA-RL, Li et al. 2025)."""
    PPO = "ppo"
    """By GAE with a privileged critic."""


@dataclasses.dataclass(frozen=True)
class RLConfig(Bounded):
    """Rollouts, and gradient steps on them. The defaults are those with which a policy of 3.2 M parameters, from one
    demonstration of each task, improved the most (docs/vla.md); where they differ from SimpleVLA-RL's, it is said."""

    groups: Annotated[int, at_least(1)] = 4
    """Initial states of each task in a round of episodes."""
    group_size: Annotated[int, at_least(2)] = 8
    """Episodes from each initial state; with PPO every episode has its own, and there are as many."""
    rounds: Annotated[int, at_least(1)] = 1
    """Most rounds of an iteration: GRPO drops groups whose episodes all end alike, and draws others until as many are
    kept as one round holds. SimpleVLA-RL draws until there are enough; with partial credit few groups end alike at
    first."""
    horizon: Annotated[int, NOT_NEGATIVE] = 150
    """Control steps within which a task is to be solved; 0: as long as its episodes are. Failures last that long."""
    hold: Annotated[float, NOT_NEGATIVE] = 0.0
    """s for which a task is to stay solved, so that what is reached and lost again is no success; episodes then need a
    longer `horizon`. 0: success counts at once, as in SimpleVLA-RL."""
    partial_credit: Annotated[float, FRACTION] = 0.5
    """Return of a failed episode for its largest progress, as a share of a success; 0: nothing, as in SimpleVLA-RL. For
    tasks whose reward has a known maximum, as those of manipulation."""
    temperature: Annotated[float, POSITIVE] = 1.2
    """Divides logits, in rollouts and in updates. SimpleVLA-RL's is 1.6. Less for a policy whose fine-tuning was cut
    short: it is unsure of its tokens, and every number of eight actions sampled by itself shakes the hand. More for one
    that is sure: episodes that all end alike teach nothing."""
    learning_rate: Annotated[float, POSITIVE] = 2e-4
    """Largest step size of Adam. SimpleVLA-RL's is 5e-6, for a network of 7 billion parameters."""
    warmup: Annotated[int, NOT_NEGATIVE] = 20
    """Gradient steps over which it rises from 0: Adam's first step is a full one, whatever the gradient."""
    epochs: Annotated[int, at_least(1)] = 2
    """Passes over the decisions of an iteration."""
    minibatch: Annotated[int, at_least(1)] = 512
    """Decisions per gradient step."""
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    """Norm to which longer gradients are clipped."""
    clip_low: float = 0.2
    """Largest fall of a token's probability within an update, as a share."""
    clip_high: float = 0.28
    """Largest rise of it."""
    bfloat16: bool | None = None
    """Compute in bfloat16 while the weights stay float32; by default where the processor has instructions for it."""
    gamma: Annotated[float, FRACTION] = 0.99
    """PPO: discount per decision, so that sooner is better."""
    lam: Annotated[float, FRACTION] = 0.95
    """PPO: lambda of GAE."""
    critic_learning_rate: Annotated[float, POSITIVE] = 1e-3
    """PPO: step size of the critic's Adam."""
    critic_epochs: Annotated[int, at_least(1)] = 4
    """PPO: passes of the critic over the decisions of an iteration."""
    critic_warmup: Annotated[int, NOT_NEGATIVE] = 3
    """PPO: iterations in which only the critic learns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.clip_low < 1 and 0 < self.clip_high < math.inf):
            raise ValueError(f"clip_low={self.clip_low} clip_high={self.clip_high}: expected 0 < low < 1 and 0 < high")

    @property
    def episodes(self) -> int:
        """Of each task in a round."""
        return self.groups * self.group_size


@dataclasses.dataclass(frozen=True)
class Settings(ClosedLoopSettings):
    """Fine-tune a vision-language-action policy by reinforcement learning: reward 1 for success, 0 for none.

    It begins with what policies.vla.train made with --head tokens, which must succeed sometimes. Results go to a run as
    those of embodied.train. Ctrl-C or SIGTERM saves and stops; --resume RUN goes on. Examples:

        python -m policies.vla.train demos --episodes-per-task 1 --out runs/vla/one
        python -m policies.vla.rl_finetune runs/vla/one --algorithm grpo --minutes 60 --out runs/vla/grpo
        python -m policies.vla.rl_finetune --resume runs/vla/grpo --minutes 120
        python -m policies.vla.compare runs/vla/one runs/vla/grpo
    """

    policy: tyro.conf.Positional[Path | None] = None
    """Run or checkpoint to begin with."""
    task: tuple[str, ...] = ()
    """Tasks or suites; by default every task that the policy was trained on."""
    algorithm: RLAlgorithm = RLAlgorithm.GRPO
    """grpo or ppo."""
    iterations: int = 0
    """After which it ends; 0: no limit. An iteration is one or more rounds of episodes, and the updates on them."""
    steps: int = 0
    """Control steps of all environments together after which it ends; 0: no limit."""
    minutes: float = 60.0
    """Of training, trials included, after which it ends; 0: no limit. What comes first counts."""
    trial_seconds: float = 600.0
    """Seconds of training between two trials, in which the policy takes its most likely actions."""
    trial_episodes: int = 8
    """Episodes of each task in a trial."""
    evaluate_episodes: int = 20
    """Episodes of each task in the evaluations before and after, from the same initial states; 0 for none."""
    rl: RLConfig = dataclasses.field(default_factory=RLConfig)
    """Options of the reinforcement learning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.policy is None and self.resume is None:
            raise EmbodiedError("which policy? python -m policies.vla.rl_finetune RUN, or --resume RUN")
        limits = {name: getattr(self, name) for name in LIMITS}
        if min(limits.values()) < 0 or not any(limits.values()):
            said = ", ".join(f"--{name} {value}" for name, value in limits.items())
            raise EmbodiedError(f"{said}: expected one above 0, and none below")
