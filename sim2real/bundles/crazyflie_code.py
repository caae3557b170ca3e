"""The Crazyflie's part of a bundle: an out-of-tree controller that stock firmware builds, with its own observation.

Facts of the firmware (github.com/bitcraze/crazyflie-firmware): `controllerOutOfTree*` and CONFIG_CONTROLLER_OOT
(docs/development/oot.md); gyro in deg/s, position in m, velocity in m/s, attitude as x, y, z, w
(stabilizer_types.h); `controlModeForce` takes each rotor's thrust relative to THRUST_MAX (power_distribution).
"""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Mapping, Sequence

import numpy as np

from sim2real.bundles.bundle import Golden
from sim2real.bundles.c_code import BLOCK, fill, identifiers, plain, whole_rate
from sim2real.bundles.network import ExportError, Network
from sim2real.contract.contract import Contract, Term
from sim2real.graphs.to_c import number

ROBOT = "crazyflie"
MAIN_LOOP = 1000  # Hz, RATE_MAIN_LOOP
ROTORS = 4
VECTORS = {
    "gyro": "now->gyro",
    "up": "body_up",
    "gravity": "difference(nothing, body_up)",
    "linvel": "to_body(now, now->velocity)",
    "to_command": "to_command",
    "command": "now->command",
}
"""Source of a term -> the vector that it is, in C; see `sim2real.deployment.terms`."""
COPIED = ("Kbuild", "Makefile", "app-config")


def sources(
    network: Network, contract: Contract, golden: Golden, code: Mapping[str, str], digest: str
) -> dict[str, str]:
    """File name -> text of the folder `crazyflie/`; nothing for other robots.

    Raises:
        ExportError: the contract asks for what the firmware's loop cannot give.
    """
    if contract.robot != ROBOT:
        return {}
    _check(contract)
    values = {
        "banner": f"{plain(contract.task)}, exported by embodied. Do not edit: sha256 {digest[:16]}",
        "command_low": _vector([low for low, _ in contract.command_ranges]),
        "command_high": _vector([high for _, high in contract.command_ranges]),
        "lowest": _vector([low for low, _ in _space(contract)]),
        "highest": _vector([high for _, high in _space(contract)]),
        # Upside down is -1 but for rounding: without a limit nothing may reach it.
        "least_up": number(math.cos(contract.max_tilt) if contract.max_tilt < math.pi else -2.0),
        "terms": "\n".join(_term(term, contract) for term in contract.terms),
        "expected": _vector(golden.action[0]),
    }
    folder = importlib.resources.files("sim2real").joinpath("templates", "crazyflie")
    files = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in COPIED}
    files["controller_embodied.c"] = fill("crazyflie/controller_embodied.c", values)
    files["README.md"] = _readme(network, contract, digest)
    files |= {name: code[name] for name in ("policy.c", "policy.h")}
    return {f"{ROBOT}/{name}": text for name, text in files.items()}


def _check(contract: Contract) -> None:
    known = {*VECTORS, "last_action"}
    if strange := [term.source for term in contract.terms if term.source not in known]:
        raise ExportError(
            f"the Crazyflie's firmware does not know {', '.join(strange)}; it knows {', '.join(sorted(known))}"
        )
    if contract.action_size != ROTORS or {actuator.unit for actuator in contract.actuators} != {"N"}:
        units = ", ".join(f"{actuator.name} in {actuator.unit}" for actuator in contract.actuators)
        raise ExportError(f"the Crazyflie has {ROTORS} rotors that take thrusts in N; the contract has {units}")
    if MAIN_LOOP % whole_rate(contract):
        raise ExportError(f"control_hz={contract.control_hz:g} does not divide the firmware's {MAIN_LOOP} Hz")
    if len(contract.command_ranges) != 3:
        raise ExportError(
            f"a position setpoint has 3 numbers; the contract's command has {len(contract.command_ranges)}"
        )


def _term(term: Term, contract: Contract) -> str:
    """The line of C that appends a term's value to what is remembered of it."""
    place = f"&observation[{identifiers('POLICY_TERM', [t.name for t in contract.terms])[term.name]}]"
    if term.source == "last_action":
        return f"    remember({place}, action, POLICY_ACTIONS, {term.history});"
    return f"    remember_vector({place}, {VECTORS[term.source]}, {term.history});"


def _space(contract: Contract) -> tuple[tuple[float, float], ...]:
    """m, the workspace; without one, as far as floats go."""
    most = float(np.finfo(np.float32).max)
    return contract.workspace or ((-most, most),) * 3


def _vector(values: list[float] | tuple[float, ...] | np.ndarray) -> str:
    return "{" + ", ".join(map(number, values)) + "}"


def _readme(network: Network, contract: Contract, digest: str) -> str:
    limited = contract.max_tilt < math.pi
    widest = -(-network.widest // BLOCK) * BLOCK
    values = {
        "task": contract.task,
        "sha256": digest[:16],
        "rate": whole_rate(contract),
        "space": _space_text(contract.workspace) or "the range of floating point",
        "tilt": f" or tilts by more than {math.degrees(contract.max_tilt):.0f} degrees (4)" if limited else "",
        "commands": _space_text(contract.command_ranges),
        "max_thrust": f"{contract.row('upper').max():g}",
        "flash": f"{4 * network.parameters / 1024:.0f}",
        "ram": f"{8 * widest / 1024:.1f}",
    }
    return fill("crazyflie/README.md", values)


def _space_text(space: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{axis} {low:g} to {high:g} m" for axis, (low, high) in zip("xyz", space, strict=False))
