"""`Bundle`: an exported policy, read only after its hashes and its golden vectors were verified.

A bundle is a folder of these files and no others:

    manifest.json    size and SHA-256 of every file, and of itself
    contract.json    `sim2real.contract.contract.Contract`
    policy.onnx      the control step, see `sim2real.graphs.to_onnx`
    policy.c/.h      the same, see `sim2real.bundles.c_code`; check.c proves them
    golden.csv       consecutive steps: inputs, actions and targets
    README.md        how to deploy it
    planner.onnx     the network of a policy that sees, `sim2real.bundles.planner`; planner.safetensors proves it
    crazyflie/       a controller for the drone's firmware, where that is the robot

Hashes find damage and edits; they do not prove who made a bundle. Therefore nothing in it is executed: JSON and CSV are
read by strict parsers with bounded sizes, and a network may consist only of the operators an exported one has.

python -m sim2real.bundles.bundle FOLDER verifies a bundle and describes it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tyro

from embodied.errors import EmbodiedError, guard, listing
from sim2real.bundles.files import (
    CONTRACT,
    GOLDEN,
    ONNX,
    PLANNER,
    PLANS,
    BundleError,
    refused,
    refusing,
    verified_files,
)
from sim2real.bundles.onnx_session import session
from sim2real.bundles.planner import golden as plans
from sim2real.bundles.planner.runtime import PlannerRuntime
from sim2real.contract.contract import Contract
from sim2real.contract.document import read_text
from sim2real.graphs import onnx_check
from sim2real.graphs.golden import TOLERANCE, GoldenSteps, difference, walk
from sim2real.graphs.golden import read as read_golden

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


DO_NOT = "do not deploy it"


class Bundle:
    """A verified policy, made by `load`; `plan` is for one that sees."""

    path: Path
    """The folder it was read from."""
    contract: Contract
    sha256: str
    """Of the network and the contract: names this policy."""
    golden: GoldenSteps

    def __init__(
        self,
        path: Path,
        contract: Contract,
        sha256: str,
        golden: GoldenSteps,
        session: InferenceSession,
        planner: PlannerRuntime | None = None,
    ) -> None:
        self.path, self.contract, self.sha256, self.golden = path, contract, sha256, golden
        self._session, self._planner = session, planner
        self._inputs = {entry.name: tuple(entry.shape) for entry in session.get_inputs()}
        self._outputs = {entry.name: tuple(entry.shape) for entry in session.get_outputs()}

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """One control step.

        Args:
            inputs: Name -> (size,) of every input, as the contract's `step` has them.

        Returns:
            Name -> (size,) float32 of every output; all NaN where an input is infinite or NaN.

        Raises:
            BundleError: an input is missing or has another length.
        """
        given = {}
        for name, shape in self._inputs.items():
            value = np.asarray(inputs.get(name, ()), np.float32)
            if value.shape != shape:
                raise BundleError(f"input '{name}' has shape {value.shape}; expected {shape}")
            given[name] = value
        if not np.isfinite(np.concatenate([*given.values()])).all():
            return {name: np.full(shape, np.nan, np.float32) for name, shape in self._outputs.items()}
        found = self._session.run([*self._outputs], given)
        return {name: np.asarray(value) for name, value in zip(self._outputs, found, strict=True)}

    def plan(self, images: Mapping[str, np.ndarray], observation: np.ndarray, instruction: str = "") -> np.ndarray:
        """(chunk, k) actions in [-1, 1]; NaN where the observation is not finite.

        Args:
            images: Camera -> (height, width, 3) uint8, RGB, as the contract's `planner` has them.
            observation: (n,) of `step`.
            instruction: What the policy shall do; empty: the contract's first.

        Raises:
            EmbodiedError: it does not see, or an image or the instruction does not fit.
        """
        if self._planner is None:
            raise BundleError(f"bundle '{self.path}' has no {PLANNER}: its policy does not see")
        return self._planner.plan(images, observation, instruction)


def load(path: str | Path) -> Bundle:
    """Read a bundle and verify all of it: names, sizes, hashes, contract, network, golden vectors.

    Raises:
        BundleError: it is missing, incomplete, edited, truncated, holds something else, or does not compute what it
            did where it was exported; one line that names the file.
    """
    path = Path(path)
    files, sha256 = verified_files(path)
    contract = read_contract(files[CONTRACT], path)
    with refusing(path, ONNX):
        metadata = onnx_check.inspect(files[ONNX], contract)
    if metadata.get("contract") != files[CONTRACT].decode() or metadata.get("sha256") != sha256:
        raise refused(path, ONNX, f"it was made for another contract than {CONTRACT}")
    with refusing(path, GOLDEN):
        golden = read_golden(files[GOLDEN], contract)
    with refusing(path, ONNX):
        runtime = session(files[ONNX])
    bundle = Bundle(path, contract, sha256, golden, runtime, _planner(files, contract, sha256, path))
    _prove(bundle)
    return bundle


def _planner(files: Mapping[str, bytes], contract: Contract, sha256: str, path: Path) -> PlannerRuntime | None:
    """The network of a policy that sees, once it has reproduced its golden plans."""
    planner = contract.step.planner
    if (planner is not None) != (PLANNER in files) or (PLANNER in files) != (PLANS in files):
        raise refused(path, CONTRACT, f"{PLANNER} and {PLANS} belong to a contract with a planner, and only there")
    if planner is None:
        return None
    inputs = {name: shape for name, (shape, _) in plans.shapes(planner, contract).items()}
    ends = {**inputs, plans.CHUNK: (planner.chunk, contract.action_size)}
    with refusing(path, PLANNER):
        if onnx_check.inspect_planner(files[PLANNER], ends).get("sha256") != sha256:
            raise ValueError(f"it was made for another contract than {CONTRACT}")
        runtime = PlannerRuntime(files[PLANNER], planner, contract)
    with refusing(path, PLANS):
        golden = plans.read(files[PLANS], planner, contract)
    if not (worst := runtime.off(golden)) <= plans.TOLERANCE:
        raise refused(path, PLANNER, f"it is {worst:.2g} away from {PLANS}, more than {plans.TOLERANCE}; {DO_NOT}")
    return runtime


def read_contract(data: bytes, path: Path) -> Contract:
    """The contract that `contract_text` wrote; a `BundleError` where it is not exactly that."""
    with refusing(path, CONTRACT, (ValueError, TypeError, AttributeError, RecursionError, EmbodiedError)):
        return read_text(data)


def _prove(bundle: Bundle) -> None:
    """Check that this machine computes what the exporting one did."""
    _, action, target = walk(bundle.contract.step, bundle.golden.inputs, bundle.step)
    if not (worst := difference(bundle.golden, action, target)) <= TOLERANCE:
        raise refused(bundle.path, ONNX, f"it is {worst:.2g} away from {GOLDEN}, more than {TOLERANCE}; {DO_NOT}")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Verify a bundle and say what it is."""

    bundle: tyro.conf.Positional[Path]
    """Folder that python -m sim2real.export wrote."""


@guard
def main(arguments: list[str] | None = None) -> int:
    from embodied import cli

    settings = cli.parse(Settings, arguments, "sim2real.bundles.bundle")
    bundle = load(settings.bundle)
    contract = bundle.contract
    rows = {
        "task": contract.task,
        "robot": contract.robot,
        "observation": f"{contract.observation_size}: {', '.join(term.name for term in contract.terms)}",
        "targets": f"{len(contract.actuators)}: {listing(actuator.name for actuator in contract.actuators)}",
        "rate": f"{contract.control_hz:g} Hz",
        "golden steps": f"{bundle.golden.count}, reproduced within {TOLERANCE}",
        **planner_rows(contract),
        "sha256": bundle.sha256[:16],
    }
    cli.show(cli.table(f"{settings.bundle} is whole", rows))
    return 0


def planner_rows(contract: Contract) -> dict[str, str]:
    """Cameras and instructions of a policy that sees, for a table."""
    planner = contract.step.planner
    if planner is None:
        return {}
    rows = {
        "cameras": ", ".join(f"{one.name} {one.width} x {one.height} on {one.body}" for one in planner.cameras),
        "planner": f"{planner.chunk} actions, of which {planner.execute} are carried out: "
        f"{contract.control_hz / planner.execute:g} times a second",
    }
    return rows if planner.words is None else rows | {"instructions": " ".join(planner.words.instructions)}


if __name__ == "__main__":
    sys.exit(main())
