"""Environments in the shapes other libraries expect. Each library is imported only when its adapter is used.

gymnasium               `GymnasiumVectorEnv`, `GymnasiumEnv`, `register_gymnasium`
gymnasium_functional    `FunctionalGymnasiumEnv`
pettingzoo              `parallel_env`
stable_baselines3       `SB3VecEnv`
rsl_rl                  `RslRlVecEnv`
skrl                    `SkrlEnv`
torchrl                 `TorchRLEnv`
brax                    `BraxEnv`, `wrap`
lerobot/                `--env.type=embodied` of LeRobot's commands
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embodied.env.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv, register_gymnasium
    from embodied.env.adapters.stable_baselines3 import SB3VecEnv

__all__ = ["GymnasiumEnv", "GymnasiumVectorEnv", "SB3VecEnv", "register_gymnasium"]

_LAZY = {
    "GymnasiumEnv": "embodied.env.adapters.gymnasium",
    "GymnasiumVectorEnv": "embodied.env.adapters.gymnasium",
    "SB3VecEnv": "embodied.env.adapters.stable_baselines3",
    "register_gymnasium": "embodied.env.adapters.gymnasium",
}


def __getattr__(name: str) -> Any:
    """Import an adapter on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'embodied.env.adapters' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
