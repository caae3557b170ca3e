"""The training loop: collect steps, update, report."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from embodied.env.vec_env import PolicyFunction, VecEnv
from embodied.errors import CheckpointError
from embodied.storage.trees import key_of
from policies.algorithm import Algorithm, SettingsError
from policies.networks.optim import distributed
from policies.policy import Policy
from policies.registry import build_algorithm


class Trainer:
    """One environment and one algorithm, advanced an iteration at a time."""

    steps: int
    """Environment steps taken so far, on all ranks together."""

    def __init__(self, env: VecEnv, config: Any, *, total_steps: int, seed: int = 0) -> None:
        """Build the algorithm, which the type of its settings selects; `seed` is its own, not the environment's.

        `done` holds after `total_steps` environment steps, on all ranks together.
        """
        if total_steps < 1:
            raise SettingsError(f"total_steps={total_steps} must be at least 1")
        self.env, self.total_steps, self.steps = env, total_steps, 0
        self.algorithm: Algorithm = build_algorithm(env, config, seed)
        self._obs = dict(env.reset())
        env.spread_episode_lengths()

    @property
    def policy(self) -> Policy:
        """The present policy; it goes on learning with the trainer."""
        return self.algorithm.policy

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps per iteration, on all ranks together."""
        return self.algorithm.unroll * self.env.num_envs * distributed.size()

    @property
    def done(self) -> bool:
        """Whether all steps are taken."""
        return self.steps >= self.total_steps

    def iterate(self) -> dict[str, float]:
        """Take `unroll` control steps and learn from them.

        Returns:
            The environment's statistics, the algorithm's metrics, and the time both took.
        """
        start = time.perf_counter()
        self._obs = self.algorithm.collect(self.env, self._obs)
        collected = time.perf_counter()
        measures = self.algorithm.update(self._obs, self.steps / self.total_steps)
        end = time.perf_counter()
        self.steps += self.steps_per_iteration
        timing = {
            "env_steps_per_second": self.steps_per_iteration / (end - start),
            "collect_seconds": collected - start,
            "update_seconds": end - collected,
        }
        return self.env.statistics() | timing | measures  # an algorithm may know its own times better

    def state(self) -> dict[str, Any]:
        """Everything a bit-exact resume of this rank needs, as nested dictionaries of tensors and numbers."""
        return {
            "rank": distributed.rank(),
            "steps": self.steps,
            "obs": {key_of(group): tensor.clone() for group, tensor in self._obs.items()},
            "algorithm": self.algorithm.state(),
            "env": self.env.state(),
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned.

        A rank that is given another rank's state takes over what was learned and begins fresh episodes: repeating
        the other's would add nothing to learn from.
        """
        own = int(tree.get("rank", 0)) == distributed.rank()
        self.steps = int(tree["steps"])
        self.algorithm.load_state(tree["algorithm"], explore_alike=own)
        if own:
            self._obs = {group: tree["obs"][key_of(group)].to(self.env.device).clone() for group in self._obs}
            self.env.load_state(tree["env"])


def train(
    env: VecEnv,
    config: Any,
    *,
    total_steps: int,
    seed: int = 0,
    start_from: Policy | None = None,
    start_state: Mapping[str, Any] | None = None,
    adviser: PolicyFunction | None = None,
    resume: Mapping[str, Any] | None = None,
    on_iteration: Callable[[Trainer, dict[str, float]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Trainer:
    """Train until `total_steps` are taken or `should_stop`.

    Args:
        env: What to learn on.
        config: Settings of the algorithm, whose type selects it.
        total_steps: Environment steps to take, on all ranks together, those before a resume included.
        seed: Seed of the algorithm.
        start_from: A policy to begin with instead of an untrained one.
        start_state: State of that training, whose critic is begun with, too, where it fits.
        adviser: The policy that the config announces as one.
        resume: What `Trainer.state` returned.
        on_iteration: Called after each iteration with the trainer, whose `steps`, `state()` and `policy` serve
            progress lines, checkpoints and videos, and with the iteration's metrics.
        should_stop: Called after each iteration; a yes on any rank stops all of them.

    Returns:
        The trainer, with the learned policy at `policy`.

    Raises:
        CheckpointError: What is to be resumed is of another version.
    """
    trainer = Trainer(env, config, total_steps=total_steps, seed=seed)
    if start_from is not None:
        trainer.algorithm.start_from(start_from)
        if start_state is not None:
            trainer.algorithm.take_critic(start_state)
    if adviser is not None:
        trainer.algorithm.advise(adviser)
    if resume is not None:
        _resume(trainer, resume)
    while not trainer.done:
        metrics = trainer.iterate()
        if on_iteration is not None:
            on_iteration(trainer, metrics)
        if distributed.anyone(should_stop is not None and should_stop(), env.device):
            break
    return trainer


def _resume(trainer: Trainer, state: Mapping[str, Any]) -> None:
    try:
        trainer.load_state(state)
    except (KeyError, RuntimeError) as error:  # an entry is missing; or torch cannot copy one of another size
        difference = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(
            f"the training was saved by another version of embodied ({difference}) and cannot be resumed; begin a new "
            "run with its policy: python -m embodied.train TASK --start-from RUN"
        ) from error
