"""`Env`: N copies of a task on an engine, torch in and out, restarting by itself."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import Tensor

from embodied.core.episode import Episode, environment_keys, keys_of
from embodied.core.task import Task
from embodied.core.world import World
from embodied.env.registry import TaskEntry
from embodied.env.rollout import PerceptronActor, RolloutData
from embodied.env.step import LazyObservation, Step, array_from_tensor, tensor_from_array
from embodied.env.vec_env import ObservationSpec, RollOut, cached_property
from embodied.env.vectorized import EpisodeStatistics, FusedSimulator, HostSimulator, VectorizedSimulator, nan_guard
from embodied.errors import ActionError, EmbodiedError, whole_number
from embodied.math.symmetry import Mirror
from embodied.rendering.camera_config import CameraConfig
from embodied.rendering.cameras import CameraObserver
from embodied.rendering.render_state import RenderState, render_states
from embodied.storage.trees import flatten, path_name, unflatten

P = ParamSpec("P")
R = TypeVar("R")

HALF = 2  # bytes of the smallest floating-point numbers with which torch computes


class _Process:
    """Whether JAX was used in this process, or in one that it was forked from: its threads do not survive a fork."""

    used = forked = False

    @classmethod
    def on_fork(cls) -> None:
        cls.forked = cls.used

    @classmethod
    def check(cls) -> None:
        """Raise where a call of JAX would wait for ever."""
        if cls.forked:
            raise EmbodiedError(
                "this process was forked from one that had used JAX, where every call would wait for ever; start it "
                'afresh: AsyncVectorEnv(..., context="spawn"), multiprocessing.get_context("spawn")'
            )


def _alone(call: Callable[P, R]) -> Callable[P, R]:
    """A method that two threads may not be in at once: each would read arrays that the other has given away."""

    @functools.wraps(call)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        env: Any = args[0]
        if not env._busy.acquire(blocking=False):
            raise EmbodiedError(
                f"{call.__name__}() of {env.name} while another thread is in it; make an environment for each thread"
            )
        try:
            return call(*args, **kwargs)
        finally:
            env._busy.release()

    return alone


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_Process.on_fork)

HEALTH_INTERVAL = 128  # control steps between checks for divergence and overflow, each of which waits for the device


class Env:
    """`num_envs` environments of one task, stepped together. Build it with `embodied.make`; close it, or use `with`."""

    def __init__(
        self,
        task: Task[Any],
        engine: Any,
        num_envs: int,
        *,
        seed: int = 0,
        device: torch.device | str | None = None,
        entry: TaskEntry | None = None,
        camera_config: CameraConfig | None = None,
    ) -> None:
        """Join a task and an engine built for it; nothing compiles before the first `reset`.

        Raises:
            UnknownNameError: `camera_config` names a camera that the task does not have.
            EmbodiedError: the process was forked from one that had used JAX.
        """
        _Process.check()
        _Process.used = True
        self._busy = threading.RLock()
        self.task, self.engine, self.num_envs, self.seed, self.entry = task, engine, num_envs, seed, entry
        self.device = torch.device(device or _default_device(engine.fused))
        self.cameras = CameraObserver(task, num_envs, camera_config, self.device) if camera_config is not None else None
        simulator = FusedSimulator if engine.fused else HostSimulator
        self._simulator: VectorizedSimulator = simulator(
            task, engine, num_envs, self.cameras.render_state_fn if self.cameras else None
        )
        self._steps = 0
        self._started = self._closed = False
        self._since = 0  # environment steps since the last health check
        self._statistics = EpisodeStatistics()
        self.dump_folder = Path()

    def __repr__(self) -> str:
        groups = ", ".join(f"{group} {spec.shape}" for group, spec in self.observation_spec.items())
        closed = "closed, " if self._closed else ""
        return (
            f"Env({self.name} on {self.engine_name}: {closed}{self.num_envs} environments on {self.device}, "
            f"action {self.task.action_shape}, observation {groups})"
        )

    def __reduce__(self) -> NoReturn:
        raise EmbodiedError(
            f"an environment of {self.name} cannot be pickled or copied; make another, and give it this one's state()"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The registered name of the task, or its class's where it is not registered."""
        return self.entry.name if self.entry is not None else str(self.task.unwrapped)

    @property
    def engine_name(self) -> str:
        """Name of the physics engine."""
        return self.engine.name

    @property
    def variations(self) -> dict[str, str]:
        """Variations that every episode draws anew, with range and unit: name -> description."""
        return dict(self.task.variations)

    @property
    def action_size(self) -> int:
        """Length of one environment's action; of each agent's, where there are several."""
        return self.task.action_size

    @property
    def agents(self) -> int | None:
        """Number of agents in each environment; None for tasks without an axis of agents."""
        return self.task.team and self.task.team.agents

    @property
    def team_size(self) -> int:
        """1: an axis of agents is no team of one row; `embodied.env.multi_agent.TeamEnv` makes it one."""
        return 1

    @property
    def action_shape(self) -> tuple[int, ...]:
        """(N, action_size) or (N, agents, action_size): what `step` takes."""
        return (self.num_envs, *self.task.action_shape)

    @property
    def control_dt(self) -> float:
        """s per step."""
        return self.task.timing.control_dt

    @property
    def max_episode_steps(self) -> int:
        """Steps until the time limit."""
        return self.task.timing.max_steps

    @cached_property
    def observation_terms(self) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
        """Group -> term -> shape (of one agent's), in the order in which they are concatenated."""
        return self.task.observation_terms

    @cached_property
    def observation_spec(self) -> dict[str, ObservationSpec]:
        """Group -> shape and type behind the axis of environments: (size,) or (agents, size), and uint8 images.

        Images are (3, height, width), or (agents, 3, height, width) where each agent carries the camera.
        """
        agents = () if self.agents is None else (self.agents,)
        vectors = {
            group: ObservationSpec((*agents, sum(math.prod(shape) for shape in terms.values())))
            for group, terms in self.observation_terms.items()
        }
        shapes = {} if self.cameras is None else self.cameras.shapes
        return vectors | {group: ObservationSpec(shape, torch.uint8) for group, shape in shapes.items()}

    def mirror(self) -> Mirror:
        """Left-right reflection of actions and observation groups.

        Raises:
            EmbodiedError: the task does not say, or not of every observed term.
        """
        if self.task.mirror is None:
            raise EmbodiedError(f"{self.name} does not say how it looks in a mirror; expected a task with a `mirror`")
        return self.task.mirror.of_groups(self.observation_terms)

    @property
    def episode(self) -> Episode[Any]:
        """The running episodes, JAX arrays with a leading axis (N,): state, steps, and sums of rewards and metrics.

        The next `step` may write into these arrays: copy what is to outlast it.
        """
        self._check_started("episode")
        return self._simulator.episode()

    @property
    def task_state(self) -> Any:
        """The task's own state of every running episode, as in `episode`."""
        return self.episode.task_state

    @task_state.setter
    def task_state(self, state: Any) -> None:
        """Let the running episodes go on with this state, of the same shapes; the next `step` sees it.

        Raises:
            EmbodiedError: it has others.
        """
        held, given = (jax.tree.map(np.shape, tree) for tree in (self.task_state, state))
        if held != given:
            raise EmbodiedError(f"task_state has the shapes {given!r:.200}; expected {held!r:.200}")
        self._simulator.set_episode(dataclasses.replace(self.episode, task_state=state))

    @property
    def episode_length(self) -> Tensor:
        """(N,) int32, control steps taken so far in the running episodes; a copy."""
        return torch.from_numpy(np.array(self.episode.steps)).to(self.device)

    @episode_length.setter
    def episode_length(self, steps: Tensor) -> None:
        if not isinstance(steps, Tensor) or tuple(steps.shape) != (self.num_envs,):
            raise EmbodiedError(f"episode_length={steps!r:.80}; expected a tensor ({self.num_envs},) of control steps")
        self._simulator.set_episode(
            dataclasses.replace(self.episode, steps=jnp.asarray(np.asarray(steps.cpu()), jnp.int32))
        )

    def spread_episode_lengths(self) -> None:
        """Let the running episodes end at different times, spread evenly over the time limit.

        For training, right after `reset`: episodes that only time ends would otherwise all begin and end in the same
        steps for ever, and every rollout would hold one part of the task only. Learners elsewhere draw the initial
        episode lengths at random for this.
        """
        self.episode_length = torch.arange(self.num_envs) * self.max_episode_steps // self.num_envs

    def world(self) -> World:
        """The joints and sensors of every environment now, batched."""
        self._check_started("world()")
        return self._simulator.world()

    def render_state(self) -> RenderState:
        """Poses and appearance of everything now, batched, as `BatchRenderer.render` draws them.

        With the visual randomisation of the observed cameras, where the environment has cameras.
        """
        self._check_started("render_state()")
        if self.cameras is not None:
            return self._simulator.render_state()
        return render_states(self.task)(self.world(), self.episode)

    @property
    def physics_state(self) -> Any:
        """The engine's own state of every environment: a pytree of a fused engine, named arrays of a host engine."""
        self._check_started("physics_state")
        return self._simulator.physics_state()

    @_alone
    def reset(
        self, seed: int | Sequence[int] | np.ndarray | None = None, *, group_size: int = 1
    ) -> Mapping[str, Tensor]:
        """Start every environment afresh. Returns group -> as in `Step.obs`; with agents (N, agents, size).

        Args:
            seed: The same one gives the same reset states; by default the one the environment was made with. Several,
                one for each group of neighbours: each then begins as environment 0 would with that seed.
            group_size: Number of neighbours that share one random key and so one reset state: environments 0 to
                `group_size` - 1 begin as environment 0 would alone, the next as environment 1, and so on. Under the
                same actions they stay equal.

        Raises:
            EmbodiedError: `group_size` does not divide the number of environments, there are more or fewer seeds than
                groups, or the environment is closed.
        """
        if whole_number("group_size", group_size) < 1 or self.num_envs % group_size:
            raise EmbodiedError(f"group_size={group_size} does not divide {self.num_envs} environments")
        if self._closed:
            raise EmbodiedError(f"reset() after close() of {self.name}: make the environment anew")
        _Process.check()
        self._steps, self._since, self._started = 0, 0, True
        self._statistics = EpisodeStatistics()
        keys = self._keys(self.seed if seed is None else seed, self.num_envs // group_size)
        arrays = self._simulator.reset(jnp.repeat(keys, group_size, axis=0) if group_size > 1 else keys)
        vectors = {name: tensor_from_array(array, self.device) for name, array in arrays.items()}
        return vectors if self.cameras is None else LazyObservation(vectors, self.cameras, self.render_state())

    @staticmethod
    def _keys(seed: int | Sequence[int] | np.ndarray, count: int) -> jax.Array:
        """(count, 2) random keys, of one seed or of one for each."""
        if not isinstance(seed, Sequence | np.ndarray):
            return environment_keys(seed, count)
        if len(seed) != count:
            raise EmbodiedError(f"{len(seed)} seeds; expected {count}, one for each environment or group of them")
        return keys_of(seed)

    @_alone
    def step(self, action: Tensor) -> Step:
        """Advance every environment by one control step under `action`, of `action_shape`, clipped to [-1, 1].

        Raises:
            ActionError: wrong shape or type, or not finite; or the environment was not reset, or is closed.
            SimulationError: too many environments diverged, or an engine's buffer overflowed.
        """
        self._check_started("step()")
        self._check_action(action)
        result = self._simulator.step(array_from_tensor(action))
        self._count_steps(1)
        return Step(result, self.device, self.cameras)

    @property
    def roll_out(self) -> RollOut | None:
        """A whole rollout as one program, of tasks with one agent and no cameras on fused engines; else None."""
        simple = self.cameras is None and self.agents is None
        return self._roll_out if simple and isinstance(self._simulator, FusedSimulator) else None

    @_alone
    def _roll_out(
        self, observation: Mapping[str, Tensor], actor: PerceptronActor, noise: Tensor
    ) -> tuple[dict[str, Tensor], RolloutData]:
        """Step as often as `noise` (T, N, A) has rows; see `roll_out`.

        Raises:
            ActionError: the environment was not reset, or is closed; or the noise has another shape.
            SimulationError: too many environments diverged, or an engine's buffer overflowed.
        """
        self._check_started("roll_out()")
        if tuple(noise.shape[1:]) != self.action_shape:
            raise ActionError(f"noise has shape {tuple(noise.shape)}; expected (steps, *{self.action_shape})")
        assert isinstance(self._simulator, FusedSimulator)
        arrays = jax.tree.map(array_from_tensor, (dict(observation), actor, noise))
        following, data = self._simulator.roll_out(*arrays)
        self._count_steps(len(noise))
        return jax.tree.map(lambda array: tensor_from_array(array, self.device), (following, data))

    @_alone
    def statistics(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, which clears them.

        Keys: `episodes`; and where any ended `return`, `length`, `success` (at the last step), `success_any`,
        `failure`, `reward/<term>` (per episode, weighted), `return/<team>` of tasks with sides, the task's own
        metrics, and `diverged` (a count).
        """
        self._check_started("statistics()")
        self._check_health()
        statistics, self._statistics = self._statistics, EpisodeStatistics()
        return statistics.means()

    @_alone
    def state(self) -> dict[str, Any]:
        """Everything a resume needs, as a nested dictionary of arrays; bit-exact on the CPU engines."""
        self._check_started("state()")
        leaves = jax.tree_util.tree_leaves_with_path(self._simulator.state())
        return {"simulator": {path_name(path): np.asarray(leaf) for path, leaf in leaves}, "steps": self._steps}

    @_alone
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` gave, on the same task, engine and number of environments.

        Raises:
            EmbodiedError: that is no such state; or the environment is closed.
        """
        if not (isinstance(state, Mapping) and "steps" in state and isinstance(state.get("simulator"), Mapping)):
            raise EmbodiedError(f"state is {state!r:.80}; expected what Env.state() gave, with 'simulator' and 'steps'")
        steps = whole_number("steps", state["steps"], 0)
        if not self._started:
            self.reset()
        tree = self._simulator.state()
        like = {path_name(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        saved = unflatten(flatten(state["simulator"]), like)
        leaves = [saved[name] for name in like]
        restored = jax.tree.map(
            lambda old, new: new if isinstance(old, np.ndarray) else jax.device_put(new, old.sharding),
            tree,
            jax.tree.unflatten(jax.tree.structure(tree), leaves),
        )
        self._simulator.load_state(restored)
        self._steps = steps

    def replay_divergence(self, dump: Path) -> bool:
        """Take the step of a divergence dump again, in an environment of `num_envs` 1; whether it diverges again.

        Raises:
            SimulationError: the dump is of another task or engine, or there are several environments.
        """
        self.reset()
        return nan_guard.replay(self._simulator, self._description, dump, self.num_envs)

    def close(self) -> None:
        """Release the engine's worlds, all state, and the renderer's buffers and threads; `step` then raises."""
        if self._closed:
            return
        self._simulator.close()
        if self.cameras is not None:
            self.cameras.close()
        self._started, self._closed = False, True

    @property
    def _description(self) -> str:
        return f"{self.task.unwrapped!s} on {self.engine_name}"

    def _check_health(self) -> None:
        """Take the simulator's totals into the statistics, and raise if the physics is not sound."""
        totals = jax.device_get(self._simulator.take_totals())
        steps, self._since = self._since, 0
        self._statistics = self._statistics.plus(totals)
        nan_guard.check(self._simulator, self._description, totals, steps, self.dump_folder)

    def _check_started(self, call: str) -> None:
        _Process.check()
        if not self._started:
            raise ActionError(
                f"{call} after close() of {self.name}: make the environment anew"
                if self._closed
                else f"{call} before reset(): call env.reset() once first"
            )

    def _count_steps(self, count: int) -> None:
        """Count control steps, and look now and then whether the physics is sound."""
        checks = self._steps // HEALTH_INTERVAL
        self._steps += count
        self._since += count * self.num_envs
        if self._steps // HEALTH_INTERVAL > checks:
            self._check_health()

    def _check_action(self, action: Tensor) -> None:
        shape = self.action_shape
        if not isinstance(action, Tensor):
            raise ActionError(f"action is a {type(action).__name__}; expected a torch tensor {shape}")
        if tuple(action.shape) != shape:
            axes = "num_envs, action_size" if self.agents is None else "num_envs, agents, action_size"
            raise ActionError(f"action has shape {tuple(action.shape)}; expected ({axes}) = {shape}")
        if not action.is_floating_point() or action.element_size() < HALF:
            raise ActionError(f"action has dtype {action.dtype}; expected a floating-point tensor in [-1, 1]")
        if action.layout != torch.strided or action.is_meta:
            kind = "on no device" if action.is_meta else str(action.layout).removeprefix("torch.")
            raise ActionError(f"action is {kind}; expected a dense tensor with values")
        # On a GPU the check would wait for the device; there a NaN shows as a diverged environment.
        if action.device.type == "cpu" and not bool(torch.isfinite(action).all()):
            row = int(torch.nonzero(~torch.isfinite(action))[0, 0])
            raise ActionError(f"action of environment {row} is not finite: {action[row].tolist()}; expected [-1, 1]")


def _default_device(fused: bool) -> str:
    """Default device of observations: that of JAX for fused engines, the CPU for host engines."""
    return "cuda" if fused and jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
