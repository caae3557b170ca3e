"""The tree is the theory: layers, rooms and circles, and where a stranger finds what he looks for."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

from embodied.cli.commands import GROUPS
from tests.kit.import_graph import ROOT, all_modules, imports, modules, parsed

ENTRIES = (
    "train", "evaluate", "play", "list", "bench.__main__", "collect", "curves", "ship", "snapshots", "sweep.__main__",
    "ladder.__main__",
)  # fmt: skip
"""Commands in `embodied/` that join mechanism and content: they parse a command line, call and print."""
MOST_CHILDREN = 12
"""Modules and folders side by side in a folder."""


def test_no_module_imports_itself_through_others() -> None:
    graphlib.TopologicalSorter(imports()).prepare()  # a CycleError names the modules


def test_embodied_imports_nothing_above_it() -> None:
    entries = {f"embodied.{name}" for name in ENTRIES}
    mechanism = {
        name: names for name, names in imports().items() if name.startswith("embodied") and name not in entries
    }
    upward = {
        name: sorted(other for other in names if not other.startswith("embodied")) for name, names in mechanism.items()
    }
    assert {name: others for name, others in upward.items() if others} == {}


def test_policies_and_tasks_do_not_know_sim2real() -> None:
    below = {name: names for name, names in imports().items() if name.startswith(("policies", "tasks"))}
    assert [name for name, names in below.items() if any(other.startswith("sim2real") for other in names)] == []


def test_no_folder_is_crowded() -> None:
    """Modules and folders of a folder; commands, which are called by their names, are not counted."""
    commands = {command.module for group in GROUPS.values() for command in group}
    children: dict[str, set[str]] = {}
    for name in modules():
        *parents, _ = parts = name.split(".")
        for depth in range(1, len(parents) + 1):
            if parts[depth] != "__main__":
                children.setdefault(".".join(parts[:depth]), set()).add(".".join(parts[: depth + 1]))
    counts = {folder: len(inner - commands) for folder, inner in children.items()}
    assert {folder: count for folder, count in counts.items() if count > MOST_CHILDREN} == {}


REACHED = r"\.(stepper|_?simulator)\b"


def test_nobody_reaches_through_the_environment_to_its_simulator() -> None:
    places = [
        f"{name}:{node.lineno}"
        for name, path in all_modules().items()
        if not path.is_relative_to(ROOT / "embodied" / "env")
        and re.search(REACHED, path.read_text(encoding="utf-8"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("stepper", "simulator", "_simulator")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]  # fmt: skip
    assert places == []


FINDS = {
    "SAC's actor loss": ("policies/off_policy/sac.py", "SACActorUpdate"),
    "the NaN guard": ("embodied/env/vectorized/nan_guard.py", "check"),
    "generalised advantage estimation": ("policies/ppo/gae.py", "gae"),
    "the sensors and servos that tasks read": ("embodied/robot/standard.py", "standard_model"),
    "settings by a joint's role": ("tasks/locomotion/robots.py", "BIPED_POSE"),
    "the observation noise of Go1": ("tasks/locomotion/legged.py", "Noise"),
    "the Crazyflie's drag": ("tasks/swarm/dynamics/crazyflie.py", "CRAZYFLIES"),
    "how a camera image becomes an observation": ("embodied/rendering/cameras.py", "CameraObserver"),
    "the ONNX writer": ("sim2real/graphs/to_onnx.py", "build"),
    "the safety chain": ("sim2real/deployment/safety.py", "Safety"),
    "the LeRobot writer": ("embodied/storage/datasets/writer.py", "DatasetWriter"),
    "the robot of a table task": ("tasks/manipulation/common/robots.py", "TableRobot"),
    "the model of an arm": ("embodied/robot/prepared/arm.py", "arm_model"),
    "the scripted expert of drawer-open": ("tasks/manipulation/articulated/drawers.py", "DrawerOpen.script"),
    "the planner of grasps": ("tasks/grasping/planner/planner.py", "Planner"),
    "MJX's contact limits": ("embodied/engines/mjx/buffers.py", "room_for"),
    "Bullet's rotor inertia": ("embodied/engines/pybullet/rotors.py", "Rotors"),
    "checkpoint hashing": ("embodied/storage/checkpoints.py", "_fingerprint"),
    "the registry of third-party tasks": ("embodied/env/registry.py", "join_entry_points"),
    "options of environments": ("embodied/env/options.py", "EnvOptions"),
    "a change of tasks by flags": ("embodied/env/options.py", "Wrapper"),
    "the registry of third-party algorithms": ("policies/registry.py", "register"),
    "a task named by its file": ("embodied/core/task_file.py", "import_file"),
    "the contract of a task": ("embodied/check/contract.py", "CHECKS"),
    "what a task says of its team": ("embodied/core/facets.py", "Team"),
    "pushes that a task adds": ("embodied/parts/pushes.py", "Pushes"),
    "the template of a new task": ("embodied/new/writing.py", "TEMPLATES"),
    "the table that evaluate prints": ("embodied/evaluation/tables.py", "evaluation_rows"),
    "the table of commands": ("embodied/cli/commands.py", "GROUPS"),
    "what an unknown flag may have meant": ("embodied/cli/flags.py", "meant"),
    "tables that fit 80 columns": ("embodied/cli/tables.py", "Table"),
    "the bootstrap over seeds": ("embodied/evaluation/aggregate.py", "aggregate"),
    "ratings of the sides of a game": ("embodied/evaluation/ratings.py", "maximum_likelihood"),
    "several seeds by one command": ("policies/training/seeds.py", "train_seeds"),
    "the viewer's panel": ("embodied/viewer/panel.py", "Panel"),
    "MAPPO's critic": ("embodied/env/multi_agent.py", "AgentsEnv"),
    "GRPO's advantages": ("policies/vla/reinforcement/grpo.py", "GRPOEstimator"),
    "action chunks": ("policies/vla/action_chunks.py", "ChunkedPolicy"),
    "the interval of a calibration": ("sim2real/identification/calibration.py", "Estimate.interval"),
    "the failure map": ("sim2real/failures/failure_map.py", "FailureMap"),
    "the range of the floor's friction": ("tasks/locomotion/legged.py", "Variation"),
    "what decides that a table task is solved": ("tasks/manipulation/common/tabletop.py", "Tabletop.solved"),
    "the limits of targets in an exported step": ("sim2real/graphs/control.py", "ControlGraph"),
    "the robot's watchdog of a silent host": ("sim2real/robots/udp_bridge.py", "BridgeOptions.watchdog"),
    "the UDP protocol": ("sim2real/robots/udp_messages.py", "pack_command"),
}
"""What someone looks for -> the file and the definition in it; `docs/design.md` names the same files."""


def definitions(path: Path) -> set[str]:
    """Classes, functions, methods as `Class.method`, and constants of a file."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    visit(parsed(path).body, "")
    return found


@pytest.mark.parametrize("what", FINDS)
def test_where_to_look(what: str) -> None:
    file, definition = FINDS[what]
    assert definition in definitions(ROOT / file)
    assert file in (ROOT / "docs" / "design.md").read_text(encoding="utf-8")


def test_folders_import_each_other_one_way() -> None:
    """Of two folders of which neither is in the other."""
    known = modules()
    folder = {name: path.parent.relative_to(ROOT).as_posix() for name, path in known.items()}
    entries = {f"embodied.{name}" for name in ENTRIES}
    inner = ((name, others) for name, others in imports().items() if name not in entries)
    edges = {(folder[name], folder[other]) for name, others in inner for other in others}
    mutual = {(one, other) for one, other in edges if one < other and (other, one) in edges}
    assert not {(one, other) for one, other in mutual if not other.startswith(f"{one}/")}
