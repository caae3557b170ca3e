"""Demonstrations: episodes of a script or a policy in many environments at once, with images and instructions.

Noise is added to executed actions, but not to those that are recorded, so the demonstrations show recovery from states
that a clone will reach by its own errors: DART (Laskey et al., "DART: Noise Injection for Robust Imitation
Learning", CoRL 2017, arXiv:1703.09327), with a standard deviation that is drawn for each episode instead of fitted.
Noise that is correlated over some steps leads away as a clone's errors do; what is drawn anew cancels out within a few.

Images are rendered afterwards, of the steps that are kept only, so that many environments can wait for the slowest. A
policy with cameras gets its own as it acts.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import torch
from jax import Array
from torch import Tensor

from embodied.core.facets import Pictures
from embodied.core.hooks import PIXELS, PROPRIO
from embodied.core.instruction import Instruction
from embodied.core.task import Task
from embodied.core.world import World
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction, vector_sizes
from embodied.env.wrappers.instructions import instructions_of
from embodied.errors import EmbodiedError, listing
from embodied.rendering.projection import Projector
from embodied.rendering.render_state import RenderState
from embodied.storage.datasets.episode import Episode


@dataclasses.dataclass(frozen=True)
class CollectConfig:
    """Recording options of one task."""

    episodes: int = 50
    """Number of episodes."""
    noise: float = 0.2
    """Largest standard deviation of the noise on actions, which are in [-1, 1]; each episode draws its own from 0 to
    this. 0: none."""
    noise_correlation: float = 0.0
    """Control steps after which the noise has forgotten what it was (its correlation has fallen to 1/e); 0: every step
    draws anew. The longer, the farther it leads away from where the policy would be."""
    hold: int = 10
    """Control steps that an episode goes on after success."""
    failures: bool = False
    """Keep, and mark, episodes without success."""
    attempts: int = 4
    """Episodes tried at most for each that is asked for."""
    state: str = PROPRIO
    """Observation group that is recorded as the state."""
    seed: int = 2000
    """Of initial states and noise. Benchmarks are evaluated with seed 0, single tasks with 1000."""

    def __post_init__(self) -> None:
        if min(self.episodes, self.attempts) < 1 or self.hold < 0 or not 0 <= self.noise <= 1:
            raise EmbodiedError(
                f"episodes={self.episodes}, attempts={self.attempts}, hold={self.hold}, noise={self.noise}; "
                "expected at least 1, 1 and 0, and noise from 0 to 1"
            )
        if not 0 <= self.noise_correlation < math.inf:
            raise EmbodiedError(f"noise_correlation={self.noise_correlation}; expected control steps, 0 or more")


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """One recorded episode."""

    episode: Episode
    noise: float
    """Standard deviation of the noise on its actions."""
    tried: int
    """Episodes tried up to this one."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """One episode of each of N environments, T steps of the longest."""

    states: np.ndarray
    """(T, N, S) float32."""
    keypoints: np.ndarray
    """(T, N, K, 3) m, world frame: `Pictures.keypoints`."""
    actions: np.ndarray
    """(T, N, A) float32, without noise."""
    render_states: RenderState
    """(T, N, ...) numpy arrays."""
    lengths: np.ndarray
    """(N,) control steps."""
    success: np.ndarray
    """(N,) bool, success at any step."""
    noise: np.ndarray
    """(N,) standard deviation of the noise."""
    instructions: tuple[Instruction, ...]
    finished: np.ndarray
    """(N,) bool; the others were abandoned when enough before them had finished."""


@torch.no_grad()
def collect(
    env: Env,
    policy: PolicyFunction,
    config: CollectConfig,
    on_step: Callable[[int, int], object] = lambda kept, step: None,
    begun: Sequence[int] = (),
) -> Iterator[Demonstration]:
    """Episodes of one task, in an order that does not depend on how many environments run or which is faster.

    Args:
        env: With cameras; it is reset.
        policy: Its actions are clipped to [-1, 1]; images that it does not read are not rendered.
        config: Number and kind of the episodes.
        on_step: Called after each control step with the number of demonstrations so far, and that of the step.
        begun: `Demonstration.tried` of those that there are already: only those after them are yielded. As many
            environments must run.

    Raises:
        EmbodiedError: the environment has no cameras, many agents, or not the group of the state; or too few succeeded.
    """
    require_recordable(env, config.state)
    keypoints_of = jax.jit(jax.vmap((env.task.pictures or Pictures()).keypoints))
    there = begun[-1] if begun else 0
    round_number = (there - 1) // env.num_envs if there else 0
    tried = round_number * env.num_envs
    kept = sum(number <= tried for number in begun)
    while len(begun) < config.episodes and kept < config.episodes:
        seed = round_seed(config.seed, round_number)
        wanted, on_one = config.episodes - kept, functools.partial(on_step, kept)
        done = record_episodes(env, policy, config, seed, wanted, keypoints_of, on_one)
        for place in range(env.num_envs):
            if kept == config.episodes or not done.finished[place]:
                break
            tried += 1
            if done.success[place] or config.failures:
                # In turn, so that every paraphrase is used equally often.
                texts = done.instructions[place].paraphrases
                told, kept = texts[kept % len(texts)], kept + 1
                if tried > there:
                    episode = episode_of(env, done, place, told, seed)
                    yield Demonstration(episode, float(done.noise[place]), tried)
        if tried >= config.attempts * config.episodes > kept:
            raise EmbodiedError(
                f"{kept} of {tried} episodes of '{env.name}' succeeded, fewer than the {config.episodes} that were "
                "asked for; ask for fewer, for less noise, or keep failures too"
            )
        round_number += 1


def require_recordable(env: Env, state: str) -> None:
    """Check that an environment can be recorded.

    Raises:
        EmbodiedError: it cannot; says what it lacks and what it has.
    """
    if env.agents is not None:
        raise EmbodiedError(f"'{env.name}' has many agents; demonstrations are of one robot")
    if env.cameras is None:
        raise EmbodiedError(f"'{env.name}' was made without cameras; expected make(..., cameras=...)")
    if state not in (sizes := vector_sizes(env.observation_spec)):
        raise EmbodiedError(
            f"'{env.name}' has no observation group '{state}' to record as the state; it has {listing(sizes)}"
        )


def round_seed(seed: int, number: int) -> int:
    """The seed of a round of episodes: `seed` itself for the first, others far from any near it."""
    return seed if number == 0 else int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)


def record_episodes(
    env: Env,
    policy: PolicyFunction,
    config: CollectConfig,
    seed: int,
    wanted: int,
    keypoints_of: Callable[[World, Any], Mapping[str, Array]],
    on_step: Callable[[int], object],
) -> Recording:
    """One episode in every environment, or as many as are needed for the first `wanted` to be known.

    `keypoints_of` is `Pictures.keypoints` of all environments, compiled.
    """
    count, device = env.num_envs, env.device
    # A generator for each environment: the noise of one does not depend on how many there are.
    generators = [np.random.default_rng([seed, place]) for place in range(count)]
    noise = np.array([generator.uniform(0.0, config.noise) for generator in generators])
    disturbances = _correlated(generators, env.action_size, config.noise_correlation)
    obs = env.reset(seed)
    instructions = tuple(instructions_of(env))
    solved, finished = np.zeros(count, bool), np.zeros(count, bool)
    since, lengths = np.zeros(count, int), np.zeros(count, int)
    states, keypoints, actions, render_states = [], [], [], []
    while not finished.all() and not _enough(finished, solved | config.failures, wanted):
        action = policy(obs).clamp(-1.0, 1.0)
        states.append(_copied(obs[config.state]))
        places = keypoints_of(env.world(), env.task_state)
        keypoints.append(np.stack(list(places.values()), 1) if places else np.zeros((count, 0, 3)))
        actions.append(_copied(action))
        render_states.append(jax.tree.map(np.asarray, env.render_state()))
        disturbance = torch.as_tensor(noise[:, None] * next(disturbances), dtype=action.dtype, device=device)
        step = env.step((action + disturbance).clamp(-1.0, 1.0))
        obs = step.obs
        lengths += ~finished
        since += solved & ~finished
        solved |= _copied(step.success) & ~finished
        finished |= _copied(step.done) | (solved & (since >= config.hold))
        on_step(len(states))
    return Recording(
        states=np.stack(states),
        keypoints=np.stack(keypoints),
        actions=np.stack(actions),
        render_states=jax.tree.map(lambda *leaves: np.stack(leaves), *render_states),
        lengths=lengths,
        success=solved,
        noise=noise,
        instructions=instructions,
        finished=finished,
    )


def _correlated(generators: Sequence[np.random.Generator], size: int, steps: float) -> Iterator[np.ndarray]:
    """Standard normal numbers (N, size) for step after step, a generator for each row, correlated over `steps` steps.

    An Ornstein-Uhlenbeck process at discrete times (Uhlenbeck and Ornstein 1930), stationary from the first on.
    """
    share = math.exp(-1.0 / steps) if steps else 0.0
    draw = lambda: np.stack([generator.standard_normal(size) for generator in generators])  # noqa: E731
    state = draw()
    while True:
        yield state
        state = share * state + math.sqrt(1.0 - share**2) * draw()


def episode_of(env: Env, recording: Recording, place: int, instruction: str, seed: int) -> Episode:
    """The episode of one environment, with images."""
    length = int(recording.lengths[place])
    render_states = jax.tree.map(lambda leaf: leaf[:length, place], recording.render_states)
    return Episode(
        task=env.name,
        instruction=instruction,
        images=render(env, render_states, length),
        state=recording.states[:length, place],
        action=recording.actions[:length, place],
        success=bool(recording.success[place]),
        seed=seed,
        keypoints=seen_keypoints(env, render_states, recording.keypoints[:length, place]),
    )


def keypoint_names(task: Task[Any]) -> tuple[str, ...]:
    """Names of the task's keypoints, in alphabetical order as JAX returns them."""
    if task.pictures is None:
        return ()
    state = jax.eval_shape(task.reset, jax.ShapeDtypeStruct((2,), np.uint32)).task_state
    return tuple(jax.eval_shape(task.pictures.keypoints, jax.eval_shape(lambda: World.zeros(task.model)), state))


def seen_keypoints(env: Env, states: RenderState, points: np.ndarray) -> dict[str, np.ndarray]:
    """Camera -> (T, 2 K) float32, where it sees points (T, K, 3) m of the world frame; see `Episode.keypoints`."""
    assert env.cameras is not None
    if not points.shape[1]:
        return {}
    config = env.cameras.config
    shares = Projector(env.task.visual_model, config.cameras, config.size).project(states, points)
    return {camera: rows.reshape(len(rows), -1) for camera, rows in shares.items()}


def render(env: Env, render_states: RenderState, length: int) -> dict[str, np.ndarray]:
    """Camera -> (length, H, W, 3) uint8 of steps, rendered as many at a time as there are environments."""
    assert env.cameras is not None
    parts: dict[str, list[np.ndarray]] = {}
    for first in range(0, length, env.num_envs):
        batch = jax.tree.map(lambda leaf, first=first: leaf[first : min(length, first + env.num_envs)], render_states)
        for group, pixels in env.cameras.render(batch).items():
            parts.setdefault(group.removeprefix(PIXELS), []).append(pixels.permute(0, 2, 3, 1).cpu().numpy())
    return {camera: np.ascontiguousarray(np.concatenate(seen)) for camera, seen in parts.items()}


def _enough(finished: np.ndarray, counted: np.ndarray, wanted: int) -> bool:
    """Whether the first `wanted` that count are known, however those still running behind them end.

    Taking whichever finish first would favour short episodes.
    """
    known = int(np.argmin(finished)) if not finished.all() else len(finished)
    return int(np.sum(counted[:known])) >= wanted


def _copied(values: Tensor) -> np.ndarray:
    """A copy as numpy array, since the environment reuses its buffers."""
    return values.cpu().numpy().copy()
