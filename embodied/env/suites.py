"""Several environments as one, for a policy that is to master all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from embodied.env.vec_env import ObservationSpec, Step, StepData, VecEnv, vector_sizes
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror

COUNTS = ("episodes", "diverged")
"""Statistics that are counts, and add up; the others are means over episodes."""


class JoinedEnv:
    """A `VecEnv` of several environments, one after the other in the batch, with the vector groups that all have.

    Observations are filled up with zeros to the longest, actions are cut to what each environment takes. That suits
    observations that are lists of body parts (`embodied.core.parts`): rows of zeros are parts that are not there.
    """

    agents = None
    """There is one robot in each environment."""
    team_size = 1

    def __init__(
        self, envs: Mapping[str, VecEnv], *, codes: Sequence[Tensor] = (), name: str = "joined", seed: int = 0
    ) -> None:
        """Join environments, which go on belonging to the caller.

        Args:
            envs: Name to environment; the names appear in the statistics.
            codes: For each of `envs` the codes (P, K) that tell a policy where it is: every observation ends in one,
                drawn anew for every episode. None by default.
            name: What they are together.
            seed: Of the codes drawn.
        """
        if not envs:
            raise ValueError("no environments to join; expected at least one")
        self.name, self.names, self.envs = name, tuple(envs), tuple(envs.values())
        sizes = [vector_sizes(env.observation_spec) for env in self.envs]
        common = [group for group in sizes[0] if all(group in others for others in sizes)]
        self._sizes = {group: max(size[group] for size in sizes) for group in common}
        added = codes[0].shape[-1] if codes else 0
        self.observation_spec = {group: ObservationSpec((size + added,)) for group, size in self._sizes.items()}
        self.action_size = max(env.action_size for env in self.envs)
        self.max_episode_steps = max(env.max_episode_steps for env in self.envs)
        self.num_envs = sum(env.num_envs for env in self.envs)
        self.device = self.envs[0].device
        self._codes = Codes(codes, [env.num_envs for env in self.envs], seed, self.device) if codes else None

    @property
    def engine_name(self) -> str:
        """Names of the physics engines."""
        return ", ".join(sorted({getattr(env, "engine_name", "") for env in self.envs}))

    @property
    def variations(self) -> dict[str, str]:
        """What every episode draws anew, of each environment."""
        parts = {name: getattr(env, "variations", {}) for name, env in zip(self.names, self.envs, strict=True)}
        return {f"{name} {what}": text for name, part in parts.items() for what, text in part.items()}

    def mirror(self) -> Mirror:
        """None.

        Raises:
            EmbodiedError: always.
        """
        raise EmbodiedError(f"{self.name} is {len(self.envs)} tasks; expected one task that says how it is mirrored")

    def reset(self) -> dict[str, Tensor]:
        if self._codes is not None:
            self._codes.draw(torch.ones(self.num_envs, dtype=torch.bool, device=self.device))
        return self._joined([env.reset() for env in self.envs])

    def spread_episode_lengths(self) -> None:
        for env in self.envs:
            env.spread_episode_lengths()

    def step(self, action: Tensor, /) -> StepData:
        parts = action.split([env.num_envs for env in self.envs])
        steps = [env.step(part[:, : env.action_size]) for env, part in zip(self.envs, parts, strict=True)]

        def joined(read: Callable[[Step], Tensor]) -> Tensor:
            return torch.cat([read(step) for step in steps])

        terminated, truncated = joined(lambda step: step.terminated), joined(lambda step: step.truncated)
        final_obs = self._joined([step.final_obs for step in steps])
        if self._codes is not None:
            self._codes.draw(terminated | truncated)
        return StepData(
            obs=self._joined([step.obs for step in steps]),
            reward=joined(lambda step: step.reward),
            terminated=terminated,
            truncated=truncated,
            success=joined(lambda step: step.success),
            final_obs=final_obs,
        )

    @property
    def roll_out(self) -> None:
        """Every step is a call."""

    def separated(self, obs: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Joined observations as each environment gave them, without what was added: those of `envs`, in order."""
        counts = [env.num_envs for env in self.envs]
        rows = {group: obs[group].split(counts) for group in self._sizes}
        return [
            {group: rows[group][place][:, : vector_sizes(env.observation_spec)[group]] for group in self._sizes}
            for place, env in enumerate(self.envs)
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
        drawn = {} if self._codes is None else {"codes": self._codes.state()}
        return {str(place): env.state() for place, env in enumerate(self.envs)} | drawn

    def load_state(self, state: Mapping[str, Any], /) -> None:
        for place, env in enumerate(self.envs):
            env.load_state(state[str(place)])
        if self._codes is not None:
            self._codes.load_state(state["codes"])

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _joined(self, observations: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Group to (N, size), each environment's observations filled up with zeros; codes, where there are any."""
        joined = {
            group: torch.cat([functional.pad(own[group], (0, size - own[group].shape[-1])) for own in observations])
            for group, size in self._sizes.items()
        }
        if self._codes is None:
            return joined
        return {group: torch.cat([values, self._codes.values], -1) for group, values in joined.items()}


class Codes:
    """What tells a policy which of several tasks each environment is of: one of the task's codes for each episode."""

    values: Tensor
    """(N, K) of the running episodes."""

    def __init__(self, codes: Sequence[Tensor], counts: Sequence[int], seed: int, device: torch.device) -> None:
        """Take for each task its codes (P, K) and its number of environments."""
        self._table, self._tasks = torch.cat(list(codes)).to(device), len(codes)
        numbers = torch.tensor(counts)
        alternatives = torch.tensor([len(own) for own in codes])
        self._first = (alternatives.cumsum(0) - alternatives).repeat_interleave(numbers).to(device)
        self._alternatives = alternatives.repeat_interleave(numbers).to(device)
        self._generator = torch.Generator().manual_seed(seed)
        self._row = self._first.clone()
        self.values = self._table[self._row]

    def draw(self, begins: Tensor) -> None:
        """Draw anew where episodes begin, (N,) bool."""
        if len(self._table) == self._tasks:
            return
        share = torch.rand(len(self._row), generator=self._generator).to(self._row.device)
        drawn = self._first + (share * self._alternatives).long()
        self._row = torch.where(begins, drawn, self._row)
        self.values = self._table[self._row]

    def state(self) -> dict[str, Tensor]:
        return {"row": self._row.clone(), "generator": self._generator.get_state()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._row = state["row"].to(self._row.device)
        self._generator.set_state(state["generator"].cpu())
        self.values = self._table[self._row]
