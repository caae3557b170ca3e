"""`Bundle`: an exported policy, read only after its hashes and its golden vectors were verified.

A bundle is a folder of these files and no others:

    manifest.json    size and SHA-256 of every file, and of itself
    contract.json    `sim2real.contract.contract.Contract`
    policy.onnx      see `sim2real.bundles.onnx_graph`
    policy.c/.h      see `sim2real.bundles.c_code`; check.c proves them
    golden.csv       observations, and the actions and targets that torch gave for them
    README.md        how to deploy it
    planner.onnx     the network of a policy that sees, `sim2real.bundles.planner`; planner.safetensors proves it
    crazyflie/       a controller for the drone's firmware, where that is the robot

Hashes find damage and edits; they do not say who made a bundle. Therefore nothing in it is executed: JSON and CSV are
read by strict parsers with bounded sizes, and a network may consist only of the operators an exported one has.

python -m sim2real.bundles.bundle FOLDER verifies a bundle and says what it is.
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
from sim2real.bundles.files import CONTRACT, GOLDEN, ONNX, PLANNER, PLANS, BundleError, refused, verified_files
from sim2real.bundles.onnx_session import session
from sim2real.bundles.planner import golden as plans
from sim2real.bundles.planner.runtime import PlannerRuntime
from sim2real.contract.contract import Contract
from sim2real.contract.document import read_text
from sim2real.graphs import golden_table, onnx_check
from sim2real.graphs.golden import GoldenSteps, difference, walk
from sim2real.graphs.golden import read as read_steps

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

TOLERANCE = 1e-5  # of an action; of a target relative to the larger of 1 and its range


@dataclasses.dataclass(frozen=True)
class Golden:
    """Golden vectors: observations, and what torch made of them, by which an export is verified wherever it runs."""

    observation: np.ndarray
    """(count, n) float32."""
    action: np.ndarray
    """(count, A) float32."""
    target: np.ndarray
    """(count, A) float32, in each actuator's unit."""


def target_scale(contract: Contract) -> np.ndarray:
    """(A,) what differences of targets are relative to: the larger of 1 and the range between the limits."""
    return np.maximum(1.0, contract.row("upper") - contract.row("lower"))


def write_golden(contract: Contract, golden: Golden) -> str:
    """`golden.csv`, to the last bit of float32."""
    return golden_table.written(
        golden_columns(contract), np.concatenate([golden.observation, golden.action, golden.target], 1)
    )


def golden_columns(contract: Contract) -> list[str]:
    seen = [f"{term.name}[{i}]" for term in contract.terms for i in range(term.size * term.history)]
    return seen + [f"{kind} {actuator.name}" for kind in ("action", "target") for actuator in contract.actuators]


def read_golden(data: bytes, contract: Contract) -> Golden:
    """What `write_golden` wrote; a `ValueError` where columns are not the contract's or a number is not finite."""
    values = golden_table.read(data, golden_columns(contract))
    cuts = np.cumsum([contract.observation_size, contract.action_size])
    return Golden(*np.split(values, cuts, 1))


class Bundle:
    """A verified policy. Made by `load`; it has `run`, or where its contract has a `step`, `step` (and `plan`)."""

    path: Path
    """The folder it was read from."""
    contract: Contract
    sha256: str
    """Of the network and the contract: names this policy."""
    golden: Golden | GoldenSteps

    def __init__(
        self,
        path: Path,
        contract: Contract,
        sha256: str,
        golden: Golden | GoldenSteps,
        session: InferenceSession,
        planner: PlannerRuntime | None = None,
    ) -> None:
        self.path, self.contract, self.sha256, self.golden = path, contract, sha256, golden
        self._session, self._planner = session, planner

    def run(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step of the policy.

        Args:
            observation: (n,) raw, in the contract's order and units.

        Returns:
            Action (A,) in [-1, 1] and target (A,) in the actuators' units, float32; all NaN where a number of the
            observation is infinite or NaN, so that such an input never looks like a command.

        Raises:
            BundleError: the observation has another length.
        """
        observation = np.asarray(observation, np.float32)
        if observation.shape != (self.contract.observation_size,):
            raise BundleError(
                f"an observation of shape {observation.shape} was given to a policy that reads "
                f"({self.contract.observation_size},): {listing(term.name for term in self.contract.terms)}"
            )
        if not np.isfinite(observation).all():
            nothing = np.full(self.contract.action_size, np.nan, np.float32)
            return nothing, nothing.copy()
        found = self._session.run(onnx_check.OUTPUTS, {onnx_check.INPUT: observation[None]})
        action, target = (np.asarray(part)[0] for part in found)
        return action, target

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """One whole control step.

        Args:
            inputs: Name -> (size,) of every input, as the contract's `step` has them.

        Returns:
            Name -> (size,) float32 of every output; all NaN where an input is infinite or NaN.

        Raises:
            BundleError: an input is missing or has another length.
        """
        given = {}
        for entry in self._session.get_inputs():
            value = np.asarray(inputs.get(entry.name, ()), np.float32)
            if value.shape != tuple(entry.shape):
                raise BundleError(f"input '{entry.name}' has shape {value.shape}; expected {tuple(entry.shape)}")
            given[entry.name] = value
        names = [entry.name for entry in self._session.get_outputs()]
        if not all(np.isfinite(value).all() for value in given.values()):
            return {entry.name: np.full(entry.shape, np.nan, np.float32) for entry in self._session.get_outputs()}
        found = self._session.run(names, given)
        return {name: np.asarray(value) for name, value in zip(names, found, strict=True)}

    def plan(self, images: Mapping[str, np.ndarray], observation: np.ndarray, instruction: str = "") -> np.ndarray:
        """(chunk, k) actions in [-1, 1]; NaN where the observation is not finite.

        Args:
            images: Camera -> (height, width, 3) uint8, RGB, as the contract's `planner` has them.
            observation: (n,) of `step`.
            instruction: What the policy is told; empty: the contract's first.

        Raises:
            EmbodiedError: it does not see, or an image or the instruction is none that it takes.
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
    try:
        metadata = onnx_check.inspect(files[ONNX], contract)
    except ValueError as error:
        raise refused(path, ONNX, str(error)) from None
    if metadata.get("contract") != files[CONTRACT].decode() or metadata.get("sha256") != sha256:
        raise refused(path, ONNX, f"it was made for another contract than {CONTRACT}")
    try:
        vectors = read_golden(files[GOLDEN], contract) if contract.step is None else read_steps(files[GOLDEN], contract)
    except ValueError as error:
        raise refused(path, GOLDEN, str(error)) from None
    try:
        runtime = session(files[ONNX])
    except ValueError as error:
        raise refused(path, ONNX, str(error)) from None
    bundle = Bundle(path, contract, sha256, vectors, runtime, _planner(files, contract, sha256, path))
    _prove(bundle)
    return bundle


def _planner(files: Mapping[str, bytes], contract: Contract, sha256: str, path: Path) -> PlannerRuntime | None:
    """The network of a policy that sees, once it has reproduced its golden plans."""
    planner = None if contract.step is None else contract.step.planner
    if (planner is not None) != (PLANNER in files) or (PLANNER in files) != (PLANS in files):
        raise refused(path, CONTRACT, f"{PLANNER} and {PLANS} belong to a contract with a planner, and only there")
    if planner is None:
        return None
    inputs = {name: shape for name, (shape, _) in plans.shapes(planner, contract).items()}
    ends = {**inputs, plans.CHUNK: (planner.chunk, contract.action_size)}
    try:
        if onnx_check.inspect_planner(files[PLANNER], ends).get("sha256") != sha256:
            raise ValueError(f"it was made for another contract than {CONTRACT}")
        runtime = PlannerRuntime(files[PLANNER], planner, contract)
    except ValueError as error:
        raise refused(path, PLANNER, str(error)) from None
    try:
        golden = plans.read(files[PLANS], planner, contract)
    except ValueError as error:
        raise refused(path, PLANS, str(error)) from None
    if not (worst := runtime.off(golden)) <= plans.TOLERANCE:
        raise refused(
            path, PLANNER, f"it is {worst:.2g} away from {PLANS}, more than {plans.TOLERANCE}; do not deploy it"
        )
    return runtime


def read_contract(data: bytes, path: Path) -> Contract:
    """The contract that `contract_text` wrote; a `BundleError` where it is not exactly that."""
    try:
        return read_text(data)
    except (ValueError, TypeError, AttributeError, RecursionError, EmbodiedError) as error:
        raise refused(path, CONTRACT, str(error)) from None


def _prove(bundle: Bundle) -> None:
    """Check that this machine computes what the exporting one did."""
    worst = _off_steps(bundle, bundle.golden) if isinstance(bundle.golden, GoldenSteps) else _off(bundle, bundle.golden)
    if not worst <= TOLERANCE:
        raise refused(
            bundle.path, ONNX, f"it is {worst:.2g} away from {GOLDEN}, more than {TOLERANCE}; do not deploy it"
        )


def _off_steps(bundle: Bundle, golden: GoldenSteps) -> float:
    assert bundle.contract.step is not None
    _, action, target = walk(bundle.contract.step, golden.inputs, bundle.step)
    return difference(golden, action, target)


def _off(bundle: Bundle, golden: Golden) -> float:
    seen = [bundle.run(observation) for observation in golden.observation]
    action, target = (np.array(values) for values in zip(*seen, strict=True))
    ranges = target_scale(bundle.contract)
    return max(np.abs(action - golden.action).max(), (np.abs(target - golden.target) / ranges).max())


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
        "action": f"{contract.action_size}: {listing(actuator.name for actuator in contract.actuators)}",
        "rate": f"{contract.control_hz:g} Hz",
        "golden vectors": f"{len(bundle.golden.target)}, reproduced within {TOLERANCE}",
        **planner_rows(contract),
        "sha256": bundle.sha256[:16],
    }
    cli.show(cli.table(f"{settings.bundle} is whole", rows))
    return 0


def planner_rows(contract: Contract) -> dict[str, str]:
    """What a policy that sees looks at and is told, for a table."""
    planner = None if contract.step is None else contract.step.planner
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
