"""Checks of whole episodes: what a seed decides, how they begin, end and begin again."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import torch

from embodied.check.findings import Finding, place_of
from embodied.check.observations import actions
from embodied.engines import make_engine
from embodied.env.env import Env
from embodied.env.vec_env import POLICY

CLOSE = 1e-4  # of observations: programs for one environment and for many round differently


def a_seed_decides_everything(env: Env) -> Iterator[Finding]:
    """Two runs of a seed are the same to the last bit, and another seed begins otherwise."""
    runs = []
    for seed in (3, 3, 4):
        first = env.reset(seed=seed)[POLICY].clone()
        steps = [env.step(action) for action in actions(env, 8)]
        runs.append(torch.stack([first, *(step.obs[POLICY] for step in steps)]))
    if not torch.equal(runs[0], runs[1]):
        differ = [number for number in range(len(runs[0])) if not torch.equal(runs[0][number], runs[1][number])]
        yield Finding(
            "a run",
            f"two runs with seed 3 differ from step {differ[0]} on",
            "the same numbers: all random numbers by jax.random from the keys that the hooks are given",
            place_of(env.task, "reset"),
        )
    if torch.equal(runs[0][0], runs[2][0]):
        yield Finding(
            "the first observation", "it is the same with seeds 3 and 4", "another one", place_of(env.task, "reset")
        )


def starts_are_random_across_environments(env: Env) -> Iterator[Finding]:
    """No two environments begin alike: neither what is observed, nor joints and the task's state together."""
    obs = env.reset(seed=2)[POLICY]
    world = env.world()
    joints = np.concatenate([np.asarray(world.qpos), np.asarray(world.qvel)], axis=1)
    drawn = [np.asarray(leaf).reshape(env.num_envs, -1) for leaf in jax.tree.leaves(env.task_state)]
    look = place_of(env.task, "reset")
    for what, rows in (
        (f"the first observation of `{POLICY}`", obs.numpy()),
        ("joints and state at the start", np.concatenate([joints, *drawn], axis=1)),
    ):
        if (count := len(np.unique(rows, axis=0))) != env.num_envs:
            yield Finding(what, f"{env.num_envs} environments have {count} different ones", "another one in each", look)


def success_is_not_failure(env: Env) -> Iterator[Finding]:
    """No step is solved and failed at once; a success that ends the episode has not failed it."""
    if env.task.ends_when_solved:
        return
    env.reset()
    for action in actions(env, 30):
        step = env.step(action)
        if (step.success & step.terminated).any():
            yield Finding(
                "an episode",
                f"environment {int((step.success & step.terminated).nonzero()[0, 0])} was solved and failed at once",
                "success to exclude failure",
                place_of(env.task, "outcome"),
            )
            return


def an_episode_is_truncated_exactly_at_its_time_limit(env: Env) -> Iterator[Finding]:
    """Not a step before, and all that have not failed."""
    limit = env.max_episode_steps
    for taken, ends in ((limit - 2, False), (limit - 1, True)):
        env.reset(seed=0)
        _age(env, taken)
        step = env.step(torch.zeros(env.action_shape))
        right = torch.equal(step.truncated, ~step.terminated) if ends else not step.truncated.any()
        if not right:
            seen = f"after {taken + 1} of {limit} steps {int(step.truncated.sum())} of {env.num_envs} were truncated"
            yield Finding("the time limit", seen, "all that have not failed at the limit, and none before")
        if not (step.info["length"] == taken + 1).all():
            yield Finding("the length of an episode", f"{step.info['length'].tolist()}", f"{taken + 1}")


def an_episode_that_follows_begins_afresh(env: Env) -> Iterator[Finding]:
    """After the time limit episodes begin again at zero steps, elsewhere than those before."""
    first = env.reset(seed=0)[POLICY].clone()
    _age(env, env.max_episode_steps - 1)
    step = env.step(torch.zeros(env.action_shape))
    look = place_of(env.task, "restart")
    if (env.episode_length != 0).any():
        yield Finding("an episode that follows", f"it begins after {env.episode_length.tolist()} steps", "0", look)
    if torch.equal(step.obs[POLICY], first):
        yield Finding("episodes that follow", "they begin exactly as those before", "a fresh random start", look)


def a_batch_is_so_many_single_environments(env: Env) -> Iterator[Finding]:
    """Environment 0 does the same alone as among others."""
    task = env.task.rebuilt()  # another object, which knows nothing of the first one
    alone = Env(task, make_engine(env.engine_name, task, 1), 1, seed=env.seed, device="cpu")
    rows, ones = [env.reset(seed=6)[POLICY][:1].clone()], [alone.reset(seed=6)[POLICY].clone()]
    for action in actions(env, 3):
        rows.append(env.step(action).obs[POLICY][:1].clone())
        ones.append(alone.step(action[:1]).obs[POLICY].clone())
    for number, (row, one) in enumerate(zip(rows, ones, strict=True)):
        if not torch.allclose(row, one, atol=CLOSE, rtol=CLOSE):
            yield Finding(
                "environment 0",
                f"alone it observes other numbers at step {number} than among {env.num_envs}, by "
                f"{float((row - one).abs().max()):.3g}",
                "the same: hooks that know nothing but what they are given",
                place_of(env.task, "reset"),
            )
            return


def _age(env: Env, steps: int) -> None:
    """Let every episode have taken so many steps."""
    state = env.state()
    (place,) = [key for key in state["simulator"] if key.endswith("episode.steps") and "diverged_state" not in key]
    state["simulator"][place] = np.full(env.num_envs, steps, np.int32)
    env.load_state(state)
