"""A contract as a JSON document, and the JSON Schema of such documents.

python -m sim2real.contract.document prints the schema.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import json
import math
import sys
import types
import typing
from pathlib import Path
from typing import Any

from embodied.storage import trust
from embodied.storage.configs import from_json, to_json
from sim2real.contract import contract as contracts
from sim2real.contract import planner as planners
from sim2real.contract.contract import FORMAT, Contract

UNBOUNDED = {
    "actuators": ("lower", "upper", "max_rate", "max_effort"),
    "joints": ("lower", "upper", "max_velocity"),
    "": ("max_tilt",),
}
"""Part of a contract -> fields that may be infinite, which JSON has no number for: null there."""
LOWEST = "lower"
"""The field among them whose null is minus infinity."""
NAMES: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def contract_text(contract: Contract) -> str:
    """A contract as JSON: numbers to the last bit, null where there is no bound."""
    document = to_json(contract)
    for rows, field in _unbounded(document):
        if isinstance(rows[field], str):
            rows[field] = None
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def read_text(data: bytes) -> Contract:
    """The contract that `contract_text` wrote.

    Raises:
        ValueError: it is no such document.
        EmbodiedError: a field is unknown, or the contract contradicts itself.
    """
    document = json.loads(data, parse_constant=_no_constant)
    trust.named(document)
    if isinstance(document, dict) and document.get("format") != FORMAT:
        raise ValueError(f"format {document.get('format')!r}; this version reads {FORMAT}: export it again")
    for rows, field in _unbounded(document):
        if rows.get(field, 0) is None:
            rows[field] = -math.inf if field == LOWEST else math.inf
    contract = from_json(Contract, document)
    for field in ("offset", "up", "down", "lower", "upper", "max_rate"):
        contract.row(field)
    if contract_text(contract).encode() != data:
        raise ValueError("it is not written as embodied writes it")
    return contract


def _unbounded(document: Any) -> list[tuple[Any, str]]:
    """Each place of a document where a bound may be missing: the object, and the field."""
    if not isinstance(document, dict):
        raise ValueError(f"it is {type(document).__name__}; expected an object")
    places = []
    for part, fields in UNBOUNDED.items():
        rows = [document] if not part else document.get(part)
        for row in rows if isinstance(rows, list) else []:
            places += [(row, field) for field in fields if isinstance(row, dict)]
    return places


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a contract, with what each field means."""
    kinds: dict[str, Any] = {}
    top = _object(Contract, kinds)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "contract.json of a bundle"}
    return {**head, **top, "$defs": dict(sorted(kinds.items()))}


def _object(kind: type, kinds: dict[str, Any]) -> dict[str, Any]:
    hints, said = typing.get_type_hints(kind), _descriptions()[kind.__name__]
    part = {"Actuator": "actuators", "Joint": "joints", "Contract": ""}.get(kind.__name__, "-")
    properties = {}
    for field in dataclasses.fields(kind):
        entry = _entry(hints[field.name], kinds)
        if field.name in UNBOUNDED.get(part, ()):
            entry = {"type": ["number", "null"]}
        description = {"description": said[field.name]} if field.name in said else {}
        properties[field.name] = {**entry, **description}
    return {
        "type": "object",
        "description": (inspect.getdoc(kind) or "").split("\n")[0],
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _entry(hint: Any, kinds: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = next(one for one in arguments if one is not type(None))
        return {"anyOf": [_entry(inner, kinds), {"type": "null"}]}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _entry(arguments[0], kinds)}
    if origin is tuple:
        length = len(arguments)
        return {"type": "array", "items": _entry(arguments[0], kinds), "minItems": length, "maxItems": length}
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        if hint.__name__ not in kinds:
            kinds[hint.__name__] = {}
            kinds[hint.__name__] = _object(hint, kinds)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return dict(NAMES[hint])


@functools.lru_cache(maxsize=1)
def _descriptions() -> dict[str, dict[str, str]]:
    """Class -> field -> the text below it."""
    found: dict[str, dict[str, str]] = {}
    modules = (ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")) for module in (contracts, planners))
    for node in (node for module in modules for node in module.body):
        if isinstance(node, ast.ClassDef):
            fields = found.setdefault(node.name, {})
            for line, following in zip(node.body, node.body[1:], strict=False):
                text = following.value if isinstance(following, ast.Expr) else None
                named = isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
                if named and isinstance(text, ast.Constant) and isinstance(text.value, str):
                    fields[line.target.id] = " ".join(text.value.split())  # type: ignore[union-attr]
    return found


def main() -> int:
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
