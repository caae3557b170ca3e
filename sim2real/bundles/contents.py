"""Content of a bundle: ONNX, C, golden steps, README; the planner of a policy that sees; the drone's controller."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from policies.policy import Policy
from sim2real.bundles import c_code, crazyflie_code
from sim2real.bundles import files as bundle_files
from sim2real.bundles.files import ExportError
from sim2real.bundles.planner import golden as plans
from sim2real.bundles.planner.network import PlannerNetwork, with_metadata
from sim2real.bundles.readme import readme
from sim2real.contract import document
from sim2real.graphs import to_onnx
from sim2real.graphs.describe import Described
from sim2real.graphs.golden import TOLERANCE, GoldenSteps, spread, walk, written

PRODUCER = {"producer": "embodied sim2real.export"}


def contents(
    described: Described, policy: Policy | None = None, network: PlannerNetwork | None = None
) -> tuple[dict[str, bytes], str]:
    """File name -> content, but for the manifest; and the policy's digest.

    Args:
        described: Contract and control step.
        policy: That the step holds.
        network: That plans the step's actions.

    Raises:
        ExportError: the graph gives other actions than the policy in torch.
    """
    contract = described.contract
    text = document.contract_text(contract)
    bare = to_onnx.build(described.graph, "control step", {}).SerializeToString(deterministic=True)
    seeing = b"" if network is None else network.serialised(contract)
    digest = hashlib.sha256(text.encode() + b"\n" + bare + seeing).hexdigest()
    golden = golden_of(described, policy)
    metadata = {"contract": text, "sha256": digest, **PRODUCER}
    model = to_onnx.build(described.graph, "control step", metadata)
    numbers = sum(node.value.size for node in described.graph.nodes if node.value is not None)
    code = c_code.sources(described.graph, contract, golden, digest)
    texts = {
        bundle_files.CONTRACT: text,
        bundle_files.GOLDEN: written(contract, golden),
        bundle_files.README: readme(contract, numbers, digest),
        **code,
        **crazyflie_code.sources(described.graph, contract, golden, code, digest),
    }
    files = {name: content.encode() for name, content in texts.items()}
    files[bundle_files.ONNX] = model.SerializeToString(deterministic=True)
    if network is not None:
        files[bundle_files.PLANNER] = with_metadata(seeing, {"sha256": digest, **PRODUCER})
        files[bundle_files.PLANS] = plans.written(network.golden(contract))
    return dict(sorted(files.items())), digest


def golden_of(described: Described, policy: Policy | None) -> GoldenSteps:
    """Steps around an episode's start, with what the graph makes of them, which is what the policy in it would do."""
    step = described.contract.step
    inputs = spread(step, described.start)
    observation, action, target = walk(step, inputs, lambda given: described.graph.run(**given))
    off = 0.0 if policy is None else np.abs(action - _in_torch(policy, observation)).max(initial=0)
    if not off <= TOLERANCE:
        raise ExportError(f"the exported network is {off:.2g} away from the policy in torch, more than {TOLERANCE}")
    return GoldenSteps(inputs, action, target)


def _in_torch(policy: Policy, observation: np.ndarray) -> np.ndarray:
    """(count, A) what a policy does with observations (count, n) of consecutive steps."""
    seen = torch.from_numpy(observation).to(policy.network.observation_mean.device)
    if not policy.memory:
        return policy(seen).cpu().numpy()
    hidden, actions = seen.new_zeros(1, policy.memory), []
    for row in seen:
        action, hidden = policy.step(row[None], hidden)
        actions.append(action[0].clamp(-1.0, 1.0))
    return torch.stack(actions).cpu().numpy()
