"""Steps per second of envpool 1.2.5 on two threads: a line `task seconds` in, a number out. Run by its own Python."""

import sys
import time

import envpool  # pyright: ignore[reportMissingImports] - of another environment
import numpy as np

ENVS = 64  # in one pool: more gained nothing on two threads
THREADS = 2

for line in sys.stdin:
    task, seconds = line.split()
    name = "".join(word.capitalize() for word in task.split("-"))
    env = envpool.make(f"MetaWorld/{name}-v3", env_type="gymnasium", num_envs=ENVS, num_threads=THREADS)
    env.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (64, ENVS, 4)).astype(np.float32)
    for step in range(10):
        env.step(actions[step])
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < float(seconds):
        env.step(actions[steps % 64])
        steps += 1
    print(ENVS * steps / (time.perf_counter() - begin), flush=True)
    env.close()
