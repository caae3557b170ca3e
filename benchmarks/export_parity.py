"""Time of a step of an exported policy, and its requirements on a microcontroller.

Steps follow each other around an episode's start, as the golden ones of a bundle do. Torch runs the policy's network
alone, one observation at a time and on one thread, as the others do. That the computations are the same is measured by
`benchmarks.export_every_task`.

python -m benchmarks.export_parity --json FILE
"""

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

from sim2real import export
from sim2real.bundles import bundle
from sim2real.bundles.c_code import COMPILE
from sim2real.graphs.golden import begin

WAYS = ("onnx", "c", "torch")
RAM, FLASH = 192, 1024  # kB, of the Crazyflie's STM32F405


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = (
        "locomotion/go1-joystick-flat",
        "locomotion/go1-joystick-rough",
        "locomotion/g1-joystick-flat",
        "swarm/hover",
    )
    """Tasks whose shipped policies are exported."""
    steps: int = 20_000
    """Steps to time."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    results = {}
    for name in settings.tasks:
        results[name] = measure(name, settings)
        cli.show(cli.table(name, shown(results[name])))
    command = cli.command_line("benchmarks.export_parity")
    cli.write_result(settings.json, command, {"steps": settings.steps, "results": results})


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """All figures of one policy."""
    torch.set_num_threads(1)
    policy, task, name = export.trained(name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "bundle"
        made = export.write(folder, policy, task, name)
        compiled = Compiled(folder, Path(place))
        rows = inputs_of(made)
        seen = [torch.from_numpy(made.step(row)["observation"][None]) for row in rows]
        figures: dict[str, Any] = {"size": compiled.size}
        figures["onnx"] = {"latency_us": timed(made.step, rows, settings.steps)}
        figures["torch"] = {"latency_us": timed(policy, seen, settings.steps)}
        figures["c"] = {"latency_us": compiled.timed(rows, made, settings.steps)}
    return figures


def inputs_of(made: bundle.Bundle) -> list[dict[str, np.ndarray]]:
    """Every input of the golden steps, each with the state that an episode begins with."""
    golden, count = made.golden.inputs, made.golden.count
    rows = [{name: values[row] for name, values in golden.items()} for row in range(count)]
    return [{**row, **begin(made.contract.step, row)} for row in rows]


def timed(step: Callable[[Any], Any], rows: list[Any], steps: int) -> dict[str, float]:
    """Microseconds of single steps, called from Python."""
    for i in range(200):  # caches and lazy initialisation
        step(rows[i % len(rows)])
    taken = np.empty(steps)
    for i in range(steps):
        row = rows[i % len(rows)]
        start = time.perf_counter()
        step(row)
        taken[i] = time.perf_counter() - start
    return percentiles(taken)


def percentiles(seconds: np.ndarray) -> dict[str, float]:
    """Microseconds: median, 99th and 99.9th percentile, worst."""
    p50, p99, p999 = np.percentile(1e6 * seconds, [50, 99, 99.9])
    return {"p50": float(p50), "p99": float(p99), "p99.9": float(p999), "worst": float(1e6 * seconds.max())}


class Compiled:
    """`policy.c` of a bundle with a clock."""

    def __init__(self, folder: Path, place: Path) -> None:
        """Compile it with the flags that the tests demand."""
        part, clock = place / "policy.o", place / "clock.c"
        clock.write_text(CLOCK)
        source, include = str(folder / "policy.c"), f"-I{folder}"
        for command in (
            ["gcc", *COMPILE, "-c", source, "-o", str(part)],
            ["gcc", "-O2", include, str(clock), source, "-lm", "-o", str(place / "clock")],
        ):
            subprocess.run(command, check=True)
        listed = subprocess.run(["size", str(part)], capture_output=True, text=True, check=True).stdout
        text, data, bss = listed.splitlines()[1].split()[:3]
        self.size = {"text_and_constants": int(text), "data": int(data), "bss": int(bss)}
        self._clock, self._place = place / "clock", place

    def timed(self, rows: list[dict[str, np.ndarray]], made: bundle.Bundle, steps: int) -> dict[str, float]:
        """Microseconds of single steps, called from C; each hands its state on."""
        given = [np.concatenate([row[name] for name in made.golden.inputs]) for row in rows]
        (self._place / "inputs").write_bytes(np.array(given, np.float32).tobytes())
        command = [str(self._clock), str(self._place / "inputs"), str(len(rows)), str(steps)]
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
    struct policy_input *inputs = malloc(sizeof(struct policy_input) * rows);
    struct policy_state state;
    long long *taken = malloc(sizeof(long long) * steps);
    float action[POLICY_ACTIONS], target[POLICY_TARGETS];
    FILE *file = fopen(words[1], "rb");

    if (count != 4 || fread(inputs, sizeof(struct policy_input), rows, file) != (size_t)rows) return 1;
    policy_begin(inputs, &state);
    for (long i = -200; i < steps; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        policy_step(inputs + (i + 200) % rows, &state, action, target);
        clock_gettime(CLOCK_MONOTONIC, &b);
        if (i >= 0) taken[i] = 1000000000LL * (b.tv_sec - a.tv_sec) + b.tv_nsec - a.tv_nsec;
    }
    fwrite(taken, sizeof(long long), steps, stdout);
    return 0;
}
"""


def shown(figures: dict[str, Any]) -> dict[str, str]:
    """Rows for the terminal."""
    rows = {
        f"{way}, called from {'C' if way == 'c' else 'Python'}": latency(figures[way]["latency_us"]) for way in WAYS
    }
    size = figures["size"]
    flash, ram = size["text_and_constants"] + size["data"], size["data"] + size["bss"]
    rows["flash / RAM"] = f"{flash / 1024:.0f} kB / {ram / 1024:.1f} kB (Crazyflie: {FLASH} / {RAM})"
    return rows


def latency(values: dict[str, float]) -> str:
    """One line."""
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items()) + " µs"


if __name__ == "__main__":
    main(tyro.cli(Settings))
