"""A control step as C99: `policy.c` and `policy.h`, static memory, only math.h; `check.c` proves them."""

from __future__ import annotations

import importlib.resources
import shutil
import string
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from sim2real.bundles.files import ExportError
from sim2real.contract.contract import COMMAND, NEXT, STATE, Contract, Remembered, Step
from sim2real.contract.planner import PLANNED
from sim2real.graphs.golden import GoldenSteps, outside
from sim2real.graphs.graph import Graph
from sim2real.graphs.to_c import HELPERS, CText, identifier, number, wrapped

COMPILE = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wdouble-promotion")
COMPILE_TIME = 300.0  # s


def sources(graph: Graph, contract: Contract, golden: GoldenSteps, digest: str) -> dict[str, str]:
    """File name -> text of the step, its header and its check.

    Raises:
        ExportError: names that differ in the contract would be the same in C.
    """
    step = contract.step
    banner = (
        f"{plain(contract.task)} for {plain(contract.robot)}, exported by embodied. Do not edit: sha256 {digest[:16]}"
    )
    fields, kept = fields_of(outside(step)), fields_of({one.name: one.size for one in step.remembered})
    return {
        "policy.h": fill("policy.h", {"banner": banner, **_header(contract, step, fields, kept)}),
        "policy.c": fill("policy.c", {"banner": banner, **_body(graph, contract, step, fields, kept)}),
        "check.c": fill("check.c", {"banner": banner, **_check(golden, fields)}),
    }


def fill(name: str, values: Mapping[str, object]) -> str:
    """A template of this package with its `$names` replaced."""
    text = importlib.resources.files("sim2real.bundles").joinpath("templates", name).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def plain(text: str) -> str:
    """Text that may stand in a C comment."""
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").split())


def identifiers(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Names -> identifiers of C; an `ExportError` where two names would become one."""
    return _distinct({name: f"{prefix}_{identifier(name).upper()}" for name in names})


def _distinct(called: dict[str, str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, used in called.items():
        if used in names:
            raise ExportError(f"'{names[used]}' and '{name}' would both be called {used} in C; rename one of them")
        names[used] = name
    return called


def rows(values: Iterable[float], indent: str = "    ") -> str:
    """Float literals, wrapped into lines."""
    return wrapped(map(number, values), indent)


def fields_of(sizes: Mapping[str, int]) -> dict[str, str]:
    """Name of an input or of what is remembered -> its field in the struct; an `ExportError` where two are one."""
    fields = {name: identifier(name) for name in sizes}
    return _distinct({name: f"_{field}" if field[:1].isdigit() else field for name, field in fields.items()})


def _header(contract: Contract, step: Step, fields: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, object]:
    given = [(f"float {fields[one.name]}[{one.size}];", f"{one.unit}: {one.meaning}") for one in step.sources]
    given += [(f"float {fields[COMMAND + one.name]}[{one.size}];", f"command: {one.meaning}") for one in step.commands]
    if step.planner is not None:
        given.append((f"float {fields[PLANNED]}[{step.action_size}];", "this step's action of the chunk, in [-1, 1]"))
    state = [(f"float {kept[one.name]}[{one.size}];", _kept(one)) for one in step.remembered]
    names = identifiers("POLICY_ACTUATOR", (actuator.name for actuator in contract.actuators))
    actuators = [f"    {names[a.name]} = {i}, /* {plain(a.unit)} */" for i, a in enumerate(contract.actuators)]
    return {
        "rate": repr(float(contract.control_hz)),
        "targets": len(contract.actuators),
        "actions": step.action_size,
        "observations": contract.observation_size,
        "inputs": _lines(given),
        "state": _lines(state) if state else "    char nothing; /* C wants a member */",
        "actuators": "\n".join(actuators),
    }


def _kept(one: Remembered) -> str:
    return f"set it after policy_begin: {one.given}" if one.given else "handed on by policy_step"


def _lines(entries: list[tuple[str, str]]) -> str:
    return "\n".join(f"    {entry} /* {plain(remark)} */" for entry, remark in entries)


def _body(
    graph: Graph, contract: Contract, step: Step, fields: Mapping[str, str], kept: Mapping[str, str]
) -> dict[str, object]:
    given = {name: f"input->{field}" for name, field in fields.items()}
    given |= {f"{STATE}{name}": f"state->{field}" for name, field in kept.items()}
    text = CText(graph, given)
    helpers = [helper for name, helper in HELPERS.items() if any(f"{name}(" in line for line in text.statements)]
    ends = []
    for one in step.remembered:
        source = text.output(f"{STATE}{one.name}{NEXT}")
        ends.append(f"for (i = 0; i < {one.size}; i++) next.{kept[one.name]}[i] = {source}[i];")
    return {
        "tables": "\n".join(text.tables),
        "memory": "\n".join(text.memory),
        "helpers": "\n".join(helpers),
        "statements": "\n    ".join(text.statements),
        "ends": "\n    ".join(ends) or "next = *state;",
        "begin": "\n    ".join(line for one in step.remembered for line in _begin(one, kept[one.name], fields))
        or "state->nothing = 0;",
        "tests": _tests(outside(step), fields),
        "measured_tests": _tests({name: size for name, size in outside(step).items() if name != PLANNED}, fields),
        "observation": text.output("observation"),
        "target": text.output("target"),
        "action": text.output("action"),
        "rest": rows(contract.row("offset")),
    }


def _tests(sizes: Mapping[str, int], fields: Mapping[str, str]) -> str:
    return "\n    ".join(
        f"for (i = 0; i < {size}; i++) finite &= is_finite(input->{fields[name]}[i]);" for name, size in sizes.items()
    )


def _begin(one: Remembered, field: str, fields: Mapping[str, str]) -> list[str]:
    if not one.measured:
        return [f"state->{field}[{i}] = {number(value)};" for i, value in enumerate(one.begin)]
    lines = []
    for i, part in enumerate(one.measured):
        measured = f"input->{fields[part.source]}[{part.place}]"
        lines.append(f"state->{field}[{i}] = {number(part.scale)} * {measured} + {number(part.offset)};")
    return lines


def _check(golden: GoldenSteps, fields: Mapping[str, str]) -> dict[str, object]:
    def matrix(values: np.ndarray) -> str:
        return ",\n".join(f"    {{\n{rows(row, '        ')}\n    }}" for row in values)

    tables = [
        f"static const float given_{fields[name]}[COUNT][{values.shape[1]}] = {{\n{matrix(values)}\n}};"
        for name, values in golden.inputs.items()
    ]
    copies = [f"memcpy(input.{field}, given_{field}[i], sizeof input.{field});" for field in fields.values()]
    return {
        "count": golden.count,
        "tables": "\n".join(tables),
        "copies": "\n        ".join(copies),
        "first": next(iter(fields.values())),
        "golden_actions": matrix(golden.action),
        "golden_targets": matrix(golden.target),
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
        printed = checked.stdout.strip() or f"it ended with code {checked.returncode}"
        raise ExportError(f"the C code fails its check: {printed}")
    return checked.stdout.strip()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIME, check=False)
