"""Evaluating a policy over whole episodes with fresh starts, with 95 % intervals."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.env.wrappers.trials import ended_episode, episodes_per_trial
from embodied.errors import EmbodiedError, whole_number
from embodied.evaluation.rates import EPISODE, Z95, wilson


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Results of a policy in whole episodes."""

    episodes: int
    values: dict[str, Tensor]
    """Name -> (episodes,): `return`, `length`, `success`, `success_any`, `fall` (failure), the task's own metrics, NaN
    where an episode has none; of trials `episode`."""
    seconds: float
    """Wall time."""
    env_steps: int
    """Environment steps taken, those after an environment's last counted episode included."""

    def summary(self) -> dict[str, float]:
        """Plain keys for tables and JSON: means, and the 95 % intervals of success and return.

        A metric's mean is over the episodes in which it is a number, and missing where there is none.
        """
        means = {name: float(value.double().nanmean()) for name, value in self.values.items() if name != EPISODE}
        means = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        (low, high), (any_low, any_high) = (
            wilson(int(self.values[name].sum()), self.episodes) for name in ("success", "success_any")
        )
        spread = float(self.values["return"].double().std()) if self.episodes > 1 else 0.0
        half = Z95 * spread / math.sqrt(self.episodes)
        return means | {
            "success_low": low,
            "success_high": high,
            "success_any_low": any_low,
            "success_any_high": any_high,
            "return_low": means["return"] - half,
            "return_high": means["return"] + half,
            "episodes": float(self.episodes),
            "seconds": self.seconds,
            "env_steps_per_second": self.env_steps / self.seconds,
        }

    def by_episode(self) -> list[dict[str, float]]:
        """Of trials, the summary of all first episodes, of all second ones and so on; empty without trials.

        Their `seconds` and `env_steps_per_second` are those of the whole evaluation.
        """
        numbers = self.values.get(EPISODE)
        if numbers is None:
            return []
        return [
            self._only(numbers == number).summary() | {EPISODE: number} for number in range(1, int(numbers.max()) + 1)
        ]

    def _only(self, chosen: Tensor) -> Evaluation:
        values = {name: value[chosen] for name, value in self.values.items()}
        return dataclasses.replace(self, episodes=int(chosen.sum()), values=values)


def evaluate(
    env: Env,
    policy: PolicyFunction,
    episodes: int,
    *,
    seed: int | None = None,
    scored: int | None = None,
    notes: Callable[[], Mapping[str, Tensor]] | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Run `episodes` whole episodes.

    Every environment contributes the same number of episodes, counted in order: taking whichever end first would
    favour short ones. Of a task with trials, whole trials are run.

    Args:
        env: Environments; their number need not divide `episodes`.
        policy: Observation groups to actions (N, A).
        episodes: Number of episodes to count; of a task with trials, of trials.
        seed: Seed of the starts; the environment's own by default.
        scored: Number of agents, the first ones, whose team earns `team_return`; by default none.
        notes: What the policy notes of the running episodes, name -> (N,), kept when an episode ends.
        on_step: Called after each step with the episodes counted so far and the episodes wanted.

    Raises:
        EmbodiedError: no whole number of episodes, or a policy that is no function; or a task whose rewards or
            observations are not finite.
    """
    episodes = whole_number("episodes", episodes, 1)
    if not callable(policy):
        raise EmbodiedError(f"policy={policy!r:.80}; expected a function from observations to actions")
    start = time.perf_counter()
    obs = env.reset(seed)
    quota = torch.full((env.num_envs,), episodes // env.num_envs, device=env.device)
    quota[: episodes % env.num_envs] += 1
    in_trial = episodes_per_trial(env)
    quota, episodes = quota * (in_trial or 1), episodes * (in_trial or 1)
    rows: dict[str, list[Tensor]] = {}
    counted, steps = 0, 0
    team = torch.zeros(env.num_envs, device=env.device)
    while counted < episodes:
        step = env.step(policy(obs))
        obs, steps = step.obs, steps + 1
        _require_finite(env.name, steps, {f"group {name!r} of observations": part for name, part in obs.items()})
        _require_finite(env.name, steps, {"reward": step.reward})
        if scored is not None:
            team = team + step.reward[:, :scored].mean(1)
        ids = torch.nonzero(step.done & (quota > 0))[:, 0]
        if len(ids):
            quota[ids] -= 1
            counted += len(ids)
            ended = step.info | {"success": step.success, "fall": step.terminated & ~step.success}
            ended |= {} if scored is None else {"team_return": team}
            ended |= {} if notes is None else notes()
            ended |= {} if in_trial is None else {EPISODE: ended_episode(env).to(env.device) + 1}
            _append(rows, ended, ids)
        if scored is not None:
            team = team.masked_fill(step.done, 0.0)
        if on_step is not None:
            on_step(counted, episodes)
    values = {name: torch.cat(parts) for name, parts in rows.items()}
    return Evaluation(episodes, values, time.perf_counter() - start, steps * env.num_envs)


def _require_finite(task: str, step: int, found: Mapping[str, Tensor]) -> None:
    """Refuse what a task returned that no figure can be made of; physics that diverged ends an episode before."""
    for name, values in found.items():
        if values.is_floating_point() and not (sound := values.isfinite()).all():
            count = int((~sound).sum())
            raise EmbodiedError(
                f"'{task}': {name} holds {count} of {values.numel()} numbers that are not finite, in step {step}; "
                "python -m embodied.check says more of a task"
            )


def _append(rows: dict[str, list[Tensor]], ended: Mapping[str, Tensor], ids: Tensor) -> None:
    for name, value in ended.items():
        rows.setdefault(name, []).append(value[ids].float().cpu())
