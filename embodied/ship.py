"""`python -m embodied.ship`: put a trained policy into the package, as `--policy shipped` finds it.

Only the policy is kept, not what a resume would need: a few hundred kilobytes at most.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import tempfile
from pathlib import Path

import tyro

from embodied import cli
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, guard
from embodied.storage import checkpoints, task_names
from embodied.storage.paths import asset_roots
from policies.training.loading import PREFIX, open_checkpoint

LARGEST = 1_000_000  # bytes of a shipped policy
KEPT = ("policy", "task", "identities", "task_encoding", "needs")  # of a checkpoint's meta: what loading a policy reads
BEFORE = ".before"  # suffix of the folder of a policy while another takes its place


@dataclasses.dataclass(frozen=True)
class Settings:
    """Copy the policy of a run into assets/policies/TASK."""

    run: tyro.conf.Positional[Path]
    """A run folder or one of its checkpoints."""
    replace: bool = False
    """Replace the policy that is shipped for this task now."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "ship")
    path = ship(settings.run, replace=settings.replace)
    size = sum(file.stat().st_size for file in path.iterdir())
    cli.show(f"shipped {path} ({size / 1e3:.0f} kB)")
    return 0


def ship(run: Path, *, replace: bool) -> Path:
    """Write the policy-only checkpoint; returns its folder.

    Raises:
        EmbodiedError: the run holds no policy, its task is not registered, it is too large, or one is shipped already.
    """
    checkpoint = open_checkpoint(run)
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name.startswith(PREFIX)}
    if not tensors or "task" not in checkpoint.meta:
        raise EmbodiedError(
            f"'{checkpoint.path}' holds no policy; expected tensors under '{PREFIX}' and the key 'task'"
        )
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > LARGEST:
        raise EmbodiedError(f"the policy has {size:,} bytes; at most {LARGEST:,} are shipped with the package")
    name = str(checkpoint.meta["task"])
    if task_names.own_file(name):
        raise EmbodiedError(f"{task_names.label(name)} is a task of your own; the package ships policies of its tasks")
    task = join_content().find(name).name  # no name from a file becomes a path unchecked
    target = asset_roots()[0] / "policies" / task
    if target.exists() and not replace:
        raise EmbodiedError(f"a policy is shipped already in '{target}'; --replace replaces it")
    meta = {key: checkpoint.meta[key] for key in KEPT if key in checkpoint.meta}
    with tempfile.TemporaryDirectory(dir=target.parent.parent.parent) as temporary:
        saved = checkpoints.save(Path(temporary), checkpoint.step, tensors, meta)
        target.parent.mkdir(parents=True, exist_ok=True)
        before = target.with_name(f"{target.name}{BEFORE}")
        if target.exists():
            shutil.rmtree(before, ignore_errors=True)
            target.rename(before)
        try:
            saved.rename(target)
        except OSError:
            if before.exists():
                before.rename(target)
            raise
        shutil.rmtree(before, ignore_errors=True)
    return target


if __name__ == "__main__":
    sys.exit(main())
