"""Plug-in that LeRobot imports by its name: `--env.type=embodied` exists from then on."""

from embodied.adapters.lerobot.config import EmbodiedEnvConfig

__all__ = ["EmbodiedEnvConfig"]
