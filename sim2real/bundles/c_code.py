"""A policy as C99: `policy.c` and `policy.h`, static memory, no dependency but math.h; `check.c` proves them."""

from __future__ import annotations

import importlib.resources
import math
import re
import shutil
import string
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from policies.networks.mlp import Activation
from sim2real.bundles.bundle import Golden, target_scale
from sim2real.bundles.network import ExportError, Layer, Network
from sim2real.contract.contract import Contract
from sim2real.graphs.to_c import number, wrapped

BLOCK = 16  # outputs side by side: four vectors of SSE or NEON, and half of the registers of a Cortex-M4
COMPILE = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wdouble-promotion")
COMPILE_TIME = 300.0  # s
ACTIVATIONS: dict[Activation, str] = {
    Activation.ELU: "x > 0.0f ? x : expm1f(x)",
    Activation.TANH: "tanhf(x)",
    Activation.RELU: "x > 0.0f ? x : 0.0f",
    Activation.SILU: "x / (1.0f + expf(-x))",
}


def sources(network: Network, contract: Contract, golden: Golden, digest: str) -> dict[str, str]:
    """File name -> text of the policy, its header and its check.

    Raises:
        ExportError: names that differ in the contract would be the same in C, or the rate is no whole number.
    """
    banner = (
        f"{plain(contract.task)} for {plain(contract.robot)}, exported by embodied. Do not edit: sha256 {digest[:16]}"
    )
    common = {"banner": banner, "observations": len(network.mean), "actions": contract.action_size}
    return {
        "policy.h": fill("policy.h", common | _header(contract)),
        "policy.c": fill("policy.c", common | _numbers(network, contract)),
        "check.c": fill("check.c", common | _check(contract, golden)),
    }


def fill(name: str, values: Mapping[str, object]) -> str:
    """A template of this package with its `$names` replaced."""
    text = importlib.resources.files("sim2real").joinpath("templates", name).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def plain(text: str) -> str:
    """Text that may stand in a C comment."""
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").split())


def identifiers(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Names -> identifiers of C; an `ExportError` where two names would become one."""
    made: dict[str, str] = {}
    for name in names:
        identifier = f"{prefix}_{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_').upper()}"
        if identifier in made.values():
            other = next(known for known, used in made.items() if used == identifier)
            raise ExportError(f"'{other}' and '{name}' would both be called {identifier} in C; rename one of them")
        made[name] = identifier
    return made


def whole_rate(contract: Contract) -> int:
    """Control steps per second; an `ExportError` where they are no whole number."""
    rate = round(contract.control_hz)
    if not math.isclose(rate, contract.control_hz, rel_tol=1e-6):
        raise ExportError(f"control_hz={contract.control_hz}; C code needs a whole number of steps per second")
    return rate


def rows(values: Iterable[float], indent: str = "    ") -> str:
    """Float literals, wrapped into lines."""
    return wrapped(map(number, values), indent)


def _array(name: str, values: np.ndarray, remark: str = "") -> str:
    comment = f" /* {remark} */" if remark else ""
    return f"static const float {name}[{values.size}] = {{{comment}\n{rows(values.ravel())}\n}};"


def _header(contract: Contract) -> dict[str, object]:
    terms, start = [], 0
    names = identifiers("POLICY_TERM", (term.name for term in contract.terms))
    for term in contract.terms:
        size = term.size * term.history
        past = f", the last {term.history} steps, newest last" if term.history > 1 else ""
        terms.append((f"{names[term.name]} = {start},", f"{size} numbers, {plain(term.unit)}{past}"))
        start += size
    names = identifiers("POLICY_ACTUATOR", (actuator.name for actuator in contract.actuators))
    last = contract.action_size - 1
    actuators = [
        (f"{names[actuator.name]} = {i}{',' if i < last else ''}", plain(actuator.unit))
        for i, actuator in enumerate(contract.actuators)
    ]
    return {"rate": whole_rate(contract), "terms": _enumerators(terms), "actuators": _enumerators(actuators)}


def _enumerators(entries: Sequence[tuple[str, str]]) -> str:
    """Lines of an enumeration with their comments below each other."""
    width = max(len(entry) for entry, _ in entries)
    return "\n".join(f"    {entry.ljust(width)} /* {remark} */" for entry, remark in entries)


def _numbers(network: Network, contract: Contract) -> dict[str, object]:
    """What `policy.c` holds: statistics, layers, the meaning of actions."""
    units = "in each actuator's unit"
    arrays = [_array("mean", network.mean, "of observations"), _array("scale", network.scale, "1 / deviation")]
    table = []
    for i, layer in enumerate(network.layers, 1):
        weights, biases = blocked(layer)
        arrays += [_array(f"weights{i}", weights), _array(f"biases{i}", biases)]
        table.append(f"    {{{layer.weight.shape[1]}, {len(biases)}, weights{i}, biases{i}}}")
    arrays += [_array(name, contract.row(name), units) for name in ("offset", "up", "down", "lower", "upper")]
    return {
        "layers": len(network.layers),
        "block": BLOCK,
        "widest": -(-network.widest // BLOCK) * BLOCK,
        "clip": number(network.clip),
        "arrays": "\n".join(arrays),
        "table": ",\n".join(table),
        "activation": ACTIVATIONS[network.activation],
        "squash": "tanhf(in[i])" if network.squashed else "in[i]",
    }


def blocked(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Weights (blocks, inputs, BLOCK) and biases (blocks, BLOCK) of a layer, filled up with zeros."""
    outputs, inputs = layer.weight.shape
    blocks = -(-outputs // BLOCK)
    weight, bias = np.zeros((blocks * BLOCK, inputs), np.float32), np.zeros(blocks * BLOCK, np.float32)
    weight[:outputs], bias[:outputs] = layer.weight, layer.bias
    return weight.reshape(blocks, BLOCK, inputs).transpose(0, 2, 1), bias.reshape(blocks, BLOCK)


def _check(contract: Contract, golden: Golden) -> dict[str, object]:
    def matrix(values: Sequence[np.ndarray] | np.ndarray) -> str:
        return ",\n".join(f"    {{\n{rows(row, '        ')}\n    }}" for row in values)

    return {
        "count": len(golden.observation),
        "golden_observations": matrix(golden.observation),
        "golden_actions": matrix(golden.action),
        "golden_targets": matrix(golden.target),
        "ranges": rows(target_scale(contract)),
    }


def prove(folder: Path) -> str | None:
    """Compile `check.c` of a bundle and run it; what it printed, or None where there is no C compiler.

    Raises:
        ExportError: it does not compile, or computes something else.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "check"
        # From the root: a folder's name may begin with a dash, which the compiler takes for an option.
        files = [str(folder.resolve() / name) for name in ("check.c", "policy.c")]
        compiled = _run(compiler, *COMPILE, *files, "-lm", "-o", str(program))
        if compiled.returncode:
            raise ExportError(f"the C code does not compile: {compiled.stderr.strip()[:500]}")
        checked = _run(str(program))
    if checked.returncode:
        said = checked.stdout.strip() or f"it ended with code {checked.returncode}"
        raise ExportError(f"the C code fails its check: {said}")
    return checked.stdout.strip()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIME, check=False)
