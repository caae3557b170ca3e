"""Demonstrations small enough to make by hand."""

from __future__ import annotations

import numpy as np

from embodied.datasets.episode import Episode
from policies.vla.data.demonstrations import Demonstrations
from policies.vla.data.normalization import Normalization
from policies.vla.data.robot_spec import TrainingTask
from policies.vla.fine_tuning.settings import FineTuningConfig
from policies.vla.model.config import Head, VLAConfig
from policies.vla.policy import VLAPolicy

LEFT, RIGHT = "go to the left", "move right"
SMALL = VLAConfig(
    width=48, layers=2, attention_heads=2, channels=(8, 16, 32), text_width=32, text_layers=1, text_buckets=256
)
QUICK = FineTuningConfig(
    batch_size=32, learning_rate=3e-3, warmup=10, held_out=0.0, shift=0, validation_interval=20, bfloat16=False
)
CONTROL_DT = 0.05  # s


def episode(
    seed: int, *, length: int = 12, instruction: str = LEFT, task: str = "toy/left", action=None, **changes
) -> Episode:
    """One with a dot that moves, seen by two cameras, and a smooth action."""
    generator = np.random.default_rng(seed)
    images = {camera: np.zeros((length, 32, 32, 3), np.uint8) for camera in ("front", "wrist")}
    places = np.clip(generator.integers(0, 20, 2) + np.arange(length)[:, None], 0, 28)
    for time, (row, column) in enumerate(places):
        images["front"][time, row : row + 4, column : column + 4] = 255
        images["wrist"][time, :, :, seed % 3] = 200
    state = generator.normal(size=(length, 3)).astype(np.float32)
    if action is None:
        action = np.sin(places @ np.array([[0.2, 0.1], [0.05, -0.2]])).astype(np.float32)
    parts = {"task": task, "instruction": instruction, "images": images, "state": state, "action": action}
    return Episode(**{**parts, "success": True, **changes})


def shown(episodes, **options) -> Demonstrations:
    return Demonstrations.of(episodes, CONTROL_DT, **options)


def untrained(demonstrations: Demonstrations, config: VLAConfig = SMALL, execute: int = 0) -> VLAPolicy:
    training_tasks = {e.task: e.instruction for e in demonstrations.episodes}
    return VLAPolicy.untrained(
        config,
        Normalization.of(demonstrations.episodes),
        demonstrations.spec,
        [TrainingTask(task, (text,)) for task, text in training_tasks.items()],
        execute,
    )


__all__ = ["CONTROL_DT", "LEFT", "QUICK", "RIGHT", "SMALL", "Head", "episode", "shown", "untrained"]
