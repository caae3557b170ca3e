"""`make`: environments by a task's name, and `functional`: one as pure functions."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import torch

from embodied.core.episode import SEEDS
from embodied.core.hooks import place_of
from embodied.core.task import KEPT, Task, TaskWrapper
from embodied.engines import ENGINES, FUSED, make_engine
from embodied.engines.base import first_device, sees_nvidia_gpu
from embodied.env.env import Env
from embodied.env.functional import FunctionalEnv
from embodied.env.options import EnvOptions, Wrapper, with_options
from embodied.env.registry import TaskEntry, join_content
from embodied.errors import EmbodiedError, EngineError, UnknownNameError, whole_number
from embodied.rendering.camera_config import CameraConfig
from embodied.rendering.visual_randomization import shift_terms
from embodied.storage.configs import override

Change = Callable[[Task[Any]], Task[Any]]
MOST_ENVS = 1 << 24  # environments of one process, 16.8 M: a thousand times what the largest GPU has held


def make(
    name: str,
    num_envs: int = 1,
    engine: str | None = None,
    seed: int = 0,
    *,
    device: torch.device | str | None = None,
    config: Any = None,
    engine_options: Mapping[str, Any] | None = None,
    wrappers: Sequence[Change] = (),
    cameras: str | Sequence[str] = (),
    **options: Any,
) -> Env:
    """Build `num_envs` environments of the task `name`.

    Environments of the same task and config share the task object and its compiled programs: change its model by
    `wrappers`, such as `lambda task: task.rebuilt([edit])`, not in place.

    Args:
        name: Task, `family/name`; `python -m embodied.list` prints them.
        num_envs: Number of environments that step together.
        engine: Physics engine; by default the best that runs the task on this machine.
        seed: Seed of every random draw.
        device: Where torch tensors live; by default with the engine.
        config: The task's config, one of a type that it extends, or a mapping of the fields that differ; `options`
            replace single fields, too.
        engine_options: Options of the engine, such as `{"impl": "jax"}` for mjx or `{"threads": 1}` for mujoco.
        wrappers: Further changes of the task, innermost first, such as `lambda task: task.without(rewards=["spin"])`.
        cameras: Names of cameras that are observed, each as a group `pixels/<camera>` of (N, 3, height, width) uint8.
        **options: Fields of the task's config; of the cameras (`embodied.rendering.camera_config.CameraConfig`):
            `resolution`, `visual_shift`, `visual_terms`, `shadows`; of changes that also commands offer
            (`embodied.env.options`, `sim2real.twins.flags`): `calibration`, `calibration_width`, `initial_states`,
            `initial_states_share`, `episode_steps`, `episodes_per_trial`.

    Raises:
        EmbodiedError: an unknown task, engine, field, camera or shift, an engine that does not run the task, no
            environments, or a device that is not there; says what was given and what exists.
    """
    entry = join_content()[name]
    for argument, value, kind, expected in (
        ("wrappers", wrappers, Iterable, "a list of changes of the task"),
        ("cameras", cameras, Iterable, "a camera's name, or a list of them"),
        ("engine_options", engine_options or {}, Mapping, "a mapping of names"),
    ):
        if not isinstance(value, kind) or (kind is Mapping and any(not isinstance(key, str) for key in value)):
            raise EmbodiedError(f"{argument}={value!r}; expected {expected}")
    names = (cameras,) if isinstance(cameras, str) else tuple(cameras)
    on = None if device is None else str(device)
    given = EnvOptions[Any](
        name, num_envs, engine, seed, on, engine_options or {}, CameraConfig(names), config=config_of(entry, config)
    )
    return build(with_options(given, options), wrappers)


def build(options: EnvOptions[Any], changes: Sequence[Change] = ()) -> Env:
    """Build the environments of one task.

    Args:
        options: What they are.
        changes: Further changes of the task, innermost first; those of the robot come before, all others after them.

    Raises:
        EmbodiedError: as of `make`.
    """
    entry = join_content()[options.task]
    num_envs = whole_number("num_envs", options.num_envs, 1)
    if num_envs > MOST_ENVS:
        raise EmbodiedError(f"num_envs={num_envs}; expected at most {MOST_ENVS:,} in one process")
    seed = whole_number("seed", options.seed, 0, SEEDS - 1)
    check_device(options.device)
    first_device()  # every engine computes the task by JAX
    if jax.config.read("jax_enable_x64"):
        raise EmbodiedError(
            "JAX computes with 64 bits (JAX_ENABLE_X64, or jax.config), tasks and engines with 32; unset it, or call "
            "jax.config.update('jax_enable_x64', False)"
        )
    task = configured(entry, options.config)
    engine = engine_of(entry, options.engine)
    given: list[Wrapper] = list(options.wrappers)
    of_robot, others = [one for one in given if one.of_robot], [one for one in given if not one.of_robot]
    for wrapper in (*of_robot, *changes, *others):
        whole = isinstance(wrapper, type) and issubclass(wrapper, Task) and not issubclass(wrapper, TaskWrapper)
        if not callable(wrapper) or whole:
            raise EmbodiedError(f"wrappers contain {wrapper!r:.80}; expected functions from a task to a task")
        task = _kept_wrapper(wrapper, task) if _is_pure(wrapper) else wrapper(task)
        if not isinstance(task, Task):
            raise EmbodiedError(f"the wrapper {wrapper!r} returned {task!r:.80}; expected the changed task")
    built = engine_for(engine, task, num_envs, options.engine_options)
    observed = _observed(options.camera_config, task)
    return Env(task, built, num_envs, seed=seed, device=options.device, entry=entry, camera_config=observed)


def engine_of(entry: TaskEntry, name: str | None) -> str:
    """The engine of a task: the named one, else the best on this machine.

    Raises:
        EmbodiedError: it does not exist, or does not run the task.
    """
    engine = name or default_engine(entry)
    if not isinstance(engine, str) or engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    if engine not in entry.engines:
        raise EngineError(f"engine {engine!r} does not run {entry.name!r}; it runs on {', '.join(entry.engines)}")
    return engine


def _is_pure(wrapper: Change) -> bool:
    """Whether a change depends on its options alone: not on a file, nor on what a caller's function refers to."""
    if isinstance(wrapper, Wrapper):
        return not any(isinstance(getattr(wrapper, field.name), Path) for field in dataclasses.fields(wrapper))
    return isinstance(wrapper, type)


def _observed(config: CameraConfig, task: Task[Any]) -> CameraConfig | None:
    """The cameras with their shift in terms; None without cameras."""
    shift, model = config.visual_shift, task.visual_model
    if not config.cameras:
        return None
    shifts = shift_terms(shift, model, config.cameras) if shift else ()
    terms = (*config.visual_terms, *shifts)
    return dataclasses.replace(config, visual_shift=None, visual_terms=terms)


def functional(name: str, engine: str | None = None, *, num_envs: int = 1, **options: Any) -> FunctionalEnv:
    """Build one environment of the task `name` as pure functions of its state, for `jax.jit`, `vmap`, `scan`, `grad`.

    Args:
        name: Task, `family/name`.
        engine: A fused engine: `rigid` (gradients go through it), `mjx` or `brax`; by default the first of these that
            runs the task.
        num_envs: Number that steps together under `jax.vmap`. Only for MJX-Warp: they share its buffers.
        **options: Other options of `make` for task and physics: config, engine_options, wrappers, single fields ...

    Raises:
        EmbodiedError: as of `make`; the engine is not a fused one, the task runs on none, or cameras were asked for.
    """
    entry = join_content()[name]
    fused = [known for known in FUSED if known in entry.engines]
    if isinstance(engine, str) and engine in ENGINES and engine not in FUSED:
        raise EngineError(f"engine {engine!r} is no program of JAX; functional expects one of {', '.join(FUSED)}")
    if engine is None and not fused:
        raise EngineError(f"{name!r} runs on {', '.join(entry.engines)}; functional expects one of {', '.join(FUSED)}")
    env = make(name, num_envs, fused[0] if engine is None else engine, **options)
    if env.cameras is not None:
        raise EmbodiedError("functional draws no pictures; use embodied.make for observations of cameras")
    return FunctionalEnv(env.task, env.engine)


def config_of(entry: TaskEntry, config: Any = None) -> Any:
    """The config of a task from one of a type that it extends, or a mapping of the fields that differ; None: its own.

    Raises:
        EmbodiedError: as of `override`, or a config of another type.
    """
    kind = entry.load().config_type
    if config is None or isinstance(config, Mapping):
        return override(kind(), config or {})
    found = extended(config, kind)
    if not isinstance(found, kind):
        raise EmbodiedError(f"config={config!r:.80}; expected a {kind.__name__}, or a mapping of its fields")
    return found


def configured(entry: TaskEntry, config: Any = None) -> Task[Any]:
    """The task with a config, as of `config_of`."""
    task = _as_before(entry.load(), config_of(entry, config))
    _ = task.terms  # refuses variations to leave out that the task does not have
    return task


def _as_before(kind: type[Task[Any]], config: Any) -> Task[Any]:
    """A task of a config: the existing object where there is one, whose compiled programs are then used again."""
    signature = inspect.signature(kind)
    try:
        signature.bind(config)
    except TypeError as error:
        raise EmbodiedError(
            f"{place_of(kind)}{kind.__name__} takes {signature}, not a config alone ({error})"
        ) from None
    changes = Path(getattr(config, "robot", "")).is_absolute()  # a file's content may have changed
    if changes or not _is_hashable(config):
        return kind(config)
    task, model = _kept_task(kind, config)
    return task if _digest(task.model) == model else kind(config)  # its numbers may have been changed


@functools.lru_cache(maxsize=KEPT)
def _kept_task(kind: type[Task[Any]], config: Any) -> tuple[Task[Any], bytes]:
    """A task, and its model as it was made."""
    task = kind(config)
    return task, _digest(task.model)


@functools.lru_cache(maxsize=KEPT)
def _kept_wrapper(wrapper: Change, task: Task[Any]) -> Task[Any]:
    return wrapper(task)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _digest(model: mujoco.MjModel) -> bytes:
    """Hash of all numbers of a model."""
    saved = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, saved)
    return hashlib.sha256(saved.tobytes()).digest()


def engine_for(name: str, task: Task[Any], num_envs: int, options: Mapping[str, Any]) -> Any:
    """An engine; one of pure functions is the existing object, whose compiled programs are then used again.

    Raises:
        UnknownNameError, EngineError: as of `make_engine`.
    """
    told = tuple(options.items())
    if name not in FUSED or not _is_hashable(told):
        return make_engine(name, task, num_envs, **options)
    return _kept_engine(name, task, num_envs, told)


@functools.lru_cache(maxsize=KEPT)
def _kept_engine(name: str, task: Task[Any], num_envs: int, options: tuple[tuple[str, Any], ...]) -> Any:
    return make_engine(name, task, num_envs, **dict(options))


def extended(config: Any, kind: type[Any]) -> Any:
    """`config` as one of `kind`, if that extends its type; fields that nobody set have the defaults of `kind`."""
    if isinstance(config, kind) or not issubclass(kind, type(config)):
        return config
    before = type(config)()
    given = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return kind(**{name: value for name, value in given.items() if value != getattr(before, name)})


def default_engine(entry: TaskEntry) -> str:
    """The first of the task's engines that fits the machine: without an NVIDIA GPU that JAX sees, MJX comes last."""
    gpu = sees_nvidia_gpu()
    if gpu != torch.cuda.is_available():
        warn_of_two_devices(gpu)
    if gpu and "mjx" in entry.engines and "rigid" not in entry.engines:
        return "mjx"
    return next((engine for engine in entry.engines if engine != "mjx"), entry.engines[0])


@functools.cache
def warn_of_two_devices(jax_sees_gpu: bool) -> None:
    """Warn once that physics and policies will compute on different devices, with the fix."""
    sees, blind = ("JAX", "torch") if jax_sees_gpu else ("torch", "JAX")
    where = "policies learn" if jax_sees_gpu else "physics runs"
    fix = "a build of torch for CUDA" if jax_sees_gpu else 'pip install -U "jax[cuda13]"'
    print(f"warning: {sees} sees a GPU, {blind} does not: {where} on the CPU; {fix} fixes it", file=sys.stderr)


def check_device(device: torch.device | str | None) -> None:
    """Check that a requested device exists.

    Raises:
        EmbodiedError: it does not; says what does.
    """
    if device is None:
        return
    try:
        wanted = torch.device(device)
    except RuntimeError:
        wanted = None
    if wanted is None or wanted.type not in ("cpu", "cuda") or (wanted.type == "cpu" and wanted.index):
        raise EmbodiedError(f"unknown device {str(device)!r}; expected 'cpu', 'cuda' or 'cuda:N'")
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise EmbodiedError(f"device {str(device)!r} was asked for, but torch sees no GPU here; this machine has: cpu")
    if wanted.type == "cuda" and (wanted.index or 0) >= torch.cuda.device_count():
        raise EmbodiedError(f"device {str(device)!r} was asked for, but there are {torch.cuda.device_count()} GPUs")
