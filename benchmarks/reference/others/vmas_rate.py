"""Steps of a world per second of VMAS 1.5.2: a line `scenario worlds seconds` in, a number out. Run by its own
Python."""

import sys
import time

import torch
import vmas  # pyright: ignore[reportMissingImports] - of another environment

STEPS = 100  # of an episode; then all worlds begin anew

for line in sys.stdin:
    scenario, worlds, seconds = line.split()
    env = vmas.make_env(scenario, num_envs=int(worlds), device="cpu", continuous_actions=True, seed=0)
    env.reset()
    drawn = [
        [torch.rand(int(worlds), env.get_agent_action_size(agent)) * 2 - 1 for agent in env.agents] for _ in range(16)
    ]
    for step in range(5):  # of copies: the environment may write into its actions
        env.step([actions.clone() for actions in drawn[step]])
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < float(seconds):
        env.step([actions.clone() for actions in drawn[steps % 16]])
        steps += 1
        if steps % STEPS == 0:
            env.reset()
    print(int(worlds) * steps / (time.perf_counter() - begin), len(env.agents), flush=True)
