"""Ready-made parts of a task: memory of an episode, and disturbances.

A part is a frozen dataclass of numbers and pure functions of one environment. What it remembers is an array, or a
dataclass of arrays, that the task keeps in a field of its own state; what it draws is a variation, which the task
declares with `term()` and the part leaves out where its name is not in the task's `varied`. Parts are not wrappers,
which would hide state and their order; a reader of the task sees both. Legged tasks use the same pushes, latency, noise
and biases; their commands, levels and action history are their own, since checkpoints name those fields.
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
