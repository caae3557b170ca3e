"""`Env` as a Gymnasium vector environment, as a single Gymnasium environment, and by Gymnasium id.

Everything returned is a numpy copy for the caller: nothing is reused or shared with the simulation.
Actions may come in any real dtype.

    embodied.adapters.gymnasium.register_gymnasium()
    gymnasium.make("embodied/swarm-hover-v0", render_mode="rgb_array")
    gymnasium.make_vec("embodied/swarm-hover-v0", num_envs=64, engine="rigid", seed=0)

Importing `embodied.adapters.gymnasium_ids` registers too, so that an id can name it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from embodied.adapters.tensors import TensorView, require_env
from embodied.core.episode import SEEDS
from embodied.env.env import Env
from embodied.env.factory import default_engine, make
from embodied.env.registry import join_content
from embodied.env.step import Step
from embodied.env.vec_env import ObservationSpec
from embodied.errors import ActionError, EmbodiedError, UnknownNameError, whole_number

if TYPE_CHECKING:
    from embodied.rendering.pictures import Renderer

NAMESPACE = "embodied"
VERSION = 0
RENDER_MODES = ("rgb_array",)


class View:
    """Observations of an environment as an adapter shows them: one group as an array, or several as a dictionary.

    Vectors are float32; images are uint8 with the colours last, (height, width, 3), as Gymnasium and
    Stable-Baselines3 take them.
    """

    def __init__(self, env: Env, group: str | Sequence[str]) -> None:
        """Choose `group` of `env`, or several."""
        self._view = TensorView(env, group, "Gymnasium")
        self._single = isinstance(group, str)
        boxes: dict[str, Space[Any]] = {name: _box(of) for name, of in self._view.spec.items()}
        self.space: Space[Any] = next(iter(boxes.values())) if self._single else Dict(boxes)
        """One environment's observation."""

    def of(self, observation: Mapping[str, Tensor]) -> Any:
        """(N, ...) of the group, or group -> (N, ...); the caller's own copies."""
        shown = self._view.of(observation).items()
        arrays = {name: as_array(of.movedim(1, -1) if of.dtype == torch.uint8 else of) for name, of in shown}
        return next(iter(arrays.values())) if self._single else arrays

    def row(self, batch: Any, index: int) -> Any:
        """One environment's part of what `of` gave, copied."""
        return batch[index].copy() if self._single else {name: array[index].copy() for name, array in batch.items()}

    def action(self, actions: ArrayLike) -> Tensor:
        """(N, action_size) as the environment takes it."""
        return self._view.action(as_tensor(actions))


class _Adapter:
    """Common parts of both kinds of environment: the `Env`, the seed of a reset, the renderer."""

    env: Env
    metadata: dict[str, Any]
    render_mode: str | None

    def _take(self, env: Env, group: str | Sequence[str], render_mode: str | None) -> None:
        self.env, self.group, self.view = env, group, View(env, group)
        self.metadata = metadata(env)
        self.render_mode = check_render_mode(render_mode)
        self._renderer: Renderer | None = None

    def _first_seed(self, seed: int | None) -> int | None:
        """Seed of a reset: as given, or at the first one that of `env`."""
        first = seed is None and self._np_random is None  # pyright: ignore[reportAttributeAccessIssue] - Gymnasium's
        return self.env.seed if first else seed

    def _restarted(self, seeds: Sequence[int] | None) -> Any:
        """First observations (N, ...) of fresh episodes, of a seed for each environment or of any."""
        generator = self.np_random  # pyright: ignore[reportAttributeAccessIssue] - Gymnasium's
        begun = self.env.reset(_draw_seed(generator) if seeds is None else [seed % SEEDS for seed in seeds])
        return self.view.of(begun)

    def _drawing(self, closed: bool, started: bool) -> Renderer | None:
        """The renderer; None where no render mode was chosen."""
        _check_use(closed)
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render mode draws nothing; make it with render_mode='rgb_array'")
            return None
        if not started:
            raise ResetNeeded("render() before reset(): call reset() once first")
        self._renderer = self._renderer or make_renderer(self.env)
        return self._renderer

    def _release(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
        self.env.close()


class GymnasiumVectorEnv(_Adapter, VectorEnv[Any, NDArray[Any], NDArray[Any]]):
    """The N environments of an `Env` behind Gymnasium's vector interface, with same-step autoreset.

    Observations are (N, size) float32 of one observation group, or a dictionary of several, such as
    `("policy", "pixels/front")` (see `View`), rewards (N,) float32, terminations and truncations (N,) bool. Every
    entry of the infos has its mask of the same name with a leading underscore:

    - `success` (N,) bool, solved at this instant, of the environments whose episode goes on;
    - where an episode ended, `final_obs` (N,) of objects: the (size,) observation the step led to, else None;
    - and `final_info`, (N,) each: `success` (at the last step), `success_any`, `diverged`, the episode's mean of
      each of the task's metrics, and `episode` with `r` the return, `l` the length in steps and `t` the seconds
      it took, as Gymnasium's own `RecordEpisodeStatistics` gives them.
    """

    def __init__(self, env: Env, group: str | Sequence[str] = "policy", render_mode: str | None = None) -> None:
        self._take(env, group, render_mode)
        self.num_envs, self.single_observation_space = env.num_envs, self.view.space
        self.single_action_space = action_space(env)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.metadata["autoreset_mode"] = AutoresetMode.SAME_STEP
        self._began: NDArray[np.float64] | None = None  # s on the performance counter, per episode

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start every environment afresh.

        Args:
            seed: One for each environment; of a single one, environment i takes seed + i, as in Gymnasium's own vector
                environments. Each then lives through the episodes of a single environment with its seed. Without one
                the first reset takes the seed that `env` was made with, and each later one draws new episodes.
            options: None exist.

        Raises:
            EmbodiedError: an option was given, or more or fewer seeds than environments.
        """
        _check_use(self.closed, options)
        first = self._first_seed(seed) if seed is None or isinstance(seed, int | np.integer) else seed
        if isinstance(first, int | np.integer):
            seeds = [first + number for number in range(self.num_envs)]
        else:
            seeds = _seeds(first, self.num_envs)
        super().reset(seed=None if seeds is None else int(seeds[0]))
        observation = self._restarted(seeds)
        self._began = np.full(self.num_envs, time.perf_counter())
        return observation, {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Advance every environment under `actions` (N, action_size); see the class for what comes back.

        Raises:
            ResetNeeded: `reset` was never called.
            ActionError: wrong shape, or not finite.
        """
        _check_use(self.closed)
        if self._began is None:
            raise ResetNeeded("step() before reset(): call reset() once first")
        step = self.env.step(self.view.action(actions))
        terminations, truncations = as_array(step.terminated), as_array(step.truncated)
        done = terminations | truncations
        infos: dict[str, Any] = {"success": as_array(step.success) & ~done, "_success": ~done}
        if done.any():
            infos |= {"final_obs": self._final_obs(step, done), "_final_obs": done.copy()}
            infos |= {"final_info": self._final_info(step, done, self._began), "_final_info": done.copy()}
            self._began[done] = time.perf_counter()
        return self.view.of(step.obs), one_agent(step.reward), terminations, truncations, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One picture (height, width, 3) per environment, or None where no render mode was chosen.

        Raises:
            ResetNeeded: `reset` was never called.
            EmbodiedError: nothing on this machine can draw.
        """
        if (renderer := self._drawing(self.closed, self._began is not None)) is None:
            return None
        state = renderer.scene_reader.read()
        return tuple(renderer.frame(index, state=state) for index in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        del kwargs
        self._release()

    def _final_obs(self, step: Step, done: NDArray[np.bool_]) -> NDArray[np.object_]:
        rows = self.view.of(step.final_obs)
        final = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(done).tolist():
            final[index] = self.view.row(rows, index)
        return final

    def _final_info(self, step: Step, done: NDArray[np.bool_], began: NDArray[np.float64]) -> dict[str, Any]:
        seconds = np.round(time.perf_counter() - began, 6)
        episode = {"r": one_agent(step.info["return"]), "l": as_array(step.info["length"]), "t": seconds}
        summary = {name: one_agent(value) for name, value in episode_summary(step).items()}
        return {**_masked(summary, done), "episode": _masked(episode, done), "_episode": done.copy()}


class GymnasiumEnv(_Adapter, gymnasium.Env[Any, NDArray[Any]]):
    """One environment behind Gymnasium's interface; the caller resets it.

    Observations are (size,) float32, or a dictionary of several groups (see `View`). The info of a step holds
    `success` (solved at this instant); that of an episode's last step also `success_any`, `diverged` and the episode's
    mean of each of the task's metrics.

    With the same seed and actions it lives through the same episodes as environment 0 of a vector environment: the
    reset after an episode's end takes up the fresh episode that `Env` has already drawn.
    """

    def __init__(self, env: Env, group: str | Sequence[str] = "policy", render_mode: str | None = None) -> None:
        """Take over `env`.

        Raises:
            EmbodiedError: `env` holds more than one environment.
        """
        require_env(env)
        if env.num_envs != 1:
            raise EmbodiedError(f"num_envs={env.num_envs}; GymnasiumEnv expects 1, GymnasiumVectorEnv takes any number")
        self._take(env, group, render_mode)
        self.observation_space = self.view.space
        self.action_space = action_space(env)
        self._closed = False
        self._running = False
        self._following: Any = None  # first observation of an episode that is already drawn

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a fresh episode; arguments and errors are those of `GymnasiumVectorEnv.reset`."""
        _check_use(self._closed, options)
        seed = self._first_seed(seed)
        if seed is not None:
            _seeds([seed], 1)
        super().reset(seed=seed)
        following, self._following, self._running = self._following, None, True
        if seed is None and following is not None:
            return following, {}
        return self.view.row(self._restarted(None if seed is None else [seed]), 0), {}

    def step(self, action: ArrayLike) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance by one control step under `action` (action_size,).

        Raises:
            ResetNeeded: `reset` was not called since the environment was made or the episode ended.
            ActionError: wrong shape, or not finite.
        """
        _check_use(self._closed)
        if not self._running:
            cause = "reset()" if self._following is None else "reset(), but the episode is over"
            raise ResetNeeded(f"step() before {cause}: call reset() to begin a fresh episode")
        tensor = as_tensor(action)
        if tuple(tensor.shape) != self.action_space.shape:
            raise ActionError(f"action has shape {tuple(tensor.shape)}; expected {self.action_space.shape}")
        step = self.env.step(self.view.action(tensor[None]))
        terminated, truncated = bool(step.terminated), bool(step.truncated)
        info: dict[str, Any] = {"success": bool(step.success)}
        if terminated or truncated:
            self._running, self._following = False, self.view.row(self.view.of(step.obs), 0)
            info = {name: value.item() for name, value in episode_summary(step).items()}
        return self.view.row(self.view.of(step.final_obs), 0), float(step.reward), terminated, truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3), or None where no render mode was chosen.

        At an episode's end it shows the start of the next one, which `Env` has already drawn.

        Raises:
            ResetNeeded: `reset` was never called.
            EmbodiedError: nothing on this machine can draw.
        """
        renderer = self._drawing(self._closed, self._running or self._following is not None)
        return None if renderer is None else renderer.frame(0)

    def close(self) -> None:
        """Close `env`; safe to call again."""
        if not self._closed:
            self._release()
        self._closed = True


def register_gymnasium() -> tuple[str, ...]:
    """Register every task with Gymnasium, for `gymnasium.make` and `gymnasium.make_vec`; safe to call often.

    `gymnasium.make` takes `make_single`'s keywords, `gymnasium.make_vec` those of `make_vector`.

    Returns:
        The ids, sorted: see `gymnasium_id`.
    """
    registry = join_content()
    for name in registry:
        if gymnasium_id(name) not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id(name),
                entry_point=f"{__name__}:make_single",
                vector_entry_point=f"{__name__}:make_vector",
                kwargs={"name": name},
                # MJX on a GPU adds up in whatever order its threads finish.
                nondeterministic=default_engine(registry[name]) == "mjx",
            )
    return tuple(gymnasium_id(name) for name in registry)


def gymnasium_id(name: str) -> str:
    """The Gymnasium id of a task: `swarm/hover` is `embodied/swarm-hover-v0`, for ids hold a single slash."""
    return f"{NAMESPACE}/{name.replace('/', '-')}-v{VERSION}"


def make_single(
    name: str,
    *,
    seed: int | None = None,
    group: str | Sequence[str] = "policy",
    render_mode: str | None = None,
    **options: Any,
) -> GymnasiumEnv:
    """Build one environment; what `gymnasium.make` calls.

    Args:
        name: Task, `family/name`.
        seed: Seed of a first reset without one; by default a random one, so that copies differ as Gymnasium expects.
        group: As of `GymnasiumEnv`.
        render_mode: As of `GymnasiumEnv`.
        **options: Further options of `embodied.make`.
    """
    return GymnasiumEnv(make(name, 1, seed=_any_seed(seed), **options), group, render_mode)


def make_vector(
    name: str,
    *,
    num_envs: int = 1,
    seed: int | None = None,
    group: str | Sequence[str] = "policy",
    render_mode: str | None = None,
    **options: Any,
) -> GymnasiumVectorEnv:
    """Build a vector environment of `num_envs`; what `gymnasium.make_vec` calls, otherwise as `make_single`."""
    return GymnasiumVectorEnv(make(name, num_envs, seed=_any_seed(seed), **options), group, render_mode)


def action_space(env: Env) -> Box:
    """(action_size,) float32 in [-1, 1]: one environment's action."""
    return Box(-1.0, 1.0, (env.action_size,), np.float32)


def metadata(env: Env) -> dict[str, Any]:
    """Metadata that Gymnasium reads of every environment."""
    return {"render_modes": list(RENDER_MODES), "render_fps": round(1 / env.control_dt)}


def make_renderer(env: Env) -> Renderer:
    """Renderer of `env`. Imported only now: it looks for a graphics driver."""
    from embodied.rendering.pictures import Renderer

    return Renderer(env, size=(640, 360))


def _box(of: ObservationSpec) -> Box:
    """Bytes of an image with the colours last, or numbers without bounds."""
    if of.dtype == torch.uint8:
        return Box(0, 255, (*of.shape[1:], of.shape[0]), np.uint8)
    return Box(-np.inf, np.inf, of.shape, np.float32)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A copy of `tensor` in host memory, where its owner may write."""
    return tensor.cpu().numpy().copy()


def one_agent(tensor: Tensor) -> NDArray[Any]:
    """(N,) of a tensor (N,), or (N, 1) of a task with a single agent."""
    return as_array(tensor).reshape(len(tensor), -1)[:, 0]


def as_tensor(action: ArrayLike) -> Tensor:
    """A float32 copy of `action`: the engine may still read it when the caller writes the next one.

    Raises:
        ActionError: it holds no real numbers, or rows of different lengths.
    """
    try:
        values = np.asarray(action)
        if values.dtype.kind in "biufO":
            return torch.tensor(values.astype(np.float32))
    except (TypeError, ValueError):  # rows of different lengths, or objects that are no numbers
        pass
    raise ActionError(f"action is {action!r:.80}; expected an array of numbers in [-1, 1]")


def episode_summary(step: Step) -> dict[str, Tensor]:
    """(N,) each: `success`, `success_any`, `diverged` and the task's metrics; of a whole episode where it ended."""
    rest = {name: value for name, value in step.info.items() if name not in ("return", "length")}
    return {"success": step.success, **rest}


def _masked(values: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Each of `values` with zeros outside `mask`, and beside it the mask under its name with an underscore."""
    pairs = {}
    for name, value in values.items():
        pairs |= {name: np.where(mask, value, np.zeros_like(value)), f"_{name}": mask.copy()}
    return pairs


def _draw_seed(generator: np.random.Generator) -> int:
    return int(generator.integers(SEEDS))


def _any_seed(seed: int | None) -> int:
    return _draw_seed(np.random.default_rng()) if seed is None else seed


def _seeds(seeds: Any, count: int) -> list[int] | None:
    """Seeds of as many environments.

    Raises:
        EmbodiedError: they are more or fewer, or no whole numbers of at least 0.
    """
    if seeds is None:
        return None
    if not isinstance(seeds, Sequence | np.ndarray) or isinstance(seeds, str | bytes):
        raise EmbodiedError(f"seed={seeds!r:.80}; expected a whole number, or one for each environment")
    if len(seeds) != count:
        raise EmbodiedError(f"{len(seeds)} seeds; expected {count}, one for each environment")
    return [whole_number("seed", seed, 0) for seed in seeds]


def _check_use(closed: bool, options: Mapping[str, Any] | None = None) -> None:
    if closed:
        raise ClosedEnvironmentError("the environment was closed; make another one")
    check_options(options)
    if options:
        raise EmbodiedError(f"unknown reset option {next(iter(options))!r}; this environment has no reset options")


def check_options(options: Any) -> None:
    """Refuse what are no options of a reset.

    Raises:
        EmbodiedError: it is neither None nor a mapping.
    """
    if options is not None and not isinstance(options, Mapping):
        raise EmbodiedError(f"options={options!r:.80}; expected a mapping, which is empty: there are no reset options")


def check_render_mode(mode: str | None) -> str | None:
    """`mode`, if it is None or can be drawn.

    Raises:
        UnknownNameError: it cannot.
    """
    if mode is not None and mode not in RENDER_MODES:
        raise UnknownNameError("render mode", mode, RENDER_MODES)
    return mode
