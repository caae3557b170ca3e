"""`Env`: N copies of a task on an engine, torch in and out, restarting by itself."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array
from torch import Tensor

from embodied.core.episode import environment_keys
from embodied.core.task import Task
from embodied.env import nan_guard
from embodied.env.vectorized import FusedSimulator, HostSimulator, Result, VectorizedSimulator
from embodied.errors import ActionError, EmbodiedError
from embodied.registry import TaskEntry
from embodied.rendering.cameras import Eyes, PixelObserver
from embodied.storage.trees import flatten, unflatten

HEALTH_INTERVAL = 128  # control steps between checks for divergence and overflow, each of which waits for the device


@dataclasses.dataclass(frozen=True)
class Step:
    """One control step of N environments. Tensors share state with JAX: read them, or copy before writing."""

    _result: Result
    _device: torch.device
    _pixels: PixelObserver | None = None

    @functools.cached_property
    def obs(self) -> Mapping[str, Tensor]:
        """Group -> (N, size), and (N, 3, height, width) uint8 of cameras, which are drawn when one is asked for.

        Where an episode ended, the first observation of the next one.
        """
        if self._pixels is None:
            return self.sensed
        return Observation(self.sensed, self._pixels, self._result.watched)

    @functools.cached_property
    def sensed(self) -> dict[str, Tensor]:
        """Group -> (N, size): `obs` without cameras, for which nothing is drawn."""
        return self._tensors(self._result.observation)

    @functools.cached_property
    def final_obs(self) -> dict[str, Tensor]:
        """Group -> as in `obs`. The observation the step led to: `obs` before any restart."""
        final = self._tensors(self._result.final_observation)
        if self._pixels is None or not isinstance(self.obs, Observation):
            return final
        return final | self._pixels.see_final(self._result, self.obs.pixels)

    @functools.cached_property
    def reward(self) -> Tensor:
        """(N,) weighted sum of the task's reward terms."""
        return self._tensor(self._result.reward)

    @functools.cached_property
    def terminated(self) -> Tensor:
        """(N,) bool, the episode failed: its value ends here."""
        return self._tensor(self._result.terminated)

    @functools.cached_property
    def truncated(self) -> Tensor:
        """(N,) bool, the time limit ended the episode: bootstrap from `final_obs`."""
        return self._tensor(self._result.truncated)

    @property
    def done(self) -> Tensor:
        """(N,) bool, the episode ended either way."""
        return self.terminated | self.truncated

    @functools.cached_property
    def success(self) -> Tensor:
        """(N,) bool, the task is solved at this instant."""
        return self._tensor(self._result.success)

    @functools.cached_property
    def info(self) -> dict[str, Tensor]:
        """(N,) each: `return`, `length`, `success_any`, `diverged`, and the episode's mean of each metric.

        They cover the episode so far; where `done`, the whole episode.
        """
        ended = self._result.ended
        length = self._tensor(ended.steps)
        means = {name: self._tensor(total) / length.clamp(min=1) for name, total in ended.metrics.items()}
        return {
            "return": self._tensor(ended.total),
            "length": length,
            "success_any": self._tensor(ended.success_any),
            "diverged": self._tensor(self._result.diverged),
            **means,
        }

    def _tensors(self, arrays: Mapping[str, Array]) -> dict[str, Tensor]:
        return {name: self._tensor(array) for name, array in arrays.items()}

    def _tensor(self, array: Array) -> Tensor:
        return tensor_from_array(array, self._device)


class Observation(Mapping[str, Tensor]):
    """Observation groups, of which pixels are drawn when one is first asked for.

    A policy that carries out several actions between two looks pays only for the pictures that it looks at.
    """

    def __init__(self, flat: Mapping[str, Tensor], observer: PixelObserver, watched: Any) -> None:
        """Groups that are known, and what draws the others from what was watched."""
        self._flat, self._observer, self._watched = flat, observer, watched

    @functools.cached_property
    def pixels(self) -> dict[str, Tensor]:
        """Group -> what cameras see of all environments, drawn when it is first asked for."""
        return self._observer.see(self._watched)

    def rows(self, rows: Tensor, groups: Sequence[str]) -> dict[str, Tensor]:
        """Some groups of the environments `rows` (k,) int64 alone; the others are not drawn."""
        if "pixels" in self.__dict__ or not set(groups) & set(self._observer.shapes):
            return {group: self[group][rows] for group in groups}
        seen = self._observer.see(self._watched, rows)
        return {group: seen[group] if group in seen else self._flat[group][rows] for group in groups}

    def __getitem__(self, group: str) -> Tensor:
        """The values of a group."""
        return self.pixels[group] if group in self._observer.shapes else self._flat[group]

    def __iter__(self) -> Iterator[str]:
        """Names of all groups."""
        yield from (*self._flat, *self._observer.shapes)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self._flat) + len(self._observer.shapes)


class Env:
    """`num_envs` environments of one task. Build it with `embodied.make`."""

    def __init__(
        self,
        task: Task[Any],
        engine: Any,
        num_envs: int,
        *,
        seed: int = 0,
        device: torch.device | str | None = None,
        entry: TaskEntry | None = None,
        eyes: Eyes | None = None,
    ) -> None:
        """Join a task and an engine built for it; nothing compiles before the first `reset`.

        Raises:
            UnknownNameError: `eyes` names a camera that the task does not have.
        """
        self.task, self.engine, self.num_envs, self.seed, self.entry = task, engine, num_envs, seed, entry
        fused = engine.fused
        self.device = torch.device(device or _default_device(fused))
        self.pixels = PixelObserver(task, num_envs, eyes, self.device) if eyes is not None else None
        simulator = FusedSimulator if fused else HostSimulator
        self.simulator: VectorizedSimulator = simulator(
            task, engine, num_envs, self.pixels.watch if self.pixels else None
        )
        self._steps = 0
        self._started = False
        self._since = 0  # environment steps since the last health check
        self._totals = nan_guard.Tally()
        self.dump_folder = Path()

    @property
    def name(self) -> str:
        """The registered name of the task, or its class's where it is not registered."""
        return self.entry.name if self.entry is not None else type(self.task).__name__

    @property
    def engine_name(self) -> str:
        """Name of the physics engine."""
        return self.engine.name

    @property
    def variations(self) -> dict[str, str]:
        """What every episode draws anew, with range and unit: name -> description."""
        return dict(self.task.variations)

    @property
    def action_size(self) -> int:
        """Length of one environment's action; of each agent's, where there are several."""
        return self.task.action_size

    @property
    def agents(self) -> int | None:
        """Number of agents in each environment; None for tasks without an axis of agents."""
        return self.task.agents

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

    @functools.cached_property
    def observation_terms(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Group -> term -> shape (of one agent's), in the order in which they are concatenated."""
        return observation_terms(self.task)

    @functools.cached_property
    def observation_sizes(self) -> dict[str, int]:
        """Group -> length of its flat observation (of one agent's); cameras have `pixel_shapes`."""
        return {
            group: sum(int(np.prod(shape)) for shape in terms.values())
            for group, terms in self.observation_terms.items()
        }

    @property
    def pixel_shapes(self) -> dict[str, tuple[int, ...]]:
        """Group `pixels/<camera>` -> (3, height, width) of its uint8 images, (agents, 3, ...) where agents carry it."""
        return {} if self.pixels is None else self.pixels.shapes

    def reset(self, seed: int | None = None, *, alike: int = 1) -> Mapping[str, Tensor]:
        """Start every environment afresh. Returns group -> as in `Step.obs`; with agents (N, agents, size).

        Args:
            seed: The same one gives the same starts; by default the one the environment was made with.
            alike: How many neighbours begin alike, with one random key between them: environments 0 to `alike` - 1 as
                environment 0 would alone, the next as environment 1, and so on. Under the same actions they stay alike.

        Raises:
            EmbodiedError: `alike` does not divide the number of environments.
        """
        if alike < 1 or self.num_envs % alike:
            raise EmbodiedError(
                f"alike={alike} does not divide {self.num_envs} environments into groups that begin alike"
            )
        self._steps, self._since, self._started = 0, 0, True
        self._totals = nan_guard.Tally()
        keys = environment_keys(self.seed if seed is None else seed, self.num_envs // alike)
        arrays = self.simulator.reset(jnp.repeat(keys, alike, axis=0) if alike > 1 else keys)
        sensed = {name: tensor_from_array(array, self.device) for name, array in arrays.items()}
        return sensed if self.pixels is None else Observation(sensed, self.pixels, self.simulator.watched())

    def stagger(self) -> None:
        """Let the running episodes end at different times, spread evenly over the time limit.

        For training, right after `reset`: episodes that only time ends would otherwise all begin and end in the same
        steps for ever, and every rollout would hold one part of the task only.
        """
        places = np.arange(self.num_envs, dtype=np.int64) * self.max_episode_steps // self.num_envs
        self.simulator.set_steps(jnp.asarray(places, jnp.int32))

    def step(self, action: Tensor) -> Step:
        """Advance every environment by one control step under `action`, of `action_shape`, clipped to [-1, 1].

        Raises:
            ActionError: wrong shape or type, or not finite.
            SimulationError: too many environments diverged, or an engine's buffer overflowed.
        """
        if not self._started:
            raise ActionError("step() before reset(): call env.reset() once first")
        self._check_action(action)
        result = self.simulator.step(array_from_tensor(action))
        self._steps += 1
        self._since += self.num_envs
        if self._steps % HEALTH_INTERVAL == 0:
            self._gather()
        return Step(result, self.device, self.pixels)

    def statistics(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, which clears them.

        Keys: `episodes`; and where any ended `return`, `length`, `success` (at the last step), `success_any`,
        `failure`, `reward/<term>` (per episode, weighted), the task's own metrics, and `diverged` (a count).
        """
        self._gather()
        tally, self._totals = self._totals, nan_guard.Tally()
        return tally.means()

    def world(self) -> Any:
        """The joints and sensors of every environment now (a batched `World`)."""
        return self.simulator.world()

    def state(self) -> dict[str, Any]:
        """Everything a resume needs, as a nested dictionary of arrays; bit-exact on the CPU engines."""
        leaves = jax.tree_util.tree_leaves_with_path(self.simulator.tree())
        arrays = {nan_guard.path_name(path): np.asarray(leaf) for path, leaf in leaves}
        return {"simulator": arrays, "steps": self._steps}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave, on the same task, engine and number of environments."""
        if not self._started:
            self.reset()
        tree = self.simulator.tree()
        like = {nan_guard.path_name(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        saved = unflatten(flatten(state["simulator"]), like)
        leaves = [saved[name] for name in like]
        restored = jax.tree.map(
            lambda old, new: new if isinstance(old, np.ndarray) else jax.device_put(new, old.sharding),
            tree,
            jax.tree.unflatten(jax.tree.structure(tree), leaves),
        )
        self.simulator.load_tree(restored)
        self._steps = int(state["steps"])

    def close(self) -> None:
        """Nothing needs closing; here so that environments of all kinds can be treated alike."""

    def _gather(self) -> None:
        """Take the simulator's totals and raise if the physics is not sound."""
        totals = jax.device_get(self.simulator.take_totals())
        steps, self._since = self._since, 0
        self._totals = self._totals.plus(totals)
        nan_guard.check(self, totals, steps)

    def _check_action(self, action: Tensor) -> None:
        shape = self.action_shape
        if not isinstance(action, Tensor):
            raise ActionError(f"action is a {type(action).__name__}; expected a torch tensor {shape}")
        if tuple(action.shape) != shape:
            axes = "num_envs, action_size" if self.agents is None else "num_envs, agents, action_size"
            raise ActionError(f"action has shape {tuple(action.shape)}; expected ({axes}) = {shape}")
        if not action.is_floating_point():
            raise ActionError(f"action has dtype {action.dtype}; expected a floating-point tensor in [-1, 1]")
        # On a GPU the check would wait for the device; there a NaN shows as a diverged environment.
        if action.device.type == "cpu" and not bool(torch.isfinite(action).all()):
            row = int(torch.nonzero(~torch.isfinite(action))[0, 0])
            raise ActionError(f"action of environment {row} is not finite: {action[row].tolist()}; expected [-1, 1]")


def tensor_from_array(array: Array, device: torch.device) -> Tensor:
    """A torch tensor over a JAX array's state, moved only where the devices differ."""
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array).to(device)
    if array.dtype == bool:
        # DLPack carries booleans since version 1; older exchanges need the bytes.
        return torch.from_dlpack(array.view(np.uint8)).bool().to(device)
    return torch.from_dlpack(array).to(device)


def array_from_tensor(tensor: Tensor) -> Array:
    """A JAX array of a torch tensor's values, as float32 on JAX's default device.

    It is a copy: JAX runs behind, and would read what the caller has since written to the tensor.
    """
    tensor = tensor.detach().to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    on_gpu = jax.default_backend() == "gpu"
    if on_gpu != (tensor.device.type == "cuda"):
        return jax.numpy.asarray(tensor.cpu().numpy())
    return jax.dlpack.from_dlpack(tensor)


def _default_device(fused: bool) -> str:
    """Where observations live unless asked otherwise: with JAX for fused engines, on the CPU for host engines."""
    return "cuda" if fused and jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"


def observation_terms(task: Task[Any]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Group -> term -> shape (of one agent's) of a task's observation, in the order of concatenation."""
    shapes: dict[str, dict[str, tuple[int, ...]]] = {}

    def record(key: Array) -> None:
        # Noted while tracing: JAX would hand the terms back in alphabetical order.
        start = task.reset(key)
        terms = task.observe(_shape_of_world(task), start.task_state, key)
        axes = 0 if task.agents is None else 1
        shapes.update(
            {group: {name: term.shape[axes:] for name, term in named.items()} for group, named in terms.items()}
        )

    jax.eval_shape(record, jax.ShapeDtypeStruct((2,), np.uint32))
    return shapes


def _shape_of_world(task: Task[Any]) -> Any:
    """A world of zeros of the task's model, for shapes."""
    from embodied.core.world import SensorLayout, World

    model = task.model
    zeros = lambda size: jax.numpy.zeros((size,), jax.numpy.float32)  # noqa: E731
    layout = SensorLayout.from_model(model)
    return World(jax.numpy.zeros(()), zeros(model.nq), zeros(model.nv), zeros(model.nsensordata), layout)


def stamp() -> str:
    """The time for file names, e.g. `20261121-103000`."""
    return time.strftime("%Y%m%d-%H%M%S")
