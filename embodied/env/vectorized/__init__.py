"""Vectorised simulators: N environments of a task on an engine, one control step at a time, in JAX arrays.

`FusedSimulator` compiles task and physics into one program; `HostSimulator` calls the task's compiled functions
around an engine that moves its own state. Both restart finished environments from freshly drawn reset states, a
chunk at a time: most steps end few episodes, and drawing a reset state for every environment would cost more than
the physics of some.
"""

from embodied.env.vectorized.base import DivergedState, StepResult, VectorizedSimulator
from embodied.env.vectorized.fused import FusedPrograms, FusedSimulator
from embodied.env.vectorized.host import HostSimulator
from embodied.env.vectorized.statistics import EpisodeStatistics, EpisodeTotals

__all__ = [
    "DivergedState",
    "EpisodeStatistics",
    "EpisodeTotals",
    "FusedPrograms",
    "FusedSimulator",
    "HostSimulator",
    "StepResult",
    "VectorizedSimulator",
]
