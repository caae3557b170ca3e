"""Measures every task and writes metaworld.json; progress and disagreements go to the standard error."""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from .draws import make
from .episodes import responses
from .scenes import describe_cameras, describe_gripper, describe_options, describe_table
from .tasks import describe_task, published_splits, task_names

OUTPUT = Path(__file__).resolve().parents[1] / "metaworld.json"
DIGITS = 5
REACH_DRAW = (0, 0.65, 0.02, 0, 0.85, 0.175)  # m in the world frame: a puck and a goal away from the hand


def plain(value: Any) -> Any:
    """Numbers rounded to DIGITS, arrays as lists."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, (float, np.floating)):
        rounded = round(float(value), DIGITS) + 0.0
        # Keep two figures of what rounding would lose: masses and inertias of light parts.
        rounded = float(f"{value:.2g}") if abs(value) < 10 ** (1 - DIGITS) and abs(value) > 1e-9 else rounded
        return int(rounded) if rounded.is_integer() else rounded
    return int(value) if isinstance(value, np.integer) else value


def encode(value, depth):
    """JSON with the outer `depth` levels on lines of their own."""
    if depth == 0 or not isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"))
    items = (f"{json.dumps(k)}: {encode(v, depth - 1)}" for k, v in value.items())
    return "{\n" + ",\n".join(items) + "\n}"


def about():
    """Source of the numbers, and their units."""
    return {
        "package": "metaworld",
        "version": version("metaworld"),
        "mujoco": mujoco.__version__,
        "licence": "MIT; only measured facts are kept here",
        "units": "m, rad, kg; quaternions wxyz; size of a geom as in MuJoCo (halves); box_size, visual_box.size full",
    }


class Collection:
    """Gathers tasks and their scenes, and keeps once what they share: options, hand, cameras and tables."""

    def __init__(self):
        self.shared: dict[str, Any] = {}
        self.scenes: dict[str, Any] = {}
        self.tasks: dict[str, Any] = {}

    def add(self, name):
        """Measures one task."""
        task, scene, env = describe_task(name)
        task, scene = plain(task), plain(scene)
        parts = {
            "options": describe_options(env.model),
            "gripper": describe_gripper(env.model),
            "cameras": describe_cameras(env.model),
        }
        parts, table = plain(parts), plain(describe_table(env.model))
        if not self.shared:
            self.shared = {**parts, "tables": {"plain": table}, "responses": responses(make("reach"), REACH_DRAW)}
        entry = {"tasks": [], "table": self.name_table(table, task["scene"]), **scene}
        entry = self.scenes.setdefault(task["scene"], entry)
        entry["tasks"].append(name)
        differs = {key: part for key, part in parts.items() if part != self.shared[key]}
        if differs:
            entry["differs_from_shared"] = differs
        self.tasks[name] = task

    def name_table(self, table, scene):
        """The shared name of a table; a new one is named after its scene."""
        tables = self.shared["tables"]
        known = next((name for name, other in tables.items() if other == table), scene)
        tables.setdefault(known, table)
        return known


def main():
    """Measures every task and writes the file."""
    found = Collection()
    for name in task_names():
        found.add(name)
        task = found.tasks[name]
        check = task["expert"]["check"] if task["expert"] else "expert failed"
        print(name, task["draw"]["min_xy_distance"], check, file=sys.stderr)
    facts = {
        "about": about(),
        "splits": published_splits(),
        "shared": found.shared,
        "scenes": found.scenes,
        "tasks": found.tasks,
    }
    OUTPUT.write_text(encode(plain(facts), 3) + "\n")


if __name__ == "__main__":
    main()
