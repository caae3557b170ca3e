"""Hovering drones with episodes short enough to test: every 20 steps at the latest, and many fall sooner."""

from embodied.core.hooks import Timing
from embodied.engines import make_engine
from embodied.env.env import Env
from tasks.swarm.hover import Hover, HoverConfig

MAX_STEPS = 20


class BriefHover(Hover):
    """`swarm/hover` with a time limit of 0.2 s."""

    timing = Timing(physics_dt=0.002, substeps=5, episode_seconds=0.2)


def brief_env(num_envs: int, seed: int = 0) -> Env:
    """Drones thrown so fast that some hit the floor before the time limit and some do not."""
    task = BriefHover(HoverConfig(start_distance=1.9, start_speed=20.0))
    return Env(task, make_engine("rigid", task, num_envs), num_envs, seed=seed)
