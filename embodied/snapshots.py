"""`python -m embodied.snapshots`: moments of a teacher's episodes, as initial states to train from.

A teacher reaches every time what a policy finds only after thousands of tries: a grasp, a door ajar. Episodes
that begin on its way are solved in a few steps, those before in a few more, and learning works itself back to the
task's own initial states. The teacher's actions are unused. After SnapshotRL, and Salimans and Chen, arXiv:1812.03381.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from embodied import cli
from embodied.core.initial_states import InitialStateBuffer, buffer_path, first_reset_states, save
from embodied.core.world import ResetState
from embodied.env.env import Env
from embodied.env.options import EnvOptions, NoConfig
from embodied.env.registry import Suite, join_content
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard
from policies.training.loading import load_policy, with_needs

AFTER = 10  # control steps after success that still count, as moments of arrival


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(EnvOptions[NoConfig]):
    """Write moments of a teacher's episodes as initial states to train from, for a task or for every task of a suite.

    python -m embodied.snapshots mt10 --out initial-states
    python -m embodied.train mt10 --initial-states initial-states
    """

    out: Path
    """Folder for TASK.safetensors."""
    policy: str = "expert"
    """The teacher: expert, shipped, a run folder or a checkpoint."""
    count: int = 2000
    """Number of moments of each task."""
    num_envs: int = 50
    """Episodes that the teacher plays of each task."""
    seed: int = 0
    """Of the episodes and of the choice of moments."""
    config: NoConfig = dataclasses.field(default_factory=NoConfig)
    """The tasks' own options are those of the suite, or the defaults."""


@guard
def main(arguments: list[str] | None = None) -> int:
    from embodied.env.factory import build
    from embodied.evaluation.suites import of_task

    settings = cli.parse(Settings, arguments, "snapshots")
    named = join_content().find(settings.task)
    tasks = named.tasks if isinstance(named, Suite) else (named.name,)
    config = named.shared_config(training=True) if isinstance(named, Suite) else None
    with cli.Line("snapshots", len(tasks)) as line:
        for number, task in enumerate(tasks):
            own = join_content()[task].load().config_type() if config is None else config
            options: EnvOptions[Any] = dataclasses.replace(settings, task=task, config=own)
            env = build(of_task(with_needs(options, settings.policy), task, settings.num_envs, settings.seed))
            buffer = snapshots(env, load_policy(settings.policy, env), settings.count, settings.seed)
            path = buffer_path(settings.out, task)
            save(path, buffer)
            line.update(number + 1, f"{task} -> {path}")
    cli.say(f"Train there:  python -m embodied.train {settings.task} --initial-states {settings.out}")
    return 0


def snapshots(env: Env, policy: PolicyFunction, count: int, seed: int = 0) -> InitialStateBuffer:
    """Moments of first episodes that a policy solves, drawn evenly from their beginnings to shortly after success.

    Args:
        env: Plays one episode in each environment, from the initial states of `seed`.
        policy: The teacher.
        count: Number of moments.
        seed: Of the initial states and of the choice.

    Raises:
        EmbodiedError: no episode was solved.
    """
    reset_states = first_reset_states(env.task, seed, env.num_envs)
    obs = env.reset(seed)
    moments: list[ResetState[Any]] = []
    solved_at = np.full(env.num_envs, -1)
    last = np.full(env.num_envs, env.max_episode_steps)
    for moment in range(env.max_episode_steps - 1):
        moments.append(_now(env, reset_states))
        step = env.step(policy(obs))
        obs = step.obs
        running = last > moment
        solved = step.success.cpu().numpy() & running & (solved_at < 0)
        solved_at[solved], last[solved] = moment, moment + AFTER
        # What follows the end is another episode's.
        ended = step.done.cpu().numpy() & running
        last[ended] = moment
        if (last <= moment).all():
            break
    solved = np.flatnonzero(solved_at >= 0)
    if not len(solved):
        raise EmbodiedError(
            f"the teacher solved none of {env.num_envs} episodes of '{env.name}'; there is nothing to show"
        )
    return _chosen(moments, solved, np.minimum(last, len(moments) - 1), count, np.random.default_rng(seed))


def _now(env: Env, begun: ResetState[Any]) -> ResetState[Any]:
    """The environments' present state as reset states; what an episode keeps, such as physics, is that of `begun`."""
    world = env.world()
    state = jax.tree.map(np.asarray, env.task_state)
    return dataclasses.replace(begun, qpos=np.asarray(world.qpos), qvel=np.asarray(world.qvel), task_state=state)


def _chosen(
    moments: list[ResetState[Any]], solved: np.ndarray, last: np.ndarray, count: int, rng: np.random.Generator
) -> InitialStateBuffer:
    """`count` moments, each of a solved environment at a time up to its `last`."""
    who = rng.choice(solved, count)
    when = (rng.random(count) * (last[who] + 1)).astype(int)
    pick: Callable[..., np.ndarray] = lambda *leaves: np.stack([leaves[t][i] for t, i in zip(when, who, strict=True)])  # noqa: E731
    return InitialStateBuffer(jax.tree.map(pick, *moments), np.ones(count))


if __name__ == "__main__":
    sys.exit(main())
