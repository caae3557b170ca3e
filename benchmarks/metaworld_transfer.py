"""Trained policies that change sides: from Meta-World to our tasks, and from our tasks to Meta-World.

Those that stable-baselines3 or scikit-learn trained on the original, saved by `benchmarks/reference/others/`:

    METAWORLD/bin/python benchmarks/reference/others/metaworld_sac.py reach 60000 reach.npz
    METAWORLD/bin/python benchmarks/reference/others/metaworld_dagger.py push push.npz
    python -m benchmarks.metaworld_transfer reach=reach.npz drawer-close=shipped push=RUN --metaworld PYTHON

`shipped` and runs are ours. Every row has success on the original and here, at any step and at the last. Meta-World
shows a quaternion as wxyz in some tasks, as xyzw in others and as zeros in the rest (`reference/metaworld.json`), ours
are wxyz everywhere: a policy that changes sides is shown those that it knows.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import torch
import tyro
from torch import Tensor

import embodied
from benchmarks.metaworld_policies import of_metaworld, scores
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard
from policies.training.loading import PREFIX, open_checkpoint, shipped_path

FACTS = Path(__file__).parent / "reference" / "metaworld.json"
QUATS = {"obj1": (7, 25), "obj2": (14, 32)}  # where the 39 numbers have them, of this step and of the one before
WORKER = Path(__file__).parent / "reference" / "others" / "metaworld_perceptron.py"
SHIPPED = "shipped"
UNCHANGED = (np.eye(39), np.zeros(39))


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the runs."""

    policies: tyro.conf.Positional[tuple[str, ...]]
    """TASK=FILE.npz, TASK=RUN or TASK=shipped, tasks without `manipulation/`."""
    metaworld: Path = Path(".venv-metaworld/bin/python")
    """Python that has metaworld."""
    episodes: int = 50
    """On either side."""
    seed: int = 1000
    """Of the starts here."""
    json: Path | None = None
    """File for the results."""


@guard
def main(settings: Settings) -> None:
    """Run and print."""
    rows = []
    for entry in settings.policies:
        task, _, source = entry.partition("=")
        if not source:
            raise EmbodiedError(f"'{entry}'; expected TASK=FILE.npz, TASK=RUN or TASK={SHIPPED}")
        ours = not source.endswith(".npz")
        if not ours and not Path(source).exists():
            raise EmbodiedError(f"'{entry}': no file '{source}'; expected one by benchmarks/reference/others, or a run")
        network = of_ours(task, source) if ours else dict(np.load(source))
        env = embodied.make(f"manipulation/{task}", settings.episodes, "mujoco", settings.seed)
        act = policy(network, UNCHANGED if ours else quaternions(task, theirs=True))
        here = scores(env, act, settings.episodes, settings.seed)
        env.close()
        shown_there = quaternions(task, theirs=False) if ours else UNCHANGED
        rows.append({"task": task, "policy": Path(source).name, "trained_on": "embodied" if ours else "metaworld",
                     "embodied": here,
                     "metaworld": there(network, shown_there, task, settings)})  # fmt: skip
    cli.show(cli.table("success at any step, at the last", dict(map(shown, rows))))
    result = {"episodes": settings.episodes, "seed": settings.seed, "results": rows}
    cli.write_result(settings.json, cli.command_line("benchmarks.metaworld_transfer"), result)


def shown(row: Mapping[str, Any]) -> tuple[str, str]:
    """A row for the table."""
    found = (
        f"on {side} {row[side]['success_any']:.0%}, {row[side]['success']:.0%}" for side in ("metaworld", "embodied")
    )
    return f"{row['task']}, trained on {row['trained_on']} ({row['policy']})", "; ".join(found)


def quaternions(task: str, theirs: bool) -> tuple[np.ndarray, np.ndarray]:
    """Matrix (39, 39) and offset (39,) that make an observation of ours Meta-World's, or of Meta-World's ours."""
    matrix, offset = np.eye(39), np.zeros(39)
    known = json.loads(FACTS.read_text())["tasks"][task]["observation"]
    for thing, starts in QUATS.items():
        kind = known.get(thing, {}).get("quat", "w:").partition(":")[0]
        for start in starts:
            part = slice(start, start + 4)
            if kind == "x":
                matrix[part, part] = np.roll(np.eye(4), 1 if theirs else -1, axis=1)
            elif kind in ("zeros", "identity"):
                matrix[part, part] = 0.0
                offset[start] = 0.0 if theirs and kind == "zeros" else 1.0
    return matrix, offset


def of_ours(task: str, source: str) -> dict[str, Any]:
    """The layers of a run's policy, or of the one that is shipped for a task."""
    checkpoint = open_checkpoint(shipped_path(f"manipulation/{task}") if source == SHIPPED else Path(source))
    arrays = {name: values.numpy() for name, values in checkpoint.tensors.items() if name.startswith(PREFIX)}
    known = checkpoint.meta["policy"]
    numbers = sorted({int(name.split(".")[2]) for name in arrays if name.startswith("policy/actor.mean.")})
    layers = {}
    for place, number in enumerate(numbers):
        layers[f"weight{place}"] = arrays[f"policy/actor.mean.{number}.weight"]
        layers[f"bias{place}"] = arrays[f"policy/actor.mean.{number}.bias"]
    normal = {
        "mean": arrays["policy/observation_mean"],
        "scale": arrays["policy/observation_scale"],
        "clip": known["clip"],
    }
    return {**layers, **normal, "activation": known["activation"], "squashed": False}


def policy(network: Mapping[str, Any], shown: tuple[np.ndarray, np.ndarray]) -> PolicyFunction:
    """The perceptron as a policy: observation group `policy` (N, 39), changed by `shown`, to actions (N, 4)."""
    last = sum(name.startswith("weight") for name in network) - 1
    layers = [[torch.tensor(network[f"{kind}{n}"], dtype=torch.float32) for kind in ("weight", "bias")]
              for n in range(last + 1)]  # fmt: skip
    mean, scale = (torch.tensor(network[name], dtype=torch.float32) for name in ("mean", "scale"))
    clip, between = float(network["clip"]), torch.tanh if str(network["activation"]) == "tanh" else torch.relu

    matrix, offset = (torch.tensor(part, dtype=torch.float32) for part in shown)

    def act(observation: Mapping[str, Tensor]) -> Tensor:
        hidden = ((observation["policy"] @ matrix.T + offset - mean) * scale).clamp(-clip, clip)
        for number, (weight, bias) in enumerate(layers):
            hidden = hidden @ weight.T + bias
            hidden = between(hidden) if number < last else hidden
        return (torch.tanh(hidden) if network["squashed"] else hidden).clamp(-1.0, 1.0)

    return act


def there(
    network: Mapping[str, Any], shown: tuple[np.ndarray, np.ndarray], task: str, settings: Settings
) -> dict[str, float]:
    """Success on the original, whose observations are changed by `shown`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.npz"
        np.savez(file, matrix=shown[0], offset=shown[1], **network)
        command = of_metaworld(settings.metaworld, WORKER, str(file), task, str(settings.episodes))
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main(tyro.cli(Settings))
