"""`Calibration`: a robot's parameters as estimated from a log, with covariance and open-loop errors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from embodied.errors import RunError, UnknownNameError, reason
from embodied.storage import files
from embodied.storage.configs import from_json, to_json
from sim2real.identification import parameters as pm
from sim2real.identification.parameters import CalibrationError, Kind, Parameter

FORMAT = 1
FILE = "calibration.json"
NORMAL = 1.959964  # standard deviations either side that hold 95 % of a normal distribution
TOLD = 0.3  # of the prior's spread: with a larger standard deviation, over 9 % of the value is the prior


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One parameter after calibration."""

    parameter: Parameter
    value: float
    sd: float
    """Standard deviation, what is assumed of other parameters included; 0 for a parameter that was not estimated."""
    told: bool = True
    """Whether the log identifies it by itself, and not only in a combination that it leaves open (`unidentified`)."""

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, within the bounds."""
        half = NORMAL * self.sd
        return max(self.value - half, self.parameter.lower), min(self.value + half, self.parameter.upper)

    @property
    def identified(self) -> bool:
        """Whether the log decided it, and not the prior."""
        return self.parameter.free and self.told and self.sd <= TOLD * self.parameter.spread

    @property
    def at_bound(self) -> bool:
        """Whether it ran into a bound: then the model lacks something, or the bound is wrong."""
        room = 1e-3 * (self.parameter.upper - self.parameter.lower)
        low, high = self.value - self.parameter.lower, self.parameter.upper - self.value
        # Nothing is wrong with a friction of zero, nor with one that is harder than any simulation's.
        usual = self.parameter.lower == 0 or self.parameter.kind is Kind.FRICTION_TIME
        return self.parameter.free and (high < room or (low < room and not usual))


WORSE = 1.1  # error over the nominal one on held-out data that noise alone does not explain, our choice


@dataclasses.dataclass(frozen=True)
class OpenLoop:
    """Root mean square error of open-loop simulation from measured states, on the part of the log kept back."""

    channel: str
    horizon: float
    """s."""
    windows: int
    before: float
    """With nominal parameters, in the channel's unit (rad for an orientation)."""
    after: float
    """With calibrated ones."""
    fitted: float
    """With calibrated ones, and each window's start fitted too: without the error of the measured start."""
    noise: float
    """Root mean square residual of the fit: what the sensors' noise, and what no parameter explains, come to."""


@dataclasses.dataclass(frozen=True)
class Direction:
    """A combination of parameters on which the log holds less information than the prior."""

    names: tuple[str, ...]
    shares: tuple[float, ...]
    """In spreads; the sum of all squares is 1."""
    left: float
    """Standard deviation by the log alone over that of the prior; above 1, inf where the log has no information."""
    scale: bool = False
    """Whether all of them by one factor are the same to the log, as masses, inertias and forces are."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """The result, as it is stored."""

    robot: str
    estimates: tuple[Estimate, ...]
    """Of all parameters, those that stayed nominal included."""
    covariance: tuple[tuple[float, ...], ...]
    """Of the free ones, in their order, if what is assumed is right."""
    unidentified: tuple[Direction, ...]
    errors: tuple[OpenLoop, ...]
    timestep: float
    """s, physics step of the simulation that was fitted."""
    seconds: float
    """s of the log that were fitted."""
    took: float
    """s of computation."""
    converged: bool
    source: str = ""
    """Name of the log's file."""

    @property
    def free(self) -> tuple[Estimate, ...]:
        """Estimates of the free parameters."""
        return tuple(estimate for estimate in self.estimates if estimate.parameter.free)

    @property
    def values(self) -> np.ndarray:
        """(all,) values, in the order of `estimates`."""
        return np.array([estimate.value for estimate in self.estimates])

    @property
    def held_out_ratio(self) -> float:
        """Error with calibrated parameters over that with nominal ones on held-out data, geometric mean of `errors`."""
        ratios = [error.after / error.before for error in self.errors if error.before > 0 and error.after > 0]
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0

    @property
    def carries_over(self) -> bool:
        """Whether the parameters predict the held-out part of the log no worse than nominal ones do."""
        return self.held_out_ratio <= WORSE

    def __getitem__(self, name: str) -> Estimate:
        for estimate in self.estimates:
            if estimate.name == name:
                return estimate
        raise UnknownNameError("parameter", name, [estimate.name for estimate in self.estimates])

    def apply(self, spec: mujoco.MjSpec) -> None:
        """Write the values into a robot's spec, in place; what derives from them follows when it is compiled.

        A delay and encoder biases are no part of a model: simulations of the robot read them here.

        Raises:
            UnknownNameError: the spec is of another robot.
        """
        parameters = [estimate.parameter for estimate in self.estimates]
        bodies = [name for parameter in parameters if parameter.kind in pm.INERTIAL for name in parameter.members]
        pm.state_inertia(spec, bodies)
        pm.apply(spec, parameters, self.values)

    def of(self, kind: Kind) -> dict[str, float]:
        """Body, joint or actuator -> value of all parameters of a kind."""
        return {name: e.value for e in self.estimates if e.parameter.kind is kind for name in e.parameter.members}

    @property
    def root(self) -> np.ndarray:
        """(all, free) a square root of the covariance: from standard normal numbers to what the log leaves open."""
        size, axes = np.linalg.eigh(np.array(self.covariance))
        free = [i for i, estimate in enumerate(self.estimates) if estimate.parameter.free]
        result = np.zeros((len(self.estimates), len(free)))
        result[free] = axes * np.sqrt(np.maximum(size, 0.0))
        return result

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(all,) lower and (all,) upper bounds."""
        limits = np.array([(e.parameter.lower, e.parameter.upper) for e in self.estimates])
        return limits[:, 0], limits[:, 1]

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count, all) robots that the log allows: values normally distributed about the estimate, within bounds."""
        root = self.root
        return np.clip(self.values + rng.standard_normal((count, root.shape[1])) @ root.T, *self.bounds)

    def save(self, folder: Path) -> Path:
        """Write `calibration.json` into a folder, sealed against edits.

        Raises:
            CalibrationError: the folder cannot be made.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CalibrationError(f"cannot make the folder '{folder}' of the calibration: {reason(error)}") from None
        document = {**to_json(self), "format": FORMAT, "embodied": files.embodied_version()}
        files.write_atomic(folder / FILE, files.seal(document))
        return folder / FILE


def load(path: Path) -> Calibration:
    """Read a calibration, from its file or the folder it is in; a `CalibrationError` where it is damaged or edited."""
    path = path / FILE if path.is_dir() else path
    try:
        document: dict[str, Any] = files.unseal(files.read_file(path), FORMAT, "calibration")
    except OSError as error:
        raise CalibrationError(f"cannot read the calibration '{path}': {reason(error)}") from None
    except ValueError as error:
        raise CalibrationError(f"the calibration '{path}' is {error}") from None
    for key in ("format", "embodied"):
        document.pop(key, None)
    try:
        result = from_json(Calibration, document, "calibration")
    except RunError as error:
        raise CalibrationError(f"the calibration '{path}': {error}") from None
    free = len(result.free)
    if [len(row) for row in result.covariance] != [free] * free or not np.isfinite(result.covariance).all():
        raise CalibrationError(f"the calibration '{path}': its covariance is not of {free} x {free} finite numbers")
    if wrong := [estimate.name for estimate in result.estimates if not math.isfinite(estimate.value)]:
        raise CalibrationError(f"the calibration '{path}': its value of {wrong[0]} is not finite")
    return result


def estimates(
    parameters: Sequence[Parameter], values: np.ndarray, covariance: np.ndarray, told: Sequence[bool] | None = None
) -> tuple[Estimate, ...]:
    """One of each parameter; `covariance` (p, p) and `told` (p) are of the free ones."""
    free = [i for i, parameter in enumerate(parameters) if parameter.free]
    spreads = dict(zip(free, np.sqrt(np.diag(covariance)), strict=True))
    by_itself = dict(zip(free, told or [True] * len(free), strict=True))
    return tuple(
        Estimate(parameter, float(value), float(spreads.get(i, 0.0)), bool(by_itself.get(i, True)))
        for i, (parameter, value) in enumerate(zip(parameters, values, strict=True))
    )


def improvement(errors: Sequence[OpenLoop], channel: str, horizon: float) -> float:
    """A channel's error after calibration as a share of that before; nan where it was not measured."""
    found = [e for e in errors if e.channel == channel and e.horizon == horizon and e.before > 0]
    return found[0].after / found[0].before if found else math.nan
