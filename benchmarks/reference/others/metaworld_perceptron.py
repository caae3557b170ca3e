"""Success of a perceptron on a task of metaworld 3.1.1: for a Python that has it.

    METAWORLD/bin/python benchmarks/reference/others/metaworld_perceptron.py reach.npz reach 50

The file has `weight0`, `bias0` ..., `activation` between them (relu or tanh), `squashed` (whether tanh ends it), and
`mean`, `scale` and `clip` of observations; before all, `matrix` and `offset` if they are there. Out: JSON, success at
any step and at the last of so many episodes, each from a start and a goal of its own.
"""

import json
import sys

import gymnasium
import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE  # pyright: ignore[reportMissingImports]

SEED = 1


class Fresh(gymnasium.Wrapper):
    """An environment of Meta-World that draws anew at every reset."""

    def reset(self, **kwargs):
        """A start and a goal of its own."""
        del kwargs
        vars(self.env.unwrapped)["_freeze_rand_vec"] = False
        return self.env.reset()


def fresh(task, seed):
    """The environment of a task, with the goal in the observation."""
    return Fresh(ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE[f"{task}-v3-goal-observable"](seed=seed))


def act(network, observation):
    """The action (4) for an observation (39)."""
    between = np.tanh if str(network["activation"]) == "tanh" else lambda x: np.maximum(x, 0.0)
    if "matrix" in network:
        observation = network["matrix"] @ observation + network["offset"]
    hidden = np.clip((observation - network["mean"]) * network["scale"], -network["clip"], network["clip"])
    last = sum(name.startswith("weight") for name in network) - 1
    for number in range(last + 1):
        hidden = network[f"weight{number}"] @ hidden + network[f"bias{number}"]
        hidden = between(hidden) if number < last else hidden
    return np.clip(np.tanh(hidden) if network["squashed"] else hidden, -1.0, 1.0)


def main(file, task, episodes):
    """Run and print."""
    network, env, scores = dict(np.load(file)), fresh(task, SEED), []
    for _ in range(episodes):
        observation, _ = env.reset()
        seen, done = [], False
        while not done:
            observation, _, _, done, info = env.step(act(network, observation))
            seen.append(bool(info["success"]))
        scores.append((any(seen), seen[-1]))
    success = np.mean(scores, 0)
    print(json.dumps({"success_any": success[0], "success": success[1]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
