"""`python -m sim2real.export`: a trained policy as a folder that holds all a robot needs to run it."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import torch
import tyro

from embodied.core.task import Task
from embodied.env.registry import TaskEncoding, join_content
from embodied.env.vec_env import POLICY
from embodied.env.wrappers.task_encoding import one_hot, spoken
from embodied.errors import UnknownNameError, guard, listing, reason
from embodied.storage import checkpoints, task_names, trust
from embodied.storage.checkpoints import Checkpoint
from embodied.storage.configs import from_json, override
from embodied.storage.files import TEMPORARY, embodied_version, seal, sync_folder, write_synced
from embodied.storage.paths import shipped
from embodied.storage.runs import Run
from policies.policy import Policy
from policies.training.loading import RUNS, open_checkpoint, policy_from_checkpoint
from policies.vla.policy import VLAPolicy
from sim2real.bundles import bundle, c_code
from sim2real.bundles import files as bundle_files
from sim2real.bundles.contents import contents
from sim2real.bundles.files import ExportError
from sim2real.bundles.planner.network import SEEING
from sim2real.contract.contract import Contract
from sim2real.graphs.describe import describe
from sim2real.graphs.identified import IdentifiedPolicy
from sim2real.graphs.onnx_check import onnx_package
from sim2real.graphs.tracing.from_torch import PolicyNodes


@dataclasses.dataclass(frozen=True)
class Settings:
    """Export a policy for a robot.

    Writes a folder with the whole control step, from measurements to targets, as ONNX and as C, the contract (joint
    order, units, default pose, gains, rates, observation terms, limits), golden steps and a README to deploy from. It
    is verified before it gets its name. Examples:

        python -m sim2real.export locomotion/go1-joystick-flat --out go1/
        python -m sim2real.export runs/swarm/hover/20261121-103000 --out hover/
        python -m sim2real.export runs/locomotion/velocity/20261125-103000 --robot a1/a1.urdf --out a1/
        python -m sim2real.export mt10 --task manipulation/window-open --out window/
        python -m sim2real.export runs/vla/mt10 --task manipulation/drawer-open --out drawer/
    """

    policy: tyro.conf.Positional[str]
    """A run folder, a checkpoint, or a task: its shipped policy, else its newest run."""
    out: Path = Path("bundle")
    """The folder to write; a bundle that is there is replaced."""
    robot: Path | None = None
    """Model file of the robot, if it no longer lies where the run found it."""
    task: str | None = None
    """Which task, of a policy of many, such as one of mt10."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "sim2real.export")
    check_place(settings.out)
    onnx_package()
    policy, task, path = trained(settings.policy, settings.robot, settings.task)
    name = task_names.label(path)  # a bundle goes to other machines, with other folders
    made = write(settings.out, policy, task, name)
    rows = {
        "task": name,
        "robot": robot_of(made.contract),
        "observation": f"{made.contract.observation_size} numbers, {made.contract.control_hz:g} times a second",
        "action": f"{len(made.contract.actuators)} targets",
        "ONNX": f"verified with {made.golden.count} golden steps",
        "C99": c_code.prove(settings.out) or "not verified here: no C compiler found",
        **bundle.planner_rows(made.contract),
        "sha256": made.sha256[:16],
    }
    cli.show(cli.table(f"-> {settings.out}", rows))
    return 0


def robot_of(contract: Contract) -> str:
    """A contract's robot, and the name of its model file if it has one of its own."""
    return contract.robot if contract.model is None else f"{contract.robot}, of {Path(contract.model.path).name}"


def trained(name: str, robot: Path | None = None, task: str | None = None) -> tuple[Any, Task[Any], str]:
    """The policy that a command line means, its task as it was trained, and the task's name.

    Args:
        name: A run, a checkpoint or a task.
        robot: Where the model file of a user's robot lies now.
        task: Which one, of a policy of many.

    Raises:
        EmbodiedError: there is none, or it cannot run on a robot by itself.
    """
    checkpoint = open_checkpoint(find(name))
    if "episodes_per_trial" in checkpoint.meta.get("needs", {}):
        raise ExportError(
            f"'{checkpoint.path}' holds a policy that learned in trials: it observes rewards, which no robot measures; "
            "expected one that was trained without --episodes-per-trial"
        )
    policy = policy_from_checkpoint(checkpoint, f"policy '{name}'")
    if isinstance(policy, VLAPolicy):
        known = [one.task for one in policy.training_tasks]
        chosen = known[0] if task is None and len(known) == 1 else one_of(checkpoint, known, task)
        return policy, join_content()[chosen].load()(), chosen
    if identities := checkpoint.meta.get("identities"):
        chosen = one_of(checkpoint, identities, task)
        made = join_content()[chosen].load()()
        if checkpoint.meta.get("task_encoding") == TaskEncoding.WORDS and made.language is not None:
            codes = spoken(made.language.instructions[:1])
        else:
            codes = one_hot(identities.index(chosen), len(identities))
        return IdentifiedPolicy(policy, codes[0]), made, chosen
    own = trust.found_in(checkpoint.path.parents[1], str(checkpoint.meta.get("task")))
    if task not in (None, own):
        raise ExportError(f"'{checkpoint.path}' holds a policy of {own}, not of {task}")
    return policy, task_of(checkpoint, own, robot), own


def one_of(checkpoint: Checkpoint, known: Sequence[str], task: str | None) -> str:
    """The requested task, of those that a policy was trained on."""
    if task is None:
        raise ExportError(f"'{checkpoint.path}' holds a policy of many tasks; say which by --task: {listing(known)}")
    if task not in known:
        raise UnknownNameError(f"task of '{checkpoint.path}'", task, known)
    return task


def find(name: str) -> Path:
    """Path of the checkpoint or run that a word means: a path, or a task that has a policy."""
    if Path(name).is_dir() or (Path(name).exists() and not task_names.own_file(name)):
        return Path(name)
    if name in shipped():
        return shipped()[name]
    task = join_content()[name].name
    runs = [run for run in Run.all(RUNS, task) if checkpoints.steps(run.checkpoints)]
    if not runs:
        others = f"shipped are {listing(shipped())}"
        raise ExportError(f"no policy for '{task}': {others}; or python -m embodied.train {task}")
    return runs[0].path


def task_of(checkpoint: Checkpoint, name: str, robot: Path | None = None) -> Task[Any]:
    """The task of a checkpoint, with its run's config, or the default one where it belongs to no run.

    Raises:
        EmbodiedError: the task takes no robot from a file, or not from this one.
    """
    kind = join_content()[name].load()
    config = kind.config_type()
    if checkpoint.path.parent.name == "checkpoints":
        saved = Run.open(checkpoint.path).config.get("config")
        config = config if saved is None else from_json(type(config), saved)
    return kind(config if robot is None else override(config, {"robot": str(robot)}))


def write(out: Path, policy: Any, task: Task[Any], name: str) -> bundle.Bundle:
    """Write a bundle, verify it, and only then give it its name.

    Args:
        out: The folder; a bundle that is there is replaced.
        policy: On any device.
        task: As it was trained.
        name: What it is called.

    Returns:
        The bundle as it was read back.

    Raises:
        EmbodiedError: task or policy cannot be exported or do not fit together, or the folder is in use.
    """
    check_place(out)
    onnx_package()
    if (seeing := SEEING.get(type(policy))) is not None:
        network = seeing(policy, task, name)
        described = describe(task, name, group=network.group, planner=network.planner)
        return finished(out, *contents(described, network=network), described.contract)
    described = describe(task, name, nodes_of(policy))
    return finished(out, *contents(described, policy), described.contract)


def nodes_of(policy: Policy) -> PolicyNodes:
    """Translation of a policy into nodes of a step.

    Raises:
        ExportError: it reads what no step gives it, or its numbers are not finite.
    """
    if policy.group != POLICY:
        raise ExportError(f"the policy reads '{policy.group}'; a step hands it '{POLICY}'")
    if not all(torch.isfinite(tensor).all() for tensor in policy.network.state_dict().values()):
        raise ExportError("the policy holds numbers that are not finite; its training diverged")
    return PolicyNodes(policy)


def finished(out: Path, files: Mapping[str, bytes], digest: str, contract: Contract) -> bundle.Bundle:
    """A bundle's files under its name, once they were verified."""
    out = Path(os.path.abspath(out))
    temporary = out.with_name(f"{TEMPORARY}{out.name}-{uuid.uuid4().hex[:8]}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for name, data in {**files, bundle_files.MANIFEST: manifest(files, contract, digest)}.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            write_synced(temporary / name, data)
        bundle.load(temporary)
        exchange(temporary, out)
    except OSError as error:
        raise ExportError(f"cannot write '{out}': {reason(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return bundle.load(out)


def exchange(temporary: Path, out: Path) -> None:
    """Give a finished folder its name; the former folder of that name is removed afterwards."""
    old = temporary.with_name(f"{temporary.name}-old")
    if out.exists():
        out.rename(old)
    try:
        temporary.rename(out)
    except OSError:
        if old.exists():
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)
    sync_folder(out.parent)


def check_place(out: Path) -> None:
    """Raise an `ExportError` where anything but a bundle would be replaced."""
    if out.resolve() == Path.cwd():
        raise ExportError(f"--out '{out}' is the folder that this runs in, which would be replaced; choose another")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not bundle_files.is_bundle(out):
        raise ExportError(f"'{out}' exists and is no bundle; it is left alone. Choose another --out")


def manifest(files: Mapping[str, bytes], contract: Contract, digest: str) -> bytes:
    """The sealed list of what a bundle holds."""
    listed = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    head = {"format": bundle_files.FORMAT, "embodied": embodied_version()}
    return seal({**head, "task": contract.task, "robot": contract.robot, "policy": digest, "files": listed})


if __name__ == "__main__":
    sys.exit(main())
