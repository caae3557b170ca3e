"""The policy that a command line names: a bundle, or the one shipped for a task, which needs no bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError
from embodied.registry import join_content
from embodied.storage.paths import shipped
from policies.training.loading import policy_from_checkpoint, shipped_path
from sim2real.contract.contract import Contract, DeployablePolicy


class ShippedPolicy:
    """A policy in torch with the contract of its task: a dry run without a bundle."""

    def __init__(self, task: str) -> None:
        import torch

        from embodied.storage import checkpoints
        from sim2real.contract.describe import describe, is_whole_step
        from sim2real.graphs.describe_step import describe_step
        from sim2real.graphs.tracing.from_torch import PolicyNodes

        made: Any = join_content()[task].load()()
        self._policy = policy_from_checkpoint(checkpoints.load(shipped_path(task)), f"the policy shipped for '{task}'")
        self._tensor, self._graph = torch.from_numpy, None
        if is_whole_step(made) or self._policy.memory:
            described = describe_step(made, task, PolicyNodes(self._policy))
            self.contract: Contract = described.contract
            self._graph = described.graph
        else:
            self.contract = describe(made, task)

    def run(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        action = self._policy(self._tensor(np.asarray(observation, np.float32)[None]))[0].numpy()
        return action, self.contract.target(action)

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        assert self._graph is not None
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
