"""What an exported policy computes against torch, how long a step takes, and what it needs on a microcontroller.

Inputs are drawn around the mean of training, one and three standard deviations wide, a tenth of them so wide that they
reach the normaliser's clip. Differences are absolute: of actions, and of targets in their actuators' units. Torch runs
one observation at a time and on one thread, as the others do.

python -m benchmarks.export_parity --json FILE
"""

import ctypes
import dataclasses
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import torch
import tyro

from policies.policy import Policy
from sim2real import export
from sim2real.bundles import bundle
from sim2real.bundles.c_code import COMPILE
from sim2real.bundles.network import Network
from sim2real.contract.describe import describe

SPREADS = ((0.6, 1.0), (0.3, 3.0), (0.1, 100.0))
"""Part of the inputs, and their standard deviations relative to training's."""
RAM, FLASH = 192, 1024  # kB, of the Crazyflie's STM32F405
ASKED = 1e-5  # largest difference
FLOATS = ctypes.POINTER(ctypes.c_float)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    tasks: tuple[str, ...] = (
        "locomotion/go1-joystick-flat",
        "locomotion/go1-joystick-rough",
        "locomotion/g1-joystick-flat",
        "swarm/hover",
    )
    """Tasks whose shipped policies are exported."""
    inputs: int = 10_000
    """Observations to compare."""
    steps: int = 20_000
    """Steps to time, one observation each."""
    seed: int = 1
    """Of the observations; golden vectors have another."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    results = {}
    for name in settings.tasks:
        results[name] = measure(name, settings)
        cli.show(cli.table(name, shown(results[name])))
    command = cli.command_line("benchmarks.export_parity")
    counts = {"inputs": settings.inputs, "steps": settings.steps, "asked": ASKED}
    cli.write_result(settings.json, command, {**counts, "results": results})


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """All figures of one policy."""
    torch.set_num_threads(1)
    policy, task, name = export.trained(name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "bundle"
        made = export.write(folder, policy, describe(task, name))
        compiled = Compiled(folder, Path(place), made)
        observations = draw(Network.of(policy), settings)
        exact = torch_steps(policy, made, observations)
        ways: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
            "onnx": made.run,
            "c": compiled.run,
        }
        figures: dict[str, Any] = {"parameters": Network.of(policy).parameters, "size": compiled.size}
        for way, step in ways.items():
            found = [np.array(part) for part in zip(*map(step, observations), strict=True)]
            figures[way] = {
                "action": float(np.abs(found[0] - exact[0]).max()),
                "target": float(np.abs(found[1] - exact[1]).max()),
            }
        ways["torch"] = lambda observation: torch_step(policy, made, observation)
        for way, step in ways.items():
            figures.setdefault(way, {})["latency_us"] = timed(step, observations, settings.steps)
        figures["c"]["latency_us_without_python"] = compiled.timed(observations, settings.steps)
    return figures


def draw(network: Network, settings: Settings) -> np.ndarray:
    """(inputs, n) float32 observations."""
    rng = np.random.default_rng(settings.seed)
    spread = np.concatenate([np.full(round(part * settings.inputs), width) for part, width in SPREADS])
    drawn = spread[:, None] * rng.standard_normal((len(spread), len(network.mean))) / network.scale
    return (network.mean + drawn).astype(np.float32)


def torch_steps(policy: Policy, made: bundle.Bundle, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Actions and targets of all observations, one at a time, as a robot computes them."""
    actions = np.stack([policy(torch.from_numpy(row[None]))[0].numpy() for row in observations])
    return actions, made.contract.target(actions)


def torch_step(policy: Policy, made: bundle.Bundle, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step in torch."""
    action = policy(torch.from_numpy(observation[None]))[0].numpy()
    return action, made.contract.target(action)


def timed(step: Callable[[np.ndarray], Any], observations: np.ndarray, steps: int) -> dict[str, float]:
    """Microseconds of single steps, called from Python."""
    for row in observations[:200]:  # caches and lazy initialisation
        step(row)
    taken = np.empty(steps)
    for i in range(steps):
        row = observations[i % len(observations)]
        start = time.perf_counter()
        step(row)
        taken[i] = time.perf_counter() - start
    return percentiles(taken)


def percentiles(seconds: np.ndarray) -> dict[str, float]:
    """Microseconds: median, 99th and 99.9th percentile, worst."""
    p50, p99, p999 = np.percentile(1e6 * seconds, [50, 99, 99.9])
    return {"p50": float(p50), "p99": float(p99), "p99.9": float(p999), "worst": float(1e6 * seconds.max())}


class Compiled:
    """`policy.c` of a bundle as a shared library."""

    def __init__(self, folder: Path, place: Path, made: bundle.Bundle) -> None:
        """Compile it with the flags that the tests demand."""
        library, part, clock = place / "policy.so", place / "policy.o", place / "clock.c"
        clock.write_text(CLOCK)
        source, include = str(folder / "policy.c"), f"-I{folder}"
        for command in (
            ["gcc", *COMPILE, "-fPIC", "-shared", source, "-lm", "-o", str(library)],
            ["gcc", *COMPILE, "-c", source, "-o", str(part)],
            ["gcc", "-O2", include, str(clock), source, "-lm", "-o", str(place / "clock")],
        ):
            subprocess.run(command, check=True)
        told = subprocess.run(["size", str(part)], capture_output=True, text=True, check=True).stdout
        text, data, bss = told.splitlines()[1].split()[:3]
        self.size = {"text_and_constants": int(text), "data": int(data), "bss": int(bss)}
        self._step = ctypes.CDLL(str(library)).policy_step
        self._step.argtypes = [FLOATS] * 3
        self._clock, self._place = place / "clock", place
        self._action, self._target = np.zeros((2, made.contract.action_size), np.float32)

    def run(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step."""
        pointers = [array.ctypes.data_as(FLOATS) for array in (observation, self._action, self._target)]
        if self._step(*pointers):
            raise RuntimeError("policy_step refused a finite observation")
        return self._action.copy(), self._target.copy()

    def timed(self, observations: np.ndarray, steps: int) -> dict[str, float]:
        """Microseconds of single steps, called from C."""
        (self._place / "observations").write_bytes(observations.tobytes())
        command = [str(self._clock), str(self._place / "observations"), str(len(observations)), str(steps)]
        done = subprocess.run(command, capture_output=True, check=True)
        return percentiles(1e-9 * np.frombuffer(done.stdout, np.int64))


CLOCK = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "policy.h"

int main(int count, char **words)
{
    long rows = atol(words[2]), steps = atol(words[3]);
    float *observations = malloc(sizeof(float) * POLICY_OBSERVATIONS * rows);
    long long *taken = malloc(sizeof(long long) * steps);
    float action[POLICY_ACTIONS], target[POLICY_ACTIONS];
    FILE *file = fopen(words[1], "rb");

    if (count != 4 || fread(observations, sizeof(float) * POLICY_OBSERVATIONS, rows, file) != (size_t)rows) return 1;
    for (long i = -200; i < steps; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        policy_step(observations + POLICY_OBSERVATIONS * ((i + 200) % rows), action, target);
        clock_gettime(CLOCK_MONOTONIC, &b);
        if (i >= 0) taken[i] = 1000000000LL * (b.tv_sec - a.tv_sec) + b.tv_nsec - a.tv_nsec;
    }
    fwrite(taken, sizeof(long long), steps, stdout);
    return 0;
}
"""
"""Times single steps of `policy_step`, and writes their nanoseconds."""


def shown(figures: dict[str, Any]) -> dict[str, str]:
    """Rows for the terminal."""
    rows = {
        f"{way} - torch, action / target": f"{figures[way]['action']:.2g} / {figures[way]['target']:.2g}"
        for way in ("onnx", "c")
    }
    for way in ("onnx", "c", "torch"):
        rows[f"{way}, called from Python"] = latency(figures[way]["latency_us"])
    rows["c, called from C"] = latency(figures["c"]["latency_us_without_python"])
    size = figures["size"]
    flash, ram = size["text_and_constants"] + size["data"], size["data"] + size["bss"]
    rows["flash / RAM"] = f"{flash / 1024:.0f} kB / {ram / 1024:.1f} kB (Crazyflie: {FLASH} / {RAM})"
    return rows


def latency(values: dict[str, float]) -> str:
    """One line."""
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items()) + " µs"


if __name__ == "__main__":
    main(tyro.cli(Settings))
