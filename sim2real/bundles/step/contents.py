"""Content of a bundle with a whole control step: ONNX, C, golden steps, README; the planner of a policy that sees."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from embodied.core.world import World
from policies.policy import Policy
from sim2real.bundles import files as bundle_files
from sim2real.bundles.network import ExportError
from sim2real.bundles.planner import golden as plans
from sim2real.bundles.planner.network import PlannerNetwork, with_metadata
from sim2real.bundles.step import c_code
from sim2real.bundles.step.readme import readme
from sim2real.contract import document
from sim2real.contract.contract import COMMAND
from sim2real.graphs import to_onnx
from sim2real.graphs.control import first_draw
from sim2real.graphs.describe_step import Described
from sim2real.graphs.golden import TOLERANCE, GoldenSteps, spread, walk, written
from sim2real.graphs.tracing.sources import Sources

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
    texts = {
        bundle_files.CONTRACT: text,
        bundle_files.GOLDEN: written(contract, golden),
        bundle_files.README: readme(
            contract, sum(node.value.size for node in described.graph.nodes if node.value is not None), digest
        ),
        **c_code.sources(described.graph, contract, golden, digest),
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
    assert step is not None
    inputs = spread(step, starting(described))
    observation, action, target = walk(step, inputs, lambda given: described.graph.run(**given))
    if policy is None:
        return GoldenSteps(inputs, action, target)
    expected = _in_torch(policy, observation)
    if not np.abs(action - expected).max(initial=0) <= TOLERANCE:
        raise ExportError(
            f"the exported network is {np.abs(action - expected).max():.2g} away from the policy in torch, more than "
            f"{TOLERANCE}"
        )
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


def starting(described: Described) -> dict[str, np.ndarray]:
    """Inputs of the first step of an episode: what is measured in simulation, and the contract's examples."""
    contract, task = described.contract, described.task
    assert contract.step is not None
    reset = first_draw(task)
    world = World.posed(task.model, reset.qpos, reset.qvel, reset.mocap_pos)
    joints = [joint.name for joint in contract.joints]
    parts = (np.asarray(part, float) for part in (world.qpos, world.qvel, world.sensordata))
    told = {f"{COMMAND}{one.name}": np.array(one.example) for one in contract.step.told}
    return {**Sources(task.model, joints).values(*parts), **told}
