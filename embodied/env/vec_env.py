"""The vectorised-environment protocol that all learners train on: `VecEnv`, its `Step` and its `ObservationSpec`.

An observation is a mapping of named groups, each a tensor with a leading axis of environments, (N, *shape).
`VecEnv.observation_spec` describes each group (`vector_sizes` and `image_shapes` read it); three kinds exist:

    "policy", "critic", "proprio"   vectors                 float32  (size,)
    "pixels/<camera>"               images                  uint8    (3, height, width)
    "instruction"                   token ids of a text     int64    (length,), filled up with zeros

Images may be drawn only when their group is read, so a learner reads the groups it needs and no others.
`embodied.Env` satisfies the protocol, and so do the environments made from it: several tasks as one
(`embodied.env.suites`), the agents of many worlds (`embodied.env.multi_agent`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from embodied.core.hooks import POLICY as POLICY
from embodied.env.rollout import PerceptronActor, RolloutData
from embodied.math.symmetry import Mirror

if TYPE_CHECKING:
    # For type checkers: pyright does not take functools' for a property of a protocol.
    cached_property = property
else:
    cached_property = functools.cached_property

CRITIC = "critic"
"""An optional group for the critic alone, which may hold what no robot can sense."""
INSTRUCTION = "instruction"
"""An optional group: token ids of the robot's instruction."""


@dataclass(frozen=True)
class ObservationSpec:
    """Shape and type of one observation group."""

    shape: tuple[int, ...]
    """Behind the axis of environments."""
    dtype: torch.dtype = torch.float32


def vector_sizes(spec: Mapping[str, ObservationSpec]) -> dict[str, int]:
    """Group to length of the groups that are vectors of numbers; of one agent's vector where there are many."""
    return {group: of.shape[-1] for group, of in spec.items() if of.dtype.is_floating_point}


def image_shapes(spec: Mapping[str, ObservationSpec]) -> dict[str, tuple[int, ...]]:
    """Group to shape, (3, height, width) or (agents, 3, height, width), of the groups that are images of cameras."""
    return {group: of.shape for group, of in spec.items() if of.dtype == torch.uint8}


PolicyFunction = Callable[[Mapping[str, Tensor]], Tensor]
"""Observation groups (N, size), or (N, agents, size), to actions (N, A), or (N, agents, A), in [-1, 1]."""


class Step(Protocol):
    """Result of one control step of N environments. All tensors lie on the environment's device."""

    @property
    def obs(self) -> Mapping[str, Tensor]:
        """Group to (N, *shape); where an episode ended, already the first observation of the next."""
        ...

    @property
    def reward(self) -> Tensor:
        """(N,) float32; of a team, (N, agents)."""
        ...

    @property
    def terminated(self) -> Tensor:
        """(N,) bool, the task failed: no reward would have followed."""
        ...

    @property
    def truncated(self) -> Tensor:
        """(N,) bool, the time limit cut an episode that would have gone on."""
        ...

    @property
    def success(self) -> Tensor:
        """(N,) bool, the task is solved at this instant."""
        ...

    @property
    def final_obs(self) -> Mapping[str, Tensor]:
        """Group to (N, *shape): the observation this step led to, before any reset."""
        ...


RollOut = Callable[[Mapping[str, Tensor], PerceptronActor, Tensor], tuple[dict[str, Tensor], RolloutData]]
"""Acts and steps T times in one call: from the present observation groups (N, size), an actor of torch tensors and
standard normal noise (T, N, A) to the observation after the last step and to what the steps brought."""


@dataclass(frozen=True)
class StepData:
    """A `Step` composed of given parts."""

    obs: Mapping[str, Tensor]
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    success: Tensor
    final_obs: Mapping[str, Tensor]


class VecEnv(Protocol):
    """N environments stepped together, each reset as soon as its episode ends."""

    @property
    def num_envs(self) -> int:
        """N, the number of environments."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of observations and actions."""
        ...

    @property
    def observation_spec(self) -> Mapping[str, ObservationSpec]:
        """Shape and type of every observation group; `policy` always, `critic` where the task offers one."""
        ...

    @property
    def action_size(self) -> int:
        """Length of one environment's action."""
        ...

    @property
    def team_size(self) -> int:
        """Agents of one environment, whose vectors and actions stand one after the other; 1 of most (`TeamEnv`)."""
        ...

    @property
    def max_episode_steps(self) -> int:
        """Control steps after which an episode is truncated."""
        ...

    def mirror(self) -> Mirror:
        """Left-right reflection of actions and observation groups.

        Raises:
            EmbodiedError: nobody said; in one line.
        """
        ...

    def reset(self) -> Mapping[str, Tensor]:
        """Begin a fresh episode everywhere and return its first observation."""
        ...

    def spread_episode_lengths(self) -> None:
        """Spread the ends of the running episodes evenly over the time limit; called once, after `reset`."""
        ...

    def step(self, action: Tensor, /) -> Step:
        """Apply (N, action_size) actions, which the environment clips to [-1, 1]."""
        ...

    @property
    def roll_out(self) -> RollOut | None:
        """A whole rollout as one program; None where every step is a call, as it is around host engines."""
        ...

    def statistics(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call: `return`, `success` and others."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything a resume needs, as nested dictionaries of tensors, arrays and numbers."""
        ...

    def load_state(self, state: Mapping[str, Any], /) -> None:
        """Continue from what `state` returned."""
        ...

    def close(self) -> None:
        """Release what the environments hold: worlds of an engine, buffers, threads."""
        ...


class Around:
    """Parts of a `VecEnv` that shows an `Env` otherwise, and leaves these to it: it has no state of its own."""

    env: Any
    team_size: int = 1

    @property
    def roll_out(self) -> None:
        """Every step is a call."""

    def mirror(self) -> Mirror:
        return self.env.mirror()

    def spread_episode_lengths(self) -> None:
        self.env.spread_episode_lengths()

    def statistics(self) -> dict[str, float]:
        return self.env.statistics()

    def state(self) -> dict[str, Any]:
        return self.env.state()

    def load_state(self, state: Mapping[str, Any], /) -> None:
        self.env.load_state(state)

    def close(self) -> None:
        self.env.close()


class SeededVecEnv(VecEnv, Protocol):
    """A `VecEnv` whose episodes can be begun from a seed, in groups that begin alike: `embodied.Env` is one."""

    def reset(self, seed: int | None = None, *, group_size: int = 1) -> Mapping[str, Tensor]:
        """Begin a fresh episode everywhere and return its first observation.

        Args:
            seed: The same one gives the same episodes; by default the environment's own.
            group_size: Number of neighbours with the same initial state.
        """
        ...
