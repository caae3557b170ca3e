"""The settings of an improvement."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from embodied.errors import EmbodiedError
from policies.vla.reinforcement.config import Algorithm, ImprovementConfig

LIMITS = ("iterations", "steps", "minutes")
"""Settings that end an improvement."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Improve a policy that sees and is told what to do by reinforcement learning: 1 for success, 0 for none.

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
    """Tasks or suites; by default every task that the policy was taught."""
    algorithm: Algorithm = Algorithm.GRPO
    """grpo or ppo."""
    iterations: int = 0
    """After which it ends; 0: no matter. An iteration is one or more rounds of episodes, and the learning from them."""
    steps: int = 0
    """Control steps of all environments together after which it ends; 0: no matter."""
    minutes: float = 60.0
    """Of training, trials included, after which it ends; 0: no matter. What comes first counts."""
    out: Path | None = None
    """Run folder, instead of runs/vla/TIME; must be new or empty."""
    seed: int = 0
    """Of every random draw."""
    device: str | None = None
    """cpu, cuda or cuda:N; by default a GPU where there is one."""
    engine: str | None = None
    """Physics engine; by default the best that runs each task on this machine."""
    trial_seconds: float = 600.0
    """Seconds of training between two trials, in which the policy does what it thinks best."""
    trial_episodes: int = 8
    """Episodes of each task in a trial."""
    evaluate_episodes: int = 20
    """Episodes of each task in the evaluations before and after, from the same starts; 0 for none."""
    checkpoint_seconds: float = 120.0
    """Seconds between checkpoints."""
    resume: Path | None = None
    """Run to go on with: its own settings hold, but for limits that are given anew."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    rl: ImprovementConfig = dataclasses.field(default_factory=ImprovementConfig)
    """Options of the reinforcement learning."""

    def __post_init__(self) -> None:
        """Check that there is something to improve, and an end."""
        if self.policy is None and self.resume is None:
            raise EmbodiedError("which policy? python -m policies.vla.rl_finetune RUN, or --resume RUN")
        limits = {name: getattr(self, name) for name in LIMITS}
        if min(limits.values()) < 0 or not any(limits.values()):
            said = ", ".join(f"--{name} {value}" for name, value in limits.items())
            raise EmbodiedError(f"{said}: expected one above 0, and none below")
        if self.trial_episodes < 1:
            raise EmbodiedError(f"--trial-episodes {self.trial_episodes}: expected at least 1")
