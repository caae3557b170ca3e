"""A drawer to open whose reward is only for being open: what exploration is needed for.

python -m embodied.train benchmarks/sparse_drawer.py --ppo.curiosity.weight 0.3
"""

from __future__ import annotations

from collections.abc import Mapping

from jax import Array

from embodied.core.world import World
from policies.registry import TrainConfig
from tasks.manipulation.articulated.drawers import DrawerOpen
from tasks.manipulation.common.tabletop import TaskState
from tasks.manipulation.training import tabletop

training: TrainConfig = tabletop(4_000_000)


class SparseDrawer(DrawerOpen):
    """Task: pull a drawer open, with a reward of 10 while it is open and 0 before.

    Success and starts are those of `manipulation/drawer-open`.
    """

    @property
    def reward_weights(self) -> Mapping[str, float]:
        return {"success": 10.0}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        return {"success": super().rewards(world, state, action)["success"]}
