"""Hovering drones with episodes short enough to test: every 20 steps at the latest, and many fall sooner."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest
import torch
from torch import Tensor

import embodied
from embodied.core.hooks import Timing
from embodied.engines import make_engine
from embodied.env.env import Env
from embodied.env.registry import join_content
from embodied.env.step import Step
from embodied.rendering.camera_config import CameraConfig
from tasks.swarm.single.hover import Hover, HoverConfig
from tests.documents.snippets import ROOT, blocks_of
from tests.kit.budget import sharing

MAX_STEPS, NUM_ENVS = 20, 4


class BriefHover(Hover):
    """`swarm/hover` with a time limit of 0.2 s."""

    timing = Timing(physics_dt=0.002, substeps=5, episode_seconds=0.2)


class Lasting(Env):
    """Environments that `close` leaves to the tests that follow."""

    def close(self) -> None:
        pass


def brief_task() -> BriefHover:
    """Drones thrown so fast that some hit the floor before the time limit and some do not."""
    return BriefHover(HoverConfig(start_distance=1.9, start_speed=20.0))


def brief_env(num_envs: int, seed: int = 0) -> Env:
    """New environments, for a test that closes them or needs two at a time."""
    task = brief_task()
    return Env(task, make_engine("rigid", task, num_envs), num_envs, seed=seed)


def lasting(task: BriefHover, num_envs: int, camera: bool = False) -> Env:
    """Environments whose programs are compiled; a camera sees 24 x 16 pixels."""
    with sharing(f"{type(task).__name__}{' with a camera' * camera}, {num_envs}"):
        cameras = CameraConfig(("front",), (24, 16)) if camera else None
        env = Lasting(task, make_engine("rigid", task, num_envs), num_envs, camera_config=cameras)
        observation = env.reset()
        for _ in range(2):
            env.episode_length = torch.full((num_envs,), MAX_STEPS - 1)
            step = env.step(torch.zeros(env.action_shape))
            for each in (observation, step.obs, step.final_obs):
                dict(each)  # draws
    return env


@functools.cache
def brief_world(num_envs: int = NUM_ENVS) -> Env:
    """Environments that tests share, compiled once a worker; each test resets them."""
    return lasting(brief_task(), num_envs)


@functools.cache
def seeing_world(num_envs: int = 3) -> Env:
    """The same drones with a small camera at their front."""
    return lasting(brief_task(), num_envs, camera=True)


def plan(steps: int = 3 * MAX_STEPS, num_envs: int = NUM_ENVS) -> Tensor:
    """(steps, num_envs, 4) actions in [-1, 1], always the same."""
    return 2 * torch.rand(steps, num_envs, 4, generator=torch.Generator().manual_seed(5)) - 1


def lived(env: Env, seed: int | Sequence[int], actions: Tensor) -> tuple[dict[str, Tensor], list[Step]]:
    """The first observation after a seed and every step under `actions`: what an adapter of `env` is to tell."""
    first = {group: values.clone() for group, values in env.reset(seed).items()}
    return first, [env.step(action) for action in actions]


def run_page(
    importing: str, monkeypatch: pytest.MonkeyPatch, shorter: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Run the block of docs/adapters.md that imports a module, with few drones and numbers replaced by smaller ones."""
    (block,) = (block for block in blocks_of(ROOT / "docs" / "adapters.md") if f"{importing} import" in block.text)
    code = block.code
    for long, short in shorter.items():
        assert long in code
        code = code.replace(long, short)

    def few(name: str, num_envs: int) -> Env:
        assert name in join_content()
        return brief_world(min(num_envs, NUM_ENVS))

    monkeypatch.setattr(embodied, "make", few)
    exec(compile(code, block.place, "exec"), {})
