"""`--env.type=embodied` of LeRobot's commands: the flags `--env.*`, and the environments they describe."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Sequence
from typing import Any

# LeRobot pins other versions than we do, and has an environment of its own.
from draccus.utils import DecodingError  # pyright: ignore[reportMissingImports]
from lerobot.configs import FeatureType, PolicyFeature  # pyright: ignore[reportMissingImports]
from lerobot.envs import EnvConfig  # pyright: ignore[reportMissingImports]
from lerobot.utils.constants import ACTION, OBS_IMAGES, OBS_STATE  # pyright: ignore[reportMissingImports]

from embodied.adapters.lerobot.vector_env import LeRobotVectorEnv, Success
from embodied.core.hooks import PROPRIO
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.registry import Suite, TaskEntry, join_content
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.storage import task_names

AGENT_POS = "agent_pos"

# LeRobot's commands log everything from INFO on, where JAX reports each kind of device that it does not find.
logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)


class FlagError(EmbodiedError, DecodingError):
    """A flag `--env.*` is missing or has an unknown value. LeRobot prints such errors as one line."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Sizes that a policy must fit, which the tasks of one evaluation share."""

    fps: int
    """Hz of the control steps."""
    state_size: int
    action_size: int


@EnvConfig.register_subclass("embodied")
@dataclasses.dataclass
class EmbodiedEnvConfig(EnvConfig):
    """Tasks of embodied, as policies of LeRobot meet them; features are named as `embodied.collect` records them."""

    task: str | None = None
    """Task or suite, such as manipulation/drawer-close or mt10; `embodied list` names them all. Or FILE.py:CLASS."""
    cameras: str = "view,wrist"
    """Cameras that the policy sees, separated by commas."""
    resolution: int = 64
    """Pixels of both sides."""
    state: str = PROPRIO
    """Observation group that is the agent's position, observation.state to the policy."""
    success: str = Success.LAST.value
    """last: an episode is a success if it is solved at its last step; any: at any step."""
    instruction: str | None = None
    """Instruction for the policy; by default the task's own words."""
    visual_shift: str | None = None
    """colours, camera, lights or all: how the appearance differs between episodes; by default not."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""

    def __post_init__(self) -> None:
        """Declare the policy's features: LeRobot builds policies from them, before there are environments.

        Raises:
            FlagError: no task; or an unknown task, camera, observation group, engine, shift or kind of success.
        """
        try:
            shared = self._layout()
        except EmbodiedError as error:
            raise FlagError(("env",), str(error)) from error
        self.fps = shared.fps
        images = {f"{OBS_IMAGES}.{name}": (self.resolution, self.resolution, 3) for name in self.camera_names}
        self.features = {
            ACTION: PolicyFeature(FeatureType.ACTION, (shared.action_size,)),
            AGENT_POS: PolicyFeature(FeatureType.STATE, (shared.state_size,)),
            **{key: PolicyFeature(FeatureType.VISUAL, shape) for key, shape in images.items()},
        }
        self.features_map = {ACTION: ACTION, AGENT_POS: OBS_STATE, **{key: key for key in images}}

    def _layout(self) -> Layout:
        if self.success not in list(Success):
            raise UnknownNameError("kind of success", self.success, list(Success))
        if not self.task:
            raise EmbodiedError("no --env.task; expected a task or a suite, `embodied list` names them all")
        return layout_of(self.task, self.state, self.camera_names, self.resolution, self.engine, self.visual_shift)

    @property
    def camera_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name.strip() for name in self.cameras.split(",") if name.strip()))

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        """None: nothing is made by a Gymnasium id."""
        return {}

    def create_envs(self, n_envs: int, use_async_envs: bool = False) -> dict[str, dict[int, LeRobotVectorEnv]]:
        """Environments by group and number: a task's under its name, a suite's tasks under the suite's.

        Args:
            n_envs: Environments of each task that step together.
            use_async_envs: Makes no difference: they step in one process, on all its cores.

        Raises:
            EmbodiedError: tasks of a suite differ in rate or sizes.
        """
        del use_async_envs
        assert self.task
        entry = join_content().find(self.task)
        group = task_names.label(entry.name).rpartition("/")[2]
        groups = {group: (entry.name,)}
        if isinstance(entry, Suite):
            groups = {group: entry.tasks, f"{group}_held_out": entry.held_out}
        envs = {
            name: {number: self._vector_env(entry, task, n_envs) for number, task in enumerate(tasks)}
            for name, tasks in groups.items()
            if tasks
        }
        require_one_layout([env.env for group in envs.values() for env in group.values()], self.state)
        return envs

    def _vector_env(self, entry: TaskEntry | Suite, task: str, num_envs: int) -> LeRobotVectorEnv:
        env = make_env(entry, task, num_envs, self.camera_names, self.resolution, self.engine, self.visual_shift)
        return LeRobotVectorEnv(env, self.state, Success(self.success), self.instruction)


@functools.lru_cache(maxsize=8)
def layout_of(
    name: str, state: str, cameras: tuple[str, ...], resolution: int, engine: str | None, visual_shift: str | None
) -> Layout:
    """The layout of a task, or of a suite's first; kept, for LeRobot builds a configuration several times.

    Raises:
        EmbodiedError: as of `make` and `LeRobotVectorEnv`; or there are no cameras.
    """
    entry = join_content().find(name)
    first = entry.tasks[0] if isinstance(entry, Suite) else entry.name
    with make_env(entry, first, 1, cameras, resolution, engine, visual_shift) as env:
        LeRobotVectorEnv(env, state)  # refuses what policies of LeRobot cannot see
        return layout(env, state)


def layout(env: Env, state: str) -> Layout:
    """Sizes that a policy must fit to act in an environment."""
    return Layout(round(1 / env.control_dt), env.observation_spec[state].shape[-1], env.action_size)


def make_env(
    entry: TaskEntry | Suite,
    task: str,
    num_envs: int,
    cameras: tuple[str, ...],
    resolution: int,
    engine: str | None,
    visual_shift: str | None,
) -> Env:
    """Environments of a task, alone or as a suite sets it.

    Raises:
        EmbodiedError: as of `make`; or there are no cameras.
    """
    if not cameras:
        raise EmbodiedError("no --env.cameras; expected names of cameras, separated by commas")
    config = entry.shared_config(training=False) if isinstance(entry, Suite) else None
    return make(
        task, num_envs, engine, config=config, cameras=cameras, resolution=resolution, visual_shift=visual_shift
    )


def require_one_layout(envs: Sequence[Env], state: str) -> None:
    """Check that one policy fits all.

    Raises:
        EmbodiedError: it does not; names two tasks that differ.
    """
    first = layout(envs[0], state)
    for env in envs:
        if (own := layout(env, state)) != first:
            raise EmbodiedError(f"no policy fits both '{envs[0].name}' ({first}) and '{env.name}' ({own})")
