"""The NaN guard: stops when environments diverge or an engine's buffer overflows, and keeps the step that diverged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from embodied.env.vectorized import EpisodeTotals, VectorizedSimulator
from embodied.errors import SimulationError
from embodied.storage.trees import path_name

DIVERGENCE_LIMIT = 1e-3  # diverged environments per environment step above which training on is pointless


def check(
    simulator: VectorizedSimulator, description: str, totals: EpisodeTotals, env_steps: int, dump_folder: Path
) -> None:
    """Raise if buffers overflowed, or if more environments diverged than chance explains.

    Args:
        simulator: Keeps the first diverged state.
        description: Task and engine, for messages.
        totals: Of the last `env_steps` environment steps.
        env_steps: Control steps times environments.
        dump_folder: Where the diverged state is written.

    Raises:
        SimulationError: says what happened; after a divergence it names the dump that `Env.replay_divergence` steps
            again.
    """
    if totals.overflow:
        raise SimulationError(
            f"{description}: contacts or constraints overflowed the engine's buffers {int(totals.overflow)} times; "
            "give the model more room (custom numeric 'max_contacts' or the options contacts and constraints of mjx, "
            "<size memory=.../> of mujoco)"
        )
    if totals.diverged > max(1.0, DIVERGENCE_LIMIT * env_steps):
        dump = _save(simulator, dump_folder)
        raise SimulationError(
            f"{description}: {int(totals.diverged)} environments diverged (NaN or beyond 1e10) in {env_steps} steps, "
            f"more than {DIVERGENCE_LIMIT:g} per step; the state before the first one is in {dump}"
        )


def _save(simulator: VectorizedSimulator, folder: Path) -> Path:
    """Write the first diverged environment's state and action before that step; returns the file.

    It holds every array of the environment's physics and episode by name.
    """
    path = folder / f"divergence-{time.strftime('%Y%m%d-%H%M%S')}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    leaves = jax.tree_util.tree_leaves_with_path(simulator.diverged_state())
    arrays: dict[str, Any] = {path_name(where): np.asarray(leaf) for where, leaf in leaves}
    np.savez(path, **arrays)
    return path


def replay(simulator: VectorizedSimulator, description: str, dump: Path, num_envs: int) -> bool:
    """Take the dumped step again in a simulator that was reset; returns whether it diverges again.

    Raises:
        SimulationError: the simulator does not fit the dump: it needs `num_envs` 1 and the same task and engine.
    """
    if num_envs != 1:
        raise SimulationError(f"a dump holds one environment; replay it with num_envs=1, not {num_envs}")
    template = simulator.diverged_state_template()
    with np.load(dump) as arrays:
        names = [path_name(where) for where, _ in jax.tree_util.tree_leaves_with_path(template)]
        if missing := sorted(set(names) ^ set(arrays.files)):
            raise SimulationError(f"{dump.name} is not a dump of {description}: {missing}")
        state = jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in names])
    simulator.load_diverged_state(state)
    return bool(np.asarray(simulator.step(state.action[None]).diverged)[0])
