"""Pictures: two table tasks learned in one look and tried in others, by SAC from pixels, SVEA and SGQN, and by DAgger
from the task's script, which knows where everything is."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from benchmarks.learners.cells import EVALUATION_SEED, Budget, Cell, Learned, Problem, environment, learned, scores
from benchmarks.learners.miniature import miniature
from policies.imitation.dagger_config import PixelDaggerConfig
from policies.off_policy.svea import Augmentation, SVEAConfig
from policies.policy import Policy
from policies.training.loading import load_policy

CAMERA, RESOLUTION = ("view",), 64
NUM_ENVS = 16
LOOKS = ("colours", "camera", "lights")
"""Looks in which policies from the default look are tried (see `embodied.rendering.visual_randomization`)."""
SHARED: dict[str, Any] = {"critic_updates": 4.0, "warm_up": 1_000, "reward_scale": 0.1, "save_buffer": False,
          "batch_size": 128, "bfloat16_matmul": True}  # fmt: skip
CONFIGS: Mapping[str, SVEAConfig] = {
    "sac-pixels": SVEAConfig(**SHARED, augmentation=Augmentation.NONE, augmented_share=0.0),
    "svea": SVEAConfig(**SHARED),
    "saliency": SVEAConfig(**SHARED, saliency=True),
}
"""All that differs is what is done to the pictures."""


def seen(cell: Cell, budget: Budget, num_envs: int, seed: int, shift: str | None = None) -> Any:
    """Environments with the camera."""
    resolution = 32 if budget.smoke else RESOLUTION
    return environment(cell, budget, num_envs, seed, cameras=CAMERA, resolution=resolution, visual_shift=shift)


def trained(name: str, cell: Cell, budget: Budget) -> Learned:
    """A method in the default look, by the task's own dense reward."""
    config = miniature(CONFIGS[name]) if budget.smoke else CONFIGS[name]
    return learned(seen(cell, budget, 2 if budget.smoke else NUM_ENVS, cell.seed), config, budget, cell.seed)


DAGGER = PixelDaggerConfig(batch_size=128, updates=2.0)


def asked(cell: Cell, budget: Budget) -> Learned:
    """DAgger in the default look: the script gives its actions, and the pictures have to show why."""
    config = miniature(DAGGER) if budget.smoke else DAGGER
    env = seen(cell, budget, 2 if budget.smoke else NUM_ENVS, cell.seed)
    return learned(env, config, budget, cell.seed, adviser=load_policy("expert", env))


def evaluated(cell: Cell, budget: Budget, policy: Policy) -> dict[str, Any]:
    """Success in the default look, and under `looks` in each of the others."""
    episodes, seed = budget.episodes, EVALUATION_SEED + cell.seed
    usual = scores(seen(cell, budget, episodes, seed), policy, episodes)
    shifts = LOOKS[:1] if budget.smoke else LOOKS
    looks = {shift: scores(seen(cell, budget, episodes, seed, shift), policy, episodes) for shift in shifts}
    return {**usual, "looks": looks}


PICTURES = Problem(
    name="pictures",
    tasks=("manipulation/drawer-close", "manipulation/button-press"),
    methods={**{name: functools.partial(trained, name) for name in CONFIGS}, "dagger-pixels": asked},
    evaluated=evaluated,
    steps=20_000,  # with saliency half an hour of a core
)
