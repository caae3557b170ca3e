"""Path of the hand of metaworld 3.1.1 under given actions: for a Python that has metaworld.

In: JSON, `{"NAME": [[4 numbers], ...], ...}`, actions of an episode of reach. Out: JSON, NAME -> the hand (3) m and the
gripper's opening before the first action and after each.
"""

import json
import sys

import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE  # pyright: ignore[reportMissingImports]

env = ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE["reach-v3-goal-observable"](seed=0)
traces = {}
for name, actions in json.load(sys.stdin).items():
    observation, _ = env.reset(seed=0)
    trace = [observation[:4].tolist()]
    for action in actions:
        observation, *_ = env.step(np.array(action, np.float32))
        trace.append(observation[:4].tolist())
    traces[name] = trace
print(json.dumps(traces))
