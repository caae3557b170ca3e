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


ONE, ABOVE, SHARE, FROM_0 = "at least 1", "positive", "between 0 and 1", "0 or more"
OUT_OF_BOUNDS: list[tuple[Any, dict[str, tuple[Any, str]]]] = [
    (SACConfig(), {
        "unroll": (0, ONE), "batch_size": (0, ONE), "gamma": (1.5, SHARE), "tau": (0.0, "above 0 and at most 1"),
        "critic_updates": (0.0, ABOVE), "reward_scale": (math.nan, "finite"), "initial_temperature": (0.0, ABOVE),
        "target_critics": (3, "between 1 and critics=2"), "demonstration_share": (1.5, SHARE),
    }),
    (TD3Config(), {"noise": (-0.1, FROM_0), "advice_interval": (0, ONE)}),
    (AWACConfig(), {"temperature": (0.0, ABOVE), "blur": (-1.0, FROM_0), "offline_updates": (-1, FROM_0)}),
    (IDQLConfig(), {"expectile": (1.0, "above 0 and below 1"), "samples": (0, ONE), "exploration": (2.0, SHARE)}),
    (CONFIGS["hasac"], {"initial_temperature": (0, ABOVE)}),
    (CONFIGS["matd3"], {
        "target_noise": (-0.1, FROM_0), "offline_updates": (3, "0: there are no demonstrations"),
        "demonstrations": (Path("x"), "None: demonstrations have no reward of each agent"),
    }),
    (CONFIGS["qmix"], {
        "bins": (1, "at least 2"), "mixer_width": (0, ONE), "epsilon_end": (1.5, SHARE), "epsilon_steps": (-1, FROM_0),
    }),
    (CuriosityConfig(), {"weight": (-1.0, FROM_0), "learning_rate": (0.0, ABOVE)}),
    (PPOConfig(), {
        "unroll": (0, ONE), "minibatches": (0, ONE), "gamma": (1.5, SHARE), "clip": (0.0, ABOVE),
        "value_clip": (-1.0, ABOVE), "entropy_coef": (-0.1, FROM_0), "desired_kl": (math.nan, "finite"),
        "learning_rate": (1.0, "between learning_rate_min=1e-05 and learning_rate_max=0.01"),
    }),
    (BehaviourCloningConfig(), {
        "unroll": (0, ONE), "patience": (0, ONE), "updates": (0.0, ABOVE), "learning_rate": (math.nan, "finite"),
        "weight_decay": (-1.0, FROM_0), "held_out": (1.0, "0 or more and less than 1"), "max_steps": (0, ONE),
    }),
    (DaggerConfig(), {
        "expert_until": (2.0, SHARE), "updates": (0.0, ABOVE), "buffer_size": (0, ONE), "action_noise": (-1.0, FROM_0),
    }),
    (PixelDaggerConfig(), {"features": (0, ONE), "augmented_share": (1.5, SHARE)}),
    (RLConfig(), {
        "group_size": (1, "at least 2"), "temperature": (0.0, ABOVE), "gamma": (1.5, SHARE), "hold": (-0.5, FROM_0),
        "partial_credit": (-0.1, SHARE),
    }),
    (FineTuningConfig(), {
        "batch_size": (0, ONE), "learning_rate": (math.nan, "finite"), "shift": (-1, FROM_0),
        "held_out": (1.0, "0 or more and less than 1"), "photometric": (1.5, SHARE),
    }),
    (NetworkConfig(), {"output_gain": (0.0, "positive and finite")}),
]  # fmt: skip
"""Settings -> field, a value that it may not have, and what is expected."""


@pytest.mark.parametrize(
    ("settings", "name", "value", "expected"),
    [(settings, name, *refused) for settings, fields in OUT_OF_BOUNDS for name, refused in fields.items()],
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
