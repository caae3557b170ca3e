"""Settings under which nothing is learned, or not what was meant, are refused by name, with what was expected."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from policies.imitation.behaviour_cloning import BehaviourCloningConfig
from policies.imitation.dagger_config import DaggerConfig, PixelDaggerConfig
from policies.networks.mlp import Architecture, NetworkConfig
from policies.off_policy.awac import AWACConfig
from policies.off_policy.idql import IDQLConfig
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3Config
from policies.ppo.config import CuriosityConfig, PPOConfig, SymmetryConfig
from policies.vla.fine_tuning.settings import FineTuningConfig
from policies.vla.model.config import SIZES, Size
from policies.vla.reinforcement.settings import RLConfig
from tests.kit.learners import CONFIGS, GRU

PARTS = NetworkConfig((16,), architecture=Architecture.PARTS)
ENTITIES = NetworkConfig((16,), architecture=Architecture.ENTITIES, own=2, heads=4)


@pytest.mark.parametrize(
    ("settings", "name", "value", "expected"),
    [
        (SACConfig(), "unroll", 0, "at least 1"),
        (SACConfig(), "batch_size", 0, "at least 1"),
        (SACConfig(), "gamma", 1.5, "between 0 and 1"),
        (SACConfig(), "tau", 0.0, "above 0 and at most 1"),
        (SACConfig(), "critic_updates", 0.0, "positive"),
        (SACConfig(), "reward_scale", math.nan, "finite"),
        (SACConfig(), "target_critics", 3, "between 1 and critics=2"),
        (SACConfig(), "initial_temperature", 0.0, "positive"),
        (SACConfig(), "demonstration_share", 1.5, "between 0 and 1"),
        (SACConfig(), "advice_interval", 0, "at least 1"),
        (TD3Config(), "noise", -0.1, "0 or more"),
        (AWACConfig(), "temperature", 0.0, "positive"),
        (AWACConfig(), "blur", -1.0, "0 or more"),
        (AWACConfig(), "offline_updates", -1, "0 or more"),
        (IDQLConfig(), "expectile", 1.0, "above 0 and below 1"),
        (IDQLConfig(), "samples", 0, "at least 1"),
        (IDQLConfig(), "exploration", 2.0, "between 0 and 1"),
        (CONFIGS["hasac"], "initial_temperature", 0, "positive"),
        (CONFIGS["matd3"], "target_noise", -0.1, "0 or more"),
        (CONFIGS["matd3"], "demonstrations", Path("x"), "None: demonstrations have no reward of each agent"),
        (CONFIGS["matd3"], "offline_updates", 3, "0: there are no demonstrations"),
        (CONFIGS["qmix"], "bins", 1, "at least 2"),
        (CONFIGS["qmix"], "mixer_width", 0, "at least 1"),
        (CONFIGS["qmix"], "epsilon_end", 1.5, "between 0 and 1"),
        (CONFIGS["qmix"], "epsilon_steps", -1, "0 or more"),
        (CuriosityConfig(), "weight", -1.0, "0 or more"),
        (CuriosityConfig(), "learning_rate", 0.0, "positive"),
        (PPOConfig(), "unroll", 0, "at least 1"),
        (PPOConfig(), "minibatches", 0, "at least 1"),
        (PPOConfig(), "gamma", 1.5, "between 0 and 1"),
        (PPOConfig(), "clip", 0.0, "positive"),
        (PPOConfig(), "value_clip", -1.0, "positive"),
        (PPOConfig(), "entropy_coef", -0.1, "0 or more"),
        (PPOConfig(), "desired_kl", math.nan, "finite"),
        (PPOConfig(), "learning_rate", 1.0, "between learning_rate_min=1e-05 and learning_rate_max=0.01"),
        (BehaviourCloningConfig(), "unroll", 0, "at least 1"),
        (BehaviourCloningConfig(), "patience", 0, "at least 1"),
        (BehaviourCloningConfig(), "updates", 0.0, "positive"),
        (BehaviourCloningConfig(), "learning_rate", math.nan, "finite"),
        (BehaviourCloningConfig(), "weight_decay", -1.0, "0 or more"),
        (BehaviourCloningConfig(), "held_out", 1.0, "0 or more and less than 1"),
        (BehaviourCloningConfig(), "max_steps", 0, "at least 1"),
        (DaggerConfig(), "expert_until", 2.0, "between 0 and 1"),
        (DaggerConfig(), "updates", 0.0, "positive"),
        (DaggerConfig(), "buffer_size", 0, "at least 1"),
        (DaggerConfig(), "action_noise", -1.0, "0 or more"),
        (PixelDaggerConfig(), "features", 0, "at least 1"),
        (PixelDaggerConfig(), "augmented_share", 1.5, "between 0 and 1"),
        (RLConfig(), "group_size", 1, "at least 2"),
        (RLConfig(), "temperature", 0.0, "positive"),
        (RLConfig(), "gamma", 1.5, "between 0 and 1"),
        (RLConfig(), "hold", -0.5, "0 or more"),
        (RLConfig(), "partial_credit", -0.1, "between 0 and 1"),
        (FineTuningConfig(), "batch_size", 0, "at least 1"),
        (FineTuningConfig(), "learning_rate", math.nan, "finite"),
        (FineTuningConfig(), "shift", -1, "0 or more"),
        (FineTuningConfig(), "held_out", 1.0, "0 or more and less than 1"),
        (FineTuningConfig(), "photometric", 1.5, "between 0 and 1"),
        (NetworkConfig(), "output_gain", 0.0, "positive and finite"),
    ],
)
def test_a_value_out_of_bounds_is_refused(settings: Any, name: str, value: Any, expected: str):
    with pytest.raises(ValueError, match=f"{name}={value} must be {expected}"):
        dataclasses.replace(settings, **{name: value})


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (TD3Config(), {"actor": PARTS}, "architecture=parts must be mlp: off-policy learners build MLPs"),
        (BehaviourCloningConfig(), {"actor": PARTS}, "must be mlp: behaviour cloning"),
        (PixelDaggerConfig(), {"actor": GRU}, "architecture=gru must be mlp behind the image encoder"),
        (DaggerConfig(), {"actor": ENTITIES}, "normalize_observations=True must be False with architecture entities"),
        (PPOConfig(), {"actor": ENTITIES}, "normalize_observations=True must be False with architecture entities"),
        (PPOConfig(), {"actor": PARTS}, "normalize_observations=True must be False with architecture parts"),
        (PPOConfig(normalize_observations=False), {"actor": PARTS},
         r"observation_clip=10\.0 must be 1000 or more with architecture parts"),
        (PPOConfig(actor=GRU), {"symmetry": SymmetryConfig(network=True)},
         r"symmetry.network=True must be False with architecture gru"),
        (RLConfig(), {"clip_low": 1.0}, "clip_low=1.0 clip_high=0.28: expected 0 < low < 1 and 0 < high"),
        (SIZES[Size.TINY], {"layers": 0, "chunk": 0}, "layers=0, chunk=0: expected at least 1"),
        (SIZES[Size.TINY], {"channels": (8, 0, 8)}, r"channels=\(8, 0, 8\): expected at least 1, and 3 channels"),
        (SIZES[Size.TINY], {"bins": 1}, "bins=1: expected at least 2"),
        (SIZES[Size.TINY], {"width": 100}, "attention_heads=6 must divide width=100 and text_width=96"),
        (NetworkConfig(), {"hidden": (64, 0)}, r"hidden=\(64, 0\): every layer needs at least one unit"),
        (PARTS, {"hidden": (64, 32)}, "a transformer needs layers of one width"),
        (ENTITIES, {"hidden": (15, 16)}, "the first width must be divisible by heads"),
        (ENTITIES, {"own": 0}, "own=0: positive with architecture entities, 0 with any other"),
        (NetworkConfig(), {"own": 5}, "own=5: positive with architecture entities, 0 with any other"),
        (GRU, {"memory": 0}, "memory=0: positive with architecture gru, 0 with any other"),
        (NetworkConfig(), {"memory": 8}, "memory=8: positive"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_refused(settings: Any, changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(settings, **changes)
