"""Demonstrations made by hand, and a task learned from pictures in seconds: a red one says left, a blue one right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from embodied.env.step import LazyObservation
from embodied.env.vec_env import ObservationSpec, StepData
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror
from embodied.storage import trees
from embodied.storage.datasets.episode import Episode
from policies.vla.data.demonstrations import Demonstrations
from policies.vla.data.normalization import Normalization
from policies.vla.data.robot_spec import TrainingTask
from policies.vla.fine_tuning.settings import FineTuningConfig
from policies.vla.model.config import VLAConfig
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.rollouts import RolloutBatch, RolloutTask, StochasticPolicy, collect_rollouts
from policies.vla.reinforcement.settings import RLConfig
from policies.vla.reinforcement.timing import PhaseTimer

if TYPE_CHECKING:
    from embodied.rendering.cameras import CameraObserver
    from embodied.rendering.render_state import RenderState

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


COARSE = dataclasses.replace(SMALL, width=16, layers=1, channels=(4, 8, 8), text_width=8, bins=4, chunk=4)
BRIEF = RLConfig(
    groups=8, group_size=4, rounds=2, horizon=8, partial_credit=0.0, temperature=1.0, learning_rate=5e-3, minibatch=64,
    epochs=2, critic_warmup=1, bfloat16=False,
)  # fmt: skip
DEMONSTRATIONS = shown([episode(0), episode(1)])


class ToyCameras:
    """Draws the side of the goal, and remembers of which environments."""

    shapes: Mapping[str, tuple[int, ...]] = {"pixels/front": (3, 32, 32), "pixels/wrist": (3, 32, 32)}

    def __init__(self) -> None:
        self.looked: list[list[int]] = []

    def render(self, side: torch.Tensor, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        self.looked.append(rows.tolist())
        front = torch.zeros(len(rows), 3, 32, 32, dtype=torch.uint8)
        front[torch.arange(len(rows)), 2 * side[rows]] = 255
        return {"pixels/front": front, "pixels/wrist": torch.zeros_like(front)}


class ToyEnv:
    """Environments on a line, with the goal on one side or the other."""

    observation_spec: Mapping[str, ObservationSpec] = {
        "critic": ObservationSpec((2,)),
        "proprio": ObservationSpec((3,)),
    } | {group: ObservationSpec(shape, torch.uint8) for group, shape in ToyCameras.shapes.items()}
    device, action_size, team_size, max_episode_steps = torch.device("cpu"), 2, 1, 8

    def __init__(self, num_envs: int, goal: float) -> None:
        """The goal is `goal` away, and as far on the other side an episode fails."""
        self.num_envs, self.goal, self.cameras = num_envs, goal, ToyCameras()

    def reset(self, seed: int | None = None, *, group_size: int = 1) -> Mapping[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed or 0)
        drawn = torch.randint(2, (self.num_envs // group_size,), generator=generator)
        self.side, self.place = drawn.repeat_interleave(group_size), torch.zeros(self.num_envs)
        return self.observe()

    def observe(self) -> Mapping[str, torch.Tensor]:
        critic = torch.stack([self.side.float(), self.place], -1)
        vectors = {"critic": critic, "proprio": torch.zeros(self.num_envs, 3)}
        return LazyObservation(vectors, cast("CameraObserver", self.cameras), cast("RenderState", self.side))

    def step(self, action: torch.Tensor, /) -> StepData:
        self.place = self.place + action[:, 0] * (2 * self.side - 1)
        progress = (self.place / self.goal).clamp(0.0, 1.0)
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        obs = self.observe()
        return StepData(obs, progress, self.place < -self.goal, never, self.place > self.goal, obs)

    @property
    def roll_out(self) -> None:
        return None

    def mirror(self) -> Mirror:
        raise EmbodiedError("the two sides are different tasks")

    def spread_episode_lengths(self) -> None: ...

    def statistics(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any], /) -> None: ...

    def close(self) -> None: ...


def toy_task(
    num_envs: int = BRIEF.episodes, goal: float = 1.0, max_reward: float | None = 1.0, hold: int = 1
) -> RolloutTask:
    return RolloutTask("toy/left", ToyEnv(num_envs, goal), (LEFT, RIGHT), 8, hold, max_reward)


def fresh_policy(seed: int = 0, execute: int = 0):
    torch.manual_seed(seed)
    return untrained(DEMONSTRATIONS, COARSE, execute)


def toy_episodes(policy, task: RolloutTask, *, group_size: int = 4, seed: int = 0) -> RolloutBatch:
    """One in every environment, half of the groups told to go to either side."""
    sampler = StochasticPolicy(policy, 1.0, torch.Generator().manual_seed(seed), bfloat16=False)
    texts = [(LEFT, RIGHT)[place // 4 % 2] for place in range(task.env.num_envs)]
    return collect_rollouts(task, sampler, texts, 0, group_size=group_size, seed=seed, timer=PhaseTimer())


def assert_resumed_steps_equal_whole(make: Callable[[int], Any], steps: int) -> Any:
    """Steps of a learner that is resumed half way, by one of another seed, end bit for bit as in one go; returns it."""
    whole, half, other = make(0), make(0), make(1)
    for made, count in ((whole, steps), (half, steps // 2)):
        for _ in range(count):
            made.step()
    other.load_state(trees.unflatten(trees.flatten(half.state())))
    for _ in range(steps - steps // 2):
        other.step()
    expected, found = trees.flatten(whole.state()), trees.flatten(other.state())
    assert expected.keys() == found.keys()
    assert not [name for name, tensor in expected.items() if not torch.equal(tensor, found[name])]
    return other
