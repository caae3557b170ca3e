"""The Crazyflie's part of a bundle: an out-of-tree controller that stock firmware builds around the step's C code.

Facts of the firmware (github.com/bitcraze/crazyflie-firmware): `controllerOutOfTree*` and CONFIG_CONTROLLER_OOT
(docs/development/oot.md); gyro in deg/s, position in m, velocity in m/s, attitude as x, y, z, w
(stabilizer_types.h); `controlModeForce` takes each rotor's thrust relative to THRUST_MAX (power_distribution).
"""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from embodied.errors import listing
from sim2real.bundles.c_code import fields_of, fill, plain
from sim2real.bundles.files import ExportError
from sim2real.contract.contract import COMMAND, Contract
from sim2real.graphs.golden import GoldenSteps, outside
from sim2real.graphs.graph import Graph, Op
from sim2real.graphs.to_c import number

ROBOT = "crazyflie"
MAIN_LOOP = 1000  # Hz, RATE_MAIN_LOOP
ROTORS = 4
MEASURED: Mapping[str, Sequence[str]] = {
    "gyro": [f"sensors->gyro.{axis} * rad_per_deg" for axis in "xyz"],
    "orientation": [f"state->attitudeQuaternion.{part}" for part in "wxyz"],
    "position": [f"state->position.{axis}" for axis in "xyz"],
    "linvel_w": [f"state->velocity.{axis}" for axis in "xyz"],
}
"""Source of a step -> its numbers, as the firmware has them."""
COPIED = ("Kbuild", "Makefile", "app-config")


def applies(contract: Contract) -> bool:
    """Whether a contract is of a Crazyflie whose rotors are commanded and that is commanded a point to fly to."""
    step = contract.step
    return contract.robot == ROBOT and bool(contract.rotors and step.commands) and step.planner is None


def sources(
    graph: Graph, contract: Contract, golden: GoldenSteps, code: Mapping[str, str], digest: str
) -> dict[str, str]:
    """File name -> text of the folder `crazyflie/`; empty for other robots, see `applies`.

    Raises:
        ExportError: the contract needs what the firmware's loop cannot give.
    """
    if not applies(contract):
        return {}
    _check(contract)
    step = contract.step
    fields = fields_of(outside(step))
    values = {
        "banner": f"{plain(contract.task)}, exported by embodied. Do not edit: sha256 {digest[:16]}",
        "command": fields[f"{COMMAND}{step.commands[0].name}"],
        "command_low": _numbers(one.lower for one in contract.command),
        "command_high": _numbers(one.upper for one in contract.command),
        "lowest": _numbers(low for low, _ in _space(contract)),
        "highest": _numbers(high for _, high in _space(contract)),
        # Upside down is -1 but for rounding: without a limit nothing may reach it.
        "least_up": number(math.cos(contract.max_tilt) if contract.max_tilt < math.pi else -2.0),
        "linear": _numbers(rotor.thrust[0] for rotor in contract.rotors),
        "square": _numbers(rotor.thrust[1] for rotor in contract.rotors),
        "unit": contract.actuators[0].unit,
        "measured": "\n".join(
            f"    input.{fields[one.name]}[{i}] = {text};"
            for one in step.sources
            for i, text in enumerate(MEASURED[one.name])
        ),
        "golden": "\n".join(
            f"    input.{fields[name]}[{i}] = {number(value)};"
            for name, rows in golden.inputs.items()
            for i, value in enumerate(rows[0])
        ),
        "expected": _numbers(golden.action[0]),
    }
    folder = importlib.resources.files("sim2real.bundles").joinpath("templates", "crazyflie")
    files = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in COPIED}
    files["controller_embodied.c"] = fill("crazyflie/controller_embodied.c", values)
    files["README.md"] = _readme(graph, contract, digest)
    files |= {name: code[name] for name in ("policy.c", "policy.h")}
    return {f"{ROBOT}/{name}": text for name, text in files.items()}


def _check(contract: Contract) -> None:
    step = contract.step
    if unknown := [source.name for source in step.sources if source.name not in MEASURED]:
        raise ExportError(f"the Crazyflie's firmware does not know {listing(unknown)}; it knows {listing(MEASURED)}")
    if not len(contract.actuators) == len(contract.rotors) == ROTORS:
        names = listing(actuator.name for actuator in contract.actuators)
        raise ExportError(f"the Crazyflie has {ROTORS} rotors; the contract has targets of {names}")
    if MAIN_LOOP % contract.control_hz:
        raise ExportError(f"control_hz={contract.control_hz:g} does not divide the firmware's {MAIN_LOOP} Hz")
    if len(step.commands) != 1 or len(contract.command) != 3:
        raise ExportError(
            f"a position setpoint has 3 numbers; the contract's command has {len(contract.command)} whose range is "
            "stated"
        )


def _space(contract: Contract) -> tuple[tuple[float, float], ...]:
    """m, the workspace; without one, as far as floats go."""
    most = float(np.finfo(np.float32).max)
    return contract.workspace or ((-most, most),) * 3


def _numbers(values: Iterable[float]) -> str:
    return "{" + ", ".join(map(number, values)) + "}"


def _readme(graph: Graph, contract: Contract, digest: str) -> str:
    constants = sum(node.size for node in graph.nodes if node.op is Op.CONSTANT)
    memory = sum(node.size for node in graph.nodes if node.op not in (Op.CONSTANT, Op.INPUT))
    top, (linear, square) = contract.actuators[0].upper, contract.rotors[0].thrust
    tilt = f" or tilts by more than {math.degrees(contract.max_tilt):.0f} degrees (4)"
    values = {
        "task": contract.task,
        "sha256": digest[:16],
        "rate": f"{contract.control_hz:g}",
        "space": _space_text(contract.workspace) or "the range of floating point",
        "tilt": tilt if contract.max_tilt < math.pi else "",
        "commands": _space_text([(one.lower, one.upper) for one in contract.command]),
        "unit": contract.actuators[0].unit,
        "max_thrust": f"{linear * top + square * top * top:.4g}",
        "flash": f"{4 * constants / 1024:.0f}",
        "ram": f"{4 * memory / 1024:.1f}",
    }
    return fill("crazyflie/README.md", values)


def _space_text(space: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{axis} {low:g} to {high:g} m" for axis, (low, high) in zip("xyz", space, strict=False))
