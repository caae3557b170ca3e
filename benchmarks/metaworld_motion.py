"""Distance of our hand from Meta-World's under the same actions: ten sequences of 30 control steps in free air.

Both hands begin at rest; what is compared is the way from there. The gripper's opening is compared as it closes.

    python3 -m venv .venv-metaworld && .venv-metaworld/bin/pip install metaworld==3.1.1 packaging
    python -m benchmarks.metaworld_motion --metaworld .venv-metaworld/bin/python --json FILE
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import torch
import tyro

import embodied
from benchmarks.metaworld_policies import of_metaworld
from embodied.errors import guard

WORKER = Path(__file__).parent / "reference" / "others" / "metaworld_motion.py"
STEPS = 30
OPEN, CLOSE = -1.0, 1.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the runs."""

    metaworld: Path = Path(".venv-metaworld/bin/python")
    """Python that has metaworld."""
    json: Path | None = None
    """File for the results."""


def sequences() -> dict[str, np.ndarray]:
    """Name -> actions (30, 4): ten full steps each way and a rest, slow and fast ways, turns, the gripper closing."""
    still = np.zeros((STEPS, 4))
    still[:, 3] = OPEN
    found = {}
    for axis, name in enumerate("xyz"):
        for sign, way in ((1.0, "+"), (-1.0, "-")):
            actions = still.copy()
            actions[:10, axis] = sign
            found[f"ten steps {way}{name}"] = actions
    half, turning, drawn = still.copy(), still.copy(), still.copy()
    half[:, 0] = -0.5
    turning[:15, :3], turning[15:, :3] = (0.7, 0.5, -0.3), (-0.5, 0.3, 0.2)
    drawn[:, :3] = np.repeat(np.random.default_rng(0).uniform(-1, 1, (6, 3)), 5, 0)
    closing = still.copy()
    closing[:, 3] = CLOSE
    return {**found, "half speed -x": half, "a turn": turning, "random, held for five": drawn, "closing": closing}


def theirs(python: Path, actions: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Name -> hand and opening (31, 4) of Meta-World."""
    asked = json.dumps({name: each.tolist() for name, each in actions.items()})
    answer = subprocess.run(
        of_metaworld(python, WORKER), input=asked, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return {name: np.array(trace) for name, trace in json.loads(answer).items()}


def ours(actions: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same of ours, all at once."""
    env = embodied.make("manipulation/reach", len(actions), "mujoco", 0)
    steps = torch.tensor(np.stack(list(actions.values()), 1), dtype=torch.float32)
    seen = [env.reset(0)["policy"][:, :4].numpy().copy()]
    seen += [env.step(step).obs["policy"][:, :4].numpy().copy() for step in steps]
    env.close()
    return dict(zip(actions, np.stack(seen, 1), strict=True))


@guard
def main(settings: Settings) -> None:
    """Run and print."""
    actions = sequences()
    mine, other = ours(actions), theirs(settings.metaworld, actions)
    rows: list[dict[str, Any]] = []
    for name in actions:
        ways = [trace[name][:, :3] - trace[name][0, :3] for trace in (mine, other)]
        apart = np.linalg.norm(ways[0] - ways[1], axis=1)
        opening = np.abs(mine[name][:, 3] - other[name][:, 3])
        rows.append({"actions": name, "apart": float(apart.max()), "apart_at_the_end": float(apart[-1]),
                     "opening_apart": float(opening.max())})  # fmt: skip
    cli.show(cli.table("mm between the hands: at most, at the end", {
        row["actions"]: f"{row['apart'] * 1e3:.1f}, {row['apart_at_the_end'] * 1e3:.1f}" for row in rows
    }))  # fmt: skip
    result = {"worst": max(row["apart"] for row in rows), "results": rows,
              "units": {"worst": "m", "apart": "m", "apart_at_the_end": "m"}}  # fmt: skip
    cli.write_result(settings.json, cli.command_line("benchmarks.metaworld_motion"), result)


if __name__ == "__main__":
    main(tyro.cli(Settings))
