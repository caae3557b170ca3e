"""What became of many episodes, and what to do when the physics is not sound."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from embodied.errors import SimulationError

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.vectorized import Totals

DIVERGENCE_LIMIT = 1e-3  # diverged environments per environment step above which training on is pointless


@dataclasses.dataclass(frozen=True)
class Tally:
    """Sums over ended episodes on the host, in double precision."""

    sums: dict[str, float] = dataclasses.field(default_factory=dict)

    def plus(self, totals: Totals) -> Tally:
        """This tally with a simulator's totals added."""
        flat = {
            "episodes": totals.episodes,
            "length": totals.length,
            "return": totals.returns,
            "success": totals.success,
            "success_any": totals.success_any,
            "failure": totals.failure,
            "diverged": totals.diverged,
            **{f"reward/{name}": value for name, value in totals.terms.items()},
            **totals.metrics,
        }
        return Tally({name: self.sums.get(name, 0.0) + float(value) for name, value in flat.items()})

    def means(self) -> dict[str, float]:
        """Means per episode; `episodes` and `diverged` stay counts, and stand alone where no episode ended."""
        episodes = self.sums.get("episodes", 0.0)
        counts = {"episodes": episodes, "diverged": self.sums.get("diverged", 0.0)}
        if not episodes:
            return counts
        return counts | {name: value / episodes for name, value in self.sums.items() if name not in counts}


def check(env: Env, totals: Totals, env_steps: int) -> None:
    """Raise if buffers overflowed, or if more environments diverged than chance explains.

    Raises:
        SimulationError: says what happened; after a divergence it names the dump that `replay` steps again.
    """
    where = f"{type(env.task).__name__} on {env.engine_name}"
    if totals.overflow:
        raise SimulationError(
            f"{where}: contacts or constraints overflowed the engine's buffers {int(totals.overflow)} times; give the "
            "model more room (custom numeric 'max_contacts', or <size memory=.../>)"
        )
    if totals.diverged > max(1.0, DIVERGENCE_LIMIT * env_steps):
        dump = save_culprit(env)
        raise SimulationError(
            f"{where}: {int(totals.diverged)} environments diverged (NaN or beyond 1e10) in {env_steps} steps, more "
            f"than {DIVERGENCE_LIMIT:g} per step; the state before the first one is in {dump}"
        )


def save_culprit(env: Env) -> Path:
    """Write the first diverged environment's state and action before that step; returns the file.

    It holds every array of the environment's physics and episode by name; `replay` steps it again.
    """
    from embodied.env.env import stamp

    path = env.dump_folder / f"divergence-{stamp()}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    leaves = jax.tree_util.tree_leaves_with_path(env.simulator.culprit())
    arrays: dict[str, Any] = {path_name(where): np.asarray(leaf) for where, leaf in leaves}
    np.savez(path, **arrays)
    return path


def replay(env: Env, path: Path) -> bool:
    """Take the dumped step again in `env`; returns whether it diverges again.

    Raises:
        SimulationError: `env` does not fit the dump: it needs `num_envs=1` and the same task and engine.
    """
    if env.num_envs != 1:
        raise SimulationError(f"a dump holds one environment; replay it with num_envs=1, not {env.num_envs}")
    env.reset()
    template = env.simulator.template()
    with np.load(path) as dump:
        names = [path_name(where) for where, _ in jax.tree_util.tree_leaves_with_path(template)]
        if missing := sorted(set(names) ^ set(dump.files)):
            raise SimulationError(
                f"{path.name} is not a dump of {type(env.task).__name__} on {env.engine_name}: {missing}"
            )
        culprit = jax.tree.unflatten(jax.tree.structure(template), [dump[name] for name in names])
    env.simulator.load_culprit(culprit)
    return bool(np.asarray(env.simulator.step(culprit.action[None]).diverged)[0])


def path_name(path: Any) -> str:
    """A pytree path as a name, `physics.qpos`."""
    return jax.tree_util.keystr(path, simple=True, separator=".").replace("/", "_") or "value"
