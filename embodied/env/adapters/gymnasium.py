"""`Env` as a Gymnasium vector environment, as a single Gymnasium environment, and by Gymnasium id.

Everything that leaves is numpy and the caller's own: nothing is reused or shared with the simulation.
Actions may come in any real dtype; what lies outside [-1, 1] is clipped.

    embodied.env.adapters.register_gymnasium()
    gymnasium.make("embodied/swarm-hover-v0", render_mode="rgb_array")
    gymnasium.make_vec("embodied/swarm-hover-v0", num_envs=64, engine="rigid", seed=0)

Importing `embodied.env.adapters.gymnasium_ids` registers too, so that an id can name it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from embodied.env.env import Env
from embodied.env.step import Step
from embodied.env.vec_env import vector_sizes
from embodied.errors import ActionError, EmbodiedError, UnknownNameError
from embodied.factory import default_engine, make
from embodied.registry import join_content

if TYPE_CHECKING:
    from embodied.rendering.pictures import Renderer

NAMESPACE = "embodied"
VERSION = 0
SEEDS = 2**32  # JAX tells this many seeds apart
RENDER_MODES = ("rgb_array",)


class GymnasiumVectorEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """The N environments of an `Env` behind Gymnasium's vector interface, with same-step autoreset.

    Observations are (N, size) float32 of one observation group, rewards (N,) float32, terminations and
    truncations (N,) bool. Every entry of the infos has its mask of the same name with a leading underscore:

    - `success` (N,) bool, solved at this instant, of the environments whose episode goes on;
    - where an episode ended, `final_obs` (N,) of objects: the (size,) observation the step led to, else None;
    - and `final_info`, (N,) each: `success` (at the last step), `success_any`, `diverged`, the episode's mean of
      each of the task's metrics, and `episode` with `r` the return, `l` the length in steps and `t` the seconds
      it took, as Gymnasium's own `RecordEpisodeStatistics` gives them.
    """

    def __init__(self, env: Env, group: str = "policy", render_mode: str | None = None) -> None:
        """Take over `env`; nothing else may step it.

        Args:
            env: From `embodied.make`.
            group: The observation group to show, `policy` or what else the task offers.
            render_mode: `rgb_array` where `render` will be called.

        Raises:
            UnknownNameError: the task has no such observation group, or there is no such render mode.
        """
        self.env, self.group, self.num_envs = env, group, env.num_envs
        self.single_observation_space = observation_space(env, group)
        self.single_action_space = action_space(env)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.metadata = {**metadata(env), "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = _check_render_mode(render_mode)
        self._renderer: Renderer | None = None
        self._began: NDArray[np.float64] | None = None  # s on the performance counter, per episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start every environment afresh.

        Args:
            seed: The same seed gives the same episodes. Without one the first reset takes the seed that `env` was
                made with, and each later one draws new episodes.
            options: None exist.

        Raises:
            EmbodiedError: an option was given.
        """
        _check_use(self.closed, options)
        if seed is None and self._np_random is None:
            seed = self.env.seed
        super().reset(seed=seed)
        observation = self.env.reset(_draw_seed(self.np_random) if seed is None else seed % SEEDS)
        self._began = np.full(self.num_envs, time.perf_counter())
        return as_array(observation[self.group]), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Advance every environment under `actions` (N, action_size); see the class for what comes back.

        Raises:
            ResetNeeded: `reset` was never called.
            ActionError: wrong shape, or not finite.
        """
        _check_use(self.closed)
        if self._began is None:
            raise ResetNeeded("step() before reset(): call reset() once first")
        step = self.env.step(as_tensor(actions))
        terminations, truncations = as_array(step.terminated), as_array(step.truncated)
        done = terminations | truncations
        infos: dict[str, Any] = {"success": as_array(step.success) & ~done, "_success": ~done}
        if done.any():
            infos |= {"final_obs": self._final_obs(step, done), "_final_obs": done.copy()}
            infos |= {"final_info": self._final_info(step, done, self._began), "_final_info": done.copy()}
            self._began[done] = time.perf_counter()
        return as_array(step.obs[self.group]), as_array(step.reward), terminations, truncations, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One picture (height, width, 3) per environment, or None where no render mode was chosen.

        Raises:
            ResetNeeded: `reset` was never called.
            EmbodiedError: nothing on this machine can draw.
        """
        _check_use(self.closed)
        if not _will_render(self.render_mode, self._began is not None):
            return None
        self._renderer = self._renderer or make_renderer(self.env)
        state = self._renderer.scene_reader.read()
        return tuple(self._renderer.frame(index, state=state) for index in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        del kwargs
        if self._renderer is not None:
            self._renderer.close()
        self.env.close()

    def _final_obs(self, step: Step, done: NDArray[np.bool_]) -> NDArray[np.object_]:
        rows = as_array(step.final_obs[self.group])
        final = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(done):
            final[index] = rows[index].copy()
        return final

    def _final_info(self, step: Step, done: NDArray[np.bool_], began: NDArray[np.float64]) -> dict[str, Any]:
        seconds = np.round(time.perf_counter() - began, 6)
        episode = {"r": as_array(step.info["return"]), "l": as_array(step.info["length"]), "t": seconds}
        summary = {name: as_array(value) for name, value in episode_summary(step).items()}
        return {**_masked(summary, done), "episode": _masked(episode, done), "_episode": done.copy()}


class GymnasiumEnv(gymnasium.Env[NDArray[Any], NDArray[Any]]):
    """One environment behind Gymnasium's interface; the caller resets it.

    Observations are (size,) float32. The info of a step holds `success` (solved at this instant); that of an
    episode's last step also `success_any`, `diverged` and the episode's mean of each of the task's metrics.

    With the same seed and actions it lives through the same episodes as environment 0 of a vector environment: the
    reset after an episode's end takes up the fresh episode that `Env` has already drawn.
    """

    def __init__(self, env: Env, group: str = "policy", render_mode: str | None = None) -> None:
        """Take over `env`, which must hold one environment; nothing else may step it.

        Args:
            env: From `embodied.make` with `num_envs=1`.
            group: The observation group to show, `policy` or what else the task offers.
            render_mode: `rgb_array` where `render` will be called.

        Raises:
            EmbodiedError: `env` holds more than one environment.
            UnknownNameError: the task has no such observation group, or there is no such render mode.
        """
        if env.num_envs != 1:
            raise EmbodiedError(f"num_envs={env.num_envs}; GymnasiumEnv expects 1, GymnasiumVectorEnv takes any number")
        self.env, self.group = env, group
        self.observation_space = observation_space(env, group)
        self.action_space = action_space(env)
        self.metadata = metadata(env)
        self.render_mode = _check_render_mode(render_mode)
        self._renderer: Renderer | None = None
        self._closed = False
        self._running = False
        self._following: NDArray[np.float32] | None = None  # first observation of an episode that is already drawn

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin a fresh episode.

        Args:
            seed: The same seed gives the same episodes. Without one the first reset takes the seed that `env` was
                made with, and each later one draws a new episode.
            options: None exist.

        Raises:
            EmbodiedError: an option was given.
        """
        _check_use(self._closed, options)
        if seed is None and self._np_random is None:
            seed = self.env.seed
        super().reset(seed=seed)
        following, self._following, self._running = self._following, None, True
        if seed is None and following is not None:
            return following, {}
        observation = self.env.reset(_draw_seed(self.np_random) if seed is None else seed % SEEDS)
        return as_array(observation[self.group])[0], {}

    def step(self, action: ArrayLike) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
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
        step = self.env.step(tensor[None])
        terminated, truncated = bool(step.terminated), bool(step.truncated)
        info: dict[str, Any] = {"success": bool(step.success)}
        if terminated or truncated:
            self._running, self._following = False, as_array(step.obs[self.group])[0]
            info = {name: value.item() for name, value in episode_summary(step).items()}
        return as_array(step.final_obs[self.group])[0], float(step.reward), terminated, truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3), or None where no render mode was chosen.

        At an episode's end it shows the start of the next one, which `Env` has already drawn.

        Raises:
            ResetNeeded: `reset` was never called.
            EmbodiedError: nothing on this machine can draw.
        """
        _check_use(self._closed)
        if not _will_render(self.render_mode, self._running or self._following is not None):
            return None
        self._renderer = self._renderer or make_renderer(self.env)
        return self._renderer.frame(0)

    def close(self) -> None:
        """Close `env`; safe to call again."""
        if self._closed:
            return
        if self._renderer is not None:
            self._renderer.close()
        self.env.close()
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
    name: str, *, seed: int | None = None, group: str = "policy", render_mode: str | None = None, **options: Any
) -> GymnasiumEnv:
    """Build one environment; what `gymnasium.make` calls.

    Args:
        name: Task, `family/name`.
        seed: Seed of a first reset without one; by default a random one, so that copies differ as Gymnasium expects.
        group: The observation group to show.
        render_mode: `rgb_array` where `render` will be called.
        **options: Whatever else `embodied.make` takes.
    """
    return GymnasiumEnv(make(name, 1, seed=_any_seed(seed), **options), group, render_mode)


def make_vector(
    name: str,
    *,
    num_envs: int = 1,
    seed: int | None = None,
    group: str = "policy",
    render_mode: str | None = None,
    **options: Any,
) -> GymnasiumVectorEnv:
    """Build a vector environment; what `gymnasium.make_vec` calls.

    Args:
        name: Task, `family/name`.
        num_envs: How many environments step together.
        seed: Seed of a first reset without one; by default a random one, as Gymnasium expects.
        group: The observation group to show.
        render_mode: `rgb_array` where `render` will be called.
        **options: Whatever else `embodied.make` takes.
    """
    return GymnasiumVectorEnv(make(name, num_envs, seed=_any_seed(seed), **options), group, render_mode)


def observation_space(env: Env, group: str) -> Box:
    """(size,) float32 without bounds: what one environment's observation group holds.

    Raises:
        EmbodiedError: the task has many agents.
        UnknownNameError: the task has no such group.
    """
    if env.agents is not None:
        raise EmbodiedError(
            f"this task has {env.agents} agents, and Gymnasium knows one; "
            "use embodied.env.adapters.pettingzoo.parallel_env"
        )
    sizes = vector_sizes(env.observation_spec)
    if group not in sizes:
        raise UnknownNameError("observation group", group, sizes)
    return Box(-np.inf, np.inf, (sizes[group],), np.float32)


def action_space(env: Env) -> Box:
    """(action_size,) float32 in [-1, 1]: one environment's action."""
    return Box(-1.0, 1.0, (env.action_size,), np.float32)


def metadata(env: Env) -> dict[str, Any]:
    """What Gymnasium wants to know of every environment."""
    return {"render_modes": list(RENDER_MODES), "render_fps": round(1 / env.control_dt)}


def make_renderer(env: Env) -> Renderer:
    """What draws `env`. Imported only now: it looks for a graphics driver."""
    from embodied.rendering.pictures import Renderer

    return Renderer(env, size=(640, 360))


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A copy of `tensor` in host state, where its owner may write."""
    return tensor.cpu().numpy().copy()


def as_tensor(action: ArrayLike) -> Tensor:
    """A float32 copy of `action`: the engine may still read it when the caller writes the next one."""
    return torch.tensor(np.asarray(action, np.float32))


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


def _check_use(closed: bool, options: Mapping[str, Any] | None = None) -> None:
    if closed:
        raise ClosedEnvironmentError("the environment was closed; make another one")
    if options:
        raise EmbodiedError(f"unknown reset option {next(iter(options))!r}; this environment has no reset options")


def _check_render_mode(mode: str | None) -> str | None:
    if mode is not None and mode not in RENDER_MODES:
        raise UnknownNameError("render mode", mode, RENDER_MODES)
    return mode


def _will_render(mode: str | None, started: bool) -> bool:
    if mode is None:
        gymnasium.logger.warn("render() without a render mode draws nothing; make it with render_mode='rgb_array'")
    elif not started:
        raise ResetNeeded("render() before reset(): call reset() once first")
    return mode is not None
