"""Ready-made parts of a task: memory of an episode, and disturbances.

A part is a frozen dataclass of numbers and pure functions of one environment. What it remembers is an array, or a
dataclass of arrays, that the task keeps in a field of its own state; what it draws is a variation, which the task
declares with `term()` and the part leaves out where its name is not in the task's `varied`.
"""

from embodied.parts.action_history import ActionHistory
from embodied.parts.commands import Commands
from embodied.parts.held import Held
from embodied.parts.latency import Latency, delayed
from embodied.parts.pushes import Push, Pushes
from embodied.parts.sensing import EncoderBias, ObservationNoise
from embodied.parts.split_robot import SplitRobot

__all__ = [
    "ActionHistory",
    "Commands",
    "EncoderBias",
    "Held",
    "Latency",
    "ObservationNoise",
    "Push",
    "Pushes",
    "SplitRobot",
    "delayed",
]
