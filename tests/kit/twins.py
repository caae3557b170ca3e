"""A twin small enough to know the answer: x' = -a x + (b1 + b2) u, u late by the delay."""

import dataclasses

import numpy as np

from sim2real.identification import simulate as sm
from sim2real.identification.parameters import Kind, Parameter
from sim2real.identification.simulate import Output
from sim2real.logs.log import WXYZ, XYZ, Channel, Log
from sim2real.twins import crazyflie

TRUTH = np.array([3.0, 2.0, 0.0, 0.011])  # 1/s, -, -, s
NOISE = 0.02
LATEST = 0.05  # s


@dataclasses.dataclass(frozen=True)
class Toy:
    """One state, one output."""

    parameters: tuple[Parameter, ...] = (
        Parameter(Kind.DAMPING, "x", 1.0, 0.0, 10.0, 3.0, "1/s"),
        Parameter(Kind.STRENGTH, "x", 1.0, 0.0, 10.0, 3.0),
        Parameter(Kind.STRENGTH, "y", 0.0, -10.0, 10.0, 3.0, free=False, known=True),
        Parameter(Kind.DELAY, "", 0.0, 0.0, LATEST, 0.02, "s"),
    )
    name: str = "toy"
    outputs: tuple[Output, ...] = (Output("joint_pos", ("x",), 0.01),)
    actuators: tuple[str, ...] = ("x",)
    timestep: float = 0.002
    settle: float = 0.1
    window: float = 0.5

    @property
    def start_step(self):
        return np.array([1e-4])

    @property
    def start_spread(self):
        return np.array([1.0])

    def stepped(self, timestep):
        return dataclasses.replace(self, timestep=timestep)

    def starts(self, log, times):
        channel = log["joint_pos"]
        return channel.values[np.searchsorted(channel.time, times)]

    def moved(self, starts, change):
        return starts + change

    def simulate(self, values, starts, windows):
        command = sm.commands(windows, values[:, 3])[..., 0]
        decay = np.exp(-values[:, :1] * self.timestep)
        gain = (values[:, 1:2] + values[:, 2:3]) * (1 - decay) / values[:, :1]
        track = np.empty((*starts.shape[:2], windows.steps + 1))
        track[..., 0] = starts[..., 0]
        for step in range(windows.steps):
            track[..., step + 1] = decay * track[..., step] + gain * command[..., step]
        return (track[..., None],)


def drone() -> crazyflie.DroneTwin:
    """The nominal twin of a Crazyflie that is sent speeds of its rotors."""
    names = {"command": crazyflie.ROTORS, "orientation": WXYZ, **dict.fromkeys(("position", "linvel", "gyro"), XYZ)}
    silent = {name: Channel(np.arange(2.0), np.zeros((2, len(n))), n, "rpm") for name, n in names.items()}
    return crazyflie.twin(Log(silent))


def log_of(
    seed: int, seconds: float = 8.0, correlation: float = 0.0, truth: np.ndarray = TRUTH, noise: float = NOISE
) -> Log:
    """A log of the toy under a command that jumps every 40 ms; noise with a correlation from row to row."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * 100)) / 100
    command = Channel(time, np.repeat(rng.normal(size=(len(time) // 4 + 1, 1)), 4, axis=0)[: len(time)], ("x",), "rad")
    twin = Toy()
    silent = Channel(time, np.zeros((len(time), 1)), ("x",))
    whole = sm.cut(
        Log({"command": command, "joint_pos": silent}), dataclasses.replace(twin, settle=0.0), seconds - 0.1, seconds
    )
    (track,) = twin.simulate(truth[None], np.zeros((1, 1, 1)), whole)
    values = track[0, 0, :: round(0.01 / twin.timestep)]
    errors = rng.normal(size=values.shape)
    for row in range(1, len(errors)):
        errors[row] = correlation * errors[row - 1] + np.sqrt(1 - correlation**2) * errors[row]
    return Log({"command": command, "joint_pos": Channel(time[: len(values)], values + noise * errors, ("x",))})
