"""Steps per second of one environment of metaworld 3.1.1: a line `task seconds` in, a number out. For its Python."""

import sys
import time
import warnings

import gymnasium
import metaworld  # noqa: F401  # pyright: ignore[reportMissingImports] - of another environment; registers its own
import numpy as np

warnings.filterwarnings("ignore")
for line in sys.stdin:
    task, seconds = line.split()
    env = gymnasium.make("Meta-World/MT1", env_name=f"{task}-v3", seed=0, disable_env_checker=True)
    env.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (64, 4)).astype(np.float32)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < float(seconds):
        *_, truncated, _ = env.step(actions[steps % 64])
        steps += 1
        if truncated:
            env.reset()
    print(steps / (time.perf_counter() - begin), flush=True)
    env.close()
