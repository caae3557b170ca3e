"""The policy that a command line names: a bundle, or the one shipped for a task, which needs no bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage.paths import shipped
from policies.training.loading import policy_from_checkpoint, shipped_path
from sim2real.contract.contract import Contract, DeployablePolicy


class ShippedPolicy:
    """A policy in torch with the control step of its task: a dry run without a bundle."""

    def __init__(self, task: str) -> None:
        from embodied.storage import checkpoints
        from sim2real.graphs.describe import describe
        from sim2real.graphs.tracing.from_torch import PolicyNodes

        made: Any = join_content()[task].load()()
        policy = policy_from_checkpoint(checkpoints.load(shipped_path(task)), f"the policy shipped for '{task}'")
        described = describe(made, task, PolicyNodes(policy))
        self.contract: Contract = described.contract
        self._graph = described.graph

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return self._graph.run(**inputs)


def load(name: str) -> DeployablePolicy:
    """A bundle's folder, or the policy shipped for a task of this name.

    Raises:
        EmbodiedError: it is neither, or a bundle that does not verify.
    """
    if Path(name).exists():
        from sim2real.bundles import bundle

        return bundle.load(name)
    if name in join_content():
        return ShippedPolicy(name)
    raise EmbodiedError(
        f"'{name}' is neither a bundle's folder nor a task with a shipped policy; export a bundle with "
        f"python -m sim2real.export RUN --out bundle, or try one of {', '.join(shipped())}"
    )
