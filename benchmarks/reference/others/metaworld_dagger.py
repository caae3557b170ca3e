"""scikit-learn's perceptron, taught by Meta-World's own script on metaworld 3.1.1: for a Python that has both.

    METAWORLD/bin/python benchmarks/reference/others/metaworld_dagger.py push push.npz

DAgger (Ross et al. 2011): in the first round the script acts, in the others the perceptron; the script notes what it
would have done, and all its answers are learned anew. Noise on what is done leads to where small errors, or another
simulator, may lead (DART, Laskey et al. 2017): each episode of a round has its own, from none to `NOISE`.
The file is for `metaworld_perceptron.py` and `benchmarks.metaworld_transfer`.
"""

import sys

import numpy as np
from metaworld.policies import ENV_POLICY_MAP  # pyright: ignore[reportMissingImports]
from metaworld_perceptron import act, fresh  # pyright: ignore[reportMissingImports] - beside this file
from sklearn.neural_network import MLPRegressor  # pyright: ignore[reportMissingImports]

ROUNDS, EPISODES = 8, 15
NOISE = 0.6  # largest standard deviation on actions
STD = 0.02  # least deviation of a number of the observation, m: so constant ones are not blown up
CLIP = 10.0  # of observations in deviations


def main(task: str, file: str) -> None:
    """Train and save."""
    env, script, random = fresh(task, 0), ENV_POLICY_MAP[f"{task}-v3"](), np.random.default_rng(0)
    seen, told, network = [], [], {}
    for number in range(ROUNDS):
        solved = 0
        for noise in np.linspace(0.0, NOISE, EPISODES):
            (obs, _), ended, success = env.reset(), False, False
            while not ended:
                seen.append(obs)
                told.append(np.clip(script.get_action(obs), -1.0, 1.0))
                action = (act(network, obs) if network else told[-1]) + noise * random.standard_normal(4)
                obs, _, _, ended, info = env.step(np.clip(action, -1.0, 1.0))
                success |= bool(info["success"])
            solved += success
        network = fitted(np.array(seen), np.array(told))
        print(f"{task}, round {number + 1}: {solved} of {EPISODES} solved", flush=True)
    np.savez(file, **network)


def fitted(seen: np.ndarray, told: np.ndarray) -> dict:
    """A perceptron from observations (n, 39) to the script's actions (n, 4), as a file has it."""
    mean, scale = seen.mean(0), 1.0 / np.maximum(seen.std(0), STD)
    model = MLPRegressor(
        hidden_layer_sizes=(256, 256), batch_size=512, max_iter=40, n_iter_no_change=40, random_state=0
    )
    model.fit(np.clip((seen - mean) * scale, -CLIP, CLIP), told)
    layers = {}
    for number, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        layers |= {f"weight{number}": weight.T, f"bias{number}": bias}
    return {**layers, "activation": "relu", "squashed": False, "mean": mean, "scale": scale, "clip": CLIP}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
