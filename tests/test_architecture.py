"""The tree is the theory: layers, rooms and circles, and where a stranger finds what he looks for."""

from __future__ import annotations

import ast
import re

import pytest

from tests.kit.import_graph import ROOT, all_modules, imports, modules, parsed

ENTRIES = (
    "train", "evaluate", "play", "list", "bench", "collect", "curves", "ship", "snapshots", "sweep.__main__",
    "ladder.__main__",
)  # fmt: skip
"""Commands in `embodied/` that join mechanism and content: they parse a command line, call and print."""
MOST_MODULES = 12
"""Modules side by side in a folder: as many as a reader takes in at a glance."""


def circles(graph: dict[str, frozenset[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            place = stack.index(name)
            component, stack[place:] = stack[place:], []
            if len(component) > 1:
                found.append(sorted(component))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_no_module_imports_itself_through_others() -> None:
    assert circles(imports()) == []


def test_circles_are_found() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a")}
    assert circles(graph) == [["a", "b", "c"]]


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
    folders: dict[str, int] = {}
    for path in modules().values():
        if path.name not in ("__init__.py", "__main__.py"):  # the folder itself, imported and called
            folder = path.parent.relative_to(ROOT).as_posix()
            folders[folder] = folders.get(folder, 0) + 1
    assert {folder: count for folder, count in folders.items() if count > MOST_MODULES} == {}


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
    "SAC's actor loss": ("policies/off_policy/sac.py", "class SACActorUpdate"),
    "the NaN guard": ("embodied/env/nan_guard.py", "def check"),
    "automatic domain randomisation": ("embodied/core/adr.py", "class AutomaticDomainRandomization"),
    "generalised advantage estimation": ("policies/ppo/gae.py", "def gae"),
    "truncation: bootstrapping where only time ended an episode": ("policies/ppo/gae.py", "truncated"),
    "the observation noise of Go1": ("tasks/locomotion/joystick.py", "noise"),
    "the Crazyflie's drag": ("tasks/swarm/dynamics/aerodynamics.py", "drag"),
    "how a camera image becomes an observation": ("embodied/rendering/cameras.py", "class CameraObserver"),
    "the ONNX writer": ("sim2real/bundles/onnx_graph.py", "def "),
    "the safety chain": ("sim2real/deployment/safety.py", "class Safety"),
    "the LeRobot writer": ("embodied/datasets/writer.py", "class DatasetWriter"),
    "the scripted expert of drawer-open": ("tasks/manipulation/articulated/drawers.py", "class DrawerOpen"),
    "the planner of grasps": ("tasks/grasping/planner/planner.py", "class Planner"),
    "MJX's contact limits": ("embodied/engines/mjx/buffers.py", "max_contacts"),
    "Bullet's rotor inertia": ("embodied/engines/pybullet/rotors.py", "class Rotors"),
    "checkpoint hashing": ("embodied/storage/checkpoints.py", "sha256"),
    "the registry of third-party tasks": ("embodied/registry.py", "def join_entry_points"),
    "a task named by its file": ("embodied/core/task_file.py", "def import_file"),
    "the contract of a task": ("embodied/check/contract.py", "CHECKS = ("),
    "pushes that a task of one's own adds": ("embodied/parts/pushes.py", "class Pushes"),
    "the template of a new task": ("embodied/new/writing.py", "TEMPLATES"),
    "the table that evaluate prints": ("embodied/evaluation/tables.py", "def evaluation_rows"),
    "the table of commands": ("embodied/cli/commands.py", "GROUPS"),
    "what an unknown flag may have meant": ("embodied/cli/flags.py", "def meant"),
    "tables that fit 80 columns": ("embodied/cli/tables.py", "class Table"),
    "the bootstrap over seeds": ("embodied/evaluation/aggregate.py", "stats.bootstrap"),
    "ratings of the sides of a game": ("embodied/evaluation/ratings.py", "def maximum_likelihood"),
    "several seeds by one command": ("policies/training/seeds.py", "def train_seeds"),
    "the viewer's panel": ("embodied/viewer/panel.py", "class Panel"),
    "MAPPO's critic": ("embodied/env/multi_agent.py", "critic"),
    "GRPO's advantages": ("policies/vla/reinforcement/grpo.py", "class GRPOEstimator"),
    "action chunks": ("policies/vla/action_chunks.py", "class ChunkedPolicy"),
    "the interval of a calibration": ("sim2real/identification/calibration.py", "def interval"),
    "the failure map": ("sim2real/failures/failure_map.py", "class FailureMap"),
    "the UDP protocol": ("sim2real/robots/udp_messages.py", "def "),
}
"""What a stranger looks for -> the file and a line in it; `docs/design.md` names the same files."""


@pytest.mark.parametrize("what", FINDS)
def test_a_stranger_finds(what: str) -> None:
    file, line = FINDS[what]
    assert line in (ROOT / file).read_text(encoding="utf-8")
    assert file in (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
