"""Environments small enough to know the best return by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from embodied.env.vec_env import ObservationSpec, PolicyFunction, StepData
from embodied.math.symmetry import PLANAR, Mirror, Reflection
from embodied.storage import trees
from policies.policy import Policy
from policies.training.loop import Trainer, train


def vectors(**sizes: int) -> dict[str, ObservationSpec]:
    """The spec of groups that are vectors of these sizes."""
    return {group: ObservationSpec((size,)) for group, size in sizes.items()}


class PointMass:
    """A point in the plane, moved by up to 0.1 m a step, that is to reach the origin and fails beyond 2 m.

    The reward is minus the distance. From a start 1 m away the best return is -(0.9 + 0.8 + ... + 0.1) = -4.5.
    """

    observation_spec: Mapping[str, ObservationSpec] = vectors(policy=2, critic=3)
    action_size = 2
    max_episode_steps = 20
    team_size = 1
    device = torch.device("cpu")

    def __init__(self, num_envs: int, seed: int = 0) -> None:
        self.num_envs = num_envs
        self.generator = torch.Generator().manual_seed(seed)
        self.position = torch.zeros(num_envs, 2)
        self.time = torch.zeros(num_envs, dtype=torch.int64)
        self.total = torch.zeros(num_envs)
        self.finished: list[Tensor] = []

    def mirror(self) -> Mirror:
        """In the first axis: the point's second coordinate and the second action change sign."""
        return Mirror(PLANAR, {"policy": PLANAR, "critic": Reflection((0, 1, 2), (1, -1, 1))})

    def reset(self) -> dict[str, Tensor]:
        self._restart(torch.ones(self.num_envs, dtype=torch.bool))
        return self._observe()

    @property
    def episode_length(self) -> Tensor:
        return self.time

    @property
    def roll_out(self) -> None:
        return None

    def spread_episode_lengths(self) -> None:
        self.time = torch.arange(self.num_envs) * self.max_episode_steps // self.num_envs

    def step(self, action: Tensor) -> StepData:
        self.position = self.position + 0.1 * action.clamp(-1, 1)
        self.time += 1
        distance = self.position.norm(dim=-1)
        terminated = distance > 2
        truncated = (self.time >= self.max_episode_steps) & ~terminated
        self.total -= distance
        final_obs = self._observe()
        done = terminated | truncated
        self.finished.append(self.total[done])
        self._restart(done)
        return StepData(self._observe(), -distance, terminated, truncated, distance < 0.1, final_obs)

    def statistics(self) -> dict[str, float]:
        returns = torch.cat(self.finished) if self.finished else torch.zeros(0)
        self.finished.clear()
        return {"return": returns.mean().item()}

    def state(self) -> dict[str, Any]:
        return {
            "position": self.position.clone(),
            "time": self.time.clone(),
            "total": self.total.clone(),
            "generator": self.generator.get_state(),
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.position, self.time, self.total = tree["position"].clone(), tree["time"].clone(), tree["total"].clone()
        self.generator.set_state(tree["generator"])

    def close(self) -> None:
        pass

    def _observe(self) -> dict[str, Tensor]:
        remaining = 1 - self.time[:, None] / self.max_episode_steps
        return {"policy": self.position, "critic": torch.cat([self.position, remaining], -1)}

    def _restart(self, where: Tensor) -> None:
        angle = 6.283185307 * torch.rand(self.num_envs, generator=self.generator)
        start = torch.stack([angle.cos(), angle.sin()], -1)
        self.position = torch.where(where[:, None], start, self.position)
        self.time = self.time.masked_fill(where, 0)
        self.total = self.total.masked_fill(where, 0.0)


class TwoMovers(PointMass):
    """The point, moved by a team of two: one moves it along the first axis, the other along the second.

    Both see where it is, and earn the same: as `TeamEnv` has it.
    """

    observation_spec: Mapping[str, ObservationSpec] = vectors(policy=4, critic=3)
    team_size = 2

    def step(self, action: Tensor) -> StepData:
        step = super().step(action)
        return dataclasses.replace(step, reward=step.reward[:, None].expand(-1, 2))

    def _observe(self) -> dict[str, Tensor]:
        return super()._observe() | {"policy": self.position.repeat(1, 2)}


class Recall(PointMass):
    """The first observation of an episode says 1 or -1, the others 0; every action is to be that number.

    The reward is minus the distance: 0 with memory, and -1 a step at best without, but for the first one.
    """

    observation_spec: Mapping[str, ObservationSpec] = vectors(policy=1)
    action_size = 1
    max_episode_steps = 6

    def step(self, action: Tensor) -> StepData:
        self.time += 1
        distance = (action[:, 0].clamp(-1, 1) - self.position[:, 0].sign()).abs()
        self.total -= distance
        done = self.time >= self.max_episode_steps
        final_obs = self._observe()
        self.finished.append(self.total[done])
        self._restart(done)
        return StepData(self._observe(), -distance, torch.zeros_like(done), done, distance < 0.1, final_obs)

    def spread_episode_lengths(self) -> None:
        """Nobody has seen the number of an episode that began before it."""

    def _observe(self) -> dict[str, Tensor]:
        return {"policy": torch.where(self.time[:, None] == 0, self.position[:, :1].sign(), 0.0)}


A = TypeVar("A")


def algorithm_of(trainer: Trainer, kind: type[A]) -> A:
    """What a trainer trains with, known to be of a kind."""
    assert isinstance(trainer.algorithm, kind)
    return trainer.algorithm


SIDE = 16  # pixels


class PixelPointMass(PointMass):
    """The point as a white square on black, of which the flat group says nothing."""

    observation_spec = {**PointMass.observation_spec, "pixels/above": ObservationSpec((3, SIDE, SIDE), torch.uint8)}  # noqa: RUF012

    def _observe(self) -> dict[str, Tensor]:
        at = ((self.position / 2 + 1) / 2 * (SIDE - 2)).long().clamp(0, SIDE - 2)
        images = torch.zeros(self.num_envs, 3, SIDE, SIDE, dtype=torch.uint8)
        each = torch.arange(self.num_envs)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            images[each, :, at[:, 0] + row, at[:, 1] + column] = 255
        return super()._observe() | {"policy": torch.zeros(self.num_envs, 2), "pixels/above": images}


def rule_of(policy: Policy, env: PointMass) -> PolicyFunction:
    """How a policy acts in environments: of a team, all agents at once; with memory, remembering."""
    if env.team_size == 1:
        return policy.acting_in(env)
    agents = (env.team_size, -1)
    return lambda obs: policy({"policy": obs["policy"].unflatten(1, agents)}).flatten(1)


def assert_resumed_run_equals_whole(
    make: Callable[[int], Any],
    config: Any,
    iterations: int = 6,
    start_from: Policy | None = None,
    adviser: Callable[[Any], PolicyFunction] | None = None,
    between: Callable[[], object] = lambda: None,
) -> Trainer:
    """Training interrupted and resumed half way ends bit for bit as training in one go; returns the whole run.

    `make` has environments for a seed, `adviser` the policy that advises in them; `between` is called half way.
    """

    def run(seed: int, stop_after: int, **options: Any) -> Trainer:
        env = make(seed)
        done: list[int] = []
        return train(
            env, config, total_steps=iterations * config.unroll * env.num_envs, seed=seed,
            adviser=None if adviser is None else adviser(env),
            on_iteration=lambda trainer, _: done.append(len(trainer.state())),  # saving changes nothing
            should_stop=lambda: len(done) == stop_after,
            **options,
        )  # fmt: skip

    whole = run(0, iterations, start_from=start_from)
    half = run(0, iterations // 2, start_from=start_from)
    saved = trees.unflatten(trees.flatten(half.state()))
    between()
    resumed = run(9, iterations, resume=saved)
    expected, found = trees.flatten(whole.state()), trees.flatten(resumed.state())
    assert expected.keys() == found.keys()
    assert not [key for key, tensor in expected.items() if not torch.equal(tensor, found[key])]
    return whole


def result_of(policy: Policy, kind: type[PointMass] = PointMass) -> tuple[float, float]:
    """How often a policy has the point at the origin when its episode ends, and its mean return."""
    env = kind(256, seed=1)
    obs, success = env.reset(), torch.zeros(256)
    rule = rule_of(policy, env)
    for _ in range(env.max_episode_steps):
        step = env.step(rule(obs))
        obs, success = dict(step.obs), step.success
    return success.float().mean().item(), env.statistics()["return"]


def success_of(policy: Policy, kind: type[PointMass] = PointMass) -> float:
    """How often a policy has the point at the origin when its episode ends."""
    return result_of(policy, kind)[0]


def heading(policy: Policy, kind: type[PointMass] = PointMass) -> float:
    """Mean cosine between where a policy moves points and where the origin is: 0 without aim, 1 at best."""
    env = kind(512)
    env.position = torch.randn(512, 2, generator=torch.Generator().manual_seed(5)).clamp(-1.9, 1.9)
    with torch.no_grad():
        action = rule_of(policy, env)(env._observe())
    return torch.nn.functional.cosine_similarity(action, -env.position, dim=-1).mean().item()
