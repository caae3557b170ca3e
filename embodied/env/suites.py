"""Several environments as one, for a policy that is to master all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from embodied.env.vec_env import ObservationSpec, Step, StepData, VecEnv, vector_sizes
from embodied.env.wrappers.task_encoding import of_rows
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror

COUNTS = ("episodes", "diverged")
"""Statistics that are counts, and add up; the others are means over episodes."""


class JoinedEnv:
    """A `VecEnv` of several environments, one after the other in the batch, with the vector groups that all have.

    Observations are filled up with zeros to the longest, actions are cut to what each environment takes. That suits
    observations that are lists of body parts (`embodied.core.body_rows`): rows of zeros are parts that are not there.

    Each environment keeps its model, engine and compiled program. One program for all would compile for minutes and pad
    every scene to the largest.
    """

    agents = None
    """There is one robot in each environment."""
    team_size = 1

    def __init__(
        self, envs: Mapping[str, VecEnv], *, told: Mapping[str, Tensor] | None = None, name: str = "joined"
    ) -> None:
        """Join environments, which go on belonging to the caller.

        Args:
            envs: Name to environment; the names appear in the statistics.
            told: Name to (k, size) codes of the environment, one of which ends its observations: row r has the code
                r modulo k.
            name: Name of all together.
        """
        if not envs:
            raise ValueError("no environments to join; expected at least one")
        self.name, self.names, self.envs = name, tuple(envs), tuple(envs.values())
        self.told = told
        sizes = [vector_sizes(env.observation_spec) for env in self.envs]
        common = [group for group in sizes[0] if all(group in others for others in sizes)]
        self._sizes = {group: max(size[group] for size in sizes) for group in common}
        self._own_sizes = sizes
        identity = 0 if told is None else next(iter(told.values())).shape[1]
        self.observation_spec = {group: ObservationSpec((size + identity,)) for group, size in self._sizes.items()}
        self.action_size = max(env.action_size for env in self.envs)
        self.max_episode_steps = max(env.max_episode_steps for env in self.envs)
        self.num_envs = sum(env.num_envs for env in self.envs)
        self.device = self.envs[0].device
        self._codes = (
            None
            if told is None
            else torch.cat([of_rows(told[name].to(self.device), env.num_envs) for name, env in envs.items()])
        )

    @property
    def engine_name(self) -> str:
        """Names of the physics engines."""
        return ", ".join(sorted({getattr(env, "engine_name", "") for env in self.envs}))

    @property
    def variations(self) -> dict[str, str]:
        """Variations that every episode draws anew, of each environment."""
        parts = {name: getattr(env, "variations", {}) for name, env in zip(self.names, self.envs, strict=True)}
        return {f"{name} {what}": text for name, part in parts.items() for what, text in part.items()}

    def mirror(self) -> Mirror:
        """None.

        Raises:
            EmbodiedError: always.
        """
        raise EmbodiedError(f"{self.name} is {len(self.envs)} tasks; expected one task that says how it is mirrored")

    def reset(self) -> dict[str, Tensor]:
        return self._joined([env.reset() for env in self.envs])

    def spread_episode_lengths(self) -> None:
        for env in self.envs:
            env.spread_episode_lengths()

    def step(self, action: Tensor, /) -> StepData:
        parts = action.split([env.num_envs for env in self.envs])
        steps = [env.step(part[:, : env.action_size]) for env, part in zip(self.envs, parts, strict=True)]

        def joined(read: Callable[[Step], Tensor]) -> Tensor:
            return torch.cat([read(step) for step in steps])

        return StepData(
            obs=self._joined([step.obs for step in steps]),
            reward=joined(lambda step: step.reward),
            terminated=joined(lambda step: step.terminated),
            truncated=joined(lambda step: step.truncated),
            success=joined(lambda step: step.success),
            final_obs=self._joined([step.final_obs for step in steps]),
        )

    @property
    def roll_out(self) -> None:
        """Every step is a call."""

    def separated(self, obs: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Joined observations as each environment gave them, without what was added: those of `envs`, in order."""
        counts = [env.num_envs for env in self.envs]
        rows = {group: obs[group].split(counts) for group in self._sizes}
        return [
            {group: rows[group][place][:, : own[group]] for group in self._sizes}
            for place, own in enumerate(self._own_sizes)
        ]

    def statistics(self) -> dict[str, float]:
        """Means over the episodes of all, and `<name>/return` and `<name>/success` of each."""
        found = {name: env.statistics() for name, env in zip(self.names, self.envs, strict=True)}
        counts = {name: own.get("episodes", 1.0) for name, own in found.items()}
        keys = {key: None for own in found.values() for key in own}
        merged: dict[str, float] = {}
        for key in keys:
            having = [name for name, own in found.items() if key in own]
            if key in COUNTS:
                merged[key] = sum(found[name][key] for name in having)
            elif total := sum(counts[name] for name in having):
                merged[key] = sum(counts[name] * found[name][key] for name in having) / total
        for name, own in found.items():
            merged |= {f"{name}/{key}": own[key] for key in ("return", "success") if key in own}
        return merged

    def state(self) -> dict[str, Any]:
        return {str(place): env.state() for place, env in enumerate(self.envs)}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        for place, env in enumerate(self.envs):
            env.load_state(state[str(place)])

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _joined(self, observations: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Group to (N, size), each environment's observations filled up with zeros, and its code."""
        joined = {
            group: torch.cat([functional.pad(own[group], (0, size - own[group].shape[-1])) for own in observations])
            for group, size in self._sizes.items()
        }
        if self._codes is None:
            return joined
        return {group: torch.cat([values, self._codes], -1) for group, values in joined.items()}
