"""How well the delay of a log is found: pure shifts, linear servos, and a Go1's legs with friction, in MuJoCo.

python -m benchmarks.delay_recovery --json FILE
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from sim2real.contract.limits import limits_of
from sim2real.identification.excitation import Stage
from sim2real.identification.excitation_signals import Order, Waveform, motion
from sim2real.logs.delay import Delay, shift
from sim2real.logs.log import Channel
from sim2real.logs.servo_delay import delay_of, response

NAMES = ("a", "b")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    rates: tuple[float, ...] = (200.0, 500.0)
    """Rows per second of the logs."""
    delays: tuple[float, ...] = (0.0, 0.005, 0.01, 0.02, 0.03)
    """s."""
    noise: float = 0.002
    """rad, standard deviation of the measured angles."""
    seconds: float = 20.0
    """Duration of each log in s."""
    seeds: int = 5
    """Logs of each kind."""
    json: Path | None = None
    """File for the results."""


Maker = Callable[[Settings, float, float, np.random.Generator], Delay]


def sensors(settings: Settings, rate: float, delay: float, rng: np.random.Generator) -> Delay:
    """Two noisy sensors of one motion, whose rows do not coincide."""
    time = np.arange(0, settings.seconds, 1 / rate)
    fine, values = chirps(settings)
    late = time + rng.uniform(0, 1 / rate)
    first, second = (sample(fine, values, times) for times in (time, late - delay))
    noise = settings.noise * rng.normal(size=(2, *first.shape))
    return shift(Channel(time, first + noise[0], NAMES), Channel(late, second + noise[1], NAMES))


def linear(settings: Settings, rate: float, delay: float, rng: np.random.Generator) -> Delay:
    """A servo of 40 rad/s and damping ratio .7 behind a staircase of commands."""
    from scipy.signal import cont2discrete, lfilter

    fine, values = chirps(settings)
    time = np.arange(0, settings.seconds, 1 / rate)
    targets = sample(fine, values, time)
    held = targets[np.clip(np.searchsorted(time, fine - delay + 1e-9, side="right") - 1, 0, None)]
    discrete: Any = cont2discrete(([1600.0], [1, 56.0, 1600.0]), fine[1], "zoh")
    followed = np.asarray(lfilter(discrete[0][0], discrete[1], held, axis=0))
    seen = time + rng.uniform(0, 1 / rate)
    measured = sample(fine, followed, seen) + settings.noise * rng.normal(size=targets.shape)
    return delay_of(response(Channel(time, targets, NAMES), Channel(seen, measured, NAMES)))


def legs(settings: Settings, rate: float, delay: float, rng: np.random.Generator) -> Delay:
    """The joints of a hanging Go1: friction, gravity, and legs that shake each other."""
    limits = limits_of("go1")
    stage = Stage(limits, limits.home, 1000.0)
    count = len(limits.names)
    fine = np.arange(0, settings.seconds, 1e-3)
    moved = motion(Waveform.CHIRP, fine, count, (0.1, 10.0), Order.ALL, 1.0)(np.full(count, 0.2), np.full(count, 8.0))
    # Targets are written at the log's rate, and reach the servo late by the delay.
    every = round(1000 / rate)
    targets = (limits.home + moved)[::every]
    late = np.clip(np.floor((fine - delay + 1e-9) * rate).astype(int), 0, len(targets) - 1)
    pos = stage.play(targets[late]).pos
    time = fine[::every]
    seen = time + rng.uniform(1e-3, 1 / rate)
    measured = sample(fine + 1e-3, pos, seen) + settings.noise * rng.normal(size=targets.shape)
    return delay_of(response(Channel(time, targets, limits.names), Channel(seen, measured, limits.names)))


KINDS: dict[str, Maker] = {"two sensors": sensors, "linear servo": linear, "Go1's legs": legs}


def chirps(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """(t,) s and (t, 2) rad, every .1 ms."""
    fine = np.arange(0, settings.seconds + 0.1, 1e-4)
    moved = motion(Waveform.CHIRP, fine, len(NAMES), (0.1, 10.0), Order.ALL, 1.0)
    return fine, moved(np.full(2, 0.3), np.full(2, 3.0))


def sample(time: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(n, k) the values at other times."""
    return np.stack([np.interp(at, time, column) for column in values.T], 1)


def main(settings: Settings) -> None:
    """Measure and print."""
    results = {}
    for kind, make in KINDS.items():
        for rate in settings.rates:
            errors, stated = [], []
            for delay in settings.delays:
                for seed in range(settings.seeds):
                    found = make(settings, rate, delay, np.random.default_rng(seed))
                    errors.append(found.seconds - delay)
                    stated.append(found.stderr)
            error = np.abs(errors)
            results[f"{kind}, {rate:.0f} Hz"] = {
                "largest_error_ms": float(1e3 * error.max()),
                "mean_error_ms": float(1e3 * np.mean(errors)),
                "stated_stderr_ms": float(1e3 * np.mean(stated)),
                "within_95_interval": float((error < 1.96 * np.array(stated)).mean()),
            }
    shown = {
        name: f"largest error {row['largest_error_ms']:.3f} ms, mean {row['mean_error_ms']:+.3f}, stated ± "
        f"{1.96 * row['stated_stderr_ms']:.3f} ms, which held {row['within_95_interval']:.0%}"
        for name, row in results.items()
    }
    cli.show(cli.table("error of the delay", shown))
    cli.write_result(settings.json, cli.command_line("benchmarks.delay_recovery"), {"results": results})


if __name__ == "__main__":
    main(tyro.cli(Settings))
