"""`GoldenSteps`: consecutive control steps with what came of them, by which a bundle is verified."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sim2real.contract.contract import COMMAND, NEXT, STATE, Contract, Remembered, Step
from sim2real.contract.planner import PLANNED

COUNT = 32  # steps
SPREAD = 0.02  # of the larger of 1 and a number: by how much sources and commands are moved from an episode's start
TOLERANCE = 1e-5  # of targets and actions, relative to the larger of 1 and the largest

Runner = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
"""Inputs of a control step by name -> its outputs."""


@dataclasses.dataclass(frozen=True)
class GoldenSteps:
    """Control steps one after the other; each begins with what the one before handed on."""

    inputs: Mapping[str, np.ndarray]
    """Source, or `command.NAME` -> (count, size) float32."""
    action: np.ndarray
    """(count, k) float32."""
    target: np.ndarray
    """(count, A) float32, in each actuator's unit."""

    @property
    def count(self) -> int:
        return len(self.target)


def outside(step: Step) -> dict[str, int]:
    """Name -> size of the inputs of a step that come from outside: sources, commands, then a planned action."""
    commands = {f"{COMMAND}{one.name}": one.size for one in step.commands}
    planned = {} if step.planner is None else {PLANNED: step.action_size}
    return {**{source.name: source.size for source in step.sources}, **commands, **planned}


def begin(step: Step, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`state.NAME` -> (size,) float32 before the first step, of what is measured then."""
    return {f"{STATE}{one.name}": _begun(one, inputs) for one in step.remembered}


def _begun(one: Remembered, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    if not one.measured:
        return np.array(one.begin, np.float32)
    values = [part.scale * float(inputs[part.source][part.place]) + part.offset for part in one.measured]
    return np.array(values, np.float32)


def advance(step: Step, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`state.NAME` -> what the next step begins with."""
    return {f"{STATE}{one.name}": np.asarray(outputs[f"{STATE}{one.name}{NEXT}"]) for one in step.remembered}


def walk(step: Step, inputs: Mapping[str, np.ndarray], runner: Runner) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observations, actions and targets, (count, ...) each, that a runner gives of consecutive inputs."""
    state: dict[str, np.ndarray] = {}
    found = []
    for row in range(len(next(iter(inputs.values())))):
        here = {name: values[row] for name, values in inputs.items()}
        state = state or begin(step, here)
        outputs = runner({**here, **state})
        state = advance(step, outputs)
        found.append([np.asarray(outputs[name]) for name in ("observation", "action", "target")])
    observation, action, target = (np.array(column, np.float32) for column in zip(*found, strict=True))
    return observation, action, target


def spread(step: Step, start: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs of `COUNT` steps around those of an episode's start, the first is that one; planned actions are any."""
    rng = np.random.default_rng(0)
    rows = {name: around(rng, np.asarray(start[name], float), COUNT) for name in outside(step) if name != PLANNED}
    if step.planner is not None:
        rows[PLANNED] = rng.uniform(-1, 1, (COUNT, step.action_size))
    return {name: values.astype(np.float32) for name, values in rows.items()}


def around(rng: np.random.Generator, base: np.ndarray, count: int) -> np.ndarray:
    """(count, ...) numbers around some, `SPREAD` times the larger of 1 and each; the first row is they themselves."""
    rows = base + SPREAD * np.maximum(1.0, np.abs(base)) * rng.standard_normal((count, *base.shape))
    rows[0] = base
    return rows


def columns(contract: Contract) -> list[str]:
    names = [f"{name}[{i}]" for name, size in outside(contract.step).items() for i in range(size)]
    actions = [f"action[{i}]" for i in range(contract.step.action_size)]
    return names + actions + [f"target {actuator.name}" for actuator in contract.actuators]


def written(contract: Contract, golden: GoldenSteps) -> str:
    """`golden.csv`, to the last bit of float32."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns(contract))
    for row in np.concatenate([*golden.inputs.values(), golden.action, golden.target], 1):
        writer.writerow(str(value) for value in row)
    return table.getvalue()


def read(data: bytes, contract: Contract) -> GoldenSteps:
    """Parse the bytes of `written`; a `ValueError` where columns are not the contract's or a number is not finite."""
    values = _rows(data, columns(contract))
    sizes = [*outside(contract.step).values(), contract.step.action_size]
    *inputs, action, target = np.split(values, np.cumsum(sizes), 1)
    return GoldenSteps(dict(zip(outside(contract.step), inputs, strict=True)), action, target)


def difference(golden: GoldenSteps, action: np.ndarray, target: np.ndarray) -> float:
    """The largest deviation from golden steps, relative to the larger of 1 and the largest number."""
    pairs = ((golden.action, action), (golden.target, target))
    return max(float((np.abs(ours - theirs) / np.maximum(1.0, np.abs(ours))).max(initial=0)) for ours, theirs in pairs)


def _rows(data: bytes, columns: Sequence[str]) -> np.ndarray:
    """(count, n) float32 that were written; a `ValueError` where columns differ or a number is not finite."""
    try:
        header, *rows = list(csv.reader(io.StringIO(data.decode())))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if header != list(columns):
        raise ValueError("its columns are not those of the contract")
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"it has rows that are not of {len(header)} numbers")
    values = np.array(rows, np.float32).reshape(len(rows), len(header))
    if not len(rows) or not np.isfinite(values).all():
        raise ValueError("it has no rows, or numbers that are not finite")
    return values
