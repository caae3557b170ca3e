"""Checkpoints that a resume, an evaluation and a robot can all use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from embodied.storage.checkpoints import flatten, prune
from embodied.storage.runs import Run
from policies.vla.policy import VLAPolicy

KEPT = 3  # checkpoints of a run


def save_policy(run: Run, step: int, policy: VLAPolicy, trainer: Mapping[str, Any], task: str | None) -> None:
    """Write a checkpoint of a policy and of what trains it, and remove old ones.

    Args:
        run: Where.
        step: By which the checkpoint is called.
        policy: What robots run.
        trainer: State of the training.
        task: Task or suite that it is for, if any.
    """
    meta, tensors = policy.to_tensors()
    named = {"task": task} if task else {}
    run.save(step, flatten({"policy": tensors, "trainer": trainer}), {"policy": meta, **named})
    prune(run.checkpoints, keep=KEPT)
