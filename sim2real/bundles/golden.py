"""`Golden`: observations, and what torch made of them, by which an export proves itself wherever it runs."""

from __future__ import annotations

import csv
import dataclasses
import io

import numpy as np

from sim2real.contract.contract import Contract


@dataclasses.dataclass(frozen=True)
class Golden:
    """Inputs, and what torch makes of them."""

    observation: np.ndarray
    """(count, n) float32."""
    action: np.ndarray
    """(count, A) float32."""
    target: np.ndarray
    """(count, A) float32, in each actuator's unit."""


def target_scale(contract: Contract) -> np.ndarray:
    """(A,) what differences of targets are relative to: the larger of 1 and the range between the limits."""
    return np.maximum(1.0, contract.row("upper") - contract.row("lower"))


def write(contract: Contract, golden: Golden) -> str:
    """Golden vectors as CSV, to the last bit of float32."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns(contract))
    for row in np.concatenate([golden.observation, golden.action, golden.target], 1):
        writer.writerow(str(value) for value in row)
    return table.getvalue()


def columns(contract: Contract) -> list[str]:
    """Names of the columns of `golden.csv`."""
    seen = [f"{term.name}[{i}]" for term in contract.terms for i in range(term.size * term.history)]
    return seen + [f"{kind} {actuator.name}" for kind in ("action", "target") for actuator in contract.actuators]


def read(data: bytes, contract: Contract) -> Golden:
    """What `write` wrote.

    Raises:
        ValueError: the columns are not the contract's, or something is no finite number.
    """
    try:
        header, *rows = list(csv.reader(io.StringIO(data.decode())))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if header != columns(contract):
        raise ValueError("its columns are not those of the contract")
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"it has rows that are not of {len(header)} numbers")
    values = np.array(rows, np.float32).reshape(len(rows), len(header))
    if not len(rows) or not np.isfinite(values).all():
        raise ValueError("it has no rows, or numbers that are not finite")
    cuts = np.cumsum([contract.observation_size, contract.action_size])
    return Golden(*np.split(values, cuts, 1))
