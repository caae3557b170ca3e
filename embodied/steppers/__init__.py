"""Steppers: N environments of a task on an engine, one control step at a time, in JAX arrays.

`FusedStepper` compiles task and physics into one program; `HostStepper` calls the task's compiled functions
around an engine that moves its own state. Both restart finished environments from freshly drawn starts, a
chunk at a time: most steps end few episodes, and drawing a start for every environment would cost more than
the physics of some.
"""

from embodied.steppers.base import Culprit, Result, Stepper
from embodied.steppers.fused import FusedStepper
from embodied.steppers.host import HostStepper
from embodied.steppers.totals import Totals

__all__ = ["Culprit", "FusedStepper", "HostStepper", "Result", "Stepper", "Totals"]
