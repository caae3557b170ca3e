"""`GoldenPlans`: inputs of a planner with what torch made of them, by which it is verified wherever it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from sim2real.contract.contract import Contract
from sim2real.contract.planner import IMAGE, Planner

OBSERVATION, TOKENS, NOISE, CHUNK = "observation", "tokens", "noise", "chunk"
COUNT = 8
TOLERANCE = 1e-4  # of an action; twenty layers of float32 add up in another order on another machine


@dataclasses.dataclass(frozen=True)
class GoldenPlans:
    """Independent inferences."""

    inputs: Mapping[str, np.ndarray]
    """Input -> (count, ...)."""
    chunk: np.ndarray
    """(count, chunk, k) float32."""

    def rows(self) -> list[dict[str, np.ndarray]]:
        """The inputs of each inference."""
        return [{name: values[row] for name, values in self.inputs.items()} for row in range(len(self.chunk))]


def shapes(planner: Planner, contract: Contract) -> dict[str, tuple[tuple[int, ...], type]]:
    """Input -> shape and type."""
    sizes: dict[str, tuple[tuple[int, ...], type]] = {
        f"{IMAGE}{camera.name}": ((camera.height, camera.width, 3), np.uint8) for camera in planner.cameras
    }
    sizes[OBSERVATION] = (contract.observation_size,), np.float32
    if planner.words is not None:
        sizes[TOKENS] = (planner.words.words, planner.words.ngrams), np.int64
    if planner.noise:
        sizes[NOISE] = (planner.chunk, contract.action_size), np.float32
    return sizes


def written(golden: GoldenPlans) -> bytes:
    """A safetensors file."""
    from safetensors.numpy import save

    return save({**{name: np.ascontiguousarray(values) for name, values in golden.inputs.items()}, CHUNK: golden.chunk})


def read(data: bytes, planner: Planner, contract: Contract) -> GoldenPlans:
    """Parse what `written` wrote; a `ValueError` unless it holds just the contract's inputs and finite chunks."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = load(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    expected = {**shapes(planner, contract), CHUNK: ((planner.chunk, contract.action_size), np.float32)}
    alike = {name: (values.shape[1:], values.dtype.type) for name, values in found.items()}
    if alike != expected or len({len(values) for values in found.values()}) != 1 or not len(found[CHUNK]):
        raise ValueError("its tensors are not those of the contract")
    chunk = found.pop(CHUNK)
    if not np.isfinite(chunk).all():
        raise ValueError("it has numbers that are not finite")
    return GoldenPlans(found, chunk)
